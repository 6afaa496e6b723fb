"""Access control of every request: authentication, scopes, rate limit, backpressure and body size."""

from __future__ import annotations

import logging
import math
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from a2a.auth.user import User
from a2a.utils.constants import AGENT_CARD_WELL_KNOWN_PATH
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from hermes.base.config.schema.sections import A2AConfig, PrincipalScope
from hermes.base.errors import JournalUnavailable
from hermes.base.http_server.principals import Principal, Principals
from hermes.base.http_server.rate_limits import Admission, RateLimiter, TaskSlots
from hermes.base.http_server.requests import is_from_program, media_type_of, read_body, replayed_body, request_headers
from hermes.surfaces.a2a.server.access.body import A2A_JSON, PLAIN_JSON, RequestBody

log = logging.getLogger("hermes.a2a")

#: The key of the ASGI scope that holds the principal of the request.
PRINCIPAL = "hermes.principal"
#: The key of the ASGI scope, and of the call's state, that holds the admission of a message.
ADMISSION = "hermes.admission"

#: In the SDK's error about a media type.
_UNSUPPORTED = b"CONTENT_TYPE_NOT_SUPPORTED"
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


@dataclass(frozen=True, slots=True)
class AccessRefusal:
    """Why a request is refused."""

    status: int
    reason: str
    message: str
    headers: tuple[tuple[str, str], ...] = ()


class PrincipalUser(User):
    """A principal as the user of the SDK: its name is the owner of tasks."""

    def __init__(self, principal: Principal) -> None:
        self.principal = principal

    @property
    def is_authenticated(self) -> bool:
        return self.principal.is_authenticated

    @property
    def user_name(self) -> str:
        return self.principal.name


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
        body, receive, admission = await self._admit(scope, receive)
        if isinstance(admission, AccessRefusal):
            admission = _refused(admission, body)
        if isinstance(admission, Response):
            await admission(scope, receive, send)
            return
        scope[ADMISSION] = admission
        try:
            await self._app(scope, receive, send if body.is_rpc else _with_media_types(send, body.media_type))
        finally:
            if admission is not None:
                admission.end_request()

    async def _admit(
        self, scope: Scope, receive: Receive
    ) -> tuple[RequestBody, Receive, AccessRefusal | Response | Admission | None]:
        """The body of a request, its messages, and why it is refused or how it is counted."""
        headers = request_headers(scope)
        principal = scope[PRINCIPAL] = self._policy.principals.authenticate(headers)
        body = RequestBody(b"", media_type_of(headers.get("content-type", "")), is_rpc=scope["path"] == "/")
        refusal = self._check_origin(headers)
        if refusal is None and principal is not None and scope["method"] == "POST":
            data = await read_body(receive, headers, self._max_body_bytes)
            if data is None:
                limit = f"the request is longer than {self._max_body_bytes:,} bytes"
                return body, receive, AccessRefusal(413, "INVALID_ARGUMENT", limit)
            body, receive = body.holding(data), replayed_body(data, receive)
        method = body.method if body.is_rpc else rest_method(scope["method"], scope["path"])
        refused = refusal or self._policy.refusal(principal, method) or body.refusal()
        if refused is not None or principal is None:
            return body, receive, refused
        return body, receive, await self._policy.admit(principal, method)

    def _check_origin(self, headers: dict[str, str]) -> AccessRefusal | None:
        """Without tokens: keep out web pages in a local browser (cross-site requests, DNS rebinding)."""
        if self._policy.principals or is_from_program(headers):
            return None
        return AccessRefusal(403, "PERMISSION_DENIED", "without a token only programs on this machine may call")


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
            if _UNSUPPORTED in message.get("body", b""):
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


def _refused(refusal: AccessRefusal, body: RequestBody) -> Response:
    error: dict[str, Any] = {"code": refusal.status, "status": refusal.reason, "message": refusal.message}
    content: dict[str, Any] = {"error": error}
    if body.is_rpc and body.is_json:
        error = {"code": _JSON_RPC_CODE, "message": refusal.message, "data": {"reason": refusal.reason}}
        content = {"jsonrpc": "2.0", "id": body.request_id, "error": error}
    return JSONResponse(content, refusal.status, dict(refusal.headers))
