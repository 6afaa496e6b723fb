"""What every wire offers: a request builder and an incremental parser, neither of which does any I/O."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import msgspec

from hermes.contract.response import Record
from hermes.errors import ProviderError
from hermes.models.endpoint import Endpoint
from hermes.models.reply import Reply


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

    def kwargs(
        self,
        endpoint: Endpoint,
        messages: list[dict[str, Any]],
        tools: list[dict[str, Any]] | None = None,
        *,
        stream: bool = True,
        max_tokens: int | None = None,
        temperature: float | None = None,
        reasoning_effort: str = "",
        response_format: dict[str, Any] | None = None,
    ) -> dict[str, Any]:
        """The request as plain data that middleware may rewrite.

        ``messages`` and ``tools`` are in the chat format, and so is ``response_format`` (``json_object`` or
        ``json_schema``); they are never changed, and passed on as they are where the wire takes them so.
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
