"""HTTP/1.1 without I/O: requests to bytes, bytes to the parts of a response, bodies without compression.

Only what a client needs. It is strict where two readers of the same bytes could disagree about where a response ends
(lengths that differ, other transfer codings, chunk sizes that are no plain hexadecimal numbers): such a response is an
error, and its connection is not used again.
"""

from __future__ import annotations

import re
import zlib
from typing import Literal

import msgspec

from hermes.base.http.errors import BadBody, BodyTooLarge, ConnectionLost, NotHttp, UnsendableHeader

#: The longest head that a response may have.
_MAX_HEAD = 100 * 1024
#: The longest line before a chunk.
_MAX_CHUNK_LINE = 4096
_HTTP = b"HTTP/1."
_MEGABYTE = 1024 * 1024
_INFLATED_PIECE = _MEGABYTE

_TOKEN = r"[-!#$%&'*+.^_`|~0-9a-zA-Z]+"
# Control characters are found in real headers; other programs would read NUL and line breaks as the end of the header.
_VALUE = r"(?:[^\x00\s]+(?:[ \t]+[^\x00\s]+)*)?"
_NAME = re.compile(_TOKEN)
_TARGET = re.compile(r"[\x21-\x7e]+")
_SENT_VALUE = re.compile(_VALUE, re.ASCII)
_STATUS_LINE = re.compile(rb"HTTP/([0-9]\.[0-9]) ([0-9]{3})(?: [^\x00\n\r\f\v]*)?")
# Possessive (``*+``) where blanks could be shared out between two places: a long line of them would take minutes.
_HEADER_LINE = re.compile(rf"({_TOKEN}):[ \t]*+({_VALUE})[ \t]*".encode())
_END_OF_HEAD = re.compile(rb"\n\r?\n")
_CHUNK_LINE = re.compile(rb"([0-9A-Fa-f]{1,20})(?:;[^\n]*+(?<=\r)|[ \t]*+\r)\n")
#: The same of a chunk that is not the last one, in the form in which almost all servers write it.
_USUAL_CHUNK_LINE = re.compile(rb"([1-9A-Fa-f][0-9A-Fa-f]{0,6})\r\n")
_LENGTH = re.compile(rb"[0-9]{1,20}")
#: Headers by which a server finds the end of a request, and whom it is for: a second one is how requests are smuggled.
_OWN_HEADERS = ("host", "content-length", "transfer-encoding")


class Head(msgspec.Struct, frozen=True):
    """Status and headers of a response. Header names are lower case."""

    status: int
    headers: dict[str, str]


#: What the next bytes of a response are. The body is either of a known length, in chunks, or as long as the connection.
_State = Literal["head", "length", "chunk line", "chunk", "chunk end", "trailer", "until closed", "done", "broken"]


