"""Scripted replies as the Responses format has them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from hermes.models.costs.usage import usage_from
from hermes.testing.scripted.replies import DEFAULT_USAGE, ScriptedCall, ScriptedReply, call_id, in_pieces, named_event

_INCOMPLETE = {"length": "max_output_tokens", "content_filter": "content_filter"}


def response_document(reply: ScriptedReply, number: int, model: str) -> bytes:
    """The reply as one response document."""
    return msgspec.json.encode(_response(reply, number, model, _status(reply), _items(reply, number)))


def response_events(reply: ScriptedReply, number: int, model: str, _body: dict[str, Any]) -> list[bytes]:
    """The reply as server-sent events, one per piece."""
    begun = _response(reply, number, model, "in_progress", [])
    events: list[dict[str, Any]] = [{"type": "response.created", "response": {**begun, "usage": None}}]
    for index, item in enumerate(_items(reply, number)):
        events += [{**event, "output_index": index} for event in _item_events(item, reply)]
    status = _status(reply)
    done = _response(reply, number, model, status, _items(reply, number))
    events.append({"type": f"response.{status}", "response": done})
    return [named_event({**event, "sequence_number": at}) for at, event in enumerate(events)]


def _response(
    reply: ScriptedReply, number: int, model: str, status: str, items: list[dict[str, Any]]
) -> dict[str, Any]:
    options = reply.options
    unfinished = _INCOMPLETE.get(options.get("finish_reason", ""))
    return {
        "id": options.get("id", f"resp_{number}"),
        "object": "response",
        "created_at": 0,
        "model": options.get("model", model),
        "status": status,
        "error": None,
        "incomplete_details": {"reason": unfinished} if unfinished and status == "incomplete" else None,
        "output": items,
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "usage": _usage(reply),
    }


def _status(reply: ScriptedReply) -> str:
    return "incomplete" if reply.options.get("finish_reason") in _INCOMPLETE else "completed"


def _usage(reply: ScriptedReply) -> dict[str, Any] | None:
    usage = usage_from(reply.options.get("usage", DEFAULT_USAGE))
    if usage is None:
        return None
    return {
        "input_tokens": usage.prompt_tokens,
        "input_tokens_details": {
            "cached_tokens": usage.cache_read_tokens,
            "cache_write_tokens": usage.cache_write_tokens,
        },
        "output_tokens": usage.output_tokens,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
        "total_tokens": usage.total_tokens,
    }


def _items(reply: ScriptedReply, number: int) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = []
    if reply.thoughts:
        summary = [{"type": "summary_text", "text": reply.thoughts}]
        items.append(
            {"id": f"rs_{number}", "type": "reasoning", "summary": summary, "encrypted_content": f"encrypted-{number}"}
        )
    if reply.content or not (reply.calls or reply.thoughts):
        items.append(_message(number, reply.content or ""))
    return items + [_function_call(call, at, number) for at, call in enumerate(reply.calls)]


def _message(number: int, text: str) -> dict[str, Any]:
    part: dict[str, Any] = {"type": "output_text", "text": text, "annotations": []}
    return {"id": f"msg_{number}", "type": "message", "role": "assistant", "status": "completed", "content": [part]}


def _function_call(call: ScriptedCall, at: int, number: int) -> dict[str, Any]:
    return {
        "id": f"fc_{number}_{at}",
        "type": "function_call",
        "status": "completed",
        "call_id": call_id(call, at, number),
        "name": call.name,
        "arguments": call.argument_text,
    }


def _item_events(item: dict[str, Any], reply: ScriptedReply) -> Iterator[dict[str, Any]]:
    chunks = reply.options.get("chunks")
    empty: dict[str, Any]
    place: dict[str, Any] = {}
    if item["type"] == "message":
        empty, place = {"content": [], "status": "in_progress"}, {"content_index": 0, "logprobs": []}
        name, pieces = "response.output_text.delta", in_pieces(item["content"][0]["text"], chunks)
    elif item["type"] == "function_call":
        empty = {"arguments": "", "status": "in_progress"}
        name = "response.function_call_arguments.delta"
        pieces = in_pieces(item["arguments"], chunks if isinstance(chunks, int) else 2)
    else:
        empty, place = {"summary": []}, {"summary_index": 0}
        name, pieces = "response.reasoning_summary_text.delta", in_pieces(item["summary"][0]["text"], None)
    yield {"type": "response.output_item.added", "item": {**item, **empty}}
    for piece in pieces:
        yield {"type": name, "item_id": item["id"], "delta": piece, **place}
    yield {"type": "response.output_item.done", "item": item}
