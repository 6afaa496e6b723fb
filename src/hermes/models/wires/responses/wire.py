"""The OpenAI Responses wire: converts a chat conversation to ``instructions`` and ``input`` items."""

from __future__ import annotations

import re
from typing import Any, cast

from hermes.models.endpoint import Endpoint
from hermes.models.reply import text_of
from hermes.models.wires.body_parser import BodyParser
from hermes.models.wires.content_parts import Image, Text, parts_of, plain_id
from hermes.models.wires.provider_state import restored
from hermes.models.wires.responses.stream import ResponseAssembly
from hermes.models.wires.wire import ModelRequest, PostingWire

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
        return restored(endpoint, message, said=_said, called=_called)
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


def _said(text: str, phase: object) -> Item:
    said: Item = {"type": "message", "role": "assistant", "content": text}
    return {**said, "phase": phase} if phase else said


def _called(call: dict[str, Any]) -> Item:
    function = cast("dict[str, Any]", call.get("function") or {})
    return {
        "type": "function_call",
        "call_id": plain_id(str(call.get("id") or "")),
        "name": function.get("name"),
        "arguments": function.get("arguments") or "{}",
    }


#: The server refuses a smaller limit.
_LEAST_TOKENS = 16
#: Models that do not reason: they refuse to be asked for encrypted reasoning, the others refuse a temperature.
_PLAIN_MODEL = re.compile(r"(^|/)(gpt-3|gpt-4|chatgpt-4)")
_REASONING_MODEL = re.compile(r"(^|/)(o\d|gpt-[5-9]|codex)")


def _how_to_answer(endpoint: Endpoint, request: ModelRequest) -> dict[str, Any]:
    """The length, temperature and reasoning that are asked for, as far as the model takes them."""
    quirks = endpoint.quirks
    kwargs: dict[str, Any] = {}
    if request.max_tokens is not None and quirks.max_tokens_field:
        kwargs["max_output_tokens"] = max(request.max_tokens, _LEAST_TOKENS)
    if request.temperature is not None and quirks.temperature and not _REASONING_MODEL.search(endpoint.model):
        kwargs["temperature"] = request.temperature
    reasoning = {"effort": request.reasoning_effort} if request.reasoning_effort and quirks.reasoning else {}
    if quirks.reasoning_summary and not _PLAIN_MODEL.search(endpoint.model):
        reasoning["summary"] = "auto"
    return {**kwargs, "reasoning": reasoning} if reasoning else kwargs


class Responses(PostingWire):
    """Builds requests for ``/responses`` and hands out parsers for the answers. It keeps no state.

    Nothing is stored at the provider: the conversation goes out whole, with the reasoning in it encrypted.
    """

    operation = "/responses"

    def kwargs(self, endpoint: Endpoint, request: ModelRequest) -> dict[str, Any]:
        """The request as the official SDK's keyword arguments."""
        quirks = endpoint.quirks
        instructions, items = instructions_and_input(endpoint, request.messages)
        kwargs: dict[str, Any] = {"model": endpoint.model, "input": items, "store": False}
        if instructions:
            kwargs["instructions"] = instructions
        if not _PLAIN_MODEL.search(endpoint.model):
            kwargs["include"] = ["reasoning.encrypted_content"]
        if request.tools:
            kwargs["tools"] = [function_tool(tool) for tool in request.tools]
            if not quirks.parallel_tools:
                kwargs["parallel_tool_calls"] = False
        kwargs |= _how_to_answer(endpoint, request)
        if request.cache_key and quirks.prompt_cache_key:
            kwargs["prompt_cache_key"] = request.cache_key
        if request.response_format is not None:
            kwargs["text"] = text_format(request.response_format)
        if request.stream:
            kwargs["stream"] = True
        if endpoint.extra_body:
            kwargs["extra_body"] = dict(endpoint.extra_body)
        return kwargs

    def parser(self, endpoint: Endpoint, *, streaming: bool, tools: bool = False) -> BodyParser:
        """A parser for one answer, which may come as a stream or as one document whatever was asked for."""
        return BodyParser(endpoint, ResponseAssembly(endpoint), streaming=streaming)
