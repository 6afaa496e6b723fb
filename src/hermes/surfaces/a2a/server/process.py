"""The server process: the HTTP server, gRPC beside it, signals, and the lock that allows one server per home."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass
from urllib.parse import urlsplit

from hermes.base.errors import HermesError
from hermes.base.http_server import server as http
from hermes.base.http_server.home_lock import single_instance
from hermes.base.http_server.listen_address import ListenAddress, base_url, check_listen_address, is_wildcard
from hermes.base.http_server.principals import Principals
from hermes.host import Host
from hermes.surfaces.a2a.server.app import A2AServer


@dataclass(frozen=True, slots=True)
class A2AListenAddress(ListenAddress):
    """Where HTTP and gRPC are served."""

    #: None serves no gRPC; 0 is any free port.
    grpc_port: int | None = None


def serve(host: Host, address: A2AListenAddress, principals: Principals, announce: Callable[[str, str], None]) -> None:
    """Serve until SIGTERM or SIGINT; ``announce`` gets the base URL and the gRPC address once all is ready."""
    http.run_until_signal(lambda stop: serve_until(stop, host, address, principals, announce))


async def serve_until(
    stop: asyncio.Event,
    host: Host,
    address: A2AListenAddress,
    principals: Principals,
    announce: Callable[[str, str], None],
) -> None:
    """Serve on the running loop until ``stop`` is set."""
    check_listen_address(address, principals)
    with http.listening(address.host, address.port) as listener, single_instance(host.home, "a2a", "A2A server"):
        called = "127.0.0.1" if is_wildcard(address.host) else address.host
        local_url = base_url(address.host, listener.getsockname()[1])
        grpc_port = _free_port(address.host) if address.grpc_port == 0 else address.grpc_port
        grpc_address = f"{urlsplit(address.public_url).hostname or called}:{grpc_port}" if grpc_port else ""
        public_url = address.public_url.rstrip("/") or local_url
        server = A2AServer(host, public_url, principals, grpc_address=grpc_address)
        try:
            await server.recover()  # before any caller can reach a task
            async with _grpc(server, address.host, grpc_port):
                await http.serve_app(
                    server.app, listener, stop, lambda: announce(local_url, grpc_address), server.stop_turns
                )
        finally:
            await server.aclose()


@contextlib.asynccontextmanager
async def _grpc(server: A2AServer, host: str, port: int | None) -> AsyncGenerator[None]:
    if port is None:
        yield
        return
    try:
        from hermes.surfaces.a2a.server.transports.grpc_binding import GrpcBinding  # optional, and a large package
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
    with socket.create_server((host, 0), family=http.address_family(host)) as probe:
        return probe.getsockname()[1]


#: The beginnings of what the SDK logs about requests that are malformed, and how it marks its own failures among them.
_CALLERS_MISTAKES = ("Failed to validate", "Failed to parse", "Request Error", "Version mismatch")
_INTERNAL = "Code=-32603"


class _SdkLog(http.LibraryLog):
    """The log of the SDK, without what callers do wrong: any of them could fill it, and the error is in the answer."""

    def emit(self, record: logging.LogRecord) -> None:
        if str(record.msg).startswith(_CALLERS_MISTAKES) and _INTERNAL not in record.getMessage():
            record.levelno, record.levelname, record.exc_info = logging.DEBUG, "DEBUG", None
            if not self.target.isEnabledFor(logging.DEBUG):
                return
        super().emit(record)


def log_libraries() -> None:
    """Keep the logs of libraries off the terminal."""
    http.log_libraries(_SdkLog("hermes.a2a"), "a2a", "grpc", "sse_starlette")
