"""Tool calls put together from the pieces of a stream, whatever a server leaves out of them."""

from __future__ import annotations

from typing import Any, cast

import msgspec

from hermes.models.reply import ToolRequest
from hermes.models.wires.tool_call_text import TextCall
from hermes.models.wires.wire import ToolCallDelta


class CallSlot:
    """A tool call in the making."""

    __slots__ = ("arguments", "id", "mark", "name")

    def __init__(self) -> None:
        self.id = ""
        self.name = ""
        self.arguments: list[str] = []
        #: What the server wants back with the call.
        self.mark: object = None


class CallSlots:
    """The tool calls of one answer, in their order."""

    __slots__ = ("_by_index", "slots")

    def __init__(self) -> None:
        self.slots: list[CallSlot] = []
        self._by_index: dict[int, int] = {}

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
        slot = CallSlot()
        slot.name, slot.arguments = call.name, [call.arguments]
        self.slots.append(slot)
        return ToolCallDelta(len(self.slots) - 1, "", call.name, call.arguments)

    def messages(self) -> list[dict[str, Any]]:
        """The calls as they stand in a message."""
        return [
            {
                "id": slot.id or None,
                "type": "function",
                "function": {"name": slot.name, "arguments": "".join(slot.arguments)},
            }
            for slot in self.slots
        ]

    def requests(self) -> list[ToolRequest]:
        """Those that have a name by now."""
        return [
            ToolRequest(slot.id or f"call_{position}", slot.name, "".join(slot.arguments))
            for position, slot in enumerate(self.slots)
            if slot.name
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
        self.slots.append(CallSlot())
        if isinstance(index, int):
            self._by_index[index] = len(self.slots) - 1
        return len(self.slots) - 1


def _string(value: object) -> str:
    return value if isinstance(value, str) else ""