class HttpConnection:
    """The protocol state of one connection: requests and responses, one after the other."""

    __slots__ = ("_at", "_data", "_is_closed", "_left", "_may_keep", "_method", "_searched", "_state")

    def __init__(self) -> None:
        self._method = ""
        self._state: _State = "done"
        #: The bytes that arrived last, with what was left of those before, and how far they are read.
        self._data, self._at = b"", 0
        #: How far a head that is not complete was searched for its end.
        self._searched = 0
        #: Bytes that the body, or the current chunk of it, still has.
        self._left = 0
        self._may_keep = True
        self._is_closed = False

    def send_request(self, method: str, target: str, headers: list[tuple[str, str]], body: bytes) -> list[bytes]:
        """The bytes of a request, in the pieces that they are to be sent in."""
        is_sendable = _NAME.fullmatch(method) and _TARGET.fullmatch(target)
        head = f"{method} {target} HTTP/1.1\r\n"
        own: list[tuple[str, str]] = []
        may_keep = True
        for name, value in headers:
            is_sendable = is_sendable and _NAME.fullmatch(name) and _SENT_VALUE.fullmatch(value)
            head += f"{name}: {value}\r\n"
            lowered = name.lower()
            if lowered in _OWN_HEADERS:
                own.append((lowered, value))
            elif lowered == "connection" and _says_close(value):
                may_keep = False
        head += "\r\n"
        if not (is_sendable and head.isascii()):
            raise UnsendableHeader
        lengths = [value for name, value in own if name == "content-length"]
        if len({name for name, _ in own} - {"transfer-encoding"}) < len(own) or lengths not in ([], [str(len(body))]):
            raise UnsendableHeader(f"{', '.join(_OWN_HEADERS[:-1])} and {_OWN_HEADERS[-1]} are set by the client")
        self._method, self._state, self._may_keep = method, "head", may_keep
        # One piece is one packet; a long body is not worth copying for that.
        return [head.encode() + body] if len(body) < 65536 else [head.encode(), body]

    def receive(self, data: bytes) -> None:
        """Take the bytes that arrived; empty means that the other side has closed."""
        rest = self._data[self._at :]
        if not data:
            if self._state == "head":
                self._state = "broken"
                if not _HTTP.startswith(rest[: len(_HTTP)]):
                    raise NotHttp("it said something else and closed")
                raise ConnectionLost("the server disconnected before it answered")
            self._is_closed = True
        self._data, self._at = rest + data if rest else data, 0

    def next(self) -> Head | bytes | Literal["more", "end"]:
        """The next part of the response: its head, a piece of the body, its end, or that more bytes are needed."""
        try:
            return self._next()
        except NotHttp:
            self._state = "broken"
            raise

    def _next(self) -> Head | bytes | Literal["more", "end"]:
        if self._state == "head":
            return self._head() or "more"
        if self._state == "chunk end":
            self._end_chunk()
        if self._state == "chunk line":
            whole = self._whole_chunks()
            if whole:
                return whole
            self._begin_chunk()
        if self._state in ("length", "chunk", "until closed"):
            piece = self._piece()
            if piece:
                return piece
        elif self._state == "trailer":
            self._read_trailer()
        if self._state == "done":
            return "end"
        if self._state == "broken":
            raise NotHttp("the response is broken off")
        if self._is_closed:
            if self._state != "until closed":
                raise NotHttp("the connection was closed before the end of the body")
            self._state = "done"
            return "end"
        return "more"

    @staticmethod
    def decoder(encoding: str, limit: int) -> BodyDecoder:
        """What undoes the ``Content-Encoding`` of a body, of at most so many bytes."""
        return BodyDecoder(encoding, limit)

    def start_next(self) -> bool:
        """Get ready for the next request; false when this connection cannot take one."""
        # The end of the connection is not announced by a header where it is the end of a body, and bytes after the end
        # would be taken for the next response.
        return self._state == "done" and self._may_keep and not self._is_closed and self._at == len(self._data)

    # -- the head -----------------------------------------------------------------------------------------------

    def _head(self) -> Head | None:
        """The head once it is complete. Informational responses before it do not matter here."""
        while (lines := self._lines()) is not None:
            status_line = _STATUS_LINE.fullmatch(lines[0]) if lines else None
            if status_line is None:
                raise NotHttp("the response does not begin with a status line")
            version, status = status_line[1], int(status_line[2])
            if status < 100:
                raise NotHttp("its status is none")
            if status == 101:
                raise NotHttp("it switches to another protocol, which it was not asked for")
            fields = _fields(lines[1:])
            self._frame(version, status, fields)
            if status >= 200:
                return Head(status, {name: value.decode("latin-1") for name, value in fields})
        return None

    def _lines(self) -> list[bytes] | None:
        """The lines up to the next blank one; ``None`` as long as there is none."""
        data, at = self._data, self._at
        start = data[at : at + 2]
        if start[:1] == b"\n" or start == b"\r\n":
            self._at = at + (1 if start[:1] == b"\n" else 2)
            return []
        found = _END_OF_HEAD.search(data, at + self._searched)
        if found is None:
            if start and start[0] <= 0x20 and self._state == "head":
                raise NotHttp("the response begins with a blank")  # or with a TLS record
            self._searched = max(len(data) - at - 2, 0)
            if len(data) - at > _MAX_HEAD:
                raise NotHttp("its head is too long")
            return None
        self._at, self._searched = found.end(), 0
        return [line.removesuffix(b"\r") for line in data[at : found.start()].split(b"\n")]

    def _frame(self, version: bytes, status: int, fields: list[tuple[str, bytes]]) -> None:
        """Find out how the body ends and whether the connection can be used again."""
        length, is_chunked = _framing(fields)
        if status < 200:
            return  # informational: the head of the response follows
        says_close = any(name == "connection" and _says_close(value.decode("latin-1")) for name, value in fields)
        # A length beside chunks is how responses are smuggled: the next reader may believe that one.
        is_odd = is_chunked and length is not None
        self._may_keep = self._may_keep and version >= b"1.1" and not says_close and not is_odd
        is_tunnel = self._method == "CONNECT" and status < 300
        if status in (204, 304) or self._method == "HEAD" or is_tunnel or (length == 0 and not is_chunked):
            self._state = "done"
        elif is_chunked:
            self._state = "chunk line"
        elif length is not None:
            self._state, self._left = "length", length
        else:
            self._state = "until closed"

    # -- the body -----------------------------------------------------------------------------------------------

    def _piece(self) -> bytes:
        """What has arrived of the body, or of the current chunk."""
        data, at = self._data, self._at
        if self._state == "until closed":
            self._at = len(data)
            return data[at:]
        piece = data[at : at + self._left]
        self._at = at + len(piece)
        self._left -= len(piece)
        if not self._left:
            self._state = "done" if self._state == "length" else "chunk end"
        return piece

    def _whole_chunks(self) -> bytes:
        """The chunks that have arrived whole, in one piece: a streamed answer has a chunk for each of its words.

        Everything else, such as the end of the body or what is no chunk, is left to be read with care.
        """
        data, at = self._data, self._at
        pieces: list[bytes] = []
        while (line := _USUAL_CHUNK_LINE.match(data, at)) is not None:
            start = line.end()
            stop = start + int(line[1], 16)
            if data[stop : stop + 2] != b"\r\n":
                break
            pieces.append(data[start:stop])
            at = stop + 2
        self._at = at
        return b"".join(pieces)

    def _begin_chunk(self) -> None:
        line = _CHUNK_LINE.match(self._data, self._at)
        if line is None:
            size = len(self._data) - self._at
            if size > _MAX_CHUNK_LINE or self._data.find(b"\n", self._at) >= 0:
                raise NotHttp("the size of a chunk is not a number")
            return
        if line.end() - self._at > _MAX_CHUNK_LINE:
            raise NotHttp("the line before a chunk is too long")
        self._at = line.end()
        self._left = int(line[1], 16)
        self._state = "chunk" if self._left else "trailer"
        if not self._left:
            self._read_trailer()

    def _end_chunk(self) -> None:
        mark = self._data[self._at : self._at + 2]
        if mark == b"\r\n":
            self._at += 2
            self._state = "chunk line"
        elif not b"\r\n".startswith(mark):
            raise NotHttp("a chunk is longer than it says")

    def _read_trailer(self) -> None:
        """The headers after the last chunk, which do not matter here."""
        lines = self._lines()
        if lines is not None:
            _fields(lines)
            self._state = "done"


