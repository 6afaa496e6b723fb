"""The Responses wire: a conversation as ``instructions`` and ``input`` items."""

from __future__ import annotations

from typing import Any, cast

from hermes.models.endpoint import Endpoint
from hermes.models.reply import text_of
from hermes.models.wires.carry import carried, is_place, places_fit
from hermes.models.wires.content_parts import Image, Text, parts_of, plain_id

Item = dict[str, Any]


def instructions_and_input(endpoint: Endpoint, messages: list[dict[str, Any]]) -> tuple[str, list[Item]]:
    """The system messages at the front as one text, and everything after them as items."""
    front = 0
    while front < len(messages) and messages[front].get("role") in ("system", "developer"):
        front += 1
    texts = [text_of(message.get("content")) for message in messages[:front]]
    items = [item for message in messages[front:] for item in _items(endpoint, message)]
    return "\n\n".join(filter(None, texts)), items


def function_tool(tool: dict[str, Any]) -> dict[str, Any]:
    """A tool definition in this format; one that is no function is the provider's own and stays as it is."""
    function: Any = tool.get("function")
    if tool.get("type") != "function" or not isinstance(function, dict):
        return tool
    fields = cast("dict[str, Any]", function)
    made: dict[str, Any] = {
        "type": "function",
        "name": fields.get("name"),
        "parameters": fields.get("parameters") or {"type": "object", "properties": {}},
        # Left out, it would mean that every property is required.
        "strict": bool(fields.get("strict")),
    }
    if fields.get("description"):
        made["description"] = fields["description"]
    return made


def text_format(response_format: dict[str, Any]) -> dict[str, Any]:
    """The ``text`` argument for a ``response_format`` of the chat format."""
    schema: Any = response_format.get("json_schema")
    if not isinstance(schema, dict):
        return {"format": response_format}
    fields = cast("dict[str, Any]", schema)
    wanted: dict[str, Any] = {"type": "json_schema", "name": "answer", "schema": {}}
    wanted.update({name: value for name, value in fields.items() if value is not None})
    return {"format": wanted}


def _items(endpoint: Endpoint, message: dict[str, Any]) -> list[Item]:
    role, content = message.get("role"), message.get("content")
    if role == "tool":
        call_id = plain_id(str(message.get("tool_call_id") or ""))
        return [{"type": "function_call_output", "call_id": call_id, "output": _output(content)}]
    if role == "assistant":
        return _answer(endpoint, message)
    sender = "developer" if role == "system" else str(role)
    return [{"type": "message", "role": sender, "content": _content(content)}]


def _content(content: object) -> str | list[Item]:
    if isinstance(content, str):
        return content
    return [_input_part(part) for part in parts_of(content)] or ""


def _output(content: object) -> str | list[Item]:
    """A tool's result; text alone goes as text."""
    parts = [] if isinstance(content, str) else list(parts_of(content))
    if any(not isinstance(part, Text) for part in parts):
        return [_input_part(part) for part in parts]
    return text_of(content)


def _input_part(part: Any) -> Item:
    if isinstance(part, Text):
        return {"type": "input_text", "text": part.text}
    if isinstance(part, Image):
        return {"type": "input_image", "image_url": part.url, "detail": part.detail}
    return part.part


def _answer(endpoint: Endpoint, message: dict[str, Any]) -> list[Item]:
    """An assistant message as the items it came as, with the reasoning before what it led to."""
    text = text_of(message.get("content"))
    calls = [_called(call) for call in message.get("tool_calls") or ()]
    items = carried(endpoint, message)
    if not places_fit(items, text, [str(call.get("id") or "") for call in message.get("tool_calls") or ()]):
        kept = [item for item in items if not is_place(item)]
        return [*kept, *([_said(text)] if text.strip() else ()), *calls]
    made: list[Item] = []
    in_turn = iter(calls)
    for item in items:
        if item.get("type") == "text":
            made.append(_said(item.get("text", text), item.get("phase")))
        else:
            made.append(next(in_turn) if is_place(item) else item)
    return made


def _said(text: str, phase: object = None) -> Item:
    said: Item = {"type": "message", "role": "assistant", "content": text}
    if phase:
        said["phase"] = phase
    return said


def _called(call: dict[str, Any]) -> Item:
    function = cast("dict[str, Any]", call.get("function") or {})
    return {
        "type": "function_call",
        "call_id": plain_id(str(call.get("id") or "")),
        "name": function.get("name"),
        "arguments": function.get("arguments") or "{}",
    }
