"""Anthropic messages: assembles one answer from the events of a stream, or from one document."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import msgspec

from hermes.base.errors import ProviderError
from hermes.models.costs.usage import response_usage
from hermes.models.endpoint import Endpoint
from hermes.models.failures import error_in_body, message
from hermes.models.reply import Completion, Reply, chat_completion, check_call_count, unfinished_reply
from hermes.models.wires.body_parser import Assembly, Unreadable, decode_json
from hermes.models.wires.provider_state import STATE_FIELD, Items, call_marker, provider_state, text_marker
from hermes.models.wires.wire import Delta, ReasoningDelta, TextDelta, ToolCallDelta


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


def kept_items(slots: Sequence[BlockSlot]) -> Items:
    """What the next request must have: the thoughts, and where they stood unless that was before all else.

    A thought without its signature would be refused. So would one that has moved.
    """
    told = [
        slot for slot in slots if _goes_back(slot) or slot.kind == "tool_use" or (slot.kind == "text" and slot.text)
    ]
    kept = [slot for slot in told if _goes_back(slot)]
    if told[: len(kept)] == kept:
        return [slot.whole() for slot in kept]
    return [_item(slot) for slot in told]


def _goes_back(slot: BlockSlot) -> bool:
    return (slot.kind == "thinking" and bool(slot.signature)) or slot.kind == "redacted_thinking"


def _item(slot: BlockSlot) -> dict[str, Any]:
    if slot.kind == "text":
        return text_marker(slot.text)
    return call_marker(slot.field("id")) if slot.kind == "tool_use" else slot.whole()


def _call(slot: BlockSlot) -> dict[str, Any]:
    function = {"name": slot.field("name"), "arguments": slot.arguments}
    return {"id": slot.field("id") or None, "type": "function", "function": function}


class EventDelta(msgspec.Struct):
    """The new part of a block, or of the message."""

    type: Any = None
    text: Any = None
    thinking: Any = None
    signature: Any = None
    partial_json: Any = None
    stop_reason: Any = None
    stop_details: Any = None


class AnthropicEvent(msgspec.Struct):
    """One event of the stream, reduced to the fields that are read."""

    type: str = ""
    index: int | str | None = None
    delta: EventDelta | None = None
    content_block: Any = None
    message: Any = None
    usage: Any = None
    error: Any = None


_EVENT = msgspec.json.Decoder(AnthropicEvent)
_FINISH_REASONS = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "pause_turn": "pause_turn",
    "tool_use": "tool_calls",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "content_filter",
}


class MessageAssembly(Assembly):
    """Adds event after event; gives the pieces out as deltas and the whole in the shape of a chat completion."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._message: dict[str, Any] = {}
        self._usage: dict[str, Any] = {}
        self._stop_reason = ""
        self._stop_details: Any = None
        self._slots: dict[object, BlockSlot] = {}
        self._calls = 0

    def event(self, payload: bytes, deltas: list[Delta]) -> None:
        """Take the data of one event. Pings and unknown kinds are ignored."""
        event = decode_json(payload, _EVENT)
        kind = event.type
        if kind == "content_block_delta":
            self._piece(event, deltas)
        elif kind == "content_block_start":
            self._begin(event.index, event.content_block, deltas)
        elif kind == "message_start":
            self._open(event.message)
        elif kind == "message_delta":
            self._settle(event)
        elif kind == "message_stop":
            self.over = True
        elif kind == "error" or event.error:
            raise error_in_body(self._endpoint, event.error)

    def document(self, fields: dict[str, Any]) -> Completion:
        """The answer that came as one document."""
        blocks: Any = fields.get("content")
        if not isinstance(blocks, list):
            raise Unreadable("no list of content blocks")
        self._open(fields)
        for index, block in enumerate(cast("list[object]", blocks)):
            self._begin(index, block, [])
        self._stop(fields.get("stop_reason"), fields.get("stop_details"))
        return self.response()

    def response(self) -> Completion:
        """The finished answer in the shape of a chat completion."""
        if not self.started:
            raise Unreadable("a stream without a message")
        slots = list(self._slots.values())
        said = blocks_message(slots)
        if self._stop_reason == "refusal" and not (said["content"] or said["tool_calls"]):
            raise self._refused()
        state = provider_state(self._endpoint, kept_items(slots))
        if state is not None:
            said[STATE_FIELD] = state
        finish_reason = _FINISH_REASONS.get(self._stop_reason) or ("tool_calls" if said["tool_calls"] else "stop")
        head = {name: self._message.get(name) for name in ("id", "model")}
        return chat_completion(head, said, finish_reason, self._chat_usage())

    def partial(self) -> Reply:
        """What there is of an answer that will not be finished."""
        said = blocks_message(list(self._slots.values()))
        finish_reason = _FINISH_REASONS.get(self._stop_reason, "stop") if self.complete else "incomplete"
        return unfinished_reply(self._message, said, finish_reason, self._chat_usage())

    # -- events -------------------------------------------------------------------------------------------------

    def _open(self, found: object) -> None:
        self.started = True
        if isinstance(found, dict):
            self._message = cast("dict[str, Any]", found)
            self._count(self._message.get("usage"))

    def _begin(self, index: object, block: object, deltas: list[Delta]) -> None:
        """Take a block as it begins; in a document, and from servers that send no pieces, it is whole."""
        if not isinstance(block, dict):
            return
        self.started = True
        slot = self._slots[index] = BlockSlot(cast("dict[str, Any]", block), self._calls)
        if slot.kind == "tool_use":
            self._calls += 1
            check_call_count(self._calls)
            deltas.append(ToolCallDelta(slot.position, slot.field("id"), slot.field("name"), ""))
        elif slot.kind == "text" and slot.field("text"):
            deltas.append(TextDelta(slot.field("text")))
        elif slot.kind == "thinking" and slot.field("thinking"):
            deltas.append(ReasoningDelta(slot.field("thinking")))

    def _piece(self, event: AnthropicEvent, deltas: list[Delta]) -> None:
        delta = event.delta
        if delta is None:
            return
        slot = self._slots.get(event.index)
        if slot is None:
            self.started = True
            slot = self._slots[event.index] = BlockSlot({"type": "text"}, self._calls)
        if delta.text and isinstance(delta.text, str):
            slot.pieces.append(delta.text)
            deltas.append(TextDelta(delta.text))
        elif delta.partial_json and isinstance(delta.partial_json, str):
            slot.pieces.append(delta.partial_json)
            deltas.append(ToolCallDelta(slot.position, "", "", delta.partial_json))
        elif delta.thinking and isinstance(delta.thinking, str):
            slot.pieces.append(delta.thinking)
            deltas.append(ReasoningDelta(delta.thinking))
        elif isinstance(delta.signature, str):
            slot.signature += delta.signature

    def _settle(self, event: AnthropicEvent) -> None:
        self.started = True
        self._count(event.usage)
        if event.delta is not None:
            self._stop(event.delta.stop_reason, event.delta.stop_details)

    def _stop(self, reason: object, details: object) -> None:
        if reason:
            self.complete, self._stop_reason, self._stop_details = True, str(reason), details

    def _count(self, usage: object) -> None:
        """The counts of an event are those of the whole message so far; one that is left out stays."""
        if isinstance(usage, dict):
            counts = cast("dict[str, Any]", usage)
            self._usage.update((name, count) for name, count in counts.items() if count is not None)

    def _chat_usage(self) -> dict[str, Any] | None:
        """The usage in the shape of a chat completion's. Its input never includes what the cache had."""
        return response_usage({"cache_read_input_tokens": 0, **self._usage}) if self._usage else None

    def _refused(self) -> ProviderError:
        details: Any = self._stop_details
        told: Any = cast("dict[str, Any]", details).get("explanation") if isinstance(details, dict) else None
        line = message(self._endpoint, "content_policy", str(told or "the model declined to answer"), None)
        return ProviderError(line, reason="content_policy")
