"""What the output items of a response say, in the shape of a chat completion."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, cast

from hermes.models.usage import Usage
from hermes.models.wires.carry import Items, call_place, is_place, text_place

#: Of a reasoning item, what the server takes back.
_REASONING_FIELDS = ("type", "id", "summary", "content", "encrypted_content")


class Output:
    """The items of one response: the text, the reasoning and the calls in them, and what goes back of them."""

    def __init__(self, items: Iterable[object]) -> None:
        self.texts: list[str] = []
        self.refusals: list[str] = []
        self.reasoning: list[str] = []
        self.calls: list[dict[str, Any]] = []
        self._carried: Items = []
        self._phases = False
        for item in items:
            if isinstance(item, dict):
                self._add(cast("dict[str, Any]", item))

    def message(self) -> dict[str, Any]:
        """The assistant message."""
        return {
            "role": "assistant",
            "content": "".join(self.texts) or None,
            "reasoning": "\n\n".join(self.reasoning) or None,
            "refusal": "".join(self.refusals) or None,
            "tool_calls": self.calls or None,
        }

    def items(self) -> Items:
        """What the next request must have; nothing when a plain message says it all."""
        if not self._phases and all(map(is_place, self._carried)):
            return []
        if len(self.texts) == 1:  # no need to keep the text twice
            for item in self._carried:
                if item["type"] == "text":
                    del item["text"]
        return self._carried

    def _add(self, item: dict[str, Any]) -> None:
        kind = item.get("type")
        if kind == "message":
            self._add_message(item)
        elif kind == "function_call":
            self._add_call(item)
        elif kind == "reasoning":
            self._add_reasoning(item)
        elif kind:
            self._carried.append(item)

    def _add_message(self, item: dict[str, Any]) -> None:
        parts = _objects(item.get("content"))
        refusal = "".join(_text(part, "refusal") for part in parts if part.get("type") == "refusal")
        if refusal:
            self.refusals.append(refusal)
        text = "".join(_text(part, "text") for part in parts if part.get("type") != "refusal")
        if text:
            place = text_place(text)
            if item.get("phase"):
                place["phase"] = item["phase"]
                self._phases = True
            self.texts.append(text)
            self._carried.append(place)

    def _add_call(self, item: dict[str, Any]) -> None:
        call_id = _text(item, "call_id") or _text(item, "id")
        function = {"name": _text(item, "name"), "arguments": _text(item, "arguments")}
        self.calls.append({"id": call_id or None, "type": "function", "function": function})
        self._carried.append(call_place(call_id))

    def _add_reasoning(self, item: dict[str, Any]) -> None:
        parts = _objects(item.get("summary")) or _objects(item.get("content"))
        self.reasoning.extend(filter(None, (_text(part, "text") for part in parts)))
        if item.get("encrypted_content") or item.get("content"):  # else only the server's own memory would know it
            self._carried.append({name: item[name] for name in _REASONING_FIELDS if item.get(name) is not None})


def chat_usage(raw: object) -> dict[str, Any] | None:
    """The usage of a response in the shape of a chat completion's."""
    if not isinstance(raw, dict) or not raw:
        return None
    usage = cast("dict[str, Any]", raw)
    read = _count(usage, "input_tokens_details", "cached_tokens")
    written = _count(usage, "input_tokens_details", "cache_write_tokens")
    return Usage(
        input_tokens=max(_count(usage, "input_tokens") - read - written, 0),
        output_tokens=_count(usage, "output_tokens"),
        cache_read_tokens=read,
        cache_write_tokens=written,
        reasoning_tokens=_count(usage, "output_tokens_details", "reasoning_tokens"),
    ).as_response_usage()


def _count(fields: dict[str, Any], *path: str) -> int:
    value: Any = fields
    for name in path:
        value = cast("dict[str, Any]", value).get(name) if isinstance(value, dict) else None
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0


def _objects(value: object) -> list[dict[str, Any]]:
    return [part for part in cast("list[Any]", value) if isinstance(part, dict)] if isinstance(value, list) else []


def _text(fields: dict[str, Any], name: str) -> str:
    value = fields.get(name)
    return value if isinstance(value, str) else ""
