"""``/v1/responses``: a turn as a response that can be read, continued and deleted by its id."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any, cast

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from hermes.surfaces.openai_api.answers import usage_document
from hermes.surfaces.openai_api.call import ApiCall
from hermes.surfaces.openai_api.content import read_input
from hermes.surfaces.openai_api.documents import (
    ResponsesRequest,
    check_model,
    format_instructions,
    read_document,
    refuse_tools,
)
from hermes.surfaces.openai_api.errors import ServerStopped, invalid
from hermes.surfaces.openai_api.runs.acceptance import ApiRuns, RunOrder
from hermes.surfaces.openai_api.runs.run import ApiRun
from hermes.surfaces.openai_api.sse import PING, SseResponse, encode_event

_STATUS = {"waiting": "in_progress", "cancelled": "cancelled"}
_REASONS = {"length": "max_output_tokens", "budget": "max_output_tokens"}


async def create_response(request: Request, call: ApiCall, runs: ApiRuns) -> Response:
    """Answer ``POST /v1/responses``."""
    call.need("send")
    asked = read_document(call.body, ResponsesRequest)
    refuse_tools(asked.tools, asked.tool_choice)
    model = check_model(asked.model, call.models)
    conversation = read_input(asked.input, asked.instructions)
    if asked.previous_response_id and any(message.role == "assistant" for message in conversation.history):
        raise invalid(
            "input: with previous_response_id the server has the conversation; send the new messages alone", "input"
        )
    wanted: object = None if asked.text is None else asked.text.get("format")
    if wanted is not None and not isinstance(wanted, dict):
        raise invalid("text.format: is an object with a type", "text.format")
    order = RunOrder(
        kind="response",
        conversation=conversation,
        document={
            "model": model,
            "previous_response_id": asked.previous_response_id,
            "instructions": asked.instructions,
            "metadata": asked.metadata or {},
            "background": bool(asked.background),
            "store": asked.store is not False,
        },
        streams=bool(asked.stream),
        answer_format=format_instructions(cast("dict[str, Any] | None", wanted), "text.format"),
        previous_response_id=asked.previous_response_id or "",
        **call.order_fields(),
    )
    run = await runs.accept(order)
    headers = {"X-Hermes-Session-Id": run.row.session_id, "X-Hermes-Run-Id": run.id}
    if asked.stream:
        return SseResponse(_events(run, call), lambda: runs.left(run), headers)
    if not asked.background:
        failed = call.failure(await runs.result(run, request.receive))
        if failed is not None:
            raise failed
    return JSONResponse(response_document(run, call), headers=headers)


async def get_response(request: Request, call: ApiCall, runs: ApiRuns) -> Response:
    """Answer ``GET /v1/responses/{id}``."""
    call.need("read")
    run = await runs.find(call.principal, request.path_params["id"], "response")
    return JSONResponse(response_document(run, call))


async def delete_response(request: Request, call: ApiCall, runs: ApiRuns) -> Response:
    """Answer ``DELETE /v1/responses/{id}``: a turn that runs is stopped."""
    call.need("cancel")
    run = await runs.find(call.principal, request.path_params["id"], "response")
    await runs.on_worker(lambda: runs.requests.delete(run.id))
    if not run.has_ended:
        await runs.stop(run, "the response was deleted")
    return JSONResponse({"id": run.id, "object": "response", "deleted": True})


async def cancel_response(request: Request, call: ApiCall, runs: ApiRuns) -> Response:
    """Answer ``POST /v1/responses/{id}/cancel``."""
    call.need("cancel")
    run = await runs.find(call.principal, request.path_params["id"], "response")
    if await runs.stop(run, "the client cancelled the response"):
        await run.wait()
    return JSONResponse(response_document(run, call))


def response_document(run: ApiRun, call: ApiCall) -> dict[str, Any]:
    """The response as it is now."""
    result, asked = run.result, run.row.document
    failed = call.failure(result)
    incomplete = None
    if result is not None and result.status == "incomplete":
        incomplete = {"reason": _REASONS.get(result.finish_reason, "content_filter")}
    return {
        "id": run.id,
        "object": "response",
        "created_at": int(run.row.created_at),
        "status": _STATUS.get(run.status, run.status),
        "error": None if failed is None else {"code": "server_error", "message": str(failed)},
        "incomplete_details": incomplete,
        "instructions": asked.get("instructions"),
        "metadata": asked.get("metadata") or {},
        "model": asked["model"],
        "output": [] if result is None or failed is not None else [_message(run, result.answer, "completed")],
        "parallel_tool_calls": True,
        "previous_response_id": asked.get("previous_response_id"),
        "store": asked.get("store", True),
        "tool_choice": "auto",
        "tools": [],
        "usage": None if result is None else usage_document(result.usage, "input", "output"),
    }


def _message(run: ApiRun, text: str, status: str) -> dict[str, Any]:
    content = [_part(text)] if text else []
    return {"id": f"msg_{run.id}", "type": "message", "role": "assistant", "status": status, "content": content}


def _part(text: str) -> dict[str, Any]:
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


async def _events(run: ApiRun, call: ApiCall) -> AsyncGenerator[bytes]:
    number = -1

    def event(kind: str, **fields: Any) -> bytes:
        nonlocal number
        number += 1
        return encode_event({"type": kind, "sequence_number": number, **fields}, event=kind)

    place = {"item_id": f"msg_{run.id}", "output_index": 0, "content_index": 0}
    begun: dict[str, Any] = {
        **response_document(run, call),
        "status": "in_progress",
        "output": [],
        "usage": None,
        "error": None,
    }
    yield event("response.created", response=begun)
    yield event("response.in_progress", response=begun)
    yield event("response.output_item.added", output_index=0, item=_message(run, "", "in_progress"))
    yield event("response.content_part.added", **place, part=_part(""))
    shown = ""
    try:
        async for piece in run.answer():
            if piece is None:
                yield PING
            elif isinstance(piece, str):
                shown += piece
                yield event("response.output_text.delta", **place, delta=piece, logprobs=[])
            else:  # clients that do not know it leave it out
                yield event(f"response.hermes.{piece.name}", **piece.data)
        result = await run.wait()
    except ServerStopped as stopped:
        yield event("error", code=stopped.code, message=str(stopped), param=None)
        return
    document = response_document(run, call)
    if call.failure(result) is not None:
        yield event("response.failed", response={**document, "status": "failed"})
        return
    yield event("response.output_text.done", **place, text=shown, logprobs=[])
    yield event("response.content_part.done", **place, part=_part(shown))
    yield event("response.output_item.done", output_index=0, item=_message(run, shown, "completed"))
    kind = "response.completed" if result.status == "completed" else "response.incomplete"
    yield event(kind, response={**document, "output": [_message(run, shown, "completed")]})
