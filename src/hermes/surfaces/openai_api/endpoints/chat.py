"""``/v1/chat/completions``: a turn as one chat completion, or as its chunks while it runs."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from hermes.agent.events import TurnResult
from hermes.surfaces.openai_api.answers import finish_reason, usage_document
from hermes.surfaces.openai_api.call import ApiCall
from hermes.surfaces.openai_api.content import read_conversation
from hermes.surfaces.openai_api.documents import (
    ChatRequest,
    check_model,
    format_instructions,
    read_document,
    refuse_tools,
)
from hermes.surfaces.openai_api.errors import ServerStopped, invalid
from hermes.surfaces.openai_api.runs.acceptance import ApiRuns, RunOrder
from hermes.surfaces.openai_api.runs.run import ApiRun
from hermes.surfaces.openai_api.sse import DONE, PING, SseResponse, encode_event


async def create_completion(request: Request, call: ApiCall, runs: ApiRuns) -> Response:
    """Answer ``POST /v1/chat/completions``."""
    call.need("send")
    asked = read_document(call.body, ChatRequest)
    if asked.n is not None and asked.n != 1:
        raise invalid(f"n: found {asked.n}; a turn gives one answer, so only 1 is allowed", "n", "unsupported_value")
    refuse_tools(asked.tools, asked.tool_choice)
    refuse_tools(asked.functions, None, "functions")
    if asked.modalities not in (None, [], ["text"]):
        raise invalid("modalities: only text is supported", "modalities", "unsupported_value")
    streams = bool(asked.stream)
    if asked.stream_options is not None and not streams:
        raise invalid("stream_options: is only allowed with stream", "stream_options")
    model = check_model(asked.model, call.models)
    order = RunOrder(
        kind="chat",
        conversation=read_conversation(asked.messages, "messages"),
        document={"model": model},
        streams=streams,
        answer_format=format_instructions(asked.response_format, "response_format"),
        **call.order_fields(),
    )
    run = await runs.accept(order)
    headers = {"X-Hermes-Session-Id": run.row.session_id, "X-Hermes-Run-Id": run.id}
    if streams:
        include_usage = asked.stream_options is not None and bool(asked.stream_options.include_usage)
        chunks = _chunks(run, call, include_usage=include_usage)
        return SseResponse(chunks, lambda: runs.left(run), headers)
    result = await runs.result(run, request.receive)
    failed = call.failure(result)
    if failed is not None:
        raise failed
    return JSONResponse(_completion(run, result), headers=headers)


def _completion(run: ApiRun, result: TurnResult) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": result.answer, "refusal": None}
    choice = {"index": 0, "message": message, "finish_reason": finish_reason(result), "logprobs": None}
    return {
        "id": run.id,
        "object": "chat.completion",
        "created": int(run.row.created_at),
        "model": run.row.document["model"],
        "choices": [choice],
        "usage": usage_document(result.usage),
    }


async def _chunks(run: ApiRun, call: ApiCall, *, include_usage: bool) -> AsyncGenerator[bytes]:
    head: dict[str, Any] = {
        "id": run.id,
        "object": "chat.completion.chunk",
        "created": int(run.row.created_at),
        "model": run.row.document["model"],
    }

    def chunk(delta: dict[str, Any], reason: str | None = None, **more: Any) -> dict[str, Any]:
        choice = {"index": 0, "delta": delta, "finish_reason": reason, "logprobs": None}
        return {**head, "choices": [choice], **({"usage": None} if include_usage else {}), **more}

    yield encode_event(chunk({"role": "assistant", "content": ""}))
    try:
        async for piece in run.answer():
            if piece is None:
                yield PING
            elif isinstance(piece, str):
                yield encode_event(chunk({"content": piece}))
            else:  # clients that do not know it read an empty chunk
                name = f"hermes.{piece.name}"
                yield encode_event({**chunk({}), "hermes": {"event": name, **piece.data}}, event=name)
        result = await run.wait()
    except ServerStopped as stopped:
        yield encode_event(stopped.document())
        yield DONE
        return
    failed = call.failure(result)
    if failed is not None:
        yield encode_event(failed.document())
    else:
        yield encode_event(chunk({}, finish_reason(result)))
        if include_usage:
            yield encode_event({**head, "choices": [], "usage": usage_document(result.usage)})
    yield DONE
