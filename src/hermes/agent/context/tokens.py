"""Token estimates, for when no server has counted them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from hermes.models.wires.provider_state import STATE_FIELD

#: Text of most languages has about four bytes to a token.
BYTES_PER_TOKEN = 4
#: What a message takes beside its text: its role, its separators.
_PER_MESSAGE = 4
#: What an image takes; servers scale larger ones down to about this.
_PER_IMAGE = 1_500


def estimate(messages: Iterable[dict[str, Any]]) -> int:
    """The tokens of some messages."""
    return sum(map(message_tokens, messages))


def message_tokens(message: dict[str, Any]) -> int:
    """The tokens of one message: its text, its images, the calls it makes, the reasoning that goes back with it."""
    content: Any = message.get("content")
    tokens = _PER_MESSAGE
    if isinstance(content, str):
        tokens += text_tokens(content)
    elif content:
        tokens += sum(map(_part_tokens, content))
    for call in message.get("tool_calls") or ():
        function: dict[str, Any] = call.get("function") or {}
        tokens += _PER_MESSAGE + text_tokens(function.get("name") or "") + text_tokens(function.get("arguments") or "")
    state: dict[str, Any] = message.get(STATE_FIELD) or {}
    return tokens + _json_tokens(state["items"]) if state.get("items") else tokens


def tools_tokens(tools: list[dict[str, Any]]) -> int:
    """The tokens of tool definitions."""
    return _json_tokens(tools)


def _json_tokens(value: object) -> int:
    return len(msgspec.json.encode(value)) // BYTES_PER_TOKEN if value else 0


def text_tokens(text: str) -> int:
    """The tokens of a text. Characters outside ASCII take several bytes, and about as many more tokens."""
    length = len(text) if text.isascii() else len(text.encode("utf-8", "replace"))
    return length // BYTES_PER_TOKEN + 1 if length else 0


def _part_tokens(part: Any) -> int:
    if not isinstance(part, dict):
        return text_tokens(str(part))
    text: Any = part.get("text")  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]
    return text_tokens(text) if isinstance(text, str) else _PER_IMAGE
