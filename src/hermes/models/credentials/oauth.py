"""OAuth client: the requests of RFC 6749, PKCE (RFC 7636) and the device code (RFC 8628), and their refusals."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast
from urllib.parse import urlencode, urlsplit

from hermes.base.config.schema.sections import OAuthConfig
from hermes.base.errors import ConfigError, CredentialError
from hermes.base.http.address import is_loopback, parse_url
from hermes.base.http.client import HttpClient, HttpResponse
from hermes.base.http.errors import BodyTooLarge, HttpError, explain
from hermes.base.http.exchange import Timeouts
from hermes.base.version import __version__
from hermes.models.credentials.credential import StoredFields, recovered_fields
from hermes.models.endpoint import Endpoint
from hermes.models.failures import error_from_response

DEVICE_GRANT = "urn:ietf:params:oauth:grant-type:device_code"
#: RFC 8628 names it for servers that do not.
DEFAULT_INTERVAL = 5.0
_DEFAULT_CODE_LIFE = 900.0
_LONGEST_LIFE = 10 * 365 * 86_400.0

_TIMEOUTS = Timeouts(connect=10.0, first_byte=20.0, between_chunks=10.0, total=30.0)
_MAX_ANSWER_BYTES = 1024 * 1024
_MAX_DETAIL_CHARS = 200
#: Fields of a form that are not secret, so that an error message may repeat their values.
_PUBLIC_FIELDS = frozenset({"grant_type", "client_id", "scope", "redirect_uri"})
_HEADERS = (
    ("accept", "application/json"),
    ("content-type", "application/x-www-form-urlencoded"),
    ("user-agent", f"hermes/{__version__}"),
)


class OAuthRefused(CredentialError):
    """The authorization server refused. ``code`` is the error code of the standard."""

    def __init__(self, message: str, code: str) -> None:
        super().__init__(message)
        self.code = code


@dataclass(frozen=True, slots=True)
class Tokens:
    """The tokens that a server grants. They stay out of the ``repr``."""

    access_token: str = field(repr=False)
    refresh_token: str = field(default="", repr=False)
    expires_at: float | None = None

    def as_fields(self) -> StoredFields:
        """The fields of the stored record with these tokens."""
        fields: StoredFields = {
            **recovered_fields(time.time()),
            "access_token": self.access_token,
            "expires_at": None,
            "expires_at_ms": None if self.expires_at is None else int(self.expires_at * 1000),
        }
        # A server that does not rotate the refresh token leaves it out; the old one stays good.
        return fields | ({"refresh_token": self.refresh_token} if self.refresh_token else {})


@dataclass(frozen=True, slots=True)
class DeviceCode:
    """A device code sign-in: the code and address for the user, and the code to poll with."""

    device_code: str = field(repr=False)
    user_code: str
    address: str
    #: The address with the code in it; empty when the server offers none.
    direct_address: str
    expires_in: float
    interval: float


class AuthorizationServer:
    """The authorization server of a provider."""

    def __init__(self, provider: str, settings: OAuthConfig, http: HttpClient) -> None:
        self.provider = provider
        self.settings = settings
        self._http = http
        for name in ("token_url", "authorization_url", "device_url"):
            _check_address(provider, name, getattr(settings, name))

    def authorization_address(self, redirect_uri: str, state: str, challenge: str) -> str:
        """The page that the user signs in on."""
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
        """The tokens for an authorization code."""
        return self._tokens(
            {"grant_type": "authorization_code", "code": code, "redirect_uri": redirect_uri, "code_verifier": verifier}
        )

    def refresh(self, refresh_token: str) -> Tokens:
        """New tokens for a refresh token."""
        return self._tokens({"grant_type": "refresh_token", "refresh_token": refresh_token})

    def start_device(self) -> DeviceCode:
        """Start a device code sign-in."""
        answer = self._post(self.settings.device_url, self._scope())
        device_code, user_code = _text_field(answer, "device_code"), _text_field(answer, "user_code")
        address = _text_field(answer, "verification_uri") or _text_field(answer, "verification_url")
        if not (device_code and user_code and address):
            raise CredentialError(
                f"{self.provider}: the answer of {self.settings.device_url} has no device_code, user_code or "
                f"verification_uri; check providers.{self.provider}.oauth.device_url"
            )
        return DeviceCode(
            device_code=device_code,
            user_code=user_code,
            address=address,
            direct_address=_text_field(answer, "verification_uri_complete"),
            expires_in=_seconds(answer.get("expires_in")) or _DEFAULT_CODE_LIFE,
            interval=_seconds(answer.get("interval")) or DEFAULT_INTERVAL,
        )

    def poll_device(self, device_code: str) -> Tokens:
        """The tokens once the user has agreed. Until then ``OAuthRefused`` with ``authorization_pending``."""
        return self._tokens({"grant_type": DEVICE_GRANT, "device_code": device_code})

    def _tokens(self, fields: dict[str, str]) -> Tokens:
        answer = self._post(self.settings.token_url, fields)
        token = _text_field(answer, "access_token")
        if not token or str(answer.get("token_type", "bearer")).lower() != "bearer":
            found = "a token of a kind other than bearer" if token else "no access_token"
            raise CredentialError(f"{self.provider}: the answer of {self.settings.token_url} has {found}")
        if not token.isascii() or not token.isprintable() or " " in token:
            raise CredentialError(f"{self.provider}: the token has characters that cannot be sent")
        life = _seconds(answer.get("expires_in"))
        return Tokens(token, _text_field(answer, "refresh_token"), None if life is None else time.time() + life)

    def _post(self, url: str, fields: dict[str, str]) -> dict[str, Any]:
        return _post_form(self._http, self.provider, url, {"client_id": self.settings.client_id, **fields})

    def _scope(self) -> dict[str, str]:
        return {"scope": " ".join(self.settings.scopes)} if self.settings.scopes else {}


def authorization_server(provider: str, configured: Mapping[str, OAuthConfig], http: HttpClient) -> AuthorizationServer:
    """The authorization server that is configured for a provider."""
    settings = configured.get(provider)
    if settings is None:
        raise CredentialError(
            f"{provider}: how to sign in is not configured; set providers.{provider}.oauth.client_id, .token_url and "
            f".authorization_url or .device_url in config.yaml, or store a key with 'hermes auth add {provider}'"
        )
    return AuthorizationServer(provider, settings, http)


def _post_form(http: HttpClient, provider: str, url: str, fields: Mapping[str, str]) -> dict[str, Any]:
    """The answer to a form. Raises ``OAuthRefused``, or ``CredentialError`` when there is no answer to read."""
    secrets = [value for name, value in fields.items() if name not in _PUBLIC_FIELDS]
    setting = f"providers.{provider}.oauth in config.yaml"
    try:
        endpoint = Endpoint(url, "token", provider)
        response = http.request(
            "POST", url, _HEADERS, urlencode(fields).encode(), timeouts=_TIMEOUTS, max_bytes=_MAX_ANSWER_BYTES
        )
    except ConfigError as error:
        raise CredentialError(f"{provider}: {error}") from None
    except BodyTooLarge:
        raise CredentialError(f"{provider}: the answer does not end") from None
    except HttpError as error:
        text = f"{provider}: {explain(error, parse_url(url)[0], setting)}"
        raise CredentialError(_without(secrets, text)) from None
    answer = _answer_of(response)
    if answer is not None and "error" in answer and response.status < 500:
        raise _refusal(provider, answer, secrets)
    if not response.is_success:
        text = str(error_from_response(endpoint, response.status, response.headers, b""))
        raise CredentialError(_without(secrets, text.replace(endpoint.address_setting, setting)))
    if answer is None:
        # The body stays out of the message: it may be tokens in another format.
        raise CredentialError(f"{provider}: the answer cannot be read: something other than a JSON object")
    return answer


def _answer_of(response: HttpResponse) -> dict[str, Any] | None:
    try:
        document = response.json()
    except (ValueError, RecursionError):
        return None
    return cast("dict[str, Any]", document) if isinstance(document, dict) else None


def _refusal(provider: str, answer: dict[str, Any], secrets: Sequence[str]) -> OAuthRefused:
    code = str(answer["error"])[:60]
    detail = answer.get("error_description")
    text = f": {' '.join(detail.split())[:_MAX_DETAIL_CHARS]}" if isinstance(detail, str) and detail else ""
    return OAuthRefused(_without(secrets, f"{provider}: the authorization server refused ({code}{text})"), code)


def _without(secrets: Sequence[str], text: str) -> str:
    for secret in secrets:
        text = text.replace(secret, "<redacted>")
    return text


def is_confidential_url(url: str) -> bool:
    """Whether what is sent to the address stays secret on the way: it is encrypted, or goes to this machine."""
    try:
        parts = urlsplit(url)
        if parts.scheme != "http":
            return parts.scheme == "https" and bool(parts.hostname)
        return is_loopback(parts.hostname or "")
    except ValueError:
        return False


def _check_address(provider: str, name: str, url: str) -> None:
    if url and not is_confidential_url(url):
        raise CredentialError(
            f"providers.{provider}.oauth.{name} must start with https:// (http:// only for this machine): "
            f"tokens and codes are sent there"
        )


def _text_field(answer: dict[str, Any], name: str) -> str:
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
