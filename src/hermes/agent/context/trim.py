"""Very long texts of a conversation made shorter where they stand, with a note of how much is missing."""

from __future__ import annotations

from typing import Any, cast

import msgspec

from hermes.agent.context.tokens import estimate
from hermes.journal.turns import Message

#: The longest text that is left alone, tried one after another until all of them together fit.
_LENGTHS = tuple(64_000 >> halvings for halvings in range(9))


def trim(messages: list[Message], tokens: int, *, everything: bool) -> list[Message]:
    """The messages with their longest texts cut until they fit, or as short as they get.

    Only what tools returned is cut, unless ``everything`` may be: then also what was said, and arguments of calls.
    """
    trimmed = messages
    for length in _LENGTHS:
        if estimate(trimmed) <= tokens:
            break
        trimmed = [_trim_message(message, length, everything) for message in messages]
    return trimmed


def cut(text: str, length: int) -> str:
    """The text itself, or its beginning and end."""
    if len(text) <= length:
        return text
    head = length * 2 // 3
    tail = length - head
    return f"{text[:head]}\n[{len(text) - length} characters left out to make room]\n{text[len(text) - tail :]}"


def _trim_message(message: Message, length: int, everything: bool) -> Message:
    if message["role"] != "tool" and not everything:
        return message
    trimmed = {**message, "content": _trim_content(message.get("content"), length)}
    if message.get("tool_calls"):
        trimmed["tool_calls"] = [_trim_call(call, length) for call in message["tool_calls"]]
    return trimmed


def _trim_content(content: Any, length: int) -> Any:
    if isinstance(content, str):
        return cut(content, length)
    if isinstance(content, list):
        parts = cast("list[dict[str, Any]]", content)
        return [{**part, "text": cut(part["text"], length)} if part.get("text") else part for part in parts]
    return content


def _trim_call(call: dict[str, Any], length: int) -> dict[str, Any]:
    """A call whose arguments are still the JSON object that servers want."""
    function: dict[str, Any] = call["function"]
    if len(function["arguments"]) <= length:
        return call
    args: dict[str, Any] = msgspec.json.decode(function["arguments"])
    shorter = {name: cut(value, length) if isinstance(value, str) else value for name, value in args.items()}
    return {**call, "function": {**function, "arguments": msgspec.json.encode(shorter).decode()}}
