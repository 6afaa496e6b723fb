"""What every wire offers: a request builder and an incremental parser, neither of which does any I/O."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import msgspec

from hermes.contract.response import Record
from hermes.errors import ProviderError
from hermes.models.endpoint import Endpoint
from hermes.models.reply import Reply
from hermes.scope import Interrupt


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


class HttpRequest(msgspec.Struct, frozen=True):
    """One HTTP request, ready to be sent by any driver. Header values may hold the key: never log them."""

    method: str
    url: str
    headers: list[tuple[str, str]]
    body: bytes


class TextDelta(msgspec.Struct, frozen=True, gc=False):
    """A piece of the answer."""

    text: str


class ReasoningDelta(msgspec.Struct, frozen=True, gc=False):
    """A piece of the model's reasoning, which is not part of the answer."""

    text: str


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
        """True when the answer is complete although the body may go on."""
        ...

    def feed(self, data: bytes) -> Sequence[Delta]:
        """Take the next bytes, cut anywhere. Raises ``ProviderError`` when the server reports a failure."""
        ...

    def finish(self) -> Record:
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

    def error_from(self, endpoint: Endpoint, status: int, headers: Mapping[str, str], body: bytes) -> ProviderError:
        """The typed error for a response that is not a success. Header names are lower case."""
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
    ) -> Record:
        """Raises ``ProviderError`` when the request fails and ``Interrupted`` when ``interrupt`` is cancelled."""
        ...
