"""Settings of the IRC platform."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from hermes.surfaces.gateway.platforms.settings import (
    LOOPBACK,
    PlatformSettings,
    SettingsReader,
    choice,
    names,
    number,
    secret,
    tcp_port,
    text,
    tls_context,
    whole_number,
)

from .protocol import format_line

if TYPE_CHECKING:
    import ssl


@dataclass(frozen=True)
class IrcSettings(PlatformSettings):
    """Where to connect, as whom, and how to behave there."""

    platform = "irc"

    server: str = text(missing="is not set; give the name of the IRC server")
    tls: bool = True
    port: int = tcp_port("tls", {True: 6697, False: 6667})
    ca_file: str = ""
    client_certificate: str = ""
    nick: str = text("hermes", other="nickname")
    user: str = "hermes"
    real_name: str = "Hermes"
    #: Each a name, or a name and a key separated by a blank.
    channels: tuple[str, ...] = names(other="channel")
    #: ``mask`` (``nick!user@host``), ``account`` (the services account) or ``nick``.
    identity: str = choice("mask", "account", "nick")
    #: In channels only what is addressed to our nick is a message for us.
    require_mention: bool = True
    #: Lines that may be sent at once, and seconds between those after them.
    burst: int = whole_number(5, 1, 100)
    line_interval: float = number(1.0, 0, 60)
    #: Lines of one answer.
    max_lines: int = whole_number(40, 1, 1000)
    #: Seconds for the whole login, and of silence before the server is asked for a sign of life.
    timeout: float = number(60, 1, 600)
    silence: float = number(180, 1, 3600)
    sasl_account: str = ""
    server_password: str = secret()
    sasl_password: str = secret()
    nickserv_password: str = secret()

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

    def check(self, given: SettingsReader) -> None:
        said = [("nick", [self.nick]), ("user", [self.user])]
        for name, words in (*said, *(("channels", channel.split(" ", 1)) for channel in self.channels)):
            try:
                format_line("JOIN", *words, "end")
            except ValueError as error:
                raise given.error(name, f"is not usable: {error}") from None
        has_password = self.server_password or self.sasl_password or self.nickserv_password
        if has_password and not self.tls and self.server not in LOOPBACK:
            raise given.error("tls", "is off, and a password would be sent in the clear; switch TLS on or remove it")
