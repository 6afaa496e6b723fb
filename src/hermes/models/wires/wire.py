"""The wire protocol: a request builder and an incremental response parser, neither of which does any I/O."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Protocol
from urllib.parse import urlencode

import msgspec

from hermes.base.errors import ProviderError
from hermes.base.sanitize.surrogates import encodable
from hermes.base.scope import Interrupt
from hermes.base.version import __version__
from hermes.contract.events import ReasoningDelta, TextDelta
from hermes.models.endpoint import Endpoint
from hermes.models.failures import message
from hermes.models.reply import Completion, Reply


class ModelRequest(msgspec.Struct, frozen=True):
    """One question to a model, the same for every wire. Messages, tools and the response format are chat-shaped."""

    messages: list[dict[str, Any]]
    tools: list[dict[str, Any]] | None = None
    stream: bool = True
    max_tokens: int | None = None
    temperature: float | None = None
    #: As the provider names it, such as ``low``; empty leaves it to the model.
    reasoning_effort: str = ""
    #: ``{"type": "json_object"}`` or ``{"type": "json_schema", ...}``; ``None`` asks for plain text.
    response_format: dict[str, Any] | None = None
    #: What the requests of one conversation have in common, for providers that route them to one prompt cache by it.
    cache_key: str = ""


class HttpRequest(msgspec.Struct, frozen=True):
    """One HTTP request, ready to be sent by any driver. Header values may hold the key: never log them."""

    method: str
    url: str
    headers: list[tuple[str, str]]
    body: bytes


class ToolCallDelta(msgspec.Struct, frozen=True, gc=False):
    """A piece of the tool call at ``index``: its id and name once, its arguments bit by bit."""

    index: int
    id: str
    name: str
    arguments: str


Delta = TextDelta | ReasoningDelta | ToolCallDelta


class Parser(Protocol):
    """Turns the bytes of one response body into deltas and, at the end, a response."""

    @property
    def done(self) -> bool:
        """True when the answer is complete although the body may continue."""
        ...

    def feed(self, data: bytes) -> Sequence[Delta]:
        """Take the next bytes, cut anywhere. Raises ``ProviderError`` when the server reports a failure."""
        ...

    def finish(self) -> Completion:
        """The whole response once the body has ended.

        Raises ``IncompleteReply`` when the body broke off and ``ProviderError`` when it cannot be read.
        """
        ...

    def partial(self) -> Reply:
        """What has arrived so far, for the journal."""
        ...


class Wire(Protocol):
    """One request format. ``kwargs`` are the keyword arguments the provider's own SDK would take."""

    def kwargs(self, endpoint: Endpoint, request: ModelRequest) -> dict[str, Any]:
        """The request as plain data that middleware may rewrite.

        Nothing in ``request`` is changed; messages and tools are passed by reference where the wire takes the chat
        format as it is.
        """
        ...

    def http_request(self, endpoint: Endpoint, kwargs: Mapping[str, Any]) -> HttpRequest:
        """The bytes to send for ``kwargs``: ``extra_body`` and ``extra_headers`` merged, ``timeout`` left out."""
        ...

    def parser(self, endpoint: Endpoint, *, streaming: bool, tools: bool = False) -> Parser:
        """A fresh parser for one response. ``tools`` says whether any were offered."""
        ...


class Transport(Protocol):
    """Sends a request to an endpoint and returns the whole answer."""

    def send(
        self,
        endpoint: Endpoint,
        wire: Wire,
        kwargs: Mapping[str, Any],
        *,
        interrupt: Interrupt,
        on_delta: Callable[[Delta], None] | None = None,
        on_wait: Callable[[], object] | None = None,
    ) -> Completion:
        """``on_delta`` sees the pieces of the answer; ``on_wait`` is called before each long wait for the server.

        Raises ``ProviderError`` when the request fails and ``Interrupted`` when ``interrupt`` is cancelled.
        """
        ...


#: Keyword arguments that steer an SDK and are no part of the body.
_NOT_IN_BODY = frozenset({"extra_body", "extra_headers", "extra_query", "timeout", "http_client"})
#: The fields that hold the conversation.
_CONVERSATIONS = ("messages", "input")


class PostingWire:
    """The requests of a wire, which differ by the operation of the server and the headers of the format."""

    operation: ClassVar[str]

    def target(self, endpoint: Endpoint) -> tuple[str, dict[str, str]]:
        """Where requests go, and the headers of the format, with the key as most servers take it."""
        bearer = {"authorization": f"Bearer {endpoint.api_key}"} if endpoint.api_key else {}
        return endpoint.url(self.operation), bearer

    def http_request(self, endpoint: Endpoint, kwargs: Mapping[str, Any]) -> HttpRequest:
        """The request for ``kwargs`` as an SDK sends it: the extras merged in, what steers the SDK left out."""
        body = {name: value for name, value in kwargs.items() if name not in _NOT_IN_BODY}
        body.update(kwargs.get("extra_body") or {})
        for conversation in _CONVERSATIONS:
            # At the end, so that each request of a conversation begins with the bytes of the one before.
            if conversation in body:
                body[conversation] = body.pop(conversation)
        url, own_headers = self.target(endpoint)
        query = kwargs.get("extra_query")
        if query:
            url += ("&" if "?" in url else "?") + urlencode(query, doseq=True)
        headers = _headers(own_headers, endpoint.extra_headers, kwargs.get("extra_headers") or {})
        return HttpRequest("POST", url, headers, _encode(endpoint, body))


def _headers(*sources: Mapping[str, str | None]) -> list[tuple[str, str]]:
    """Request headers by name; later ones win, and ``None`` removes one."""
    headers: dict[str, str | None] = {
        "accept": "application/json, text/event-stream",
        "accept-encoding": "gzip, deflate",
        "content-type": "application/json",
        "user-agent": f"hermes/{__version__}",
    }
    for source in sources:
        headers.update((name.lower(), value) for name, value in source.items())
    return [(name, str(value)) for name, value in headers.items() if value is not None]


def _encode(endpoint: Endpoint, body: dict[str, Any]) -> bytes:
    try:
        try:
            return msgspec.json.encode(body)
        except UnicodeEncodeError:
            return msgspec.json.encode(encodable(msgspec.to_builtins(body)))
    except (TypeError, ValueError, RecursionError, OverflowError) as error:
        detail = f"it cannot be written as JSON ({error})"
        raise ProviderError(message(endpoint, "bad_request", detail, None), reason="bad_request") from None
