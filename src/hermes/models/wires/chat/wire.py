"""The chat completions wire of OpenAI and compatible servers, with the corrections that some of them need."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, cast

from hermes.models.endpoint import Endpoint, Quirks
from hermes.models.reply import text_of
from hermes.models.wires.body_parser import BodyParser
from hermes.models.wires.chat.extras import give_back
from hermes.models.wires.chat.stream import ChatAssembly
from hermes.models.wires.wire import ModelRequest, PostingWire


def merged_system(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The messages with one system message, at the front: the same list when they have no other."""
    system = [message for message in messages if message.get("role") in ("system", "developer")]
    if not system or (len(system) == 1 and messages[0] is system[0]):
        return messages
    text = "\n\n".join(filter(None, (text_of(message.get("content")) for message in system)))
    rest = [message for message in messages if message.get("role") not in ("system", "developer")]
    return [{"role": "system", "content": text}, *rest]


def merged_users(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The messages with user messages in a row as one: the same list when there are none."""
    roles = [message.get("role") for message in messages]
    if ("user", "user") not in pairwise(roles):
        return messages
    merged: list[dict[str, Any]] = []
    for message in messages:
        if merged and message.get("role") == "user" == merged[-1].get("role"):
            merged[-1] = {**merged[-1], "content": _joined(merged[-1].get("content"), message.get("content"))}
        else:
            merged.append(message)
    return merged


def _parts(content: Any) -> list[Any]:
    return cast("list[Any]", content) if isinstance(content, list) else [{"type": "text", "text": content or ""}]


def _joined(first: Any, second: Any) -> Any:
    if isinstance(first, str) and isinstance(second, str):
        return f"{first}\n\n{second}"
    return [*_parts(first), *_parts(second)]


def with_short_ids(message: dict[str, Any], length: int) -> dict[str, Any]:
    """The message with tool call ids of exactly so many letters and digits, each made from the one it replaces."""
    if message.get("role") == "tool":
        return {**message, "tool_call_id": short_id(str(message.get("tool_call_id") or ""), length)}
    if message.get("tool_calls"):
        calls = [{**call, "id": short_id(str(call.get("id") or ""), length)} for call in message["tool_calls"]]
        return {**message, "tool_calls": calls}
    return message


def short_id(call_id: str, length: int) -> str:
    """The id itself when it will do, else one that is always made from it in the same way."""
    if len(call_id) == length and call_id.isascii() and call_id.isalnum():
        return call_id
    import hashlib

    return hashlib.sha256(call_id.encode("utf-8", "replace")).hexdigest()[:length]


class ChatCompletions(PostingWire):
    """Builds requests for ``/chat/completions`` and hands out parsers for the answers. It keeps no state."""

    operation = "/chat/completions"

    def kwargs(self, endpoint: Endpoint, request: ModelRequest) -> dict[str, Any]:
        """The request as the official SDK's keyword arguments."""
        quirks = endpoint.quirks
        kwargs: dict[str, Any] = {"model": endpoint.model, "messages": _messages(endpoint, request.messages)}
        if request.tools:  # some servers refuse an empty list
            kwargs["tools"] = request.tools
            if not quirks.parallel_tools:
                kwargs["parallel_tool_calls"] = False
        if request.max_tokens is not None and quirks.max_tokens_field:
            kwargs[quirks.max_tokens_field] = request.max_tokens
        if request.temperature is not None and quirks.temperature:
            kwargs["temperature"] = request.temperature
        if request.response_format is not None:
            kwargs["response_format"] = request.response_format
        if request.cache_key and quirks.prompt_cache_key:
            kwargs["prompt_cache_key"] = request.cache_key
        if request.stream:
            kwargs["stream"] = True
            if quirks.stream_options:
                kwargs["stream_options"] = {"include_usage": True}
        extra = dict(endpoint.extra_body)
        if request.reasoning_effort:
            _ask_for_reasoning(quirks, request.reasoning_effort, kwargs, extra)
        if extra:
            kwargs["extra_body"] = extra
        return kwargs

    def parser(self, endpoint: Endpoint, *, streaming: bool, tools: bool = False) -> BodyParser:
        """A parser for one answer, which may come as a stream or as one document whatever was asked for.

        With ``tools``, calls that the model wrote into its text are found there.
        """
        return BodyParser(endpoint, ChatAssembly(endpoint, tools=tools), streaming=streaming)


def _ask_for_reasoning(quirks: Quirks, effort: str, kwargs: dict[str, Any], extra: dict[str, Any]) -> None:
    if quirks.reasoning == "effort":
        kwargs["reasoning_effort"] = effort
    elif quirks.reasoning == "object":
        extra["reasoning"] = {**extra.get("reasoning", {}), "effort": effort}
    elif quirks.reasoning == "enabled":
        extra["reasoning"] = {"enabled": effort != "none"}


def _messages(endpoint: Endpoint, messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The messages as this server takes them: the same list when it takes them as they are."""
    messages = give_back(endpoint, messages)
    quirks = endpoint.quirks
    if quirks.merge_system:
        messages = merged_system(messages)
    if quirks.merge_user:
        messages = merged_users(messages)
    if quirks.tool_id_length:
        messages = [with_short_ids(message, quirks.tool_id_length) for message in messages]
    return messages
