"""Scripted replies as the Anthropic format has them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import msgspec

from hermes.models.costs.usage import usage_from
from hermes.testing.scripted.replies import DEFAULT_USAGE, ScriptedReply, call_id, in_pieces, named_event

_STOP_REASONS = {"stop": "end_turn", "tool_calls": "tool_use", "length": "max_tokens", "content_filter": "refusal"}


def message_document(reply: ScriptedReply, number: int, model: str) -> bytes:
    """The reply as one message document."""
    blocks = [{**block, **_whole(block, text)} for block, text in _blocks(reply, number)]
    message = {**_message(reply, number, model), "content": blocks, "stop_reason": _stop_reason(reply)}
    return msgspec.json.encode({**message, "usage": _usage(reply)})


def message_events(reply: ScriptedReply, number: int, model: str, _body: dict[str, Any]) -> list[bytes]:
    """The reply as server-sent events, one per piece, with a ping among them."""
    usage = _usage(reply)
    begun = {**_message(reply, number, model), "usage": {**usage, "output_tokens": min(usage["output_tokens"], 1)}}
    events: list[dict[str, Any]] = [{"type": "message_start", "message": begun}, {"type": "ping"}]
    for index, (block, text) in enumerate(_blocks(reply, number)):
        events.append({"type": "content_block_start", "index": index, "content_block": block})
        deltas = _deltas(block, text, reply)
        events += [{"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas]
        events.append({"type": "content_block_stop", "index": index})
    stop = {"stop_reason": _stop_reason(reply), "stop_sequence": None}
    events.append({"type": "message_delta", "delta": stop, "usage": {"output_tokens": usage["output_tokens"]}})
    events.append({"type": "message_stop"})
    return list(map(named_event, events))


def _message(reply: ScriptedReply, number: int, model: str) -> dict[str, Any]:
    return {
        "id": reply.options.get("id", f"msg_{number}"),
        "type": "message",
        "role": "assistant",
        "model": reply.options.get("model", model),
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
    }


def _stop_reason(reply: ScriptedReply) -> str:
    given = reply.options.get("finish_reason", "tool_calls" if reply.calls else "stop")
    return _STOP_REASONS.get(given, given)


def _usage(reply: ScriptedReply) -> dict[str, Any]:
    """The counts, which this format always has."""
    usage = usage_from(reply.options.get("usage", DEFAULT_USAGE) or {"input_tokens": 0, "output_tokens": 0})
    assert usage is not None
    return {
        "input_tokens": usage.input_tokens,
        "cache_creation_input_tokens": usage.cache_write_tokens,
        "cache_read_input_tokens": usage.cache_read_tokens,
        "output_tokens": usage.output_tokens,
        "output_tokens_details": {"thinking_tokens": usage.reasoning_tokens},
    }


def _blocks(reply: ScriptedReply, number: int) -> Iterator[tuple[dict[str, Any], str]]:
    """Each block as it begins, and what it says."""
    if reply.thoughts:
        yield {"type": "thinking", "thinking": "", "signature": ""}, reply.thoughts
    if reply.content:
        yield {"type": "text", "text": ""}, reply.content
    for at, call in enumerate(reply.calls):
        identity = {"id": call_id(call, at, number), "name": call.name}
        yield {"type": "tool_use", **identity, "input": {}}, call.argument_text


def _whole(block: dict[str, Any], text: str) -> dict[str, Any]:
    if block["type"] == "thinking":
        return {"thinking": text, "signature": _signature(text)}
    if block["type"] == "text":
        return {"text": text}
    with contextlib.suppress(msgspec.DecodeError):
        return {"input": msgspec.json.decode(text)}
    return {"input": text}  # a model that writes no JSON: this format has no way to say so


def _deltas(block: dict[str, Any], text: str, reply: ScriptedReply) -> Iterator[dict[str, Any]]:
    chunks = reply.options.get("chunks")
    if block["type"] == "thinking":
        yield from ({"type": "thinking_delta", "thinking": piece} for piece in in_pieces(text, None))
        yield {"type": "signature_delta", "signature": _signature(text)}
    elif block["type"] == "text":
        yield from ({"type": "text_delta", "text": piece} for piece in in_pieces(text, chunks))
    else:
        pieces = in_pieces(text, chunks if isinstance(chunks, int) else 2)
        yield from ({"type": "input_json_delta", "partial_json": piece} for piece in pieces)


def _signature(text: str) -> str:
    return f"signed-{len(text)}"
