"""The OpenAI Responses wire: how a response is asked for."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from hermes.errors import ProviderError
from hermes.models.endpoint import Endpoint
from hermes.models.failures import error_from_response
from hermes.models.wires.body_parser import BodyParser
from hermes.models.wires.request_bytes import bearer, post
from hermes.models.wires.responses.input import function_tool, instructions_and_input, text_format
from hermes.models.wires.responses.stream import ResponseAssembly
from hermes.models.wires.wire import HttpRequest, ModelRequest

#: The server refuses a smaller limit.
_LEAST_TOKENS = 16
#: Models that do not reason: they refuse to be asked for encrypted reasoning, the others refuse a temperature.
_PLAIN_MODEL = re.compile(r"(^|/)(gpt-3|gpt-4|chatgpt-4)")
_REASONING_MODEL = re.compile(r"(^|/)(o\d|gpt-[5-9]|codex)")


class Responses:
    """Builds requests for ``/responses`` and hands out parsers for the answers. It keeps no state.

    Nothing is stored at the provider: the conversation goes out whole, with the reasoning in it encrypted.
    """

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
        if request.max_tokens is not None and quirks.max_tokens_field:
            kwargs["max_output_tokens"] = max(request.max_tokens, _LEAST_TOKENS)
        if request.temperature is not None and quirks.temperature and not _REASONING_MODEL.search(endpoint.model):
            kwargs["temperature"] = request.temperature
        if request.reasoning_effort and quirks.reasoning:
            kwargs["reasoning"] = {"effort": request.reasoning_effort}
        if request.response_format is not None:
            kwargs["text"] = text_format(request.response_format)
        if request.stream:
            kwargs["stream"] = True
        if endpoint.extra_body:
            kwargs["extra_body"] = dict(endpoint.extra_body)
        return kwargs

    def http_request(self, endpoint: Endpoint, kwargs: Mapping[str, Any]) -> HttpRequest:
        """The request as it goes out."""
        return post(endpoint, endpoint.url("/responses"), kwargs, bearer(endpoint))

    def parser(self, endpoint: Endpoint, *, streaming: bool, tools: bool = False) -> BodyParser:
        """A parser for one answer, which may come as a stream or as one document whatever was asked for."""
        return BodyParser(endpoint, ResponseAssembly(endpoint), streaming=streaming)

    def error_from(self, endpoint: Endpoint, status: int, headers: Mapping[str, str], body: bytes) -> ProviderError:
        """The typed error for an HTTP failure."""
        return error_from_response(endpoint, status, headers, body)
