"""The server process: listening, uvicorn, signals, and the lock that allows one server per home."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import logging
import os
import signal
import socket
from collections.abc import AsyncGenerator, Callable, Generator
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlsplit

import uvicorn

from hermes.a2a.server.access.listen_address import ListenAddress, check_listen_address, is_wildcard
from hermes.a2a.server.access.principals import Principals
from hermes.a2a.server.access.slow_loris import RequestTimeoutProtocol
from hermes.a2a.server.app import A2AServer, PublicAddress
from hermes.errors import HermesError
from hermes.host import Host

_SECONDS_TO_DRAIN = 3
_BACKLOG = 2_048


def serve(host: Host, address: ListenAddress, principals: Principals, announce: Callable[[str, str], None]) -> None:
    """Serve until SIGTERM or SIGINT; ``announce`` gets the base URL and the gRPC address once all is ready."""

    async def main() -> None:
        stop = asyncio.Event()
        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, stop.set)
        await serve_until(stop, host, address, principals, announce)

    with asyncio.Runner(loop_factory=_fastest_loop()) as runner:
        runner.run(main())


def _fastest_loop() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """uvloop where it is installed. uvicorn finds httptools by itself."""
    try:
        import uvloop  # pyright: ignore[reportMissingImports]
    except ImportError:
        return None
    return cast("Any", uvloop).new_event_loop


async def serve_until(
    stop: asyncio.Event,
    host: Host,
    address: ListenAddress,
    principals: Principals,
    announce: Callable[[str, str], None],
) -> None:
    """Serve on the running loop until ``stop`` is set."""
    check_listen_address(address, principals)
    with _listening(address) as listener, single_instance(host.home):
        called = "127.0.0.1" if is_wildcard(address.host) else address.host
        local_url = base_url(called, listener.getsockname()[1])
        grpc_port = _free_port(address.host) if address.grpc_port == 0 else address.grpc_port
        grpc_address = f"{urlsplit(address.public_url).hostname or called}:{grpc_port}" if grpc_port else ""
        server = A2AServer(host, PublicAddress(address.public_url.rstrip("/") or local_url, grpc_address), principals)
        try:
            await server.recover()  # before any caller can reach a task
            async with _grpc(server, address.host, grpc_port):
                await _serve_http(server, listener, stop, lambda: announce(local_url, grpc_address))
        finally:
            await server.aclose()


@contextlib.contextmanager
def single_instance(home: Path) -> Generator[None]:
    """Hold the lock that allows one server per home. The system releases it when the process dies.

    A second server would take up the running tasks of the first one.
    """
    home.mkdir(parents=True, exist_ok=True, mode=0o700)
    descriptor = os.open(home / "a2a.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise HermesError(
                f"another A2A server uses {home}; stop that one first, or set HERMES_HOME to another folder"
            ) from None
        yield
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def _listening(address: ListenAddress) -> Generator[socket.socket]:
    try:
        listener = socket.create_server((address.host, address.port), family=_family(address.host), backlog=_BACKLOG)
        # Connections inherit it. Without it small chunks wait 40 ms, and asyncio sets it only for sockets with an
        # explicit protocol.
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    except OSError as error:
        raise HermesError(f"cannot listen on {address.host} port {address.port}: {error.strerror or error}") from error
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
    # First the turns, so that callers get the last state of their tasks; then the connections.
    await server.stop_turns()
    web.end()
    await serving


@contextlib.asynccontextmanager
async def _grpc(server: A2AServer, host: str, port: int | None) -> AsyncGenerator[None]:
    if port is None:
        yield
        return
    try:
        from hermes.a2a.server.grpc_binding import GrpcBinding  # optional, and a large package
    except ImportError as error:
        raise HermesError(
            f"gRPC needs the extra a2a-grpc ({error.name or 'grpc'} is not installed); install it with: "
            f"hermes install a2a-grpc"
        ) from None

    binding = GrpcBinding(server)
    await binding.start(host, port)
    try:
        yield
    finally:
        await binding.stop()


def _free_port(host: str) -> int:
    """A free port; the card must name it before the server listens there."""
    with socket.create_server((host, 0), family=_family(host)) as probe:
        return probe.getsockname()[1]


def _family(host: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in host else socket.AF_INET


def base_url(host: str, port: int) -> str:
    """The URL of the server at that host."""
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


class _Web(uvicorn.Server):
    """uvicorn without its signal handlers: the order of the shutdown is decided here."""

    def __init__(self, server: A2AServer) -> None:
        self._ending = asyncio.Event()
        super().__init__(
            uvicorn.Config(
                server.app,
                interface="asgi3",
                http=RequestTimeoutProtocol,
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
        """Update the date once a second until the end, instead of polling ten times a second."""
        while not await self.on_tick(0):
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._ending.wait(), 1.0)

    def end(self) -> None:
        """Accept no more connections, and end when the open requests are answered."""
        self.should_exit = True
        self._ending.set()


#: The beginnings of what the SDK logs about requests that are malformed, and how it marks its own failures among them.
_CALLERS_MISTAKES = ("Failed to validate", "Failed to parse", "Request Error", "Version mismatch")
_INTERNAL = "Code=-32603"


class _ToLog(logging.Handler):
    """Sends the records of libraries to the runtime's own log, which redacts secrets."""

    def emit(self, record: logging.LogRecord) -> None:
        log = logging.getLogger("hermes.a2a")
        if str(record.msg).startswith(_CALLERS_MISTAKES) and _INTERNAL not in record.getMessage():
            # Anyone who may call could fill the log; the error is in the answer.
            record.levelno, record.levelname, record.exc_info = logging.DEBUG, "DEBUG", None
            if not log.isEnabledFor(logging.DEBUG):
                return
        log.handle(record)


def log_libraries() -> None:
    """Keep the logs of libraries off the terminal."""
    for name in ("a2a", "asyncio", "grpc", "sse_starlette", "uvicorn"):
        logger = logging.getLogger(name)
        logger.handlers[:] = [_ToLog(logging.WARNING)]
        logger.setLevel(logging.WARNING)
        logger.propagate = False
