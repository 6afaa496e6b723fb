"""Requests that are malformed on purpose, byte by byte, at the server that all HTTP surfaces share."""

from __future__ import annotations

import socket
import threading
from collections.abc import Generator

import msgspec
import pytest
from starlette.requests import Request
from starlette.responses import JSONResponse, StreamingResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from hermes.base.http_server import server as http_server
from hermes.base.http_server.server import listening, serve_app
from support.served import ServerThread
from support.waiting import HANG

_CHUNKED = b"Host: a\r\nTransfer-Encoding: chunked\r\n"


async def _echo(scope: Scope, receive: Receive, send: Send) -> None:
    """Answer with the headers and the body that arrived, as a stream for ``/stream``."""
    request = Request(scope, receive)
    body = (await request.body()).decode()
    answer: ASGIApp = JSONResponse({"headers": request.headers.items(), "body": body})
    if scope["path"] == "/stream":
        answer = StreamingResponse(iter(["one ", "two"]))
    await answer(scope, receive, send)


@pytest.fixture(scope="module")
def port() -> Generator[int]:
    with listening("127.0.0.1", 0) as listener:
        thread = ServerThread(
            lambda stop, announce: serve_app(_echo, listener, stop, lambda: announce("ready"), lifespan=False)
        )
        thread.wait_until_ready()
        yield listener.getsockname()[1]
        thread.stop()


def _answer(port: int, *pieces: bytes) -> tuple[int, bytes]:
    """Status and rest of everything that the server answers, until it closes the connection."""
    with socket.create_connection(("127.0.0.1", port), timeout=HANG) as connection:
        received = b""
        try:
            for piece in pieces:
                connection.sendall(piece)
            while data := connection.recv(65_536):
                received += data
        except (ConnectionResetError, BrokenPipeError):
            pass  # it was closed before all was sent
    head, _, rest = received.partition(b"\r\n\r\n")
    return int(head.split()[1]) if head else 0, rest


@pytest.mark.parametrize(
    "request_bytes",
    [
        pytest.param(b"GET / HTTP/1.1\r\n\r\n", id="no host"),
        pytest.param(b"GET / HTTP/1.1\r\nHost: localhost\r\nHost: evil.example.org\r\n\r\n", id="two hosts"),
        pytest.param(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabcd", id="lengths"),
        pytest.param(b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", id="gzip"),
        pytest.param(b"GET / HTTP/1.1\r\nHost: a\r\nX : b\r\n\r\n", id="space in a name"),
        pytest.param(b"GET / HTTP/1.1\r\nHost: a\r\nX: a\0b\r\n\r\n", id="null in a value"),
        pytest.param(b"SOURCE / ICE/1.0\r\nHost: a\r\n\r\n", id="another protocol"),
        pytest.param(b"POST / HTTP/1.1\r\n" + _CHUNKED + b"\r\n3\r\nabcXX\r\n0\r\n\r\n", id="chunk too long"),
    ],
)
def test_ambiguous_requests_are_refused(port: int, request_bytes: bytes) -> None:
    assert _answer(port, request_bytes)[0] == 400


@pytest.mark.parametrize(
    "start",
    [
        pytest.param(b"GET /", id="path"),
        pytest.param(b"GET / HTTP/1.1\r\nHost: a\r\nX-", id="name"),
        pytest.param(b"GET / HTTP/1.1\r\nHost: a\r\nX: ", id="value"),
        pytest.param(b"POST / HTTP/1.1\r\n" + _CHUNKED + b"\r\n1;", id="chunk extension"),
        pytest.param(b"POST / HTTP/1.1\r\n" + _CHUNKED + b"\r\n1\r\na\r\n0\r\nX: ", id="trailer"),
    ],
)
def test_heads_and_trailers_have_a_limit(port: int, monkeypatch: pytest.MonkeyPatch, start: bytes) -> None:
    monkeypatch.setattr(http_server, "SECONDS_FOR_HEAD", 2 * HANG)  # it is the size that counts here
    monkeypatch.setattr(http_server, "SECONDS_FOR_BODY", 2 * HANG)
    status, _ = _answer(port, start, *[b"a" * 10_000] * 40)
    assert status in (400, 0), "refused; a client that is still sending may find the connection closed"


def test_trailers_are_not_headers(port: int) -> None:
    head = b"POST / HTTP/1.1\r\nConnection: close\r\n" + _CHUNKED + b"\r\n"
    status, body = _answer(port, head, b"3\r\nabc\r\n0\r\nAuthorization: Bearer stolen\r\n\r\n")
    found = msgspec.json.decode(body)
    assert status == 200 and found["body"] == "abc"
    assert [name for name, _ in found["headers"]] == ["connection", "host", "transfer-encoding"]


@pytest.mark.parametrize("is_in_one_piece", [True, False])
def test_the_body_of_a_request_that_offers_an_upgrade_is_its_body(port: int, is_in_one_piece: bool) -> None:
    """As Java's client sends it: the body must neither be lost nor be taken for the next request."""
    offer = b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n"
    inner = b"GET /stream HTTP/1.1\r\nHost: a\r\n\r\n"
    head = b"POST / HTTP/1.1\r\nHost: a\r\n" + offer + b"Content-Length: %d\r\n\r\n" % len(inner)
    last = b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
    status, rest = _answer(port, *([head + inner + last] if is_in_one_piece else [head, inner, last]))
    assert status == 200 and b"one " not in rest
    assert msgspec.json.decode(rest.partition(b"HTTP/1.1 200")[0])["body"] == inner.decode()


def test_a_client_of_http_1_0_gets_a_stream_without_chunks(port: int) -> None:
    assert _answer(port, b"GET /stream HTTP/1.0\r\n\r\n") == (200, b"one two")


def test_garbage_behind_a_request_is_answered_after_it(port: int) -> None:
    status, rest = _answer(port, b"GET / HTTP/1.1\r\nHost: a\r\n\r\n\0\0garbage\r\n\r\n")
    assert status == 200 and rest.startswith(b'{"headers":[["host","a"]]') and b"400 Bad Request" in rest


def test_the_failure_of_a_server_is_raised_also_while_its_thread_ends() -> None:
    may_end = threading.Event()

    class SlowToEnd(ServerThread):
        def _run(self) -> None:
            super()._run()
            may_end.wait(HANG)

    async def fail(*_: object) -> None:
        raise ValueError("no such folder")

    thread = SlowToEnd(fail)
    with pytest.raises(ValueError, match="no such folder"):
        thread.wait_until_ready()
    threading.Timer(0.05, may_end.set).start()
    with pytest.raises(ValueError, match="no such folder"):
        thread.stop()
