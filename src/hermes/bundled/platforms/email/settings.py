"""Settings of the email platform."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from hermes.gateway.platforms.settings import PlatformSettings, tls_context

if TYPE_CHECKING:
    import ssl

_LOOPBACK = ("localhost", "127.0.0.1", "::1")
_IMAP_PORTS = {"tls": 993, "starttls": 143, "none": 143}
_SMTP_PORTS = {"tls": 465, "starttls": 587, "none": 25}


@dataclass(frozen=True)
class EmailSettings:
    """The mailbox, the server that sends, and which mails are taken."""

    address: str
    imap_host: str
    smtp_host: str
    name: str = "Hermes"
    user: str = ""
    password: str = field(default="", repr=False)
    imap_port: int = 993
    imap_security: str = "tls"
    smtp_port: int = 587
    smtp_security: str = "starttls"
    smtp_auth: bool = True
    ca_file: str = ""
    folder: str = "INBOX"
    #: The name by which our own server signs its ``Authentication-Results``.
    authserv_id: str = ""
    require_authentication: bool = True
    max_age_days: int = 3
    max_bytes: int = 25_000_000
    max_per_hour: int = 30
    poll_seconds: float = 60.0
    timeout: float = 30.0

    @property
    def login(self) -> str:
        """The user name for both servers."""
        return self.user or self.address

    @cached_property
    def tls(self) -> ssl.SSLContext:
        """The TLS settings of both servers."""
        return tls_context(self.ca_file)


def read_settings(block: Mapping[str, Any] | None, env: Mapping[str, str] | None = None) -> EmailSettings:
    """The settings, checked. Raises ``ConfigError``."""
    given = PlatformSettings("email", block, env)
    imap_security = given.choice("imap_security", "tls", "starttls", "none")
    smtp_security = given.choice("smtp_security", "starttls", "tls", "none")
    settings = EmailSettings(
        address=given.text("address").lower(),
        imap_host=given.text("imap_host"),
        smtp_host=given.text("smtp_host"),
        name=given.text("name", "Hermes"),
        user=given.text("user"),
        password=given.secret("password"),
        imap_port=given.port("imap_port", _IMAP_PORTS[imap_security]),
        imap_security=imap_security,
        smtp_port=given.port("smtp_port", _SMTP_PORTS[smtp_security]),
        smtp_security=smtp_security,
        smtp_auth=given.flag("smtp_auth", True),
        ca_file=given.text("ca_file"),
        folder=given.text("folder", "INBOX"),
        authserv_id=given.text("authserv_id"),
        require_authentication=given.flag("require_authentication", True),
        max_age_days=int(given.number("max_age_days", 3, 1, 365)),
        max_bytes=int(given.number("max_bytes", 25_000_000, 1_000, 100_000_000)),
        max_per_hour=int(given.number("max_per_hour", 30, 1, 10_000)),
        poll_seconds=given.number("poll_seconds", 60, 1, 1500),
        timeout=given.number("timeout", 30, 1, 600),
    )
    for name in ("address", "imap_host", "smtp_host"):
        if not getattr(settings, name):
            raise given.error(name, "is not set")
    if "@" not in settings.address:
        raise given.error("address", f"is {settings.address!r}; it must be an address such as agent@example.com")
    if not settings.password:
        raise given.error("password", f"is not set; store it with: hermes config set {given.variable('password')}")
    for kind, host in (("imap", settings.imap_host), ("smtp", settings.smtp_host)):
        if getattr(settings, f"{kind}_security") == "none" and host not in _LOOPBACK:
            raise given.error(f"{kind}_security", "is none, and the password would be sent in the clear")
    if settings.require_authentication and not settings.authserv_id:
        raise given.error(
            "authserv_id",
            "is not set. Anyone can write any sender into a mail; give the first word of the Authentication-Results "
            "header that your own mail server adds (for example mx.google.com), or set require_authentication to false",
        )
    return settings