def _fields(lines: list[bytes]) -> list[tuple[str, bytes]]:
    """Header lines as lower-case names and values; a line that begins with a blank continues the one before."""
    if any(line[:1] in (b" ", b"\t") for line in lines):
        lines = _unfolded(lines)
    fields: list[tuple[str, bytes]] = []
    for line in lines:
        found = _HEADER_LINE.fullmatch(line)
        if found is None:
            raise NotHttp("it has a header line that is none")
        fields.append((found[1].decode("ascii").lower(), found[2]))
    return fields


def _unfolded(lines: list[bytes]) -> list[bytes]:
    whole: list[bytes] = []
    for line in lines:
        if line[:1] not in (b" ", b"\t"):
            whole.append(line)
        elif whole:
            whole[-1] += b" " + line.lstrip(b" \t")
        else:
            raise NotHttp("it has a header line that is none")
    return whole


def _framing(fields: list[tuple[str, bytes]]) -> tuple[int | None, bool]:
    """The length that the headers say, and whether the body comes in chunks."""
    lengths = {one.strip() for name, value in fields if name == "content-length" for one in value.split(b",")}
    codings = [value.lower() for name, value in fields if name == "transfer-encoding"]
    if len(lengths) > 1:
        raise NotHttp("it says two lengths of one body")
    if not all(map(_LENGTH.fullmatch, lengths)):
        raise NotHttp("its content-length is not a number")
    if codings not in ([], [b"chunked"]):
        raise NotHttp("it uses a transfer encoding that is not understood")
    return int(lengths.pop()) if lengths else None, bool(codings)


