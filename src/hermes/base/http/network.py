"""Sockets that an interrupt can wake: the DNS look-up, connecting, and a stream with deadlines."""

from __future__ import annotations

import errno
import os
import select
import socket
import threading
import time
from collections.abc import Generator
from typing import TYPE_CHECKING, Any

from hermes.base.http.errors import ConnectError, ConnectionLost
from hermes.base.http.exchange import Exchange

if TYPE_CHECKING:
    import ssl

#: How often a wait that no socket can end (a DNS look-up, a connect) checks the interrupt.
_TICK = 0.05
#: How often the main thread stops waiting for bytes, so that the handlers of signals can run.
_SIGNAL_TICK = 0.25
_CHUNK = 65536
_IN_PROGRESS = (errno.EINPROGRESS, errno.EWOULDBLOCK, errno.EAGAIN)

#: One entry of ``getaddrinfo``.
Resolved = tuple[Any, ...]
#: A dialogue without I/O: yields bytes to send, possibly none, and is sent the bytes that arrived.
Steps = Generator[bytes, bytes, None]


def resolve(host: str, port: int, exchange: Exchange) -> list[Resolved]:
    """The addresses of a host. A look-up that may block runs in a daemon thread, so that it can be abandoned."""
    if host == "localhost" or ":" in host or host.replace(".", "").isdigit():
        return _look_up(host, port)
    found: list[Resolved] = []
    failed: list[OSError] = []
    finished = threading.Event()

    def work() -> None:
        try:
            found.extend(_look_up(host, port))
        except OSError as error:
            failed.append(error)
        finally:
            finished.set()

    threading.Thread(target=work, name="hermes-dns", daemon=True).start()
    while not finished.wait(_TICK):
        exchange.interrupt.check()
        exchange.remaining()
    if failed:
        raise failed[0]
    return found


def _look_up(host: str, port: int) -> list[Resolved]:
    # Text goes through the IDNA codec, whose tables nothing else needs.
    name = host.encode() if host.isascii() else host
    try:
        return list(socket.getaddrinfo(name, port, type=socket.SOCK_STREAM))
    except UnicodeError as error:  # a label of more than 63 characters
        raise OSError(str(error)) from None


class Stream:
    """A connected socket whose reads and writes end when the current request is cancelled or late.

    ``exchange`` is the request that uses it now; until the connection is complete, everything counts as connecting.
    """

    __slots__ = ("_socket", "_timeout", "exchange", "ip")

    def __init__(self, sock: socket.socket, exchange: Exchange, ip: str = "") -> None:
        self._socket = sock
        self.exchange = exchange
        #: The address that the socket is connected to.
        self.ip = ip
        self._timeout: float | None = -1.0  # the socket's own setting is unknown

    @classmethod
    def open_file(cls, path: str, exchange: Exchange) -> Stream:
        """A stream to a Unix socket. Raises ``OSError``."""
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        sock.setblocking(False)
        try:
            while not _connect_file(sock, path):
                exchange.remaining()
                exchange.interrupt.wait(_TICK)
                exchange.interrupt.check()
        except BaseException:
            sock.close()
            raise
        return cls(sock, exchange)

    @classmethod
    def open(cls, addresses: list[Resolved], exchange: Exchange) -> Stream:
        """A stream to the first address that answers; each gets its share of the remaining time. Raises ``OSError``."""
        last: OSError = OSError("the host has no address")
        for position, (family, kind, protocol, _, address) in enumerate(addresses):
            left = exchange.remaining()
            until = None if left is None else time.monotonic() + left / (len(addresses) - position)
            sock = socket.socket(family, kind, protocol)
            try:
                _connect(sock, address, exchange, until)
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                return cls(sock, exchange, str(address[0]))
            except OSError as error:
                sock.close()
                last = error
            except BaseException:
                sock.close()
                raise
        if isinstance(last, TimeoutError):
            raise exchange.timed_out() from None
        raise last

    def read(self) -> bytes:
        """The next bytes; empty at the end of the stream, and only then."""
        exchange = self.exchange
        exchange.hold(self._socket)
        try:
            data = self._receive(exchange.remaining())
        except TimeoutError:
            exchange.interrupt.check()
            raise exchange.timed_out() from None
        except OSError as error:
            exchange.interrupt.check()
            raise ConnectionLost(str(error)) from error
        if not data:
            exchange.interrupt.check()
        return data

    def _receive(self, seconds: float | None) -> bytes:
        if not self.exchange.is_on_main_thread:
            self._set_timeout(seconds)
            return self._socket.recv(_CHUNK)
        # A signal that arrives just before the wait does not end it, and its handler cannot run until it has ended.
        until = None if seconds is None else time.monotonic() + seconds
        while True:
            left = None if until is None else max(until - time.monotonic(), 0.001)
            self._set_timeout(_SIGNAL_TICK if left is None or left > _SIGNAL_TICK else left)
            try:
                return self._socket.recv(_CHUNK)
            except TimeoutError:
                self.exchange.interrupt.check()
                if until is not None and time.monotonic() >= until:
                    raise

    def write(self, data: bytes) -> None:
        """Send all of the data; the limit applies to each part that goes out."""
        exchange = self.exchange
        exchange.hold(self._socket)
        view = memoryview(data)
        try:
            while view:
                self._set_timeout(exchange.remaining())
                view = view[self._socket.send(view) :]
        except TimeoutError:
            exchange.interrupt.check()
            raise exchange.timed_out() from None
        except OSError as error:
            exchange.interrupt.check()
            raise ConnectionLost(str(error)) from error

    def negotiate(self, steps: Steps) -> None:
        """Run a dialogue to its end."""
        to_send = next(steps)
        while True:
            if to_send:
                self.write(to_send)
            try:
                to_send = steps.send(self.read())
            except StopIteration:
                return

    def secure(self, context: ssl.SSLContext, host: str) -> None:
        """Switch to TLS."""
        exchange = self.exchange
        # Wrapping takes the socket away from its object before the handshake; a second handle keeps it wakeable.
        handle = self._socket.dup()
        try:
            exchange.hold(handle)
            self._socket.settimeout(exchange.remaining())
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
        """Whether the server has closed an idle connection, or sent something without a request."""
        return _is_ready(self._socket, select.POLLIN, 0)

    def close(self) -> None:
        self._socket.close()

    def _set_timeout(self, seconds: float | None) -> None:
        if seconds != self._timeout:
            self._socket.settimeout(seconds)
            self._timeout = seconds


def _is_ready(sock: socket.socket, event: int, seconds: float) -> bool:
    poll = select.poll()
    poll.register(sock, event)
    return bool(poll.poll(seconds * 1000))


def _connect_file(sock: socket.socket, path: str) -> bool:
    """Try to connect to a socket file; false when the server has too many callers waiting just now."""
    try:
        code = sock.connect_ex(path)
    except OSError as error:  # a path that is too long
        raise OSError(f"{path}: {error}") from None
    if code in _IN_PROGRESS:
        return False
    if code:
        raise OSError(code, os.strerror(code))
    return True


def _connect(sock: socket.socket, address: Any, exchange: Exchange, until: float | None) -> None:
    sock.setblocking(False)
    code = sock.connect_ex(address)
    if code in _IN_PROGRESS:
        while not _is_ready(sock, select.POLLOUT, _TICK):
            exchange.interrupt.check()
            if until is not None and time.monotonic() >= until:
                raise TimeoutError(errno.ETIMEDOUT, "no answer to the connect")
        code = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
    if code:
        raise OSError(code, os.strerror(code))
