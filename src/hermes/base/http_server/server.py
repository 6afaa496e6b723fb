"""uvicorn on a loop of the caller: a listening socket, an orderly end, and the logs of libraries in the own log."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from collections.abc import Callable, Coroutine, Generator
from typing import TYPE_CHECKING, Any

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from hermes.base.errors import HermesError
from hermes.base.http_server.stopping import StopEvent, fastest_loop, stop_on_signals

#: Time limits of a request: up to the end of its headers, and from there to the end of its body.
SECONDS_FOR_HEAD = 10.0
SECONDS_FOR_BODY = 60.0
_SECONDS_TO_DRAIN = 3
_BACKLOG = 2_048

if TYPE_CHECKING:

    class _Protocol(asyncio.Protocol):
        """The attributes of uvicorn's protocol that are used here."""

        loop: asyncio.AbstractEventLoop
        transport: asyncio.Transport
        #: The current request and its response, or the last one.
        cycle: Any

else:
    # Named, because uvicorn's choice is httptools wherever that is installed. It has no limit for the size of a head or
    # of trailers, adds trailers to the headers, allows any number of Host headers, and takes the body of a request that
    # offers an upgrade (as Java's HTTP client does) for the next request.
    _Protocol = H11Protocol


class RequestTimeoutProtocol(_Protocol):
    """uvicorn's HTTP protocol on h11, with time limits for requests, which it does not have itself."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._seconds: float | None = None
        self._timer: asyncio.TimerHandle | None = None
        super().connection_made(transport)
        self._update_timer()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._update_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        self._set_timer(None)
        super().connection_lost(exc)

    def _update_timer(self) -> None:
        """Set the time limit of the part that is missing. More bytes of the same part do not extend it."""
        cycle = self.cycle
        if cycle is None or cycle.response_complete:
            self._set_timer(SECONDS_FOR_HEAD)
        else:
            self._set_timer(SECONDS_FOR_BODY if cycle.more_body else None)

    def _set_timer(self, seconds: float | None) -> None:
        if seconds == self._seconds:
            return
        self._seconds = seconds
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None if seconds is None else self.loop.call_later(seconds, self._close)

    def _close(self) -> None:
        if not self.transport.is_closing():
            self.transport.abort()


class WebServer(uvicorn.Server):
    """uvicorn without its signal handlers: the surface that it belongs to decides the order of the shutdown."""

    def __init__(self, app: ASGIApp, *, lifespan: bool = True, seconds_to_drain: int = _SECONDS_TO_DRAIN) -> None:
        self._ending = asyncio.Event()
        super().__init__(
            uvicorn.Config(
                app,
                interface="asgi3",
                http=RequestTimeoutProtocol,
                ws="none",
                proxy_headers=False,
                log_config=None,
                access_log=False,
                server_header=False,
                lifespan="on" if lifespan else "off",
                timeout_graceful_shutdown=seconds_to_drain,
            )
        )

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None]:
        yield

    async def main_loop(self) -> None:
        """Update the date once a second until the end, instead of polling ten times a second."""
        while not await self.on_tick(0):
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._ending.wait(), 1.0)

    async def wait_until_started(self, serving: asyncio.Task[None]) -> None:
        """Wait until requests are accepted, or ``serving``, the task of ``serve``, has ended."""
        while not self.started and not serving.done():
            await asyncio.sleep(0.005)

    def end(self) -> None:
        """Accept no more connections, and end when the open requests are answered."""
        self.should_exit = True
        self._ending.set()


async def serve_app(
    app: ASGIApp,
    listener: socket.socket,
    stop: asyncio.Event,
    announce: Callable[[], None],
    stop_work: Callable[[], Coroutine[Any, Any, None]] | None = None,
    *,
    lifespan: bool = True,
) -> None:
    """Serve on the running loop until ``stop`` is set. ``announce`` is called once requests are accepted.

    ``stop_work`` ends what requests wait for, so that their clients get the last state; then the connections end. It
    is called in any case, also when this is cancelled.
    """
    web = WebServer(app, lifespan=lifespan)
    serving = asyncio.create_task(web.serve(sockets=[listener]))
    ending = asyncio.create_task(stop.wait())
    try:
        await web.wait_until_started(serving)
        announce()
        await asyncio.wait({serving, ending}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        ending.cancel()
        try:
            if stop_work is not None:
                await stop_work()
        finally:
            web.end()
            await serving


def run_until_signal(main: Callable[[StopEvent], Coroutine[Any, Any, None]]) -> None:
    """Run ``main`` on a new loop; the event that it is given is set by each SIGTERM and SIGINT."""

    async def run() -> None:
        stop = StopEvent()
        stop_on_signals(stop)
        await main(stop)

    with asyncio.Runner(loop_factory=fastest_loop()) as runner:
        runner.run(run())


@contextlib.contextmanager
def listening(host: str, port: int) -> Generator[socket.socket]:
    """A socket that listens; ``HermesError`` when the address is not available."""
    try:
        listener = socket.create_server((host, port), family=address_family(host), backlog=_BACKLOG)
        # Connections inherit it. Without it small chunks wait 40 ms, and asyncio sets it only for sockets with an
        # explicit protocol.
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    except OSError as error:
        raise HermesError(f"cannot listen on {host} port {port}: {error.strerror or error}") from error
    with listener:
        yield listener


def address_family(host: str) -> socket.AddressFamily:
    """IPv6 for an IPv6 address, otherwise IPv4."""
    return socket.AF_INET6 if ":" in host else socket.AF_INET


class LibraryLog(logging.Handler):
    """Sends the records of libraries to one of the runtime's own logs, which redact secrets."""

    def __init__(self, name: str) -> None:
        super().__init__(logging.WARNING)
        self.target = logging.getLogger(name)

    def emit(self, record: logging.LogRecord) -> None:
        self.target.handle(record)


def log_libraries(handler: LibraryLog, *names: str) -> None:
    """Keep the logs of these libraries, and of the server itself, off the terminal."""
    for name in ("asyncio", "uvicorn", *names):
        logger = logging.getLogger(name)
        logger.handlers[:] = [handler]
        logger.setLevel(logging.WARNING)
        logger.propagate = False
