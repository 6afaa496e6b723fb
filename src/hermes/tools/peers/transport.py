"""httpx transport and authentication for the A2A SDK, over our own HTTP client.

Requests run on worker threads, behind the SSRF guard.
"""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import AsyncIterator, Generator, Iterator

import httpx
from a2a.types import AgentCard

from hermes.base.http.client import HttpClient, ResponseStream
from hermes.base.http.errors import AddressRefused, BadBody, BodyTooLarge, ConnectError, HttpError, NotHttp, TimedOut
from hermes.base.http.exchange import Timeouts
from hermes.base.http.ssrf import Guard
from hermes.base.http.threads import run_in_thread
from hermes.base.scope import Interrupt
from hermes.tools.peers.addresses import Peer, same_server
from hermes.tools.peers.failures import PeerError
from hermes.trace.parent import incoming

#: More than any answer needs; an endless one ends here.
MAX_RESPONSE_BYTES = 64 * 1024 * 1024
#: Headers that the client writes itself, or for which httpx offers more than the client can decode.
_OWN_HEADERS = frozenset({"host", "content-length", "transfer-encoding", "connection", "accept-encoding"})
#: Headers that describe the body before it was decoded.
_ENCODED_BODY = frozenset({"content-encoding", "content-length", "transfer-encoding"})


class PeerTransport(httpx.AsyncBaseTransport):
    """Sends the requests of an httpx client. Redirects are not followed."""

    def __init__(self, client: HttpClient, guard: Guard) -> None:
        self._client = client
        self._guard = guard

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send the request and return the response once its head is there."""
        body = await request.aread()
        headers = [(name, value) for name, value in request.headers.items() if name not in _OWN_HEADERS]
        interrupt, timeouts = Interrupt(), _timeouts(request)

        def send(own: Interrupt) -> ResponseStream:
            with own.on_cancel(interrupt.cancel):
                response = self._client.open(
                    request.method,
                    str(request.url),
                    [*headers, ("accept-encoding", "gzip, deflate")],
                    body,
                    timeouts=timeouts,
                    interrupt=interrupt,
                    guard=self._guard,
                    max_bytes=MAX_RESPONSE_BYTES,
                )
                opened.append(response)
                if interrupt.cancelled:  # the task is gone, and may have missed the response
                    response.close()
                return response

        opened: list[ResponseStream] = []
        try:
            response = await run_in_thread(send)
        except HttpError as error:
            raise _as_httpx(error) from error
        except asyncio.CancelledError:
            interrupt.cancel()
            for response in opened:
                response.close()
            raise
        kept = [(name, value) for name, value in response.headers.items() if name not in _ENCODED_BODY]
        return httpx.Response(response.status, headers=kept, stream=_ThreadReadBody(response, interrupt))

    async def aclose(self) -> None:
        """Close the idle connections."""
        self._client.close()


class _ThreadReadBody(httpx.AsyncByteStream):
    """The body of a response, each piece read on a worker thread when the loop asks for it."""

    def __init__(self, response: ResponseStream, interrupt: Interrupt) -> None:
        self._response = response
        self._pieces: Iterator[bytes] = iter(response)
        self._interrupt = interrupt
        #: Held by the thread that reads: closing must not take the connection from under it.
        self._reading = threading.Lock()
        self._ended = False

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while True:
            try:
                piece = await run_in_thread(self._read)
            except HttpError as error:
                self._ended = True
                raise _as_httpx(error) from error
            if piece is None:
                self._ended = True
                return
            yield piece

    async def aclose(self) -> None:
        if not self._ended:
            self._ended = True
            self._interrupt.cancel()  # wakes a read that is still waiting
            threading.Thread(target=self._close, name="hermes-http-close", daemon=True).start()

    def _read(self, own: Interrupt) -> bytes | None:
        with self._reading, own.on_cancel(self._interrupt.cancel):
            return next(self._pieces, None)

    def _close(self) -> None:
        with self._reading:
            self._response.close()


def _timeouts(request: httpx.Request) -> Timeouts:
    limits = request.extensions.get("timeout", {})
    connect, read = limits.get("connect"), limits.get("read")
    return Timeouts(connect, first_byte=read, between_chunks=read, total=None)


def _as_httpx(error: HttpError) -> Exception:
    """The error as the SDK knows it; a refusal of ours as our own."""
    if isinstance(error, AddressRefused):
        return PeerError(str(error))
    if isinstance(error, BodyTooLarge):
        return PeerError(f"the answer is longer than {MAX_RESPONSE_BYTES:,} bytes")
    if isinstance(error, TimedOut):
        kind = httpx.ConnectTimeout if error.phase == "connect" else httpx.ReadTimeout
        return kind(str(error))
    if isinstance(error, ConnectError):
        return httpx.ConnectError(str(error))
    kind = httpx.RemoteProtocolError if isinstance(error, NotHttp | BadBody) else httpx.ReadError
    return kind(str(error))


class PeerAuth(httpx.Auth):
    """Sends the token to its agent, and to no other server."""

    def __init__(self, peer: Peer) -> None:
        self._peer = peer
        self._header, self._value = "Authorization", f"Bearer {peer.token}"

    def learn(self, card: AgentCard) -> None:
        """Use the header that the card asks for; a bearer token if it accepts one."""
        schemes = card.security_schemes.values()
        keys = [scheme.api_key_security_scheme for scheme in schemes if scheme.HasField("api_key_security_scheme")]
        takes_bearer = any(scheme.WhichOneof("scheme") != "api_key_security_scheme" for scheme in schemes)
        header = next((key.name for key in keys if key.location == "header" and key.name), "")
        if header and not takes_bearer:
            self._header, self._value = header, self._peer.token

    def auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response]:
        """Add the header. A card that would send the token to another server is refused."""
        if self._peer.token:
            if not same_server(str(request.url), self._peer.url):
                raise PeerError(
                    f"the card of {self._peer.name} sends callers to {request.url.copy_with(path='/', query=None)}, "
                    f"another server, which the token is not for; use the URL of that server if it may have it"
                )
            request.headers[self._header] = self._value
        yield request


def trace_headers() -> dict[str, str]:
    """The trace context: of the current span, else the one that the turn came with."""
    headers: dict[str, str] = {}
    if "opentelemetry.trace" in sys.modules:  # imported when spans are made
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        TraceContextTextMapPropagator().inject(headers)
    return headers or dict(incoming())
