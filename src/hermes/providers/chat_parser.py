"""The OpenAI-compatible wire: how the bytes of a chat completion are read."""

from __future__ import annotations

from typing import Any, Literal, TypeVar, cast

import msgspec

from hermes.contract.response import Record, chat_response
from hermes.errors import ProviderError
from hermes.providers.chat_assembly import ChatAssembly, Chunk
from hermes.providers.endpoint import Endpoint
from hermes.providers.failures import error_in_body, excerpt, malformed, message
from hermes.providers.reply import IncompleteReply, Reply, text_of
from hermes.providers.sse import EventSplitter
from hermes.providers.thinking import ThinkSplitter
from hermes.providers.wire import Delta

_HEAD_BYTES = 4096
_BLANK = b" \t\r\n\xef\xbb\xbf"
_EVENT_FIELDS = (b"data:", b"event:", b"id:", b"retry:", b":")

T = TypeVar("T")
_CHUNK = msgspec.json.Decoder(Chunk)
_OBJECT = msgspec.json.Decoder(dict[str, Any])
_ANYTHING = msgspec.json.Decoder[Any]()


class ChatParser:
    """Reads one answer. The body itself says whether it is a stream or a document: servers mix them up."""

    def __init__(self, endpoint: Endpoint, *, streaming: bool) -> None:
        self._endpoint = endpoint
        self._streaming = streaming
        self._form: Literal["unknown", "events", "document"] = "unknown"
        self._body = bytearray()
        self._splitter = EventSplitter()
        self._answer = ChatAssembly()
        #: The answer is complete; whatever the server still sends is of no interest.
        self.done = False

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
            raise self._with_partial(error) from None
        deltas: list[Delta] = []
        for payload in payloads:
            self._event(payload, deltas)
        return deltas

    def finish(self) -> Record:
        """The whole response."""
        if self._form == "unknown":
            raise self._incomplete(f"the {'stream' if self._streaming else 'body'} ended before the answer began")
        if self._form == "document":
            return self._document()
        try:
            for payload in self._splitter.finish():
                self._event(payload, [])
        except ProviderError as error:
            if error.reason != "malformed":
                raise
            if self._answer.finish_reason is None:  # else only the usage is lost, not the answer
                raise self._incomplete("the stream ended in the middle of an event") from None
        if not self.done and self._answer.finish_reason is None:
            if not self._answer.started and not _begins_like_events(self._body):
                raise malformed(self._endpoint, "no events", bytes(self._body[:_HEAD_BYTES]))
            raise self._incomplete("the stream ended without a finish_reason")
        if not self._answer.has_choice:
            raise malformed(self._endpoint, "a stream without choices", bytes(self._body[:_HEAD_BYTES]))
        return self._answer.response()

    def partial(self) -> Reply:
        """What has arrived so far."""
        return self._answer.partial()

    def _recognise(self, data: bytes) -> bytes:
        """Decide by the first character what the body is; returns what there is of a stream."""
        self._body += data
        start = self._body.lstrip(_BLANK)[:1] if self._form == "unknown" else b""
        if not start:
            return b""
        if start in b'{["<':
            self._form = "document"
            return b""
        self._form = "events"
        first, self._body = bytes(self._body), bytearray()
        return first

    def _event(self, payload: bytes, deltas: list[Delta]) -> None:
        if payload.startswith(b"[DONE]"):
            self.done = True
            self._answer.flush(deltas)
            return
        if not payload:
            return
        try:
            chunk = decode_json(payload, _CHUNK)
            if chunk.error:
                raise self._with_partial(error_in_body(self._endpoint, chunk.error))
            if not self._answer.started:
                self._answer.start(decode_json(payload, _OBJECT))
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise self._with_partial(malformed(self._endpoint, f"a bad event ({error})", payload)) from None
        self._answer.add(chunk, deltas)

    def _document(self) -> Record:
        body = bytes(self._body)
        if body.lstrip(_BLANK)[:1] == b"<":
            raise malformed(self._endpoint, excerpt(body))
        try:
            document = decode_json(body.lstrip(b"\xef\xbb\xbf"), _ANYTHING)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            if "truncated" in str(error):
                raise self._incomplete("the JSON document is cut off") from None
            raise malformed(self._endpoint, f"bad JSON ({error})", body) from None
        if isinstance(document, list) and document:
            document = cast("list[Any]", document)[0]
        fields = cast("dict[str, Any]", document) if isinstance(document, dict) else {}
        if fields.get("error"):
            raise error_in_body(self._endpoint, fields["error"])
        choices = fields.get("choices")
        first: Any = cast("list[Any]", choices)[0] if isinstance(choices, list) and choices else None
        choice = cast("dict[str, Any]", first) if isinstance(first, dict) else {}
        if not isinstance(choice.get("message"), dict):
            found = "an empty list of choices" if choices == [] else "no choices with a message"
            raise malformed(self._endpoint, found, body)
        _settle_text(choice["message"])
        return chat_response(fields)

    def _incomplete(self, what: str) -> IncompleteReply:
        line = message(self._endpoint, "truncated", what, None)
        return IncompleteReply(line, partial=self.partial())

    def _with_partial(self, error: ProviderError) -> ProviderError:
        """The error with what arrived before it, when anything did."""
        if not self._answer.started:
            return error
        return IncompleteReply(str(error), partial=self.partial(), reason=error.reason, status_code=error.status_code)


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
    start = bytes(body.lstrip(_BLANK)[:8])
    return any(start.startswith(field) or field.startswith(start) for field in _EVENT_FIELDS)


def _settle_text(message: dict[str, Any]) -> None:
    """Content as text, with inline reasoning moved to its own field."""
    content = message.get("content")
    if content is None:
        return
    splitter = ThinkSplitter()
    pieces = splitter.feed(text_of(content)) + splitter.finish()
    message["content"] = "".join(text for kind, text in pieces if kind == "text")
    thoughts = "".join(text for kind, text in pieces if kind == "reasoning")
    if thoughts and not message.get("reasoning"):
        message["reasoning"] = thoughts
