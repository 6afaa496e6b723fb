"""HTTP without a socket."""

from __future__ import annotations

import gzip
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes.base.http.errors import BadBody, BodyTooLarge, ConnectionLost, NotHttp, UnsendableHeader
from hermes.base.http.http11 import BodyDecoder, Head, HttpConnection
from hermes.testing import recorded, text

WHOLE = recorded(text("one two three"))


def asked() -> HttpConnection:
    http = HttpConnection()
    http.send_request("POST", "/v1", [("host", "h"), ("content-length", "2")], b"{}")
    return http


def read(http: HttpConnection, pieces: list[bytes]) -> tuple[Head | None, bytes, bool]:
    """The head, the body, and whether the answer came to its end."""
    head, body = None, b""
    for piece in pieces:
        http.receive(piece)
        while True:
            part = http.next()
            if isinstance(part, Head):
                head = part
            elif isinstance(part, bytes):
                body += part
            elif part == "end":
                return head, body, True
            else:
                break
    return head, body, False


def test_a_request_goes_out_in_one_piece_unless_it_is_long() -> None:
    [only] = HttpConnection().send_request("POST", "/v1", [("host", "h"), ("content-length", "2")], b"{}")
    assert only == b"POST /v1 HTTP/1.1\r\nhost: h\r\ncontent-length: 2\r\n\r\n{}"
    head, body = HttpConnection().send_request(
        "POST", "/v1", [("host", "h"), ("content-length", "70000")], b"x" * 70_000
    )
    assert head.endswith(b"\r\n\r\n") and len(body) == 70_000


@pytest.mark.parametrize("value", ["a\nb", "a\0b", "é"])
def test_a_header_that_cannot_be_sent(value: str) -> None:
    with pytest.raises(UnsendableHeader) as caught:
        HttpConnection().send_request("GET", "/", [("host", "h"), ("x-key", value)], b"")
    assert str(caught.value) == "" and caught.value.__context__ is None


@given(st.lists(st.integers(1, len(WHOLE) - 1), max_size=20))
def test_any_pieces_give_the_same_answer(places: list[int]) -> None:
    places = sorted({0, *places, len(WHOLE)})
    http = asked()
    head, body, ended = read(http, [WHOLE[start:end] for start, end in pairwise(places)])
    assert head is not None and head.status == 200 and head.headers["content-type"] == "text/event-stream"
    assert body.count(b"data: ") == 7 and body.endswith(b"data: [DONE]\n\n") and ended
    assert http.start_next()


@given(st.binary(max_size=200))
def test_garbage_is_named_as_such(data: bytes) -> None:
    http = asked()
    try:
        read(http, [data, b""])
    except (NotHttp, ConnectionLost):
        pass
    assert not http.start_next()


@given(st.integers(0, len(WHOLE) - 1), st.binary(max_size=50))
def test_garbage_in_the_middle_is_named_as_such(at: int, data: bytes) -> None:
    http = asked()
    try:
        read(http, [WHOLE[:at] + data, b""])
    except (NotHttp, ConnectionLost):
        pass


def test_bytes_after_the_end_spoil_the_connection() -> None:
    http = asked()
    read(http, [WHOLE + b"HTTP/1.1 200 OK\r\n\r\n"])
    assert not http.start_next()


@pytest.mark.parametrize("version", [b"1.0", b"1.1"])
def test_an_answer_that_ends_with_the_connection(version: bytes) -> None:
    http = asked()
    head, body, ended = read(http, [b"HTTP/" + version + b" 200 OK\r\n\r\nhello", b""])
    assert head == Head(200, {}) and body == b"hello" and ended
    assert not http.start_next()


@pytest.mark.parametrize(
    "data",
    [
        b"HTTP/1.1 200 OK\r\nx-a:" + b" " * 95_000 + b"\0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nx-a: b" + b" \t" * 45_000 + b"\0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5;" + b" " * 200_000,
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5;" + b" \r" * 100_000 + b"\n",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5" + b" " * 200_000 + b"\n",
    ],
    ids=["header", "end of a header", "extension", "returns", "size"],
)
def test_long_lines_of_blanks_are_refused_at_once(data: bytes) -> None:
    """A search that tries every way to share the blanks out takes minutes, in which no other thread runs."""
    with pytest.raises(NotHttp):
        read(asked(), [data])


@pytest.mark.parametrize(
    "headers",
    [
        [("host", "h"), ("Content-Length", "0"), ("content-length", "2")],
        [("host", "h"), ("content-length", "2"), ("content-length", "2")],
        [("host", "h"), ("content-length", "3")],
        [("host", "h"), ("Host", "other"), ("content-length", "2")],
        [("host", "h"), ("Transfer-Encoding", "chunked")],
    ],
)
def test_headers_that_would_end_the_request_elsewhere_are_not_sent(headers: list[tuple[str, str]]) -> None:
    with pytest.raises(UnsendableHeader, match="host, content-length and transfer-encoding are set by the client"):
        HttpConnection().send_request("POST", "/", headers, b"{}")


def test_a_status_below_100_is_no_informational_response() -> None:
    with pytest.raises(NotHttp):
        read(asked(), [b"HTTP/1.1 099 Odd\r\n\r\n" + WHOLE])


def decoded(encoding: str, data: bytes, size: int) -> bytes:
    decoder = BodyDecoder(encoding, 1000)
    found = b"".join(decoder.decode(data[at : at + size]) for at in range(0, len(data), size))
    decoder.finish()
    return found


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_compressed_content_that_breaks_off_is_not_whole(size: int) -> None:
    whole = gzip.compress(b"the whole text")
    for end in range(1, len(whole)):
        with pytest.raises(NotHttp, match="breaks off"):
            decoded("gzip", whole[:end], size)
    assert decoded("gzip", b"", size) == b""  # the answer to HEAD


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_compressed_content_in_several_members_is_read_to_its_end(size: int) -> None:
    both = gzip.compress(b"one ") + gzip.compress(b"two")
    assert decoded("gzip", both + b"\0\0\0", size) == b"one two"
    with pytest.raises(NotHttp, match="breaks off"):
        decoded("gzip", both[:-1], size)
    with pytest.raises(BadBody, match="broken compression"):
        decoded("gzip", both + b"something else", size)


def test_chunks_that_arrived_whole_are_one_piece() -> None:
    http = asked()
    http.receive(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\none\r\n3;x=y\r\ntwo\r\nA\r\n")
    assert isinstance(http.next(), Head)
    assert [http.next(), http.next(), http.next()] == [b"one", b"two", "more"]
    http.receive(b"three four\r\n4\r\nfive\r\n3\r\nsix")
    assert [http.next(), http.next()] == [b"three four", b"five"]
    assert [http.next(), http.next()] == [b"six", "more"]
    http.receive(b"\r\n1\r\n7\r\n1\r\n8\r\n3\r\nnine\r\n0\r\n\r\n")
    # What came before a chunk that is longer than it says is given out first.
    assert [http.next(), http.next()] == [b"78", b"nin"]
    with pytest.raises(NotHttp, match="longer than it says"):
        http.next()


def test_what_the_limit_allows_of_a_body_is_given_out_before_the_error() -> None:
    decoder = asked().decoder("", 5)
    assert [decoder.decode(b"123"), decoder.decode(b"45678")] == [b"123", b"45"]
    with pytest.raises(BodyTooLarge):
        decoder.decode(b"9")
    decoder = asked().decoder("", 5)
    assert decoder.decode(b"123456") == b"12345"
    with pytest.raises(BodyTooLarge):
        decoder.finish()
