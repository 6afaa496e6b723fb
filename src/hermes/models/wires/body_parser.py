"""Incremental parser of response bodies: server-sent events or one JSON document, whichever the server sends."""

from __future__ import annotations

from typing import Any, Literal, Protocol, TypeVar, cast

import msgspec

from hermes.base.errors import ProviderError
from hermes.models.endpoint import Endpoint
from hermes.models.failures import error_in_body, excerpt, malformed, message
from hermes.models.reply import Completion, IncompleteReply, Reply, with_partial
from hermes.models.wires.sse import EventSplitter
from hermes.models.wires.wire import Delta

_HEAD_BYTES = 4096
_BLANK = b" \t\r\n\xef\xbb\xbf"
_EVENT_FIELDS = (b"data:", b"event:", b"id:", b"retry:", b":")

T = TypeVar("T")
_ANYTHING = msgspec.json.Decoder[Any]()


class Assembly(Protocol):
    """What one format makes of an answer. Attributes, because they are asked for with every piece."""

    #: Something of the answer has arrived.
    started: bool = False
    #: The answer has its end; only a formality can still be missing.
    complete: bool = False
    #: Nothing the server may still send is of interest.
    over: bool = False

    def event(self, payload: bytes, deltas: list[Delta]) -> None:
        """Take the data of one event.

        Raises ``ProviderError`` for a failure that the server reports and msgspec's ``DecodeError`` for what
        cannot be read.
        """
        ...

    def document(self, fields: dict[str, Any]) -> Completion:
        """The whole answer from one document. Raises ``Unreadable`` when it is none."""
        ...

    def response(self) -> Completion:
        """The whole answer from the events. Raises ``Unreadable`` when they make none."""
        ...

    def partial(self) -> Reply:
        """What there is of an answer that will not be finished."""
        ...


class Unreadable(Exception):
    """What came is no answer; the text says what it is."""


class BodyParser:
    """Reads one answer. The body itself says whether it is a stream or a document: servers mix them up."""

    def __init__(self, endpoint: Endpoint, answer: Assembly, *, streaming: bool) -> None:
        self._endpoint = endpoint
        self._answer = answer
        self._streaming = streaming
        self._form: Literal["unknown", "events", "document"] = "unknown"
        self._body = bytearray()
        self._splitter = EventSplitter()

    @property
    def done(self) -> bool:
        """The answer is complete; whatever the server still sends is of no interest."""
        return self._answer.over

    def feed(self, data: bytes) -> list[Delta]:
        """Take the next bytes of the body; returns the pieces of the answer in them."""
        if self._form != "events":
            data = self._recognise(data)
            if not data:
                return []
        if len(self._body) < _HEAD_BYTES:
            self._body += data[:_HEAD_BYTES]  # kept to show what came, should it make no sense
        try:
            payloads = self._splitter.feed(data)
        except ProviderError as error:
            raise self._with_partial(malformed(self._endpoint, str(error))) from None
        deltas: list[Delta] = []
        for payload in payloads:
            self._event(payload, deltas)
        return deltas

    def finish(self) -> Completion:
        """The whole response."""
        if self._form == "unknown":
            raise self._incomplete(f"the {'stream' if self._streaming else 'body'} ended before the answer began")
        if self._form == "document":
            return self._document()
        answer = self._answer
        try:
            for payload in self._splitter.finish():
                self._event(payload, [])
        except ProviderError as error:
            if error.reason != "malformed":
                raise
            if not answer.complete:  # else only the usage is lost, not the answer
                raise self._incomplete("the stream ended in the middle of an event") from None
        if not (answer.complete or answer.over):
            if not answer.started and not _begins_like_events(self._body):
                raise malformed(self._endpoint, "no events", bytes(self._body[:_HEAD_BYTES]))
            raise self._incomplete("the stream ended before the answer did")
        try:
            return answer.response()
        except Unreadable as found:
            raise malformed(self._endpoint, str(found), bytes(self._body[:_HEAD_BYTES])) from None

    def partial(self) -> Reply:
        """What has arrived so far."""
        return self._answer.partial()

    def _recognise(self, data: bytes) -> bytes:
        """Decide by the first character what the body is; returns what there is of a stream."""
        if self._form == "unknown":
            data = data.lstrip(_BLANK)  # what servers send to keep a connection open
            if not data:
                return b""
            self._form = "document" if data[:1] in b'{["<' else "events"
        if self._form == "events":
            return data
        self._body += data
        return b""

    def _event(self, payload: bytes, deltas: list[Delta]) -> None:
        if not payload or payload.startswith(b":"):
            return  # gateways pass on comments as data
        try:
            self._answer.event(payload, deltas)
        except ProviderError as error:
            raise self._with_partial(error) from None
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise self._with_partial(malformed(self._endpoint, f"a bad event ({error})", payload)) from None

    def _document(self) -> Completion:
        body = bytes(self._body)
        if body[:1] == b"<":
            raise malformed(self._endpoint, excerpt(body))
        try:
            document = decode_json(body, _ANYTHING)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            if "truncated" in str(error):
                raise self._incomplete("the JSON document is cut off") from None
            raise malformed(self._endpoint, f"bad JSON ({error})", body) from None
        if isinstance(document, list) and document:
            document = cast("list[Any]", document)[0]
        fields = cast("dict[str, Any]", document) if isinstance(document, dict) else {}
        if fields.get("error"):
            raise error_in_body(self._endpoint, fields["error"])
        try:
            return self._answer.document(fields)
        except Unreadable as found:
            raise malformed(self._endpoint, str(found), body) from None

    def _incomplete(self, what: str) -> IncompleteReply:
        line = message(self._endpoint, "truncated", what, None)
        return IncompleteReply(line, partial=self.partial())

    def _with_partial(self, error: ProviderError) -> ProviderError:
        """The error with what arrived before it, when anything did."""
        return with_partial(error, self.partial()) if self._answer.started else error


def decode_json(data: bytes, decoder: msgspec.json.Decoder[T]) -> T:
    """JSON as the model's server wrote it.

    Servers that cut text by UTF-16 units send half a surrogate pair; that costs a character, not the answer.
    """
    try:
        return decoder.decode(data)
    except msgspec.DecodeError:
        if b"\\u" not in data:
            raise
        import json

        try:
            mended = json.dumps(json.loads(data), ensure_ascii=False).encode("utf-8", "replace")
        except ValueError:
            mended = b""
        if not mended:
            raise
        return decoder.decode(mended)


def _begins_like_events(body: bytearray) -> bool:
    """Whether these are, or could become, server-sent events rather than some other text."""
    start = bytes(body[:8])
    return any(start.startswith(field) or field.startswith(start) for field in _EVENT_FIELDS)
