"""The OpenAI-compatible wire: how a chat completion is asked for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast
from urllib.parse import urlencode

import msgspec

from hermes.errors import ProviderError
from hermes.providers.chat_parser import ChatParser
from hermes.providers.endpoint import Endpoint
from hermes.providers.failures import error_from_response, message
from hermes.providers.wire import HttpRequest
from hermes.version import __version__

#: Keyword arguments that steer an SDK and are no part of the body.
_NOT_IN_BODY = frozenset({"extra_body", "extra_headers", "extra_query", "timeout", "http_client"})


class ChatCompletions:
    """Builds requests for ``/chat/completions`` and hands out parsers for the answers. It keeps no state."""

    def kwargs(
        self,
        endpoint: Endpoint,
        messages: list[dict[str, Any]],
        tools: list[dict[str, Any]] | None = None,
        *,
        stream: bool = True,
        max_tokens: int | None = None,
        temperature: float | None = None,
    ) -> dict[str, Any]:
        """The request as the official SDK's keyword arguments."""
        kwargs: dict[str, Any] = {"model": endpoint.model, "messages": messages}
        if tools:  # some servers refuse an empty list
            kwargs["tools"] = tools
        if max_tokens is not None:
            kwargs["max_tokens"] = max_tokens
        if temperature is not None:
            kwargs["temperature"] = temperature
        if stream:
            kwargs["stream"] = True
            kwargs["stream_options"] = {"include_usage": True}
        if endpoint.extra_body:
            kwargs["extra_body"] = dict(endpoint.extra_body)
        return kwargs

    def http_request(self, endpoint: Endpoint, kwargs: Mapping[str, Any]) -> HttpRequest:
        """The request as it goes out."""
        body = {name: value for name, value in kwargs.items() if name not in _NOT_IN_BODY}
        body.update(kwargs.get("extra_body") or {})
        url = endpoint.url("/chat/completions")
        query = kwargs.get("extra_query")
        if query:
            url += ("&" if "?" in url else "?") + urlencode(query, doseq=True)
        headers = _headers(endpoint, kwargs.get("extra_headers") or {})
        return HttpRequest("POST", url, headers, _encode(endpoint, body))

    def parser(self, endpoint: Endpoint, *, streaming: bool) -> ChatParser:
        """A parser for one answer, which may come as a stream or as one document whatever was asked for."""
        return ChatParser(endpoint, streaming=streaming)

    def error_from(self, endpoint: Endpoint, status: int, headers: Mapping[str, str], body: bytes) -> ProviderError:
        """The typed error for an HTTP failure."""
        return error_from_response(endpoint, status, headers, body)


def _headers(endpoint: Endpoint, extra: Mapping[str, str]) -> list[tuple[str, str]]:
    """Request headers by name; later ones win, and ``None`` removes one."""
    headers: dict[str, str | None] = {
        "accept": "application/json, text/event-stream",
        "accept-encoding": "gzip, deflate",
        "content-type": "application/json",
        "user-agent": f"hermes/{__version__}",
    }
    if endpoint.api_key:
        headers["authorization"] = f"Bearer {endpoint.api_key}"
    for source in (endpoint.extra_headers, extra):
        headers.update((name.lower(), value) for name, value in source.items())
    return [(name, str(value)) for name, value in headers.items() if value is not None]


def _encode(endpoint: Endpoint, body: dict[str, Any]) -> bytes:
    try:
        return msgspec.json.encode(body)
    except UnicodeEncodeError:
        return msgspec.json.encode(_without_lone_surrogates(body))
    except (TypeError, ValueError, RecursionError, OverflowError) as error:
        detail = f"it cannot be written as JSON ({error})"
        raise ProviderError(message(endpoint, "bad_request", detail, None), reason="bad_request") from None


def _without_lone_surrogates(value: Any) -> Any:
    """Text from undecodable file names or pipes cannot be sent as UTF-8; the stray parts become ``?``."""
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, dict):
        fields = cast("dict[Any, Any]", value)
        return {_without_lone_surrogates(name): _without_lone_surrogates(item) for name, item in fields.items()}
    if isinstance(value, list | tuple):
        return [_without_lone_surrogates(item) for item in cast("list[Any]", value)]
    return value
