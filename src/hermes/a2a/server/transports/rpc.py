"""The JSON-RPC transport of protocol 1.0: the SDK's dispatcher, with answers that are made faster."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any

# First, because the modules of the SDK import each other in a circle.
import a2a.server.routes  # noqa: F401  # pyright: ignore[reportUnusedImport]
import msgspec
from a2a.server.context import ServerCallContext
from a2a.server.routes.jsonrpc_dispatcher import JsonRpcDispatcher
from a2a.types import SendMessageRequest, Task
from starlette.responses import Response

from hermes.a2a.server.transports.json_documents import document_of


class RpcDispatcher(JsonRpcDispatcher):
    """Answers requests of JSON-RPC, those of 0.3 with its adapter."""

    async def _handle_send_message(self, request_obj: SendMessageRequest, context: ServerCallContext) -> dict[str, Any]:
        answer = await self.request_handler.on_message_send(request_obj, context)
        return {"task" if isinstance(answer, Task) else "message": document_of(answer)}

    def _create_response(
        self, context: ServerCallContext, handler_result: AsyncGenerator[dict[str, Any]] | dict[str, Any]
    ) -> Response:
        if isinstance(handler_result, AsyncGenerator):
            return super()._create_response(context, handler_result)
        return Response(msgspec.json.encode(handler_result), media_type="application/json")
