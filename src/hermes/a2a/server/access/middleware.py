"""What every request passes first: who calls, whether they may, how much and how often."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import msgspec
from a2a.utils.constants import AGENT_CARD_WELL_KNOWN_PATH
from starlette.responses import JSONResponse, PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from hermes.a2a.server.access.principals import Principal, Principals, is_loopback
from hermes.a2a.server.access.rate_limits import Load, Pace
from hermes.config.sections import A2AConfig, A2AScope

#: Where the principal of a request is put for those behind the gate.
PRINCIPAL = "hermes.principal"
#: Where its body is, and the method it asks for.
BODY = "hermes.body"
METHOD = "hermes.method"

#: Server errors without a code of their own in the protocol.
_JSON_RPC_CODE = -32000
_NO_JSON = {"jsonrpc": "2.0", "id": None, "error": {"code": -32700, "message": "Invalid JSON payload"}}

#: What each method of the protocol needs, in the spelling of 1.0 and of 0.3. What is not here reads.
NEEDED: dict[str, A2AScope] = {
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
_STARTING = frozenset({"SendMessage", "SendStreamingMessage", "message/send", "message/stream"})


class _Envelope(msgspec.Struct):
    """What a JSON-RPC request says of itself."""

    #: Whatever it is: of two with the same name the last one counts, here as for those behind the gate.
    method: Any = ""
    id: Any = None


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a request goes no further."""

    status: int
    reason: str
    message: str
    headers: tuple[tuple[str, str], ...] = ()


class Door:
    """The rules, the same for every transport."""

    def __init__(self, principals: Principals, settings: A2AConfig, load: Load) -> None:
        self.principals = principals
        self.load = load
        self._pace = Pace(settings.max_requests_per_minute)

    def refusal(self, principal: Principal | None, method: str) -> Refusal | None:
        """Why this caller may not do that now, if so."""
        if principal is None:
            offer = ("WWW-Authenticate", 'Bearer realm="hermes"')
            return Refusal(401, "UNAUTHENTICATED", "send a token: Authorization: Bearer … or X-API-Key: …", (offer,))
        needed = NEEDED.get(method, "read")
        if needed not in principal.scopes:
            return Refusal(403, "PERMISSION_DENIED", f"{principal.name} may not do this; it needs the scope {needed}")
        wait = self._pace.wait_for(principal.name)
        if wait:
            later = ("Retry-After", str(math.ceil(wait)))
            return Refusal(429, "RESOURCE_EXHAUSTED", f"too many requests; try again in {wait:.1f} s", (later,))
        if method in _STARTING and (self.load.is_full or self.load.is_closing):
            why = "the server is about to stop" if self.load.is_closing else "too many tasks wait already"
            return Refusal(503, "UNAVAILABLE", f"{why}; try again later", (("Retry-After", "5"),))
        return None


class Gate:
    """The door of the HTTP transports. The agent card is for everybody."""

    def __init__(self, app: ASGIApp, door: Door, max_body_bytes: int) -> None:
        self._app = app
        self._door = door
        self._max_body_bytes = max_body_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or (scope["path"] == AGENT_CARD_WELL_KNOWN_PATH):
            await self._app(scope, receive, send)
            return
        if not scope["path"].isprintable():  # the router overlooks a line end behind a path
            await PlainTextResponse("Not Found", 404)(scope, receive, send)
            return
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        envelope = _Envelope()
        refusal = self._from_elsewhere(headers)
        principal = self._door.principals.of(headers)
        if refusal is None and principal is not None and scope["method"] == "POST":
            body = await _read(receive, headers, self._max_body_bytes)
            if body is None:
                limit = f"the request is longer than {self._max_body_bytes:,} bytes"
                refusal = Refusal(413, "INVALID_ARGUMENT", limit)
            else:
                scope[BODY], receive = body, _replayed(body, receive)
                if scope["path"] == "/":
                    envelope = _envelope(body)
                    if envelope is None:
                        await JSONResponse(_NO_JSON)(scope, receive, send)
                        return
        method = str(envelope.method) if scope["path"] == "/" else rest_method(scope["method"], scope["path"])
        refusal = refusal or self._door.refusal(principal, method)
        if refusal is not None:
            await _answer(refusal, envelope if scope["path"] == "/" else None)(scope, receive, send)
            return
        scope[PRINCIPAL], scope[METHOD] = principal, method
        await self._app(scope, receive, send)

    def _from_elsewhere(self, headers: dict[str, str]) -> Refusal | None:
        """Without tokens a web page must not get in by way of the person's own browser."""
        if self._door.principals:
            return None
        origin = headers.get("origin")
        places = [urlsplit(f"//{headers.get('host', '')}").hostname]
        places += [urlsplit(origin).hostname] if origin is not None else []
        if all(place is not None and is_loopback(place) for place in places):
            return None
        return Refusal(403, "PERMISSION_DENIED", "without a token only programs on this machine may call")


def rest_method(verb: str, path: str) -> str:
    """The method of the protocol that a path of the HTTP+JSON transport stands for, as far as scopes differ."""
    if path.endswith(("/message:send", "/message:stream")):
        return "SendMessage"
    if path.endswith(":cancel"):
        return "CancelTask"
    if "/pushNotificationConfigs" in path and verb in ("POST", "DELETE"):
        return "CreateTaskPushNotificationConfig"
    return "GetTask"


def _envelope(body: bytes) -> _Envelope | None:
    """What a JSON-RPC request says of itself; None when it is no JSON, which the SDK does not always notice."""
    try:
        return msgspec.json.decode(body, type=_Envelope)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return _Envelope() if _is_json(body) else None  # what else is wrong is told by those who know the protocol


def _is_json(body: bytes) -> bool:
    try:
        msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return False
    return True


async def _read(receive: Receive, headers: dict[str, str], limit: int) -> bytes | None:
    """The body; None when it is too long, without reading it to its end."""
    announced = headers.get("content-length", "")
    if announced.isdecimal() and int(announced) > limit:
        return None
    body = bytearray()
    while True:
        message = await receive()
        body += message.get("body", b"")
        if len(body) > limit:
            return None
        if not message.get("more_body"):
            return bytes(body)


def _replayed(body: bytes, receive: Receive) -> Receive:
    first: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def replay() -> Message:
        return first.pop() if first else await receive()

    return replay


def _answer(refusal: Refusal, envelope: _Envelope | None) -> JSONResponse:
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
