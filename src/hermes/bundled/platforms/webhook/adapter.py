"""The adapter of webhooks: signed requests as messages for the gateway; answers go to the chat that the route names."""

from __future__ import annotations

import hashlib
import json
import re
import time
from collections.abc import Mapping
from typing import Any, cast

import msgspec

from hermes.surfaces.gateway.adapter import (
    MessageEvent,
    OutgoingMessage,
    PlatformConfig,
    PluginHttp,
    RateLimiter,
    SendResult,
    mark_untrusted,
)
from hermes.surfaces.gateway.platforms.receiving import ReceivingAdapter
from hermes.surfaces.gateway.platforms.server import PlatformRequest, PlatformResponse, PlatformServer

from .settings import WebhookRoute, WebhookSettings
from .signatures import SignatureRefused, verify

_PREFIX = "/webhooks/"
#: A value of a payload in a prompt is at most this long.
_MAX_VALUE = 20_000
#: A value up to this length is inserted without marks, such as a name or a title.
_FEW_WORDS = 120
_FIELD = re.compile(r"\{([A-Za-z_][\w.\-]*)\}")
#: Requests with a wrong signature that one address may send in a minute.
_REFUSALS_PER_MINUTE = 20


class WebhookAdapter(ReceivingAdapter[WebhookSettings]):
    """A listener with one path for each route. A route is a principal of its own."""

    label = "webhook"

    def __init__(self, config: PlatformConfig, settings: WebhookSettings, http: PluginHttp | None = None) -> None:
        super().__init__(config, settings, http)
        self._limits = {name: RateLimiter(route.per_minute) for name, route in settings.routes.items()}
        self._refusals = RateLimiter(_REFUSALS_PER_MINUTE)
        self.server = PlatformServer(settings.host, settings.port, self._handle, max_body=settings.max_body)

    async def log_in(self) -> str:
        await self.server.start()
        return f"listening on {self._settings.host} port {self.server.port}"

    async def close(self) -> None:
        await self.server.stop()

    async def get_chat_info(self, chat_id: str) -> dict[str, Any]:
        return {"name": chat_id, "type": "dm"}

    # -- requests ----------------------------------------------------------------------------------------------------

    async def _handle(self, request: PlatformRequest) -> PlatformResponse:
        if request.path == "/health":
            return PlatformResponse(200, {"status": "ok"})
        route = self._settings.routes.get(request.path.removeprefix(_PREFIX))
        if not request.path.startswith(_PREFIX) or route is None:
            return PlatformResponse(404, {"error": "there is no such route"})
        if request.method != "POST":
            return PlatformResponse(405, {"error": "only POST is allowed"}, {"allow": "POST"})
        try:
            delivery = verify(route.scheme, route.secret, request.headers, request.body, time.time())
        except SignatureRefused as error:
            return self._refuse(request, route, error)
        if seconds := self._limits[route.name].retry_after(""):
            headers = {"retry-after": str(int(seconds) + 1)}
            return PlatformResponse(429, {"error": f"more than {route.per_minute} in a minute"}, headers)
        try:
            payload: object = msgspec.json.decode(request.body)
        except (msgspec.DecodeError, UnicodeDecodeError):
            return PlatformResponse(400, {"error": "the body is not JSON"})
        event = event_of(request.headers, payload)
        if route.events and event not in route.events:
            return PlatformResponse(200, {"status": "ignored", "event": event})
        text = render(route, payload, event)
        if not text:
            return PlatformResponse(200, {"status": "ignored", "reason": "the prompt is empty"})
        await self._accept(route, delivery, text)
        return PlatformResponse(202, {"status": "accepted", "id": delivery})

    def _refuse(self, request: PlatformRequest, route: WebhookRoute, error: SignatureRefused) -> PlatformResponse:
        if seconds := self._refusals.retry_after(request.client):
            return PlatformResponse(429, {"error": "too many requests"}, {"retry-after": str(int(seconds) + 1)})
        self.log.warning("webhook: a request to %s was refused: %s", route.name, error)
        return PlatformResponse(401, {"error": str(error)})

    async def _accept(self, route: WebhookRoute, delivery: str, text: str) -> None:
        """Store the message. When this returns it is on disk, however often the request is repeated."""
        if route.deliver_only:
            await self._pass_on(route, f"webhook:{route.name}:{delivery}", text)
            return
        source = self.build_source(
            route.name,
            chat_name=f"webhook {route.name}",
            user_id=route.name,
            user_name=f"webhook {route.name}",
            thread_id=delivery if route.session == "delivery" else None,
        )
        # The signature is what lets the sender in; the route is its principal.
        await self.handle_message(MessageEvent(text, source=source, message_id=delivery, internal=True))

    # -- answers -----------------------------------------------------------------------------------------------------

    async def send(
        self, chat_id: str, content: str, reply_to: str | None = None, metadata: dict[str, Any] | None = None
    ) -> SendResult:
        route = self._settings.routes.get(chat_id)
        if route is None:
            return SendResult(False, error=f"there is no route {chat_id!r}", error_kind="not_found")
        if route.target is None:
            self.log.info("webhook: answer of %s: %s", route.name, content)
            return SendResult(True)
        digest = hashlib.sha256(content.encode()).hexdigest()[:16]
        await self._pass_on(
            route, f"webhook:{route.name}:{reply_to or (metadata or {}).get('thread_id')}:{digest}", content
        )
        return SendResult(True)

    async def _pass_on(self, route: WebhookRoute, key: str, text: str) -> None:
        """Put a message for another platform's chat into the outbox, once."""
        assert route.target is not None
        platform, chat = route.target
        gateway = self.gateway_runner
        await gateway.blocking(gateway.outbox.add, OutgoingMessage(key, platform, chat, text))
        gateway.deliveries.wake()


# -- the message of a webhook -----------------------------------------------------------------------------------------


def event_of(headers: Mapping[str, str], payload: object) -> str:
    """The kind of an event, as GitHub, GitLab and others name it."""
    for name in ("x-github-event", "x-gitlab-event", "x-event-type"):
        if headers.get(name):
            return headers[name][:200]
    found: object = cast("dict[str, Any]", payload).get("type") if isinstance(payload, dict) else None
    return found[:200] if isinstance(found, str) else ""


def render(route: WebhookRoute, payload: object, event: str) -> str:
    """The prompt with its fields filled in: ``{a.b.0}`` is a value of the payload, ``{payload}`` all of it.

    What is not there becomes an empty text. A value is never read as a template, and for a model every value that is
    more than a few words is marked as untrusted text.
    """
    fixed = {"route": route.name, "event": event}

    def value(found: re.Match[str]) -> str:
        path = found[1]
        if path in fixed:
            return fixed[path]
        text = _as_text(payload if path == "payload" else _find(payload, path.split(".")))
        if route.deliver_only or (len(text) <= _FEW_WORDS and "\n" not in text):
            return text
        return mark_untrusted(text, f"{route.secret}:{text}")

    text = _FIELD.sub(value, route.prompt).strip()
    # A payload must not become a slash command.
    return f"({route.name}) {text}" if text.startswith("/") else text


def _find(value: object, path: list[str]) -> object:
    for part in path:
        if isinstance(value, dict):
            value = cast("dict[str, object]", value).get(part)
        elif isinstance(value, list) and part.isdecimal() and int(part) < len(cast("list[object]", value)):
            value = cast("list[object]", value)[int(part)]
        else:
            return None
    return value


def _as_text(value: object) -> str:
    if value is None:
        return ""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=1)
    return text if len(text) <= _MAX_VALUE else f"{text[:_MAX_VALUE]} … ({len(text):,} characters)"
