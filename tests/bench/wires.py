"""What each request format costs: per streamed chunk, and for a whole stream against the bare client."""

from __future__ import annotations

import re
import socket
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from time import process_time, thread_time
from typing import get_args

import httpx2

from hermes.base.scope import Interrupt
from hermes.models.driver import Driver
from hermes.models.endpoint import ApiMode, Endpoint
from hermes.models.wires.choice import wire_for
from hermes.models.wires.wire import ModelRequest
from hermes.testing.scripted.formats import FORMATS
from hermes.testing.scripted.replies import text

from .measure import BenchFailed, alternate
from .table import Row, against_floor
from .workspace import Workspace

BUDGET_MICROSECONDS = 30
STREAM_BUDGET = 1.3
REPEAT = 25

_WORDS = [f"word{number} " for number in range(1_000)]
_ANSWER = "".join(_WORDS)
_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
_PATHS: dict[ApiMode, str] = {
    "chat_completions": "/v1/chat/completions",
    "codex_responses": "/v1/responses",
    "anthropic_messages": "/v1/messages",
}


def measure(workspace: Workspace) -> list[Row]:
    """Two rows for each format, over an answer of 1,000 chunks."""
    count = workspace.repeat or REPEAT
    return [row for mode in get_args(ApiMode) for row in (_per_chunk(mode, count), _whole(mode, count))]


def _stream(mode: ApiMode) -> list[bytes]:
    return FORMATS[_PATHS[mode]].stream(text(_ANSWER, chunks=_WORDS), 1, "bench", {})


def _per_chunk(mode: ApiMode, count: int) -> Row:
    """Cutting out the event, reading it and adding it to the answer, with each chunk fed by itself."""
    stream = _stream(mode)
    cost = min(_parsing(mode, stream) for _ in range(count)) / len(stream) * 1e6
    met = cost <= BUDGET_MICROSECONDS
    return Row(f"wire overhead per streamed chunk, `{mode}`", cost, None, "µs", f"≤ {BUDGET_MICROSECONDS} µs", met)


def _parsing(mode: ApiMode, stream: list[bytes]) -> float:
    endpoint = Endpoint("http://127.0.0.1/v1", "bench", api_mode=mode)
    parser = wire_for(endpoint).parser(endpoint, streaming=True, tools=True)
    started = process_time()
    for piece in stream:
        parser.feed(piece)
    answer = parser.finish()["choices"][0]["message"]["content"]
    spent = process_time() - started
    if answer != _ANSWER:
        raise BenchFailed(f"{mode}: the answer was {answer!r}")
    return spent


def _whole(mode: ApiMode, count: int) -> Row:
    driver, interrupt = Driver(), Interrupt()
    with _serving(_stream(mode)) as address, httpx2.Client(verify=False) as client:
        endpoint = Endpoint(f"{address}/v1", "bench", api_key="bench", api_mode=mode)
        wire = wire_for(endpoint)
        kwargs = wire.kwargs(endpoint, ModelRequest([{"role": "user", "content": "go"}]))
        request = wire.http_request(endpoint, kwargs)

        def ours() -> None:
            driver.send(endpoint, wire, kwargs, interrupt=interrupt, on_delta=lambda _delta: None)

        def bare() -> None:
            with client.stream("POST", request.url, content=request.body, headers=request.headers) as response:
                for _ in response.iter_raw():
                    pass

        mine, floor = alternate(count, lambda: _cost(ours), lambda: _cost(bare))
        driver.close()
    what = f"1,000-chunk stream, CPU, `{mode}`"
    return against_floor(what, min(mine) * 1e3, min(floor) * 1e3, "ms", STREAM_BUDGET)


def _cost(work: Callable[[], None]) -> float:
    """CPU of this thread alone: the server works in another."""
    started = thread_time()
    work()
    return thread_time() - started


@contextmanager
def _serving(stream: list[bytes]) -> Generator[str]:
    pieces = [_HEAD, *(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in stream), b"0\r\n\r\n"]

    def accept() -> None:
        while True:
            try:
                client, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=_serve, args=(client, pieces), daemon=True).start()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=accept, daemon=True).start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        listener.shutdown(socket.SHUT_RDWR)


def _serve(client: socket.socket, pieces: list[bytes]) -> None:
    client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    request = b""
    with client:
        while data := client.recv(65536):
            request += data
            head = request.find(b"\r\n\r\n")
            length = _LENGTH.search(request, 0, head) if head > 0 else None
            if head > 0 and len(request) >= head + 4 + (int(length[1]) if length else 0):
                request = b""
                for piece in pieces:
                    client.sendall(piece)
