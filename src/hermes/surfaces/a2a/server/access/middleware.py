"""Access control of every request: authentication, scopes, rate limit, backpressure and body size."""

from __future__ import annotations

import logging
import math
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, cast

import msgspec
from a2a.utils.constants import AGENT_CARD_WELL_KNOWN_PATH
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from hermes.base.config.schema.sections import A2AConfig, PrincipalScope
from hermes.base.errors import JournalUnavailable
from hermes.base.http_server.principals import Principal, Principals
from hermes.base.http_server.rate_limits import Admission, RateLimiter, TaskSlots
from hermes.base.http_server.requests import is_from_program, media_type_of, read_body, replayed_body, request_headers
from hermes.surfaces.a2a.server.access.body import (
    A2A_JSON,
    INVALID_JSON,
    MEDIA_TYPES,
    PLAIN_JSON,
    RequestBody,
    is_unsupported_media_type,
)

log = logging.getLogger("hermes.a2a")

#: The key of the ASGI scope that holds the principal of the request.
PRINCIPAL = "hermes.principal"
#: The key of the ASGI scope, and of the call's state, that holds the admission of a message.
ADMISSION = "hermes.admission"

_AWAY = "the database cannot be reached"

#: For errors that have no code in the protocol.
_JSON_RPC_CODE = -32000

#: The scope of each method, as protocol 1.0 and 0.3 spell it. Methods that are not listed need ``read``.
SCOPES: dict[str, PrincipalScope] = {
    "SendMessage": "send",
    "SendStreamingMessage": "send",
    "CancelTask": "cancel",
    "CreateTaskPushNotificationConfig": "send",
    "DeleteTaskPushNotificationConfig": "send",
    "message/send": "send",
    "message/stream": "send",
    "tasks/cancel": "cancel",
    "tasks/pushNotificationConfig/set": "send",
    "tasks/pushNotificationConfig/delete": "send",
}
_STARTS_TASK = frozenset({"SendMessage", "SendStreamingMessage", "message/send", "message/stream"})


class _Envelope(msgspec.Struct):
    """Method and id of a JSON-RPC request."""

    #: Of any type. Of two fields with the same name the last one counts, here as in the SDK.
    method: Any = ""
    id: Any = None


@dataclass(frozen=True, slots=True)
class AccessRefusal:
    """Why a request is refused."""

    status: int
    reason: str
    message: str
    headers: tuple[tuple[str, str], ...] = ()


class AccessPolicy:
    """The access rules, the same for every transport."""

    def __init__(
        self,
        principals: Principals,
        settings: A2AConfig,
        slots: TaskSlots,
        check_journal: Callable[[], Awaitable[object]] | None = None,
    ) -> None:
        """``check_journal`` raises ``JournalUnavailable`` while no message can be accepted."""
        self.principals = principals
        self._check_journal = check_journal
        self._slots = slots
        self._rate = RateLimiter(settings.max_requests_per_minute)

    def refusal(self, principal: Principal | None, method: str) -> AccessRefusal | None:
        """Why this caller may not call the method now; None when it may."""
        if principal is None:
            offer = ("WWW-Authenticate", 'Bearer realm="hermes"')
            return AccessRefusal(
                401, "UNAUTHENTICATED", "send a token: Authorization: Bearer … or X-API-Key: …", (offer,)
            )
        needed = SCOPES.get(method, "read")
        if needed not in principal.scopes:
            return AccessRefusal(
                403, "PERMISSION_DENIED", f"{principal.name} may not do this; it needs the scope {needed}"
            )
        wait = self._rate.retry_after(principal.name)
        if wait:
            later = ("Retry-After", str(math.ceil(wait)))
            return AccessRefusal(429, "RESOURCE_EXHAUSTED", f"too many requests; try again in {wait:.1f} s", (later,))
        return None

    async def admit(self, principal: Principal, method: str) -> Admission | AccessRefusal | None:
        """Count a message that starts or continues a task; None for other methods. The caller of this ends it."""
        if method not in _STARTS_TASK:
            return None
        if self._check_journal is not None:
            try:
                await self._check_journal()
            except JournalUnavailable as error:
                log.warning("a message cannot be accepted now: %s", error)
                return AccessRefusal(503, "UNAVAILABLE", f"{_AWAY}; try again later", (("Retry-After", "5"),))
        admission = None if self._slots.is_closing else self._slots.admit(principal.name)
        if admission is not None:
            return admission
        why = "the server is about to stop" if self._slots.is_closing else "too many tasks are waiting"
        return AccessRefusal(503, "UNAVAILABLE", f"{why}; try again later", (("Retry-After", "5"),))


