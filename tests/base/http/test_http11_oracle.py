"""The HTTP/1.1 reader beside an independent one: both must find the same response in the same bytes.

h11 is that other reader. Where two readers disagree about the end of a response, one request can be given the answer
of another.
"""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import h11
from hypothesis import example, given
from hypothesis import strategies as st

from hermes.base.http.errors import ConnectionLost, NotHttp
from hermes.base.http.http11 import Head, HttpConnection


class Found(NamedTuple):
    """What a reader makes of a connection's bytes."""

    status: int
    body: bytes
    #: Whether the response came to its end; a response that is refused has none.
    ended: bool
    may_continue: bool


REFUSED = Found(0, b"", False, False)


def ours(method: str, pieces: list[bytes]) -> Found:
    http = HttpConnection()
    http.send_request(method, "/", [("host", "h"), ("content-length", "0")], b"")
    status, body, ended = 0, b"", False
    try:
        for piece in pieces:
            http.receive(piece)
            while not ended:
                part = http.next()
                if isinstance(part, Head):
                    status = part.status
                elif isinstance(part, bytes):
                    body += part
                elif part == "more":
                    break
                else:
                    ended = True
            if ended:
                break
    except (NotHttp, ConnectionLost):
        assert not http.start_next()
        return REFUSED
    return Found(status, body, ended, http.start_next())


def theirs(method: str, pieces: list[bytes]) -> Found:
    http = h11.Connection(h11.CLIENT, max_incomplete_event_size=100 * 1024)
    http.send(h11.Request(method=method, target="/", headers=[("host", "h"), ("content-length", "0")]))
    http.send(h11.EndOfMessage())
    status, body, ended = 0, b"", False
    try:
        for piece in pieces:
            http.receive_data(piece)
            while not ended:
                event = http.next_event()
                if isinstance(event, h11.Response):
                    status = event.status_code
                elif isinstance(event, h11.Data):
                    body += event.data
                elif isinstance(event, h11.EndOfMessage):
                    ended = True
                elif isinstance(event, h11.ConnectionClosed):
                    return REFUSED
                elif event is h11.NEED_DATA:
                    break
            if ended:
                break
    except h11.RemoteProtocolError:
        return REFUSED
    left, closed = http.trailing_data
    is_done = http.our_state is h11.DONE and http.their_state is h11.DONE
    return Found(status, body, ended, is_done and not left and not closed)


NEWLINE = st.sampled_from([*[b"\r\n"] * 8, b"\n", b"\r", b"\r\r\n", b""])
STATUS = st.sampled_from(
    [b"HTTP/1.1 200 OK"] * 6
    + rb"""HTTP/1.0 200 OK|HTTP/1.1 204 No|HTTP/1.1 304|HTTP/1.1 404 |HTTP/1.1 100 Continue|HTTP/1.1 101 Switch
HTTP/1.1 2000|HTTP/1.1  200 OK|http/1.1 200 OK|HTTP/2 200| HTTP/1.1 200""".replace(b"\n", b"|").split(b"|")
)
HEADER = st.sampled_from(
    [b"transfer-encoding: chunked", b"content-length: 5"] * 5
    + rb"""Content-Length:5|content-length: 5, 5|content-length: 5, 6|content-length: 7|content-length: +5
content-length: 0x5|content-length: 5_0|content-length:|content-length: -1|content-length : 5|content-length: 0
content-length: 99999999999999999999|Transfer-Encoding: Chunked|transfer-encoding: gzip, chunked
transfer-encoding: identity|transfer-encoding: chunked, chunked|transfer-encoding : chunked
transfer-encoding: xchunked| transfer-encoding: chunked|x-a: b|x-a:|: none|x a: b|connection: close
connection: keep-alive, Close""".replace(b"\n", b"|").split(b"|")
    + [
        b"\tfolded",
        b"x-a: \xe9",
        b"x-a: a\0b",
        b"x-a: a\x01b",
        b"content-length: \xb2",
        b"transfer-encoding:\x0bchunked",
    ]
)
CHUNK = st.sampled_from(
    [b"5\r\nhello\r\n", b"0\r\n\r\n"] * 3
    + [b"%b\r\nhello\r\n" % size for size in (b"05;name=value", b"5 ", b"0x5", b"+5", b"5_0", b" 5", b"5;a\nb", b"F")]
    + [b"5\r\nhelloX", b"5\r\nhello\n", b"5\nhello\r\n", b"\r\n", b"A\r\n0123456789\r\n", b"00\r\n\r\n", b"hello"]
    + [b"0\r\nx-trailer: 1\r\n\r\n", b"0\r\nbad trailer\r\n\r\n", b"0\r\n\n", b"0\n\n", b"f" * 21 + b"\r\n"]
)


@st.composite
def responses(draw: st.DrawFn) -> bytes:
    data = b""
    for _ in range(draw(st.integers(1, 2))):
        data += draw(STATUS) + draw(NEWLINE)
        for header in draw(st.lists(HEADER, max_size=3)):
            data += header + draw(NEWLINE)
        data += draw(NEWLINE)
    return data + b"".join(draw(st.lists(CHUNK, max_size=4)))


@given(
    data=st.one_of(responses(), st.binary(max_size=60)),
    places=st.lists(st.integers(0, 300), max_size=6),
    method=st.sampled_from(["POST", "GET", "HEAD"]),
    closes=st.booleans(),
)
@example(b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\ncontent-length: 6\r\n\r\nhello!", [], "GET", True)
@example(
    b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\nHTTP/1.1 200 OK\r\n\r\n",
    [],
    "GET",
    False,
)
@example(b"HTTP/1.1 200 OK\r\nx-a: b\r\n c\r\n\r\nhello", [3], "GET", True)
def test_both_readers_find_the_same_response(data: bytes, places: list[int], method: str, closes: bool) -> None:
    places = sorted({0, *(place for place in places if place < len(data)), len(data)})
    pieces = [data[start:end] for start, end in pairwise(places)]
    pieces += [b""] if closes else []
    one, other = ours(method, pieces), theirs(method, pieces)
    if one == REFUSED:
        other = theirs(method, [*pieces, b""])  # which may wait for more of what can only be refused
    # Chunks with a length beside them are read, but the connection is not trusted with another request.
    is_smuggling = b"chunked" in data.lower() and b"content-length" in data.lower()
    assert one == other or (is_smuggling and one == other._replace(may_continue=False))


def test_a_length_beside_chunks_ends_the_connection() -> None:
    data = b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"
    assert ours("GET", [data]) == Found(200, b"hello", ended=True, may_continue=False)
