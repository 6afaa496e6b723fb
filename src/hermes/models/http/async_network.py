"""Sockets that a task waits on: the network under a connection of an event loop.

The loop is used for waiting only. The socket, and TLS above it, belong to no loop, so an idle connection can serve
any of them and is closed like a file, even after its loop has ended.
"""

from __future__ import annotations

import asyncio
import os
import select
import socket
from typing import TYPE_CHECKING, Any

from hermes.models.http.address import Address
from hermes.models.http.dialling import TICK, Resolved, connect_file, is_quick, look_up, ready
from hermes.models.http.exchange import Patience
from hermes.models.http.network_errors import ConnectError, ConnectionLost
from hermes.models.http.route import Route
from hermes.models.http.tls_layer import TlsLayer
from hermes.models.http.tunnels import Steps

if TYPE_CHECKING:
    import ssl

_PIECE = 65536


class AsyncStream:
    """A connected socket whose reads and writes leave the loop free. ``patience`` is that of the request in hand."""

    __slots__ = ("_socket", "_tls", "patience")

    def __init__(self, sock: socket.socket, patience: Patience) -> None:
        self._socket = sock
        self._tls: TlsLayer | None = None
        self.patience = patience

    @classmethod
    async def connect(cls, route: Route, patience: Patience) -> AsyncStream:
        """A stream to whoever is first on the way."""
        try:
            return cls(await _dial(route.first, patience), patience)
        except OSError as error:
            raise route.unreachable(error) from error

    async def read(self) -> bytes:
        """The next bytes; empty at the end of the stream, and only then."""
        tls = self._tls
        if tls is None:
            return await self._receive()
        while True:
            try:
                plain = tls.plain()
            except OSError as error:
                raise ConnectionLost(str(error)) from error
            if plain is not None:
                return plain
            tls.receive(await self._receive())

    async def write(self, data: bytes) -> None:
        """Send all of the data; the limit holds for each part that goes out."""
        view = memoryview(data)
        for start in range(0, len(view), _PIECE):
            part = view[start : start + _PIECE]
            await self._send(part if self._tls is None else self._tls.encrypt(part))

    async def negotiate(self, steps: Steps) -> None:
        """Say what the steps want said, and give them what comes back, until they are content."""
        to_send = next(steps)
        while True:
            if to_send:
                await self._send(to_send)
            try:
                to_send = steps.send(await self._receive())
            except StopIteration:
                return

    async def secure(self, context: ssl.SSLContext, host: str) -> None:
        """Go on under TLS."""
        tls = TlsLayer(context, host)
        try:
            await self.negotiate(tls.handshake())
        except OSError as error:  # as every error of TLS is
            raise ConnectError(str(error)) from error
        except ConnectionLost as error:
            raise ConnectError(str(error)) from error.__cause__
        self._tls = tls

    def is_stale(self) -> bool:
        """Whether an idle connection has been closed by the server, or says something that nobody asked for."""
        return ready(self._socket, select.POLLIN, 0)

    def close(self) -> None:
        self._socket.close()

    async def _receive(self) -> bytes:
        seconds = self.patience.left()
        try:
            data = self._socket.recv(_PIECE)
        except BlockingIOError:
            pass
        except OSError as error:
            raise ConnectionLost(str(error)) from error
        else:
            await asyncio.sleep(0)  # a server that never pauses must not keep the loop for itself
            return data
        try:
            async with asyncio.timeout(seconds):
                return await asyncio.get_running_loop().sock_recv(self._socket, _PIECE)
        except TimeoutError:
            raise self.patience.timed_out() from None
        except OSError as error:
            raise ConnectionLost(str(error)) from error

    async def _send(self, data: bytes | memoryview) -> None:
        try:
            async with asyncio.timeout(self.patience.left()):
                await asyncio.get_running_loop().sock_sendall(self._socket, data)
        except TimeoutError:
            raise self.patience.timed_out() from None
        except OSError as error:
            raise ConnectionLost(str(error)) from error


async def _dial(address: Address, patience: Patience) -> socket.socket:
    """A socket connected to the address within the connect limit."""
    if address.socket_path:
        return await _dial_file(address.socket_path, patience)
    sock = await _connect_first(await _resolve(address.host, address.port, patience), patience)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return sock


async def _dial_file(path: str, patience: Patience) -> socket.socket:
    # Not ``sock_connect``: it takes a server that is too busy just now for a connection.
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    sock.setblocking(False)
    try:
        while not connect_file(sock, path):
            patience.left()
            await asyncio.sleep(TICK)
    except BaseException:
        sock.close()
        raise
    return sock


async def _resolve(host: str, port: int, patience: Patience) -> list[Resolved]:
    """The addresses of a host.

    A look-up that may block runs in a daemon thread. The loop's own pool would make the end of the program wait for it.
    """
    if is_quick(host):
        return look_up(host, port)
    import contextlib
    import threading

    loop = asyncio.get_running_loop()
    found: asyncio.Future[list[Resolved]] = loop.create_future()

    def tell(result: list[Resolved] | OSError) -> None:
        if found.done():
            return
        if isinstance(result, OSError):
            found.set_exception(result)
        else:
            found.set_result(result)

    def work() -> None:
        try:
            result: list[Resolved] | OSError = look_up(host, port)
        except OSError as error:
            result = error
        with contextlib.suppress(RuntimeError):  # the loop has ended meanwhile
            loop.call_soon_threadsafe(tell, result)

    threading.Thread(target=work, name="hermes-resolve", daemon=True).start()
    try:
        async with asyncio.timeout(patience.left()):
            return await found
    except TimeoutError:
        raise patience.timed_out() from None


async def _connect_first(addresses: list[Resolved], patience: Patience) -> socket.socket:
    """A socket connected to the first address that answers; each gets its share of the time left."""
    last: OSError = OSError("the host has no address")
    for position, (family, kind, protocol, _, address) in enumerate(addresses):
        left = patience.left()
        sock = socket.socket(family, kind, protocol)
        try:
            await _connect(sock, address, None if left is None else left / (len(addresses) - position))
            return sock
        except OSError as error:
            sock.close()
            last = error
        except BaseException:
            sock.close()
            raise
    if isinstance(last, TimeoutError):
        raise patience.timed_out() from None
    raise last


async def _connect(sock: socket.socket, address: Any, seconds: float | None) -> None:
    sock.setblocking(False)
    async with asyncio.timeout(seconds):
        try:
            await asyncio.get_running_loop().sock_connect(sock, address)
        except OSError as error:
            if error.errno is None:
                raise
            raise OSError(error.errno, os.strerror(error.errno)) from None  # asyncio's own words are less plain
