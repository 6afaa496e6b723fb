"""The content blocks of an Anthropic message: what they say, and what goes back of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import msgspec

from hermes.models.usage import Usage
from hermes.models.wires.carry import Items, call_place, text_place


class BlockSlot:
    """A content block in the making."""

    __slots__ = ("block", "kind", "pieces", "position", "signature")

    def __init__(self, block: dict[str, Any], position: int) -> None:
        self.block = block
        self.kind = str(block.get("type") or "")
        #: Which of the tool calls it is, if it is one.
        self.position = position
        #: What came after the beginning: text, thoughts, or the input of a tool as JSON.
        self.pieces: list[str] = []
        self.signature = self.field("signature")

    def field(self, name: str) -> str:
        """A text of the block as it began."""
        value = self.block.get(name)
        return value if isinstance(value, str) else ""

    @property
    def text(self) -> str:
        """All that it says."""
        return self.field("thinking" if self.kind == "thinking" else "text") + "".join(self.pieces)

    @property
    def is_empty(self) -> bool:
        """Whether it is a text without words."""
        return self.kind == "text" and not self.text

    @property
    def arguments(self) -> str:
        """The input of a tool as JSON text."""
        return "".join(self.pieces) or msgspec.json.encode(self.block.get("input") or {}).decode()

    def whole(self) -> dict[str, Any]:
        """The block as the server must get it back."""
        if self.kind == "thinking":
            return {"type": "thinking", "thinking": self.text, "signature": self.signature}
        return self.block


def blocks_message(slots: Sequence[BlockSlot]) -> dict[str, Any]:
    """The assistant message that some blocks make."""
    return {
        "role": "assistant",
        "content": "".join(slot.text for slot in slots if slot.kind == "text") or None,
        "reasoning": "\n\n".join(filter(None, (slot.text for slot in slots if slot.kind == "thinking"))) or None,
        "tool_calls": [_call(slot) for slot in slots if slot.kind == "tool_use"] or None,
    }


def carried_items(slots: Sequence[BlockSlot]) -> Items:
    """What the next request must have: the thoughts, and where they stood unless that was before all else.

    A thought without its signature would be refused. So would one that has moved.
    """
    told = [
        slot for slot in slots if _goes_back(slot) or slot.kind == "tool_use" or (slot.kind == "text" and slot.text)
    ]
    kept = [slot for slot in told if _goes_back(slot)]
    if told[: len(kept)] == kept:
        return [slot.whole() for slot in kept]
    return [_place(slot) for slot in told]


def chat_usage(usage: dict[str, Any]) -> dict[str, Any] | None:
    """The usage of a message in the shape of a chat completion's."""
    if not usage:
        return None
    details: Any = usage.get("output_tokens_details")
    return Usage(
        input_tokens=_count(usage, "input_tokens"),
        output_tokens=_count(usage, "output_tokens"),
        cache_read_tokens=_count(usage, "cache_read_input_tokens"),
        cache_write_tokens=_count(usage, "cache_creation_input_tokens"),
        reasoning_tokens=_count(cast("dict[str, Any]", details), "thinking_tokens") if isinstance(details, dict) else 0,
    ).as_response_usage()


def _goes_back(slot: BlockSlot) -> bool:
    return (slot.kind == "thinking" and bool(slot.signature)) or slot.kind == "redacted_thinking"


def _place(slot: BlockSlot) -> dict[str, Any]:
    if slot.kind == "text":
        return text_place(slot.text)
    return call_place(slot.field("id")) if slot.kind == "tool_use" else slot.whole()


def _call(slot: BlockSlot) -> dict[str, Any]:
    function = {"name": slot.field("name"), "arguments": slot.arguments}
    return {"id": slot.field("id") or None, "type": "function", "function": function}


def _count(fields: dict[str, Any], name: str) -> int:
    value = fields.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0
