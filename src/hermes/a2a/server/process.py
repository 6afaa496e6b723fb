"""Runs the server in this process until it is told to stop."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import socket
from collections.abc import AsyncGenerator, Callable, Generator
from typing import Any, cast
from urllib.parse import urlsplit

import uvicorn

from hermes.a2a.server.access.listen_address import Place, check_place
from hermes.a2a.server.access.principals import Principals, is_wildcard
from hermes.a2a.server.access.slow_loris import PunctualProtocol
from hermes.a2a.server.access.sole import only_server
from hermes.a2a.server.app import A2AServer, Address
from hermes.errors import HermesError
from hermes.host import Host

_SECONDS_TO_DRAIN = 3
_BACKLOG = 2_048


def serve(host: Host, place: Place, principals: Principals, announce: Callable[[str, str], None]) -> None:
    """Serve until SIGTERM or SIGINT; ``announce`` is told the base URL and the gRPC address once all is ready."""

    async def main() -> None:
        stop = asyncio.Event()
        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, stop.set)
        await serve_until(stop, host, place, principals, announce)

    with asyncio.Runner(loop_factory=_fastest_loop()) as runner:
        runner.run(main())


def _fastest_loop() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """A loop in C where there is one. uvicorn finds its parser in C by itself."""
    try:
        import uvloop  # pyright: ignore[reportMissingImports]
    except ImportError:
        return None
    return cast("Any", uvloop).new_event_loop


async def serve_until(
    stop: asyncio.Event, host: Host, place: Place, principals: Principals, announce: Callable[[str, str], None]
) -> None:
    """The same, on a loop that is there already."""
    check_place(place, principals)
    with _listening(place) as listener, only_server(host.home):
        called = "127.0.0.1" if is_wildcard(place.host) else place.host
        local_url = base_url(called, listener.getsockname()[1])
        grpc_port = _free_port(place.host) if place.grpc_port == 0 else place.grpc_port
        grpc_address = f"{urlsplit(place.public_url).hostname or called}:{grpc_port}" if grpc_port else ""
        server = A2AServer(host, Address(place.public_url.rstrip("/") or local_url, grpc_address), principals)
        try:
            async with _grpc(server, place.host, grpc_port):
                await _serve_http(server, listener, stop, lambda: announce(local_url, grpc_address))
        finally:
            await server.aclose()


@contextlib.contextmanager
def _listening(place: Place) -> Generator[socket.socket]:
    try:
        listener = socket.create_server((place.host, place.port), family=_family(place.host), backlog=_BACKLOG)
        # Connections inherit it. Without it small pieces wait 40 ms, and asyncio sees to it only for sockets whose
        # protocol is spelt out.
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    except OSError as error:
        raise HermesError(f"cannot listen on {place.host} port {place.port}: {error.strerror or error}") from error
    with listener:
        yield listener


async def _serve_http(
    server: A2AServer, listener: socket.socket, stop: asyncio.Event, announce: Callable[[], None]
) -> None:
    web = _Web(server)
    serving = asyncio.create_task(web.serve(sockets=[listener]))
    ending = asyncio.create_task(stop.wait())
    while not web.started and not serving.done():
        await asyncio.sleep(0.005)
    announce()
    await asyncio.wait({serving, ending}, return_when=asyncio.FIRST_COMPLETED)
    ending.cancel()
    # First the turns, so that those who wait hear how their tasks ended; then the connections.
    await server.turns.stop()
    web.end()
    await serving


@contextlib.asynccontextmanager
async def _grpc(server: A2AServer, host: str, port: int | None) -> AsyncGenerator[None]:
    if port is None:
        yield
        return
    from hermes.a2a.server.grpc_binding import GrpcBinding  # few serve it, and it is a large package

    binding = GrpcBinding(server)
    await binding.start(host, port)
    try:
        yield
    finally:
        await binding.stop()


def _free_port(host: str) -> int:
    """A port that nobody uses now; the card must name it before anything listens there."""
    with socket.create_server((host, 0), family=_family(host)) as probe:
        return probe.getsockname()[1]


def _family(host: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in host else socket.AF_INET


def base_url(host: str, port: int) -> str:
    """How the server is called at that host."""
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


class _Web(uvicorn.Server):
    """uvicorn without its signal handlers: when and in which order things end is decided here."""

    def __init__(self, server: A2AServer) -> None:
        self._ending = asyncio.Event()
        super().__init__(
            uvicorn.Config(
                server.app,
                interface="asgi3",
                http=PunctualProtocol,
                ws="none",
                proxy_headers=False,
                log_config=None,
                access_log=False,
                server_header=False,
                lifespan="on",
                timeout_graceful_shutdown=_SECONDS_TO_DRAIN,
            )
        )

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None]:
        yield

    async def main_loop(self) -> None:
        """Keep the date right until the end is wanted, instead of asking for that ten times a second."""
        while not await self.on_tick(0):
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._ending.wait(), 1.0)

    def end(self) -> None:
        """Take nothing on any more, and end when what is under way is over."""
        self.should_exit = True
        self._ending.set()


class _ToLog(logging.Handler):
    """Sends what libraries report to the runtime's own log, which knows what must not be written."""

    def emit(self, record: logging.LogRecord) -> None:
        logging.getLogger("hermes.a2a").handle(record)


def log_libraries() -> None:
    """Nothing of what the libraries log goes to the terminal."""
    for name in ("a2a", "asyncio", "grpc", "sse_starlette", "uvicorn"):
        logger = logging.getLogger(name)
        logger.handlers[:] = [_ToLog(logging.WARNING)]
        logger.setLevel(logging.WARNING)
        logger.propagate = False
