"""uvicorn on a loop of the caller: a listening socket, an orderly end, and the logs of libraries in the own log."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from collections.abc import Callable, Coroutine, Generator
from typing import Any

import uvicorn
from starlette.types import ASGIApp

from hermes.base.errors import HermesError
from hermes.base.http_server.slow_loris import RequestTimeoutProtocol
from hermes.base.http_server.stopping import StopEvent, fastest_loop, stop_on_signals

_SECONDS_TO_DRAIN = 3
_BACKLOG = 2_048


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
