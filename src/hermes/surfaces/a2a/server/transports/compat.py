"""Protocol 0.3 on a 1.0 server: the SDK's adapters, with the details that 0.3 wants and they leave out."""

from __future__ import annotations

import json
from collections.abc import AsyncIterable, AsyncIterator
from typing import Any, cast

import a2a.server.routes  # first: the modules of the SDK import each other in a circle
from a2a.compat.v0_3 import conversions, types
from a2a.compat.v0_3.jsonrpc_adapter import JSONRPC03Adapter
from a2a.compat.v0_3.request_handler import RequestHandler03
from a2a.compat.v0_3.rest_adapter import REST03Adapter
from a2a.server.context import ServerCallContext
from a2a.server.request_handlers import RequestHandler
from a2a.types import Task
from a2a.utils.constants import VERSION_HEADER
from pydantic import BaseModel
from starlette.responses import JSONResponse
from starlette.routing import BaseRoute, Route

from hermes.surfaces.a2a.server.transports.rpc import RpcDispatcher

#: The older version of the protocol, and the model of each of its JSON-RPC requests.
OLD = "0.3"
OLD_REQUESTS: dict[str, type[BaseModel]] = cast("Any", JSONRPC03Adapter.METHOD_TO_MODEL)
_Builder = a2a.server.routes.ServerCallContextBuilder
#: A stream of 0.3 ends with its last status update, also when the task waits for its caller.
_INTERRUPTED = (types.TaskState.input_required, types.TaskState.auth_required)


def is_old_call(context: ServerCallContext) -> bool:
    """Whether the call is one of protocol 0.3, which is what a call over HTTP without a version is."""
    if "grpc_context" in context.state:
        return False
    headers: dict[str, str] = context.state.get("headers", {})
    return headers.get(VERSION_HEADER.lower(), OLD).startswith(OLD)


def old_task_document(task: Task) -> bytes:
    """The task as a webhook of protocol 0.3 gets it."""
    return conversions.to_compat_task(task).model_dump_json(by_alias=True, exclude_none=True).encode()


def rpc_routes(handler: RequestHandler, path: str, builder: _Builder) -> list[Route]:
    """The JSON-RPC transport of both versions."""
    dispatcher = RpcDispatcher(handler, builder, enable_v0_3_compat=True)
    adapter = _RpcAdapter(handler, builder)
    adapter.handler = _CompatHandler(handler)
    dispatcher._v03_adapter = adapter  # pyright: ignore[reportPrivateUsage]  (there is no other way to give it one)
    return [Route(path, dispatcher, methods=["POST"])]


def rest_routes(handler: RequestHandler, prefix: str, builder: _Builder) -> list[BaseRoute]:
    """The HTTP+JSON transport of both versions."""
    adapter = REST03Adapter(handler, builder)
    adapter.handler.handler03 = _CompatHandler(handler)
    old = [Route(f"{prefix}{path}", endpoint, methods=[verb]) for (path, verb), endpoint in adapter.routes().items()]
    return [*old, *a2a.server.routes.create_rest_routes(handler, builder, path_prefix=prefix)]


class _RpcAdapter(JSONRPC03Adapter):
    """Answers with ``"result": null`` where there is nothing to say: a response without a result is none."""

    async def _process_non_streaming_request(self, *args: Any, **options: Any) -> JSONResponse:
        response = await super()._process_non_streaming_request(*args, **options)
        document = json.loads(bytes(response.body))
        return response if "result" in document or "error" in document else JSONResponse({**document, "result": None})


class _CompatHandler(RequestHandler03):
    """Marks the status update with which a stream ends as final."""

    async def on_message_send_stream(
        self, request: types.SendMessageRequest, context: ServerCallContext
    ) -> AsyncIterator[types.SendStreamingMessageSuccessResponse]:
        async for event in _with_final(super().on_message_send_stream(request, context)):
            yield event

    async def on_subscribe_to_task(
        self, request: types.TaskResubscriptionRequest, context: ServerCallContext
    ) -> AsyncIterator[types.SendStreamingMessageSuccessResponse]:
        async for event in _with_final(super().on_subscribe_to_task(request, context)):
            yield event


async def _with_final(events: AsyncIterable[Any]) -> AsyncIterator[Any]:
    async for event in events:
        result = event.result
        if isinstance(result, types.TaskStatusUpdateEvent) and result.status.state in _INTERRUPTED:
            result.final = True
        yield event