class AccessMiddleware:
    """Applies the policy to the HTTP transports. The agent card is public."""

    def __init__(self, app: ASGIApp, policy: AccessPolicy, max_body_bytes: int) -> None:
        self._app = app
        self._policy = policy
        self._max_body_bytes = max_body_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or (scope["path"] == AGENT_CARD_WELL_KNOWN_PATH):
            await self._app(scope, receive, send)
            return
        if not scope["path"].isprintable():  # the router ignores a line break after a path
            await PlainTextResponse("Not Found", 404)(scope, receive, send)
            return
        headers = request_headers(scope)
        is_rpc = scope["path"] == "/"
        envelope, body = _Envelope(), b""
        refusal = self._check_origin(headers)
        principal = self._policy.principals.authenticate(headers)
        if refusal is None and principal is not None and scope["method"] == "POST":
            found = await read_body(receive, headers, self._max_body_bytes)
            if found is None:
                limit = f"the request is longer than {self._max_body_bytes:,} bytes"
                refusal = AccessRefusal(413, "INVALID_ARGUMENT", limit)
            else:
                body = found
                receive = replayed_body(body, receive)
                envelope = _envelope(body) if is_rpc else envelope
        method = rest_method(scope["method"], scope["path"])
        if is_rpc:
            method = "" if envelope is None else str(envelope.method)
        refusal = refusal or self._policy.refusal(principal, method)
        if refusal is not None or principal is None:
            await _answer(cast("AccessRefusal", refusal), envelope if is_rpc else None)(scope, receive, send)
            return
        unusable = _unusable(body, headers, is_rpc, envelope)
        if unusable is not None:
            await unusable(scope, receive, send)
            return
        admission = await self._policy.admit(principal, method)
        if isinstance(admission, AccessRefusal):
            await _answer(admission, envelope if is_rpc else None)(scope, receive, send)
            return
        scope[PRINCIPAL], scope[ADMISSION] = principal, admission
        try:
            answer = send if is_rpc else _with_media_types(send, media_type_of(headers.get("content-type", "")))
            await self._app(scope, receive, answer)
        finally:
            if admission is not None:
                admission.end_request()

    def _check_origin(self, headers: dict[str, str]) -> AccessRefusal | None:
        """Without tokens: keep out web pages in a local browser (cross-site requests, DNS rebinding)."""
        if self._policy.principals or is_from_program(headers):
            return None
        return AccessRefusal(403, "PERMISSION_DENIED", "without a token only programs on this machine may call")


def _unusable(body: bytes, headers: dict[str, str], is_rpc: bool, envelope: _Envelope | None) -> Response | None:
    """The response to a body that cannot be used."""
    media_type = media_type_of(headers.get("content-type", ""))
    if envelope is None:
        method, request_id = "", None
        if media_type in MEDIA_TYPES:
            return JSONResponse(INVALID_JSON)
    else:
        method, request_id = str(envelope.method), envelope.id
    return RequestBody(body, media_type, is_rpc, method, request_id).refusal() if body else None


def _with_media_types(send: Send, asked_in: str) -> Send:
    """Answers of HTTP+JSON in the media type of the request, and status 415 instead of the SDK's 400 for a wrong one.

    Version 1.0.0 of the protocol wants ``application/json``, later ones ``application/a2a+json``.
    """
    held: list[Message] = []

    async def forward(message: Message) -> None:
        if message["type"] == "http.response.start":
            if asked_in == PLAIN_JSON:
                message["headers"] = [
                    (name, PLAIN_JSON.encode() if value == A2A_JSON.encode() else value)
                    for name, value in message["headers"]
                ]
            if message["status"] == 400:
                held.append(message)
                return
        if held:
            start = held.pop()
            if is_unsupported_media_type(message.get("body", b"")):
                start["status"] = 415
                message = {**message, "body": message["body"].replace(b'"code":400', b'"code":415', 1)}
            await send(start)
        await send(message)

    return forward


def rest_method(verb: str, path: str) -> str:
    """The protocol method of a path of the HTTP+JSON transport, as far as the scopes need it."""
    if path.endswith(("/message:send", "/message:stream")):
        return "SendMessage"
    if path.endswith(":cancel"):
        return "CancelTask"
    if "/pushNotificationConfigs" in path and verb in ("POST", "DELETE"):
        return "CreateTaskPushNotificationConfig"
    return "GetTask"


def _envelope(body: bytes) -> _Envelope | None:
    """Method and id of a JSON-RPC request; None when the body is not JSON, which the SDK does not always notice."""
    try:
        return msgspec.json.decode(body, type=_Envelope)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return _Envelope() if _is_json(body) else None  # the SDK reports any other error


def _is_json(body: bytes) -> bool:
    try:
        msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return False
    return True


def _answer(refusal: AccessRefusal, envelope: _Envelope | None) -> JSONResponse:
    if envelope is None:
        error: dict[str, Any] = {"code": refusal.status, "status": refusal.reason, "message": refusal.message}
        content: dict[str, Any] = {"error": error}
    else:
        request_id = envelope.id if isinstance(envelope.id, str | int) else None
        content = {
            "jsonrpc": "2.0",
            "id": request_id,
            "error": {"code": _JSON_RPC_CODE, "message": refusal.message, "data": {"reason": refusal.reason}},
        }
    return JSONResponse(content, refusal.status, dict(refusal.headers))
