"""Settings of the IRC platform."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from hermes.gateway.platforms.settings import PlatformSettings, tls_context

from .protocol import format_line

if TYPE_CHECKING:
    import ssl

_LOOPBACK = ("localhost", "127.0.0.1", "::1")


@dataclass(frozen=True)
class IrcSettings:
    """Where to connect, as whom, and how to behave there."""

    server: str
    port: int = 6697
    tls: bool = True
    ca_file: str = ""
    client_certificate: str = ""
    nick: str = "hermes"
    user: str = "hermes"
    real_name: str = "Hermes"
    #: Each a name, or a name and a key separated by a blank.
    channels: tuple[str, ...] = ()
    #: ``mask`` (``nick!user@host``), ``account`` (the services account) or ``nick``.
    identity: str = "mask"
    #: In channels only what is addressed to our nick is a message for us.
    require_mention: bool = True
    #: Lines that may be sent at once, and seconds between those after them.
    burst: int = 5
    line_interval: float = 1.0
    #: Lines of one answer.
    max_lines: int = 40
    #: Seconds for the whole login, and of silence before the server is asked for a sign of life.
    timeout: float = 60.0
    silence: float = 180.0
    sasl_account: str = ""
    server_password: str = field(default="", repr=False)
    sasl_password: str = field(default="", repr=False)
    nickserv_password: str = field(default="", repr=False)

    @property
    def address(self) -> str:
        """The server for messages."""
        return f"{self.server}:{self.port}"

    @property
    def sasl_mechanism(self) -> str:
        """``EXTERNAL`` with a client certificate and no password, else ``PLAIN``."""
        return "EXTERNAL" if self.client_certificate and not self.sasl_password else "PLAIN"

    @cached_property
    def _context(self) -> ssl.SSLContext:
        return tls_context(self.ca_file, self.client_certificate)

    def tls_context(self) -> ssl.SSLContext | None:
        """The TLS settings of the connection; ``None`` without TLS."""
        return self._context if self.tls else None


def read_settings(block: Mapping[str, Any] | None, env: Mapping[str, str] | None = None) -> IrcSettings:
    """The settings, checked. Raises ``ConfigError``."""
    given = PlatformSettings("irc", block, env)
    tls = given.flag("tls", True)
    settings = IrcSettings(
        server=given.text("server"),
        port=given.port("port", 6697 if tls else 6667),
        tls=tls,
        ca_file=given.text("ca_file"),
        client_certificate=given.text("client_certificate"),
        nick=given.text("nick") or given.text("nickname", "hermes"),
        user=given.text("user", "hermes"),
        real_name=given.text("real_name", "Hermes"),
        channels=given.names("channels") or given.names("channel"),
        identity=given.choice("identity", "mask", "account", "nick"),
        require_mention=given.flag("require_mention", True),
        burst=int(given.number("burst", 5, 1, 100)),
        line_interval=given.number("line_interval", 1.0, 0, 60),
        max_lines=int(given.number("max_lines", 40, 1, 1000)),
        timeout=given.number("timeout", 60, 1, 600),
        silence=given.number("silence", 180, 1, 3600),
        sasl_account=given.text("sasl_account"),
        server_password=given.secret("server_password"),
        sasl_password=given.secret("sasl_password"),
        nickserv_password=given.secret("nickserv_password"),
    )
    if not settings.server:
        raise given.error("server", "is not set; give the name of the IRC server")
    for name in ("nick", "user", *(f"channels: {channel}" for channel in settings.channels)):
        words = (getattr(settings, name),) if name in ("nick", "user") else name.partition(": ")[2].split(" ", 1)
        try:
            format_line("JOIN", *words, "end")
        except ValueError as error:
            raise given.error(name.partition(":")[0], f"is not usable: {error}") from None
    has_password = settings.server_password or settings.sasl_password or settings.nickserv_password
    if has_password and not tls and settings.server not in _LOOPBACK:
        raise given.error("tls", "is off, and a password would be sent in the clear; switch TLS on or remove it")
    return settings
