"""Tool calls of a streamed answer: assembled from deltas, or found in the text as ``<tool_call>`` blocks."""

from __future__ import annotations

from typing import Any, NamedTuple, cast

import msgspec

from hermes.models.reply import check_call_count
from hermes.models.wires.chat.thinking import tag_overlap
from hermes.models.wires.wire import ToolCallDelta

_OPEN = "<tool_call>"
_CLOSE = "</tool_call>"


class TextCall(NamedTuple):
    """One call found in the text. ``arguments`` is a JSON object as text."""

    name: str
    arguments: str


class _Written(msgspec.Struct):
    name: str
    arguments: dict[str, Any] | str | None = None


_DECODER = msgspec.json.Decoder(_Written)


class ToolCallSplitter(msgspec.Struct):
    """Sorts streamed text into text and calls, also when a block arrives in pieces.

    Servers whose model has such a chat template, but which do not parse it, return the block as it was written.
    One without a valid call stays text: answers do talk about the format. Blanks around a call are dropped.
    """

    _held: str = ""
    _in_block: bool = False
    #: Text has been given out since the beginning or the last call.
    _visible: bool = False
    #: Blanks at the beginning, which are text only if text follows.
    _blank: str = ""
    #: Whether any call was found.
    found: bool = False

    def feed(self, text: str) -> list[str | TextCall]:
        """Take the next text; returns what is certain by now."""
        if self._visible and "<" not in text and not self._held and not self._in_block:
            return [text]
        found: list[str | TextCall] = []
        held, self._held = self._held + text, ""
        while held:
            held = self._block(held, found) if self._in_block else self._text(held, found)
        return found

    def finish(self) -> list[str | TextCall]:
        """What was held back. A last block may lack its end: some servers stop at it and leave it out."""
        found: list[str | TextCall] = []
        held, self._held = self._held, ""
        if self._in_block:
            self._in_block = False
            self._settle(held, "", found)
        else:
            self._emit(held, found)
        if self._blank:
            found.append(self._blank)
        self._blank = ""
        return found

    def _text(self, held: str, found: list[str | TextCall]) -> str:
        """Give out text up to the next block; returns what follows its opening tag."""
        before, tag, rest = held.partition(_OPEN)
        if tag:
            self._emit(before, found)
            self._in_block = True
            return rest
        certain = len(held) - tag_overlap(held, _OPEN)
        self._held = held[certain:]
        self._emit(held[:certain], found)
        return ""

    def _block(self, held: str, found: list[str | TextCall]) -> str:
        """Give out a block that is whole; returns what follows it."""
        inner, tag, rest = held.partition(_CLOSE)
        if not tag:
            self._held = held
            return ""
        self._in_block = False
        self._settle(inner, tag, found)
        return rest

    def _settle(self, inner: str, tag: str, found: list[str | TextCall]) -> None:
        call = _call(inner)
        if call is None:
            self._emit(_OPEN + inner + tag, found)
            return
        self.found, self._visible, self._blank = True, False, ""
        found.append(call)

    def _emit(self, text: str, found: list[str | TextCall]) -> None:
        if not self._visible:
            text = text.lstrip() if self.found else self._blank + text
            self._visible = bool(text) and not text.isspace()
            self._blank = "" if self._visible or self.found else text
        if text and self._visible:
            found.append(text)


def _call(inner: str) -> TextCall | None:
    try:
        written = _DECODER.decode(inner.strip())
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None
    arguments = written.arguments
    if not isinstance(arguments, str):
        arguments = msgspec.json.encode(arguments or {}).decode()
    return TextCall(written.name, arguments) if written.name else None


class CallSlot(msgspec.Struct):
    """A tool call in the making."""

    id: str = ""
    name: str = ""
    arguments: list[str] = []
    #: What the server wants back with the call.
    mark: object = None


class CallSlots(msgspec.Struct):
    """The tool calls of one answer, in their order."""

    slots: list[CallSlot] = []
    _by_index: dict[int, int] = {}

    def add(self, piece: dict[str, Any]) -> ToolCallDelta:
        """Take a piece of a call."""
        function: Any = piece.get("function")
        fields = cast("dict[str, Any]", function) if isinstance(function, dict) else {}
        call_id, name = _string(piece.get("id")), _string(fields.get("name"))
        position = self._position(piece.get("index"), call_id, name)
        slot = self.slots[position]
        slot.id = slot.id or call_id
        slot.mark = slot.mark or piece.get("extra_content")
        if name and name != slot.name:
            slot.name += name
        arguments = fields.get("arguments")
        if arguments is None:
            text = ""
        else:
            text = arguments if isinstance(arguments, str) else msgspec.json.encode(arguments).decode()
        if text:
            slot.arguments.append(text)
        return ToolCallDelta(position, call_id, name, text)

    def add_written(self, call: TextCall) -> ToolCallDelta:
        """Take a call that stood in the text."""
        position = self._append(CallSlot(name=call.name, arguments=[call.arguments]))
        return ToolCallDelta(position, "", call.name, call.arguments)

    def messages(self) -> list[dict[str, Any]]:
        """The calls as they stand in a message."""
        return [
            {
                "id": slot.id or None,
                "type": "function",
                "function": {"name": slot.name, "arguments": _once("".join(slot.arguments))},
            }
            for slot in self.slots
        ]

    def _position(self, index: object, call_id: str, name: str) -> int:
        """Which call a piece belongs to: by its index, else by its id, else the last one."""
        known: int | None = None
        if isinstance(index, int) and not isinstance(index, bool):
            known = self._by_index.get(index)
        elif call_id:
            known = next((at for at, slot in enumerate(self.slots) if slot.id == call_id), None)
        elif self.slots and not (name and self.slots[-1].name):
            known = len(self.slots) - 1
        # Some servers number every call 0: a name with an id of its own is then a new call.
        if known is not None and not (call_id and name and self.slots[known].id not in ("", call_id)):
            return known
        position = self._append(CallSlot())
        if isinstance(index, int):
            self._by_index[index] = position
        return position

    def _append(self, slot: CallSlot) -> int:
        self.slots.append(slot)
        check_call_count(len(self.slots))
        return len(self.slots) - 1


def _once(text: str) -> str:
    """Arguments that a server sent in pieces and then again as a whole, once."""
    half = len(text) // 2
    if not text.startswith("{") or len(text) % 2 or text[:half] != text[half:]:
        return text
    try:
        msgspec.json.decode(text[:half])
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return text
    return text[:half]


def _string(value: object) -> str:
    return value if isinstance(value, str) else ""
