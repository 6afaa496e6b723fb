"""``/v1/chat/completions``: a turn as one chat completion, or as its chunks while it runs."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from hermes.agent.events import TurnResult
from hermes.surfaces.openai_api.answers import chat_usage, failure, finish_reason, missing_text
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
from hermes.surfaces.openai_api.runs.run import ApiRun, RunEvent, joined
from hermes.surfaces.openai_api.sse import DONE, PING, SseResponse, encode_event, unless_gone

#: Names of the additional events, which clients that do not know them read as empty chunks.
_PROGRESS = {
    "tool_started": "hermes.tool.started",
    "tool_ended": "hermes.tool.completed",
    "question": "hermes.approval.request",
    "answered": "hermes.approval.answered",
}


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
    result = await _result(request, run, runs)
    failed = failure(result, shows_words=call.principal.is_owner)
    if failed is not None:
        raise failed
    return JSONResponse(_completion(run, result), headers=headers)


async def _result(request: Request, run: ApiRun, runs: ApiRuns) -> TurnResult:
    try:
        return await unless_gone(run.wait(), request.receive)
    finally:
        if not run.has_ended:
            await runs.left(run)


def _completion(run: ApiRun, result: TurnResult) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": result.answer, "refusal": None}
    choice = {"index": 0, "message": message, "finish_reason": finish_reason(result), "logprobs": None}
    return {
        "id": run.id,
        "object": "chat.completion",
        "created": int(run.row.created_at),
        "model": run.row.document["model"],
        "choices": [choice],
        "usage": chat_usage(result.usage),
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
    shown = ""
    try:
        async for _, batch in run.events():
            if not batch:
                yield PING
            for text, progress in joined(batch, _PROGRESS):
                if text:
                    shown += text
                    yield encode_event(chunk({"content": text}))
                if progress is not None:
                    yield _progress(progress, chunk({}))
        result = await run.wait()
    except ServerStopped as stopped:
        yield encode_event(stopped.document())
        yield DONE
        return
    failed = failure(result, shows_words=call.principal.is_owner)
    if failed is not None:
        yield encode_event(failed.document())
    else:
        rest = missing_text(shown, result.answer)
        if rest:
            yield encode_event(chunk({"content": rest}))
        yield encode_event(chunk({}, finish_reason(result)))
        if include_usage:
            yield encode_event({**head, "choices": [], "usage": chat_usage(result.usage)})
    yield DONE


def _progress(event: RunEvent, empty: dict[str, Any]) -> bytes:
    name = _PROGRESS[event.kind]
    return encode_event({**empty, "hermes": {"event": name, **(event.data or {})}}, event=name)
