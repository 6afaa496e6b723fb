"""Webhook delivery: signed notifications behind the SSRF guard, retried with exponential backoff."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import time
from collections.abc import Mapping
from urllib.parse import urlsplit

from a2a.types import TaskPushNotificationConfig

from hermes.base.config.schema.sections import A2APushConfig
from hermes.base.errors import ConfigError, HermesError
from hermes.base.http.address import Address
from hermes.base.http.client import HttpClient
from hermes.base.http.errors import AddressRefused, HttpError, InvalidUrl
from hermes.base.http.exchange import Timeouts
from hermes.base.http.threads import run_in_thread
from hermes.base.scope import Interrupt
from hermes.base.version import __version__
from hermes.tools.peers.addresses import base_of

TOKEN_HEADER = "X-A2A-Notification-Token"
SIGNATURE_HEADER, TIMESTAMP_HEADER = "X-Hermes-Signature", "X-Hermes-Timestamp"

_LONGEST_PAUSE = 30.0
_RETRIED_STATUSES = (408, 425, 429)
#: The answer of a webhook is read only to keep the connection, and only if it ends soon.
_MAX_ANSWER = 64 * 1024
_TAIL_SECONDS = 0.25


class PushDelivery:
    """Sends notifications to all webhooks."""

    def __init__(self, settings: A2APushConfig, env: Mapping[str, str], first_pause: float) -> None:
        self._settings = settings
        self._secret = _secret(settings, env)
        self._first_pause = first_pause
        self._timeouts = Timeouts.within(settings.timeout)
        self._http = HttpClient()

    async def refusal(self, url: str) -> str:
        """Why no webhook may be at this URL; empty when one may. A host that the settings name is not looked up yet."""

        def check(interrupt: Interrupt) -> None:
            base_of(url.partition("?")[0])
            if not self._is_named(urlsplit(url).hostname or ""):
                self._http.check(url, self._guard, timeouts=self._timeouts, interrupt=interrupt)

        try:
            await run_in_thread(check)
        except HermesError as error:
            return str(error) or type(error).__name__
        return ""

    async def aclose(self) -> None:
        """Close the idle connections."""
        self._http.close()

    async def deliver(self, webhook: TaskPushNotificationConfig, body: bytes) -> str:
        """Send, and retry with exponential backoff while that may help. Returns the last problem, empty for none."""
        pause = self._first_pause
        for _ in range(self._settings.max_tries - 1):
            problem, may_pass = await self._post(webhook, body)
            if not problem or not may_pass:
                return problem
            await asyncio.sleep(pause)
            pause = min(pause * 2, _LONGEST_PAUSE)
        return (await self._post(webhook, body))[0]

    async def _post(self, webhook: TaskPushNotificationConfig, body: bytes) -> tuple[str, bool]:
        """One attempt: the problem, empty for none, and whether a retry may help."""
        headers = self._headers(webhook, body)

        def post(interrupt: Interrupt) -> int:
            with self._http.open(
                "POST", webhook.url, headers, body, timeouts=self._timeouts, interrupt=interrupt, guard=self._guard
            ) as response:
                response.expect_end(_TAIL_SECONDS)
                response.read_prefix(_MAX_ANSWER)
                return response.status

        try:
            status = await run_in_thread(post)
        except (AddressRefused, InvalidUrl, ConfigError) as error:
            return str(error), False
        except HttpError as error:
            return type(error).__name__, True
        if 200 <= status < 300:
            return "", False
        return f"it answered with status {status}", status >= 500 or status in _RETRIED_STATUSES

    def _headers(self, webhook: TaskPushNotificationConfig, body: bytes) -> list[tuple[str, str]]:
        headers = [("User-Agent", f"hermes/{__version__}"), ("Content-Type", "application/json")]
        if webhook.token:
            headers.append((TOKEN_HEADER, webhook.token))
        login = webhook.authentication
        if login.scheme and login.credentials:
            headers.append(("Authorization", f"{login.scheme} {login.credentials}"))
        if self._secret:
            at = str(int(time.time()))
            headers += [(TIMESTAMP_HEADER, at), (SIGNATURE_HEADER, signature(self._secret, at, body))]
        return headers

    def _is_named(self, host: str) -> bool:
        return any(_matches(host.lower(), name.strip().lower()) for name in self._settings.allowed_hosts)

    def _guard(self, server: Address, is_public: bool) -> str:
        host = server.host.lower()
        if self._is_named(host):
            return ""
        if self._settings.allowed_hosts:
            return f"{host} is not among a2a.push.allowed_hosts"
        if is_public:
            return ""
        return f"{host} is in a private network; a2a.push.allowed_hosts must name it if it may be called"


def signature(secret: bytes, timestamp: str, body: bytes) -> str:
    """Proof of origin and time of a notification: HMAC-SHA-256 over ``timestamp.body``."""
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
