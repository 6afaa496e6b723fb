"""Anthropic messages: converts a chat conversation to ``system`` blocks and ``messages`` of content blocks."""

from __future__ import annotations

from typing import Any, cast

import msgspec

from hermes.models.endpoint import Endpoint
from hermes.models.wires.content_parts import Image, Part, Text, parts_of, plain_id, split_data_url
from hermes.models.wires.provider_state import restored

Block = dict[str, Any]

#: The server wants a user to speak first, and every message to say something.
_BEFORE_ALL = "[The conversation began earlier.]"
_NOTHING = "[no text]"


def system_and_messages(endpoint: Endpoint, messages: list[dict[str, Any]]) -> tuple[list[Block], list[Block]]:
    """The system messages as blocks, wherever they stood, and the others with user and assistant by turns."""
    system: list[Block] = []
    turns: list[Block] = []
    for message in messages:
        role = message.get("role")
        if role in ("system", "developer"):
            system.extend(_blocks(message.get("content")))
        elif role == "assistant":
            _add(turns, "assistant", restored(endpoint, message, said=_said, called=_use))
        elif role == "tool":
            _add(turns, "user", [_result(message)])
        else:
            _add(turns, "user", _blocks(message.get("content")) or [_text_block(_NOTHING)])
    _make_ids_unique(turns)
    if not turns or turns[0]["role"] != "user":
        turns.insert(0, {"role": "user", "content": [_text_block(_BEFORE_ALL)]})
    return system, turns


def _make_ids_unique(turns: list[Block]) -> None:
    """Give calls of their own id to those that repeat one: other servers number the calls of each answer anew."""
    taken: set[str] = set()
    current: dict[str, str] = {}
    for turn in turns:
        for block in turn["content"]:
            if block.get("type") == "tool_use":
                given = call_id = str(block["id"])
                number = 1
                while call_id in taken:
                    number += 1
                    call_id = f"{given}_{number}"
                taken.add(call_id)
                block["id"] = current[given] = call_id
            elif block.get("type") == "tool_result":
                block["tool_use_id"] = current.get(block["tool_use_id"], block["tool_use_id"])


def tool_definition(tool: dict[str, Any]) -> Block:
    """A tool definition in this format; one that is no function is the provider's own and stays as it is."""
    function: Any = tool.get("function")
    if tool.get("type") != "function" or not isinstance(function, dict):
        return dict(tool)
    fields = cast("dict[str, Any]", function)
    schema = cast("dict[str, Any]", fields.get("parameters") or {})
    made: Block = {
        "name": fields.get("name"),
        "input_schema": schema if "type" in schema else {"type": "object", "properties": {}, **schema},
    }
    if fields.get("description"):
        made["description"] = fields["description"]
    if fields.get("strict"):
        made["strict"] = True
    return made


def mark_for_cache(system: list[Block], tools: list[Block], messages: list[Block]) -> None:
    """Ask for everything up to here to be kept: tools, system, and the conversation at its last two stops.

    The server takes four marks. The last stop but one is where the request before this one ended.
    """
    users = [message["content"] for message in messages if message["role"] == "user"]
    for blocks in (tools, system, *users[-2:]):
        if blocks:
            blocks[-1]["cache_control"] = {"type": "ephemeral"}


def may_think(messages: list[Block]) -> bool:
    """Whether a model can be told to think: when it is in the middle of an answer, that must have begun with thoughts.

    It has not when another model began it, or this one before it was told to.
    """
    first: list[Block] = []
    for message in reversed(messages):
        if message["role"] == "assistant":
            first = message["content"]
        elif not any(block.get("type") == "tool_result" for block in message["content"]):
            break
    return not first or first[0].get("type") in ("thinking", "redacted_thinking")


def _add(turns: list[Block], role: str, blocks: list[Block]) -> None:
    if not blocks:
        return
    if turns and turns[-1]["role"] == role:
        turns[-1]["content"].extend(blocks)
    else:
        turns.append({"role": role, "content": blocks})


def _blocks(content: object) -> list[Block]:
    return [_block(part) for part in parts_of(content)]


def _block(part: Part) -> Block:
    if isinstance(part, Text):
        return _text_block(part.text)
    if not isinstance(part, Image):
        return dict(part.part)
    data = split_data_url(part.url)
    if data is None:
        return {"type": "image", "source": {"type": "url", "url": part.url}}
    return {"type": "image", "source": {"type": "base64", "media_type": data[0], "data": data[1]}}


def _text_block(text: str) -> Block:
    return {"type": "text", "text": text}


def _said(text: str, _phase: object) -> Block:
    return _text_block(text)


def _result(message: dict[str, Any]) -> Block:
    content = message.get("content")
    call_id = plain_id(str(message.get("tool_call_id") or ""))
    return {
        "type": "tool_result",
        "tool_use_id": call_id,
        "content": content if isinstance(content, str) else _blocks(content),
    }


def _use(call: dict[str, Any]) -> Block:
    function = cast("dict[str, Any]", call.get("function") or {})
    return {
        "type": "tool_use",
        "id": plain_id(str(call.get("id") or "")),
        "name": function.get("name"),
        "input": _object(str(function.get("arguments") or "")),
    }


def _object(arguments: str) -> dict[str, Any]:
    try:
        value = msgspec.json.decode(arguments)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return {}
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}
