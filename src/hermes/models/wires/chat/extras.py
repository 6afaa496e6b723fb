"""Provider state on the chat wire: reasoning details and tool call signatures that some servers want back."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import repeat
from operator import contains
from typing import Any, cast

import msgspec

from hermes.models.endpoint import Endpoint
from hermes.models.wires.provider_state import STATE_FIELD, Items, state_items, state_reasoning

_TEXTS = ("text", "summary", "data")


class ChatExtras(msgspec.Struct):
    """Collects reasoning blocks (OpenRouter's) and marks on the text and on tool calls (Gemini's signatures)."""

    _details: list[dict[str, Any]] = []
    _marks: dict[str, Any] = {}
    _text_mark: dict[str, Any] = {}

    def add_details(self, found: object) -> None:
        """Take blocks, or pieces of them: a piece that continues the last block is joined to it."""
        for item in cast("list[object]", found) if isinstance(found, list) else ():
            if not isinstance(item, dict):
                continue
            piece = cast("dict[str, Any]", item)
            last = self._details[-1] if self._details else {}
            if last and (last.get("type"), last.get("index")) == (piece.get("type"), piece.get("index")):
                _join(last, piece)
            else:
                self._details.append(dict(piece))

    def add_mark(self, call_id: str, mark: object) -> None:
        """Take what came with a tool call."""
        if call_id and isinstance(mark, dict) and mark:
            self._marks[call_id] = mark

    def add_text_mark(self, mark: object) -> None:
        """Take what came with the text of the answer."""
        if isinstance(mark, dict) and mark:
            self._text_mark = cast("dict[str, Any]", mark)

    def items(self) -> Items:
        """Everything as provider state."""
        of_message = {"reasoning_details": self._details, "extra_content": self._text_mark}
        present = {name: value for name, value in of_message.items() if value}
        items: Items = [{"type": "message", **present}] if present else []
        return items + [{"type": "tool_call", "id": key, "extra_content": mark} for key, mark in self._marks.items()]


def give_back(endpoint: Endpoint, messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The messages with what this server wants back, and without what is for others.

    The same list when no message has provider state.
    """
    quirks = endpoint.quirks
    if quirks.echo_reasoning:
        return [_with_reasoning(endpoint, message) for message in messages]
    if not any(map(contains, messages, repeat(STATE_FIELD))):
        return messages
    return [_restored(endpoint, message) if STATE_FIELD in message else message for message in messages]


def _with_reasoning(endpoint: Endpoint, message: dict[str, Any]) -> dict[str, Any]:
    """A message with the reasoning that led to it, whichever model wrote it: a server that wants it wants all of it."""
    if message.get("role") != "assistant":
        return message
    restored = _restored(endpoint, message) if STATE_FIELD in message else message
    if "reasoning_content" in restored:
        return restored
    reasoning = state_reasoning(message)
    # Where the model did not think, the one server that insists on the field takes an empty text.
    if reasoning or (endpoint.quirks.echo_empty_reasoning and restored.get("tool_calls")):
        return {**restored, "reasoning_content": reasoning}
    return restored


def _restored(endpoint: Endpoint, message: Mapping[str, Any]) -> dict[str, Any]:
    restored = {name: value for name, value in message.items() if name != STATE_FIELD}
    marks: dict[str, Any] = {}
    for item in state_items(endpoint, message):
        if item.get("type") == "tool_call":
            marks[item["id"]] = item["extra_content"]
        else:
            restored.update((name, value) for name, value in item.items() if name != "type")
    if marks and restored.get("tool_calls"):
        calls = cast("list[dict[str, Any]]", restored["tool_calls"])
        restored["tool_calls"] = [
            {**call, "extra_content": marks[call["id"]]} if call.get("id") in marks else call for call in calls
        ]
    return restored


def _join(last: dict[str, Any], piece: dict[str, Any]) -> None:
    for name, value in piece.items():
        if name in _TEXTS and isinstance(value, str) and isinstance(last.get(name), str):
            last[name] += value
        elif value is not None:
            last[name] = value
