"""Settings of the email platform."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from hermes.surfaces.gateway.platforms.settings import (
    LOOPBACK,
    PlatformSettings,
    SettingsReader,
    choice,
    number,
    secret,
    tcp_port,
    text,
    tls_context,
    whole_number,
)

if TYPE_CHECKING:
    import ssl


@dataclass(frozen=True)
class EmailSettings(PlatformSettings):
    """The mailbox, the server that sends, and which mails are taken."""

    platform = "email"

    address: str = text(missing="is not set", is_lower=True)
    imap_host: str = text(missing="is not set")
    smtp_host: str = text(missing="is not set")
    name: str = "Hermes"
    user: str = ""
    password: str = secret(missing="is not set; store it with: hermes config set {variable}")
    imap_security: str = choice("tls", "starttls", "none")
    imap_port: int = tcp_port("imap_security", {"tls": 993, "starttls": 143, "none": 143})
    smtp_security: str = choice("starttls", "tls", "none")
    smtp_port: int = tcp_port("smtp_security", {"tls": 465, "starttls": 587, "none": 25})
    smtp_auth: bool = True
    ca_file: str = ""
    folder: str = "INBOX"
    #: The name by which our own server signs its ``Authentication-Results``.
    authserv_id: str = ""
    require_authentication: bool = True
    max_age_days: int = whole_number(3, 1, 365)
    max_bytes: int = whole_number(25_000_000, 1_000, 100_000_000)
    max_per_hour: int = whole_number(30, 1, 10_000)
    poll_seconds: float = number(60, 1, 1500)
    timeout: float = number(30, 1, 600)

    @property
    def login(self) -> str:
        """The user name for both servers."""
        return self.user or self.address

    @cached_property
    def tls(self) -> ssl.SSLContext:
        """The TLS settings of both servers."""
        return tls_context(self.ca_file)

    def check(self, given: SettingsReader) -> None:
        if "@" not in self.address:
            raise given.error("address", f"is {self.address!r}; it must be an address such as agent@example.com")
        for kind, host in (("imap", self.imap_host), ("smtp", self.smtp_host)):
            if getattr(self, f"{kind}_security") == "none" and host not in LOOPBACK:
                raise given.error(f"{kind}_security", "is none, and the password would be sent in the clear")
        if self.require_authentication and not self.authserv_id:
            raise given.error(
                "authserv_id",
                "is not set. Anyone can write any sender into a mail; give the first word of the "
                "Authentication-Results header that your own mail server adds (for example mx.google.com), "
                "or set require_authentication to false",
            )
