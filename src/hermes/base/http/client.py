"""The HTTP client: requests with deadlines, interrupts, redirects, size limits and the SSRF guard. Thread-safe."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import urljoin

import msgspec

from hermes.base.http.address import Address, parse_url
from hermes.base.http.errors import HttpError, InvalidUrl, KeptConnectionLost
from hermes.base.http.exchange import Exchange, Timeouts
from hermes.base.scope import Interrupt

if TYPE_CHECKING:
    from hermes.base.http.http11 import Head
    from hermes.base.http.pool import Connection, ConnectionPool
    from hermes.base.http.ssrf import Guard

#: More than any response needs; a longer body is a fault or an attack.
MAX_BODY_BYTES = 64 * 1024 * 1024

_REDIRECTS = (301, 302, 303, 307, 308)
#: Headers that are for the first server alone.
_SECRET_HEADERS = ("authorization", "cookie", "proxy-authorization")

Headers = Sequence[tuple[str, str]]


class HttpResponse(msgspec.Struct, frozen=True):
    """A whole response. Header names are lower case; the body is decoded."""

    status: int
    headers: dict[str, str]
    body: bytes
    #: The address that answered, after redirects.
    url: str = ""

    @property
    def is_success(self) -> bool:
        """Whether the status is one of the 2xx."""
        return 200 <= self.status < 300

    @property
    def text(self) -> str:
        """The body as UTF-8 text."""
        return self.body.decode("utf-8", "replace")

    def json(self) -> Any:
        """The body as JSON. Raises ``ValueError`` when it is not."""
        return msgspec.json.decode(self.body)


class HttpClient:
    """Sends requests over pooled connections. One serves all threads of a process.

    Sockets are imported with the first request, so that a command which sends none does not pay for it.
    """

    def __init__(self) -> None:
        self._pool: ConnectionPool | None = None
        self._lock = threading.Lock()

    def open(
        self,
        method: str,
        url: str,
        headers: Headers = (),
        body: bytes = b"",
        *,
        timeouts: Timeouts | None = None,
        interrupt: Interrupt | None = None,
        guard: Guard | None = None,
        ca_bundle: str = "",
        max_bytes: int = MAX_BODY_BYTES,
        repeatable: bool = False,
        on_wait: Callable[[], object] | None = None,
    ) -> ResponseStream:
        """Send a request and return its response once the head is there; the body is read from the stream.

        A ``repeatable`` request that a kept connection loses before the first byte of an answer is sent once more, on
        a new one: the server may have closed the old one at that very moment. ``on_wait`` is called before a connection
        is opened and before the wait for the answer. Raises ``HttpError``, or ``Interrupted`` when the interrupt is
        cancelled. Redirects are not followed.
        """
        exchange = Exchange(interrupt or Interrupt(), timeouts or Timeouts(), on_wait)
        try:
            return self._open(exchange, method, url, headers, body, guard, ca_bundle, max_bytes)
        except KeptConnectionLost:
            if not repeatable:
                raise
        exchange.restart()
        return self._open(exchange, method, url, headers, body, guard, ca_bundle, max_bytes, is_new=True)

    def request(
        self,
        method: str,
        url: str,
        headers: Headers = (),
        body: bytes = b"",
        *,
        timeouts: Timeouts | None = None,
        interrupt: Interrupt | None = None,
        guard: Guard | None = None,
        ca_bundle: str = "",
        max_bytes: int = MAX_BODY_BYTES,
        follow_redirects: int = 0,
    ) -> HttpResponse:
        """Send a request and return the whole response, whatever its status.

        Up to ``follow_redirects`` redirects are followed, each checked by the guard like the first address; a further
        one is returned as it is. Raises like ``open``.
        """
        exchange = Exchange(interrupt or Interrupt(), timeouts or Timeouts())
        while True:
            with self._open(exchange, method, url, headers, body, guard, ca_bundle, max_bytes) as response:
                location = response.headers.get("location") if response.status in _REDIRECTS else None
                if not location or follow_redirects <= 0:
                    return HttpResponse(response.status, response.headers, b"".join(response), url)
                status = response.status
            follow_redirects -= 1
            method, url, headers, body = _redirected(method, url, headers, body, status, location)
            exchange.restart()

    def check(
        self, url: str, guard: Guard, *, timeouts: Timeouts | None = None, interrupt: Interrupt | None = None
    ) -> None:
        """Look the host of a URL up and ask the guard about it, without connecting. Raises ``HttpError``."""
        server, _ = parse_url(url)
        self._ready_pool().check(server, guard, Exchange(interrupt or Interrupt(), timeouts or Timeouts()))

    def close(self) -> None:
        """Close the idle connections. One that is in use is closed by its own request."""
        if self._pool is not None:
            self._pool.close()

    def _open(
        self,
        exchange: Exchange,
        method: str,
        url: str,
        headers: Headers,
        body: bytes,
        guard: Guard | None,
        ca_bundle: str,
        max_bytes: int,
        *,
        is_new: bool = False,
    ) -> ResponseStream:
        interrupt = exchange.interrupt
        interrupt.check()
        server, target = parse_url(url)
        pool = self._ready_pool()
        remove_callback = interrupt.add_callback(exchange.shut_down)
        connection = None
        try:
            connection = pool.acquire(server, ca_bundle, guard, exchange, is_new=is_new)
            head = connection.send(method, target, headers, body, exchange)
        except BaseException:
            exchange.release()
            remove_callback()
            if connection is not None:
                pool.release(connection)
            raise
        return ResponseStream(head, connection, exchange, pool, remove_callback, max_bytes)

    def _ready_pool(self) -> ConnectionPool:
        if self._pool is None:
            from hermes.base.http.pool import ConnectionPool

            with self._lock:
                self._pool = self._pool or ConnectionPool()
        return self._pool


class ResponseStream:
    """A response whose body arrives piece by piece: iterate over it, and close it or use it in a ``with`` block."""

    __slots__ = ("_connection", "_exchange", "_max_bytes", "_pool", "_remove_callback", "headers", "status")

    def __init__(
        self,
        head: Head,
        connection: Connection,
        exchange: Exchange,
        pool: ConnectionPool,
        remove_callback: Callable[[], None],
        max_bytes: int,
    ) -> None:
        self.status = head.status
        #: Names are lower case.
        self.headers = head.headers
        self._connection: Connection | None = connection
        self._exchange = exchange
        self._pool = pool
        self._remove_callback = remove_callback
        self._max_bytes = max_bytes

    def __iter__(self) -> Generator[bytes]:
        """The pieces of the decoded body. Raises ``HttpError`` when it breaks off, is too large or not decodable."""
        connection = self._connection
        if connection is None:
            return
        try:
            http, stream = connection.http, connection.stream
            decoder = http.decoder(self.headers.get("content-encoding", "").strip().lower(), self._max_bytes)
            decode = decoder.decode
            while True:
                part = http.next()
                if isinstance(part, bytes):
                    yield decode(part)
                elif part == "more":
                    http.receive(stream.read())
                else:
                    decoder.finish()
                    return
        finally:
            self.close()

    def read_prefix(self, limit: int) -> bytes:
        """The beginning of the body, as far as it can be read: for an error, whose status matters more."""
        found = bytearray()
        try:
            for piece in self:
                found += piece
                if len(found) >= limit:
                    break
        except HttpError:
            pass
        return bytes(found[:limit])

    def expect_end(self, seconds: float) -> None:
        """The content is complete: wait only so long for the formal end of the body, to keep the connection."""
        self._exchange.expect_end(seconds)

    def close(self) -> None:
        """Give the connection back, or close it when the body was not read to its end."""
        connection, self._connection = self._connection, None
        if connection is not None:
            self._exchange.release()
            self._remove_callback()
            self._pool.release(connection)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _traceback: TracebackType | None
    ) -> None:
        self.close()


def _redirected(
    method: str, url: str, headers: Headers, body: bytes, status: int, location: str
) -> tuple[str, str, Headers, bytes]:
    """The request that a redirect asks for. Secrets stay with the server that they were meant for."""
    try:
        target = urljoin(url, location)
    except ValueError as error:
        raise InvalidUrl(f"the server redirects to something that is not a URL: {error}") from None
    server: Address = parse_url(target)[0]
    if server.socket_path:
        raise InvalidUrl("the server redirects to a socket file")
    if server != parse_url(url)[0]:
        headers = [(name, value) for name, value in headers if name.lower() not in _SECRET_HEADERS]
    if status == 303 or (status in (301, 302) and method == "POST"):
        method, body = ("HEAD" if method == "HEAD" else "GET"), b""
        headers = [(name, value) for name, value in headers if name.lower() != "content-type"]
    return method, target, headers, body
