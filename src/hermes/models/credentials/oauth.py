"""What is said to an authorization server: the requests of RFC 6749, 7636 and 8628, and how it refuses them."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode, urlsplit

from hermes.config.sections import OAuthConfig
from hermes.errors import CredentialError
from hermes.http.address import is_loopback
from hermes.models.credentials.credential import Record, recovered_fields
from hermes.models.credentials.form_post import post_form
from hermes.models.driver import Driver

DEVICE_GRANT = "urn:ietf:params:oauth:grant-type:device_code"
#: RFC 8628 names it for servers that do not.
DEFAULT_INTERVAL = 5.0
_DEFAULT_CODE_LIFE = 900.0
_LONGEST_LIFE = 10 * 365 * 86_400.0


@dataclass(frozen=True, slots=True)
class Tokens:
    """What a server grants. Its secrets stay out of the ``repr``."""

    access_token: str = field(repr=False)
    refresh_token: str = field(default="", repr=False)
    expires_at: float | None = None

    def as_fields(self) -> Record:
        """What the record of the credential says from now on."""
        fields: Record = {
            **recovered_fields(time.time()),
            "access_token": self.access_token,
            "expires_at": None,
            "expires_at_ms": None if self.expires_at is None else int(self.expires_at * 1000),
        }
        # A server that does not rotate the refresh token leaves it out; the old one stays good.
        return fields | ({"refresh_token": self.refresh_token} if self.refresh_token else {})


@dataclass(frozen=True, slots=True)
class DeviceCode:
    """A sign-in begun for another device: what the person is told, and what is asked for meanwhile."""

    device_code: str = field(repr=False)
    user_code: str
    address: str
    #: The address with the code in it; empty when the server offers none.
    direct_address: str
    expires_in: float
    interval: float


class AuthorizationServer:
    """The server that a provider signs people in with."""

    def __init__(self, provider: str, settings: OAuthConfig, driver: Driver) -> None:
        self.provider = provider
        self.settings = settings
        self._driver = driver
        for name in ("token_url", "authorization_url", "device_url"):
            _check_address(provider, name, getattr(settings, name))

    def address_to_sign_in(self, redirect_uri: str, state: str, challenge: str) -> str:
        """The page that the person is sent to."""
        query = {
            "response_type": "code",
            "client_id": self.settings.client_id,
            "redirect_uri": redirect_uri,
            "state": state,
            "code_challenge": challenge,
            "code_challenge_method": "S256",
            **self._scope(),
        }
        address = self.settings.authorization_url
        return address + ("&" if urlsplit(address).query else "?") + urlencode(query)

    def exchange(self, code: str, verifier: str, redirect_uri: str) -> Tokens:
        """The tokens for the code that came back with the person."""
        return self._tokens(
            {"grant_type": "authorization_code", "code": code, "redirect_uri": redirect_uri, "code_verifier": verifier}
        )

    def refresh(self, refresh_token: str) -> Tokens:
        """New tokens for a sign-in that ends."""
        return self._tokens({"grant_type": "refresh_token", "refresh_token": refresh_token})

    def begin_device(self) -> DeviceCode:
        """A code that the person types in elsewhere."""
        answer = self._post(self.settings.device_url, self._scope())
        device_code, user_code = _text(answer, "device_code"), _text(answer, "user_code")
        address = _text(answer, "verification_uri") or _text(answer, "verification_url")
        if not (device_code and user_code and address):
            raise CredentialError(
                f"{self.provider}: the answer of {self.settings.device_url} has no device_code, user_code or "
                f"verification_uri; check providers.{self.provider}.oauth.device_url"
            )
        return DeviceCode(
            device_code=device_code,
            user_code=user_code,
            address=address,
            direct_address=_text(answer, "verification_uri_complete"),
            expires_in=_seconds(answer.get("expires_in")) or _DEFAULT_CODE_LIFE,
            interval=_seconds(answer.get("interval")) or DEFAULT_INTERVAL,
        )

    def poll_device(self, device_code: str) -> Tokens:
        """The tokens once the person has agreed. Until then ``Refused`` with ``authorization_pending``."""
        return self._tokens({"grant_type": DEVICE_GRANT, "device_code": device_code})

    def _tokens(self, fields: dict[str, str]) -> Tokens:
        answer = self._post(self.settings.token_url, fields)
        token = _text(answer, "access_token")
        if not token or str(answer.get("token_type", "bearer")).lower() != "bearer":
            found = "a token of a kind other than bearer" if token else "no access_token"
            raise CredentialError(f"{self.provider}: the answer of {self.settings.token_url} has {found}")
        if not token.isascii() or not token.isprintable() or " " in token:
            raise CredentialError(f"{self.provider}: the token has characters that cannot be sent")
        life = _seconds(answer.get("expires_in"))
        return Tokens(token, _text(answer, "refresh_token"), None if life is None else time.time() + life)

    def _post(self, url: str, fields: dict[str, str]) -> dict[str, Any]:
        return post_form(self._driver, self.provider, url, {"client_id": self.settings.client_id, **fields})

    def _scope(self) -> dict[str, str]:
        return {"scope": " ".join(self.settings.scopes)} if self.settings.scopes else {}


def authorization_server(provider: str, configured: Mapping[str, OAuthConfig], driver: Driver) -> AuthorizationServer:
    """The authorization server that is configured for a provider."""
    settings = configured.get(provider)
    if settings is None:
        raise CredentialError(
            f"{provider}: how to sign in is not configured; set providers.{provider}.oauth.client_id, .token_url and "
            f".authorization_url or .device_url in config.yaml, or store a key with 'hermes auth add {provider}'"
        )
    return AuthorizationServer(provider, settings, driver)


def is_private_address(url: str) -> bool:
    """Whether what is sent to the address stays secret on the way: it is encrypted, or goes to this machine."""
    try:
        parts = urlsplit(url)
        if parts.scheme != "http":
            return parts.scheme == "https" and bool(parts.hostname)
        return is_loopback(parts.hostname or "")
    except ValueError:
        return False


def _check_address(provider: str, name: str, url: str) -> None:
    if url and not is_private_address(url):
        raise CredentialError(
            f"providers.{provider}.oauth.{name} must start with https:// (http:// only for this machine): "
            f"tokens and codes are sent there"
        )


def _text(answer: dict[str, Any], name: str) -> str:
    value = answer.get(name)
    return value if isinstance(value, str) else ""


def _seconds(value: object) -> float | None:
    """A duration; some servers write the number as a text."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        seconds = float(value)
    except (ValueError, OverflowError):
        return None
    return min(seconds, _LONGEST_LIFE) if math.isfinite(seconds) and seconds > 0 else None
