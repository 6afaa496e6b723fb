"""One chat completion put together from the chunks of a stream."""

from __future__ import annotations

from typing import Any, cast

import msgspec

from hermes.contract.response import Record, chat_response
from hermes.providers.reply import Reply, ToolRequest, text_of
from hermes.providers.thinking import ThinkSplitter
from hermes.providers.usage import usage_from
from hermes.providers.wire import Delta, ReasoningDelta, TextDelta, ToolCallDelta


class ChunkDelta(msgspec.Struct):
    """The new part of an answer. Values are taken as they come: servers differ in what they send for "nothing"."""

    content: Any = None
    reasoning: Any = None
    reasoning_content: Any = None
    refusal: Any = None
    tool_calls: Any = None


class ChunkChoice(msgspec.Struct):
    """The answer a delta belongs to."""

    delta: ChunkDelta | None = None
    message: ChunkDelta | None = None
    finish_reason: Any = None
    index: Any = 0
    usage: Any = None


class Chunk(msgspec.Struct):
    """One event of the stream, reduced to the fields that are read."""

    choices: list[ChunkChoice] | None = None
    usage: Any = None
    error: Any = None
    x_groq: Any = None


class _CallSlot:
    """A tool call in the making."""

    __slots__ = ("arguments", "id", "name")

    def __init__(self) -> None:
        self.id = ""
        self.name = ""
        self.arguments: list[str] = []


class ChatAssembly:
    """Adds chunk after chunk; gives the pieces out as deltas and the whole as a response."""

    def __init__(self) -> None:
        self.finish_reason: str | None = None
        self.started = False
        self.has_choice = False
        self._envelope: dict[str, Any] = {}
        self._content: list[str] = []
        self._reasoning: list[str] = []
        self._refusal: list[str] = []
        self._calls: list[_CallSlot] = []
        self._by_index: dict[int, int] = {}
        self._usage: dict[str, Any] | None = None
        self._think = ThinkSplitter()

    def start(self, first: dict[str, Any]) -> None:
        """Take the first event as it came: its id, model and the like are those of the whole answer."""
        self.started = True
        self._envelope = {name: value for name, value in first.items() if name not in ("choices", "usage")}

    def add(self, chunk: Chunk, deltas: list[Delta]) -> None:
        """Take one event of the stream."""
        if chunk.usage:
            self._usage = chunk.usage
        if not chunk.choices or chunk.choices[0].index:
            return  # one answer was asked for; a second choice is nobody's
        choice = chunk.choices[0]
        self.has_choice = True
        delta = choice.delta or choice.message
        if delta is not None:
            self._add_delta(delta, deltas)
        if choice.finish_reason:
            self.finish_reason = str(choice.finish_reason)
            self.flush(deltas)
            self._usage = self._usage or _misplaced_usage(chunk, choice)

    def flush(self, deltas: list[Delta]) -> None:
        """Give out text that was held back in case a tag followed."""
        for kind, text in self._think.finish():
            self._text(kind == "reasoning", text, deltas)

    def response(self) -> Record:
        """The finished answer in the shape of a chat completion that was not streamed."""
        self.flush([])
        calls = [_call_message(slot) for slot in self._calls]
        message: dict[str, Any] = {
            "role": "assistant",
            "content": "".join(self._content) or None,
            "reasoning": "".join(self._reasoning) or None,
            "refusal": "".join(self._refusal) or None,
            "tool_calls": calls or None,
        }
        finish_reason = self.finish_reason or ("tool_calls" if calls else "stop")
        choice = {"index": 0, "message": message, "finish_reason": finish_reason}
        return chat_response({**self._envelope, "object": "chat.completion", "choices": [choice], "usage": self._usage})

    def partial(self) -> Reply:
        """What there is of an answer that will not be finished."""
        self.flush([])
        calls = [
            ToolRequest(slot.id or f"call_{position}", slot.name, "".join(slot.arguments))
            for position, slot in enumerate(self._calls)
            if slot.name
        ]
        return Reply(
            content="".join(self._content) or "".join(self._refusal),
            reasoning="".join(self._reasoning),
            tool_calls=calls,
            finish_reason=self.finish_reason or "incomplete",
            model=str(self._envelope.get("model") or ""),
            usage=usage_from(self._usage),
            response_id=str(self._envelope.get("id") or ""),
        )

    def _add_delta(self, delta: ChunkDelta, deltas: list[Delta]) -> None:
        thoughts = delta.reasoning or delta.reasoning_content
        if thoughts and isinstance(thoughts, str):
            self._text(True, thoughts, deltas)
        if delta.content:
            text = delta.content if isinstance(delta.content, str) else text_of(delta.content)
            if self._think.passive:
                self._text(False, text, deltas)
            else:
                for kind, piece in self._think.feed(text):
                    self._text(kind == "reasoning", piece, deltas)
        if delta.refusal and isinstance(delta.refusal, str):
            self._refusal.append(delta.refusal)
            deltas.append(TextDelta(delta.refusal))
        if isinstance(delta.tool_calls, list):
            for piece in cast("list[Any]", delta.tool_calls):
                if isinstance(piece, dict):
                    self._add_call(cast("dict[str, Any]", piece), deltas)

    def _text(self, is_reasoning: bool, text: str, deltas: list[Delta]) -> None:
        if is_reasoning:
            self._reasoning.append(text)
            deltas.append(ReasoningDelta(text))
        elif text:
            self._content.append(text)
            deltas.append(TextDelta(text))

    def _add_call(self, piece: dict[str, Any], deltas: list[Delta]) -> None:
        function: Any = piece.get("function")
        fields = cast("dict[str, Any]", function) if isinstance(function, dict) else {}
        call_id, name = _string(piece.get("id")), _string(fields.get("name"))
        position = self._position(piece.get("index"), call_id, name)
        slot = self._calls[position]
        slot.id = slot.id or call_id
        if name and name != slot.name:
            slot.name += name
        arguments = fields.get("arguments")
        if arguments is None:
            text = ""
        else:
            text = arguments if isinstance(arguments, str) else msgspec.json.encode(arguments).decode()
        if text:
            slot.arguments.append(text)
        deltas.append(ToolCallDelta(position, call_id, name, text))

    def _position(self, index: object, call_id: str, name: str) -> int:
        """Which call a piece belongs to: by its index, else by its id, else the last one."""
        known: int | None = None
        if isinstance(index, int) and not isinstance(index, bool):
            known = self._by_index.get(index)
        elif call_id:
            known = next((at for at, slot in enumerate(self._calls) if slot.id == call_id), None)
        elif self._calls and not (name and self._calls[-1].name):
            known = len(self._calls) - 1
        # Some servers number every call 0: a name with an id of its own is then a new call.
        if known is not None and not (call_id and name and self._calls[known].id not in ("", call_id)):
            return known
        self._calls.append(_CallSlot())
        if isinstance(index, int):
            self._by_index[index] = len(self._calls) - 1
        return len(self._calls) - 1


def _call_message(slot: _CallSlot) -> dict[str, Any]:
    function = {"name": slot.name, "arguments": "".join(slot.arguments)}
    return {"id": slot.id or None, "type": "function", "function": function}


def _misplaced_usage(chunk: Chunk, choice: ChunkChoice) -> dict[str, Any] | None:
    """Usage from the two places where some servers put it instead of the top."""
    usage: Any = choice.usage
    if not usage and isinstance(chunk.x_groq, dict):
        usage = cast("dict[str, Any]", chunk.x_groq).get("usage")
    return cast("dict[str, Any]", usage) if isinstance(usage, dict) else None


def _string(value: object) -> str:
    return value if isinstance(value, str) else ""
