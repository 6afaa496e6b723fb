"""Sockets that an interrupt can wake: the network under a connection that a thread waits on."""

from __future__ import annotations

import select
import socket
from typing import TYPE_CHECKING

from hermes.models.http.dialling import dial, ready
from hermes.models.http.exchange import Exchange
from hermes.models.http.network_errors import ConnectError, ConnectionLost
from hermes.models.http.route import Route
from hermes.models.http.tunnels import Steps

if TYPE_CHECKING:
    import ssl

_PIECE = 65536


class Stream:
    """A connected socket whose reads and writes end when the request in hand is cancelled.

    ``exchange`` is the request that uses it now; while it connects, everything counts as connecting.
    """

    __slots__ = ("_socket", "_timeout", "exchange")

    def __init__(self, sock: socket.socket, exchange: Exchange) -> None:
        self._socket = sock
        self.exchange = exchange
        self._timeout: float | None = -1.0  # the socket's own setting is unknown

    @classmethod
    def connect(cls, route: Route, exchange: Exchange) -> Stream:
        """A stream to whoever is first on the way."""
        try:
            return cls(dial(route.first, exchange), exchange)
        except OSError as error:
            exchange.interrupt.check()
            raise route.unreachable(error) from error

    def read(self) -> bytes:
        """The next bytes; empty at the end of the stream, and only then."""
        exchange = self.exchange
        exchange.hold(self._socket)
        self._set_timeout(exchange.left())
        try:
            data = self._socket.recv(_PIECE)
        except TimeoutError:
            exchange.interrupt.check()
            raise exchange.timed_out() from None
        except OSError as error:
            exchange.interrupt.check()
            raise ConnectionLost(str(error)) from error
        if not data:
            exchange.interrupt.check()
        return data

    def write(self, data: bytes) -> None:
        """Send all of the data; the limit holds for each part that goes out."""
        exchange = self.exchange
        exchange.hold(self._socket)
        view = memoryview(data)
        try:
            while view:
                self._set_timeout(exchange.left())
                view = view[self._socket.send(view) :]
        except TimeoutError:
            exchange.interrupt.check()
            raise exchange.timed_out() from None
        except OSError as error:
            exchange.interrupt.check()
            raise ConnectionLost(str(error)) from error

    def negotiate(self, steps: Steps) -> None:
        """Say what the steps want said, and give them what comes back, until they are content."""
        to_send = next(steps)
        while True:
            if to_send:
                self.write(to_send)
            try:
                to_send = steps.send(self.read())
            except StopIteration:
                return

    def secure(self, context: ssl.SSLContext, host: str) -> None:
        """Go on under TLS."""
        exchange = self.exchange
        # Wrapping takes the socket away from its object before the handshake; a second handle keeps it wakeable.
        handle = self._socket.dup()
        try:
            exchange.hold(handle)
            self._socket.settimeout(exchange.left())
            self._socket = context.wrap_socket(self._socket, server_hostname=host)
            self._timeout = -1.0
        except OSError as error:
            exchange.interrupt.check()
            if isinstance(error, TimeoutError):
                raise exchange.timed_out() from None
            raise ConnectError(str(error)) from error
        finally:
            handle.close()

    def is_stale(self) -> bool:
        """Whether an idle connection has been closed by the server, or says something that nobody asked for."""
        return ready(self._socket, select.POLLIN, 0)

    def close(self) -> None:
        self._socket.close()

    def _set_timeout(self, seconds: float | None) -> None:
        if seconds != self._timeout:
            self._socket.settimeout(seconds)
            self._timeout = seconds
