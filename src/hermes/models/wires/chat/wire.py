"""The OpenAI-compatible wire: how a chat completion is asked for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hermes.errors import ProviderError
from hermes.models.endpoint import Endpoint
from hermes.models.failures import error_from_response
from hermes.models.quirks import Quirks
from hermes.models.wires.chat.extras import give_back
from hermes.models.wires.chat.parser import ChatParser
from hermes.models.wires.request_bytes import bearer, post
from hermes.models.wires.wire import HttpRequest, ModelRequest


class ChatCompletions:
    """Builds requests for ``/chat/completions`` and hands out parsers for the answers. It keeps no state."""

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

    def http_request(self, endpoint: Endpoint, kwargs: Mapping[str, Any]) -> HttpRequest:
        """The request as it goes out."""
        return post(endpoint, endpoint.url("/chat/completions"), kwargs, bearer(endpoint))

    def parser(self, endpoint: Endpoint, *, streaming: bool, tools: bool = False) -> ChatParser:
        """A parser for one answer, which may come as a stream or as one document whatever was asked for."""
        return ChatParser(endpoint, streaming=streaming, tools=tools)

    def error_from(self, endpoint: Endpoint, status: int, headers: Mapping[str, str], body: bytes) -> ProviderError:
        """The typed error for an HTTP failure."""
        return error_from_response(endpoint, status, headers, body)


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
    if quirks.merge_system or quirks.tool_id_length:
        from hermes.models.wires.chat.quirks import merged_system, short_ids

        if quirks.merge_system:
            messages = merged_system(messages)
        if quirks.tool_id_length:
            messages = short_ids(messages, quirks.tool_id_length)
    return messages
