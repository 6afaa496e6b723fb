"""Sockets that an interrupt can wake: the network layer under the HTTP connections."""

from __future__ import annotations

import select
import socket
import ssl
import time
from collections.abc import Iterable
from typing import Any

import httpcore2

from hermes.providers.dialling import dial, ready
from hermes.providers.exchange import Exchange


class InterruptibleBackend(httpcore2.NetworkBackend):
    """Opens the socket of one connection. ``exchange`` is the request that uses it now, set by the driver."""

    def __init__(self) -> None:
        self.exchange: Exchange | None = None

    def in_hand(self) -> Exchange:
        """The request that uses the connection now."""
        if self.exchange is None:
            raise RuntimeError("a connection was used outside of a request")
        return self.exchange

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore2.SOCKET_OPTION] | None = None,
    ) -> httpcore2.NetworkStream:
        """Connect, trying each address of the host in turn within the connect limit."""
        exchange = self.in_hand()
        exchange.phase = "connect"
        limit = exchange.limit(exchange.timeouts.connect)
        until = None if limit is None else time.monotonic() + limit
        try:
            sock = dial(host, port, exchange, until)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        except OSError as error:
            exchange.interrupt.check()
            raise httpcore2.ConnectError(str(error)) from error
        exchange.phase = "first byte"
        return InterruptibleStream(sock, self, until)


class InterruptibleStream(httpcore2.NetworkStream):
    """A connected socket whose reads and writes end when the request in hand is cancelled."""

    def __init__(self, sock: socket.socket, backend: InterruptibleBackend, connect_until: float | None) -> None:
        self._socket = sock
        self._backend = backend
        self._connect_until = connect_until
        self._timeout: float | None = -1.0  # the socket's own setting is unknown

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        """The next bytes; empty at the end of the stream, and only then."""
        exchange = self._backend.in_hand()
        exchange.hold(self._socket)
        self._set_timeout(exchange.read_limit())
        try:
            data = self._socket.recv(max_bytes)
        except TimeoutError:
            exchange.interrupt.check()
            raise exchange.timed_out() from None
        except OSError as error:
            exchange.interrupt.check()
            raise httpcore2.ReadError(str(error)) from error
        if data:
            exchange.phase = "next chunk"
        else:
            exchange.interrupt.check()
        return data

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        """Send all of ``buffer``; the limit between chunks holds for each part that goes out."""
        exchange = self._backend.in_hand()
        exchange.phase = "first byte"
        exchange.hold(self._socket)
        view = memoryview(buffer)
        try:
            while view:
                self._set_timeout(exchange.limit(exchange.timeouts.between_chunks))
                view = view[self._socket.send(view) :]
        except TimeoutError:
            exchange.interrupt.check()
            raise exchange.timed_out() from None
        except OSError as error:
            exchange.interrupt.check()
            raise httpcore2.WriteError(str(error)) from error

    def close(self) -> None:
        self._socket.close()

    def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore2.NetworkStream:
        """The same connection under TLS."""
        exchange = self._backend.in_hand()
        exchange.phase = "connect"
        if isinstance(self._socket, ssl.SSLSocket):
            self.close()
            raise httpcore2.ConnectError("an https:// proxy cannot carry https:// requests; use an http:// proxy URL")
        # Wrapping takes the socket away from its object before the handshake; a second handle keeps it wakeable.
        handle = self._socket.dup()
        try:
            exchange.hold(handle)
            self._socket.settimeout(exchange.limit(exchange.left(self._connect_until)))
            wrapped = ssl_context.wrap_socket(self._socket, server_hostname=server_hostname)
        except BaseException as error:
            self.close()
            if not isinstance(error, OSError):
                raise
            exchange.interrupt.check()
            if isinstance(error, TimeoutError):
                raise exchange.timed_out() from None
            raise httpcore2.ConnectError(str(error)) from error
        finally:
            handle.close()
        exchange.phase = "first byte"
        return InterruptibleStream(wrapped, self._backend, self._connect_until)

    def get_extra_info(self, info: str) -> Any:
        if info == "ssl_object":
            return self._socket if isinstance(self._socket, ssl.SSLSocket) else None
        if info == "is_readable":
            return self._socket.fileno() < 0 or ready(self._socket, select.POLLIN, 0)
        if info == "socket":
            return self._socket
        return None

    def _set_timeout(self, seconds: float | None) -> None:
        if seconds != self._timeout:
            self._socket.settimeout(seconds)
            self._timeout = seconds
