"""Messages over JSON-RPC in the protocol's current version, from bytes to bytes.

They are most of what a server is asked, and the SDK's way there takes as long as a third of a quick turn. Whatever is
unusual about a request is left to the SDK, which knows how to say so.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator
from typing import Any

import msgspec
from a2a.extensions.common import HTTP_EXTENSION_HEADER, get_requested_extensions
from a2a.server.context import ServerCallContext
from a2a.server.events import Event
from a2a.server.request_handlers.response_helpers import build_error_response
from a2a.types import Message, SendMessageRequest, Task, TaskArtifactUpdateEvent
from a2a.utils.constants import PROTOCOL_VERSION_1_0, VERSION_HEADER
from a2a.utils.errors import A2AError
from google.protobuf import json_format
from starlette.types import ASGIApp, Receive, Scope, Send

from hermes.a2a.card import RPC_PATH
from hermes.a2a.server.access.middleware import BODY, METHOD, PRINCIPAL
from hermes.a2a.server.access.principals import LOCAL, Peer
from hermes.a2a.server.handler import Requests

_VERSION = PROTOCOL_VERSION_1_0.encode()
_VERSION_HEADER = VERSION_HEADER.lower().encode()
_METHODS = ("SendMessage", "SendStreamingMessage")
#: Headers that open the door; nobody behind it needs them.
KEYS = ("authorization", "x-api-key", "cookie")
#: How often somebody who hears nothing is told that the connection lives.
_SECONDS_BETWEEN_SIGNS = 15.0
_STREAM_HEADERS = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),
]

Id = str | int | None


class _Call(msgspec.Struct):
    """A JSON-RPC request that there is nothing to say about."""

    jsonrpc: str
    params: dict[str, Any]
    id: Id = None


class DirectMessages:
    """Answers messages itself and passes everything else on."""

    def __init__(self, app: ASGIApp, requests: Requests) -> None:
        self._app = app
        self._requests = requests

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        read = _read(scope) if scope.get(METHOD) in _METHODS and scope["path"] == RPC_PATH else None
        if read is None:
            await self._app(scope, receive, send)
            return
        request_id, params = read
        context = call_context(scope, params)
        try:
            if scope[METHOD] == "SendMessage":
                task = await self._requests.on_message_send(params, context)
                await _answer(send, _result(request_id, task))
            else:
                events = self._requests.on_message_send_stream(params, context)
                first = await anext(events)  # what is wrong with the request shows here
                await _stream(request_id, first, events, receive, send)
        except A2AError as error:
            await _answer(send, msgspec.json.encode(build_error_response(request_id, error)))


def call_context(scope: Scope, params: SendMessageRequest) -> ServerCallContext:
    """What the requests are told of a call: who sent it, and its headers without what opened the door."""
    headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
    for name in KEYS:
        headers.pop(name, None)
    return ServerCallContext(
        user=Peer(scope.get(PRINCIPAL, LOCAL)),
        state={"headers": headers},
        tenant=params.tenant,
        requested_extensions=get_requested_extensions([headers.get(HTTP_EXTENSION_HEADER.lower(), "")]),
    )


def _read(scope: Scope) -> tuple[Id, SendMessageRequest] | None:
    if (_VERSION_HEADER, _VERSION) not in scope["headers"]:
        return None
    try:
        call = msgspec.json.decode(scope[BODY], type=_Call)
        params = json_format.ParseDict(call.params, SendMessageRequest(), ignore_unknown_fields=True)
    except (msgspec.DecodeError, UnicodeError, RecursionError, json_format.ParseError):
        return None
    return (call.id, params) if call.jsonrpc == "2.0" else None


def _result(request_id: Id, event: Event) -> bytes:
    kind = (
        "task"
        if isinstance(event, Task)
        else "message"
        if isinstance(event, Message)
        else "artifactUpdate"
        if isinstance(event, TaskArtifactUpdateEvent)
        else "statusUpdate"
    )
    result = {kind: json_format.MessageToDict(event)}
    return msgspec.json.encode({"jsonrpc": "2.0", "id": request_id, "result": result})


async def _answer(send: Send, body: bytes) -> None:
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})


async def _stream(request_id: Id, first: Event, events: AsyncGenerator[Event], receive: Receive, send: Send) -> None:
    """Send what happens as server-sent events, until there is nothing more or nobody listens."""
    await send({"type": "http.response.start", "status": 200, "headers": _STREAM_HEADERS})

    async def pass_on() -> None:
        await _tell(send, _result(request_id, first))
        try:
            async for event in events:
                await _tell(send, _result(request_id, event))
        except A2AError as error:
            await _tell(send, msgspec.json.encode(build_error_response(request_id, error)), b"event: error\r\n")
        await send({"type": "http.response.body", "body": b""})

    sending, leaving = asyncio.create_task(pass_on()), asyncio.create_task(_gone(receive))
    try:
        while not sending.done() and not leaving.done():
            both = {sending, leaving}
            over, _ = await asyncio.wait(both, timeout=_SECONDS_BETWEEN_SIGNS, return_when=asyncio.FIRST_COMPLETED)
            if not over:
                await send({"type": "http.response.body", "body": b": alive\r\n\r\n", "more_body": True})
        if sending.done():
            sending.result()
    finally:
        leaving.cancel()
        sending.cancel()
        with contextlib.suppress(asyncio.CancelledError, Exception):
            await sending
        await events.aclose()


async def _tell(send: Send, data: bytes, before: bytes = b"") -> None:
    await send({"type": "http.response.body", "body": before + b"data: " + data + b"\r\n\r\n", "more_body": True})


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
