"""The request formats a scripted provider speaks: where each is spoken, and how it says a reply."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, cast

import msgspec

from hermes.testing.scripted.anthropic import message_document, message_events
from hermes.testing.scripted.replies import ScriptedReply, completion, events
from hermes.testing.scripted.responses import response_document, response_events


class Format(NamedTuple):
    """One request format: writes a reply as a document, or as the pieces of a stream."""

    document: Callable[[ScriptedReply, int, str], bytes]
    stream: Callable[[ScriptedReply, int, str, dict[str, Any]], list[bytes]]


def _chat_stream(reply: ScriptedReply, number: int, model: str, body: dict[str, Any]) -> list[bytes]:
    options: dict[str, Any] = body.get("stream_options") or {}
    return events(reply, number, model, include_usage=bool(options.get("include_usage")))


#: By the path of the operation.
FORMATS = {
    "/v1/chat/completions": Format(completion, _chat_stream),
    "/v1/responses": Format(response_document, response_events),
    "/v1/messages": Format(message_document, message_events),
}


def chat_messages(path: str, body: dict[str, Any]) -> list[dict[str, Any]]:
    """The conversation of a request in the chat format, whatever format it came in."""
    if path.endswith("/responses"):
        return _from_input(body.get("instructions"), body.get("input"))
    if path.endswith("/messages"):
        return _from_blocks(body.get("system"), body.get("messages"))
    return body.get("messages", [])


def _from_input(instructions: object, items: object) -> list[dict[str, Any]]:
    messages: list[dict[str, Any]] = [{"role": "system", "content": instructions}] if instructions else []
    if isinstance(items, str):
        return [*messages, {"role": "user", "content": items}]
    for item in cast("list[dict[str, Any]]", items or []):
        kind = item.get("type", "message")
        if kind == "function_call":
            call = {"id": item["call_id"], "type": "function"}
            call["function"] = {"name": item["name"], "arguments": item["arguments"]}
            _answer(messages).setdefault("tool_calls", []).append(call)
        elif kind == "function_call_output":
            messages.append({"role": "tool", "tool_call_id": item["call_id"], "content": item["output"]})
        elif kind == "message" and item["role"] == "assistant":
            answer = _answer(messages)
            answer["content"] = (answer.get("content") or "") + _joined_text(item["content"])
        elif kind == "message":
            messages.append({"role": item["role"], "content": _parts(item["content"])})
    return messages


def _from_blocks(system: object, turns: object) -> list[dict[str, Any]]:
    messages: list[dict[str, Any]] = [{"role": "system", "content": _joined_text(system)}] if system else []
    for turn in cast("list[dict[str, Any]]", turns or []):
        content: Any = turn["content"]
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        if turn["role"] == "assistant":
            answer: dict[str, Any] = {"role": "assistant", "content": _joined_text(blocks) or None}
            calls = [_tool_use(block) for block in blocks if block["type"] == "tool_use"]
            messages.append({**answer, "tool_calls": calls} if calls else answer)
            continue
        results = [block for block in blocks if block["type"] == "tool_result"]
        messages += [
            {"role": "tool", "tool_call_id": result["tool_use_id"], "content": _joined_text(result["content"])}
            for result in results
        ]
        said = [block for block in blocks if block["type"] != "tool_result"]
        if said:
            messages.append({"role": "user", "content": _parts(said)})
    return messages


def _tool_use(block: dict[str, Any]) -> dict[str, Any]:
    function = {"name": block["name"], "arguments": msgspec.json.encode(block["input"]).decode()}
    return {"id": block["id"], "type": "function", "function": function}


def _answer(messages: list[dict[str, Any]]) -> dict[str, Any]:
    """The assistant message that is being collected; a new one after a message of another role."""
    if not messages or messages[-1]["role"] != "assistant":
        messages.append({"role": "assistant", "content": None})
    return messages[-1]


def _parts(content: Any) -> Any:
    """Content as the chat format has it: text where there is nothing but text."""
    if isinstance(content, str) or any(part.get("text") is None for part in content):
        return content
    return _joined_text(content)


def _joined_text(content: Any) -> str:
    if isinstance(content, str):
        return content
    return "".join(part.get("text") or "" for part in content)
