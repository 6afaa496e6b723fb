"""Brings a notification to a webhook: at addresses that may be called, signed, and more than once if it must be."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import hmac
import time
from collections.abc import Mapping
from urllib.parse import urlsplit

import httpx
from a2a.types import TaskPushNotificationConfig

from hermes.config.sections import A2APushConfig
from hermes.errors import ConfigError, HermesError
from hermes.peers.addresses import base_of
from hermes.peers.transport import Resolve, ScreenedTransport
from hermes.plugins.public_fetch import is_public
from hermes.version import __version__

TOKEN_HEADER = "X-A2A-Notification-Token"
SIGNATURE_HEADER, TIMESTAMP_HEADER = "X-Hermes-Signature", "X-Hermes-Timestamp"

_LONGEST_PAUSE = 30.0
_TRY_AGAIN = (408, 425, 429)


class PushDelivery:
    """The way to all webhooks."""

    def __init__(
        self, settings: A2APushConfig, env: Mapping[str, str], resolve: Resolve | None, first_pause: float
    ) -> None:
        self._settings = settings
        self._secret = _secret(settings, env)
        self._first_pause = first_pause
        self._transport = ScreenedTransport(self._screened, resolve)
        self._http = httpx.AsyncClient(
            transport=self._transport, timeout=settings.timeout, headers={"User-Agent": f"hermes/{__version__}"}
        )

    async def refusal(self, url: str) -> str:
        """Why no webhook may be at this URL; empty when one may."""
        try:
            base_of(url.partition("?")[0])
            await self._transport.check(httpx.URL(url))
        except (HermesError, httpx.HTTPError, httpx.InvalidURL, UnicodeError) as error:
            return str(error) or type(error).__name__
        return ""

    async def aclose(self) -> None:
        """Close every connection."""
        await self._http.aclose()

    async def deliver(self, webhook: TaskPushNotificationConfig, body: bytes) -> str:
        """Try, with ever longer pauses, as long as that may help. What went wrong in the end, empty if nothing did."""
        pause = self._first_pause
        for _ in range(self._settings.max_tries - 1):
            problem, may_pass = await self._post(webhook, body)
            if not problem or not may_pass:
                return problem
            await asyncio.sleep(pause)
            pause = min(pause * 2, _LONGEST_PAUSE)
        return (await self._post(webhook, body))[0]

    async def _post(self, webhook: TaskPushNotificationConfig, body: bytes) -> tuple[str, bool]:
        """One attempt: what went wrong, empty when nothing did, and whether another attempt may do better."""
        try:
            async with (
                asyncio.timeout(self._settings.timeout),
                self._http.stream("POST", webhook.url, content=body, headers=self._headers(webhook, body)) as response,
            ):
                status = response.status_code
        except HermesError as error:
            return str(error), False
        except (httpx.InvalidURL, UnicodeError, ValueError) as error:
            return f"it cannot be called ({type(error).__name__})", False
        except (httpx.HTTPError, TimeoutError) as error:
            return type(error).__name__, True
        if 200 <= status < 300:
            return "", False
        return f"it answered with status {status}", status >= 500 or status in _TRY_AGAIN

    def _headers(self, webhook: TaskPushNotificationConfig, body: bytes) -> dict[str, str]:
        headers = {"Content-Type": "application/json"}
        if webhook.token:
            headers[TOKEN_HEADER] = webhook.token
        login = webhook.authentication
        if login.scheme and login.credentials:
            headers["Authorization"] = f"{login.scheme} {login.credentials}"
        if self._secret:
            at = str(int(time.time()))
            headers[TIMESTAMP_HEADER] = at
            headers[SIGNATURE_HEADER] = signature(self._secret, at, body)
        return headers

    def _screened(self, url: str, address: str) -> str:
        host = (urlsplit(url).hostname or "").lower()
        allowed = self._settings.allowed_hosts
        if any(_matches(host, pattern.strip().lower()) for pattern in allowed):
            return ""
        if allowed:
            return f"{host} is not among a2a.push.allowed_hosts"
        with contextlib.suppress(ValueError):
            if is_public(address):
                return ""
        return f"{host} is in a private network; a2a.push.allowed_hosts must name it if it may be called"


def signature(secret: bytes, timestamp: str, body: bytes) -> str:
    """What proves that a notification comes from here and when: HMAC-SHA-256 over ``timestamp.body``."""
    digest = hmac.new(secret, timestamp.encode() + b"." + body, hashlib.sha256).hexdigest()
    return f"sha256={digest}"


def _matches(host: str, pattern: str) -> bool:
    return host == pattern or (pattern.startswith("*.") and host.endswith(pattern[1:]))


def _secret(settings: A2APushConfig, env: Mapping[str, str]) -> bytes:
    if not settings.secret_env:
        return b""
    secret = env.get(settings.secret_env, "")
    if not secret:
        raise ConfigError(f"a2a.push.secret_env: {settings.secret_env} is not set; put the secret in .env")
    return secret.encode()
