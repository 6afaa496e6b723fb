"""HTTP/1.1 without I/O, on h11: requests to bytes, bytes to the parts of a response, bodies without compression."""

from __future__ import annotations

import zlib
from typing import Literal

import h11
import msgspec

from hermes.http.errors import BadBody, BodyTooLarge, ConnectionLost, NotHttp, UnsendableHeader

#: The longest head that a response may have.
_MAX_HEAD = 100 * 1024
_HTTP = b"HTTP/1."
_MEGABYTE = 1024 * 1024
_INFLATED_PIECE = _MEGABYTE
_END = (h11.EndOfMessage, h11.ConnectionClosed)


class Head(msgspec.Struct, frozen=True):
    """Status and headers of a response. Header names are lower case."""

    status: int
    headers: dict[str, str]


class HttpConnection:
    """The protocol state of one connection: requests and responses, one after the other."""

    __slots__ = ("_h11", "_is_closed")

    def __init__(self) -> None:
        self._h11 = h11.Connection(h11.CLIENT, max_incomplete_event_size=_MAX_HEAD)
        self._is_closed = False

    def send_request(self, method: str, target: str, headers: list[tuple[str, str]], body: bytes) -> list[bytes]:
        """The bytes of a request, in the pieces that they are to be sent in."""
        try:
            head = self._h11.send(h11.Request(method=method, target=target, headers=headers)) or b""
        except (h11.LocalProtocolError, UnicodeEncodeError, TypeError):
            raise UnsendableHeader from None
        self._h11.send_with_data_passthrough(h11.Data(data=body))
        self._h11.send(h11.EndOfMessage())
        # One piece is one packet; a long body is not worth copying for that.
        return [head + body] if len(body) < 65536 else [head, body]

    def receive(self, data: bytes) -> None:
        """Take the bytes that arrived; empty means that the other side has closed."""
        if not data and self._h11.their_state is h11.SEND_RESPONSE:
            begun, _ = self._h11.trailing_data
            if not _HTTP.startswith(begun[: len(_HTTP)]):
                raise NotHttp("it said something else and closed")
            raise ConnectionLost("the server disconnected before it answered")
        self._is_closed = not data
        self._h11.receive_data(data)

    def next(self) -> Head | bytes | Literal["more", "end"]:
        """The next part of the response: its head, a piece of the body, its end, or that more bytes are needed."""
        while True:
            try:
                event = self._h11.next_event()
            except h11.RemoteProtocolError as error:
                raise NotHttp(str(error)) from None
            if event is h11.NEED_DATA:
                return "more"
            if isinstance(event, h11.Data):
                return bytes(event.data)
            if event is h11.PAUSED or isinstance(event, _END):
                return "end"
            if isinstance(event, h11.Response):
                headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in event.headers}
                return Head(event.status_code, headers)
            # Only informational responses remain, and they do not matter here.

    def start_next(self) -> bool:
        """Get ready for the next request; false when this connection cannot take one."""
        state = self._h11
        if self._is_closed:
            return False  # the end of the body was the end of the connection, which no header announces
        if state.our_state is not h11.DONE or state.their_state is not h11.DONE or state.trailing_data[0]:
            return False  # bytes after the end would be taken for the next response
        state.start_next_cycle()
        return True


class BodyDecoder:
    """Undoes the ``Content-Encoding`` and counts the result, so that a decompression bomb cannot fill the memory."""

    __slots__ = ("_limit", "_may_be_raw", "_size", "_zlib")

    def __init__(self, encoding: str, limit: int) -> None:
        self._size = 0
        self._limit = limit
        self._zlib = None
        #: Whether the body may be deflate without a header, as some servers send it.
        self._may_be_raw = encoding == "deflate"
        if encoding in ("gzip", "x-gzip", "deflate"):
            self._zlib = zlib.decompressobj(zlib.MAX_WBITS | 32)  # either header is recognised
        elif encoding not in ("", "identity"):
            raise BadBody(f"content encoding {encoding!r}, which was not asked for")

    def decode(self, data: bytes) -> bytes:
        """The plain bytes of the next piece of the body."""
        if self._zlib is not None and data:
            try:
                data, self._may_be_raw = self._inflate(data), False
            except zlib.error as error:
                if not self._may_be_raw:
                    raise BadBody(f"broken compression ({error})") from None
                self._zlib, self._may_be_raw = zlib.decompressobj(-zlib.MAX_WBITS), False
                return self.decode(data)
        size = self._size = self._size + len(data)
        if size > self._limit:
            raise self._too_large()
        return data

    def _inflate(self, data: bytes) -> bytes:
        assert self._zlib is not None
        pieces: list[bytes] = []
        size = self._size
        while data:
            piece = self._zlib.decompress(data, _INFLATED_PIECE)
            pieces.append(piece)
            size += len(piece)
            if size > self._limit:
                raise self._too_large()
            data = self._zlib.unconsumed_tail
        return b"".join(pieces)

    def _too_large(self) -> BodyTooLarge:
        limit = self._limit
        return BodyTooLarge(
            f"a body of more than {limit // _MEGABYTE} MB"
            if limit >= _MEGABYTE
            else f"a body of more than {limit:,} bytes"
        )