def _says_close(value: str) -> bool:
    return "close" in (word.strip() for word in value.lower().split(","))


class BodyDecoder:
    """Undoes the ``Content-Encoding`` and counts the result, so that a decompression bomb cannot fill the memory."""

    __slots__ = ("_has_begun", "_has_members", "_limit", "_may_be_raw", "_size", "_zlib")

    def __init__(self, encoding: str, limit: int) -> None:
        self._size = 0
        self._limit = limit
        self._zlib = None
        #: Whether some of the compressed body has arrived: the answer to HEAD has none.
        self._has_begun = False
        #: gzip may be several files, one after the other, and padding.
        self._has_members = encoding in ("gzip", "x-gzip")
        #: Whether the body may be deflate without a header, as some servers send it.
        self._may_be_raw = encoding == "deflate"
        if encoding in ("gzip", "x-gzip", "deflate"):
            self._zlib = zlib.decompressobj(zlib.MAX_WBITS | 32)  # either header is recognised
        elif encoding not in ("", "identity"):
            raise BadBody(f"content encoding {encoding!r}, which was not asked for")

    def decode(self, data: bytes) -> bytes:
        """The plain bytes of the next piece of the body.

        Of a piece that is too much, what the limit allows; the next one, or the end, raises ``BodyTooLarge``.
        """
        if self._zlib is not None and data:
            try:
                data, self._may_be_raw = self._inflate(data), False
            except zlib.error as error:
                if not self._may_be_raw:
                    raise BadBody(f"broken compression ({error})") from None
                self._zlib, self._may_be_raw = zlib.decompressobj(-zlib.MAX_WBITS), False
                return self.decode(data)
        room = self._limit - self._size
        self._size += len(data)
        if len(data) <= room:
            return data
        if room <= 0:
            raise self._too_large()
        return data[:room]

    def finish(self) -> None:
        """The body has ended. Raises ``NotHttp`` when the compressed content has not."""
        if self._size > self._limit:
            raise self._too_large()
        if self._zlib is not None and self._has_begun and not self._zlib.eof:
            raise NotHttp("the compressed body breaks off before its end")

    def _inflate(self, data: bytes) -> bytes:
        assert self._zlib is not None
        pieces: list[bytes] = []
        size = self._size
        while data:
            if self._zlib.eof:
                data = data.lstrip(b"\0") if self._has_members else b""
                if not data:
                    break
                self._zlib = zlib.decompressobj(zlib.MAX_WBITS | 16)
            piece = self._zlib.decompress(data, _INFLATED_PIECE)
            self._has_begun = True
            pieces.append(piece)
            size += len(piece)
            if size > self._limit:
                raise self._too_large()
            data = self._zlib.unused_data if self._zlib.eof else self._zlib.unconsumed_tail
        return b"".join(pieces)

    def _too_large(self) -> BodyTooLarge:
        limit = self._limit
        return BodyTooLarge(
            f"a body of more than {limit // _MEGABYTE} MB"
            if limit >= _MEGABYTE
            else f"a body of more than {limit:,} bytes"
        )
