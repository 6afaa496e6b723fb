"""Sockets that an interrupt can wake: the network layer under the HTTP connections."""

from __future__ import annotations

import contextlib
import errno
import os
import select
import socket
import ssl
import threading
import time
from collections.abc import Iterable
from typing import Any, Literal

import httpcore2

from hermes.providers.endpoint import Timeouts
from hermes.scope import Interrupt

Phase = Literal["connect", "first byte", "next chunk", "total"]

#: How often a wait that no socket can end (a name look-up, a connect) looks at the interrupt.
_TICK = 0.05


class TimedOut(Exception):
    """A phase of the request took longer than it may."""

    def __init__(self, phase: Phase, seconds: float) -> None:
        super().__init__(f"{phase}: {seconds} s")
        self.phase: Phase = phase
        self.seconds = seconds


class Exchange:
    """One request in hand: what may end it early, and the socket it is waiting on.

    A cancelled socket looks like one the server closed, so whoever sees an end or an error asks the
    interrupt first. The order in ``hold`` (store the socket, then look) leaves no gap for a lost wake-up.
    """

    __slots__ = ("_deadline", "_socket", "interrupt", "phase", "timeouts")

    def __init__(self, interrupt: Interrupt, timeouts: Timeouts) -> None:
        self.interrupt = interrupt
        self.timeouts = timeouts
        self.phase: Phase = "connect"
        self._deadline = None if timeouts.total is None else time.monotonic() + timeouts.total
        self._socket: socket.socket | None = None

    def hold(self, sock: socket.socket) -> None:
        """Name the socket the request is about to wait on."""
        self._socket = sock
        if self.interrupt.cancelled:
            self.interrupt.check()

    def shut_down(self) -> None:
        """Wake whoever waits on the socket. Called by the interrupt, from any thread or a signal handler."""
        sock = self._socket
        if sock is not None:
            with contextlib.suppress(OSError):
                # Not the method of SSLSocket: that one also drops the TLS state under the reader's feet.
                socket.socket.shutdown(sock, socket.SHUT_RDWR)

    def limit(self, seconds: float | None) -> float | None:
        """How long the next wait may take: ``seconds``, or less when the total runs out before."""
        if self._deadline is None:
            return seconds
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise self.timed_out()
        return left if seconds is None or left < seconds else seconds

    def timed_out(self) -> TimedOut:
        """The error for a wait that ran out now."""
        total = self.timeouts.total
        if total is not None and self._deadline is not None and time.monotonic() >= self._deadline:
            return TimedOut("total", total)
        return TimedOut(self.phase, self._phase_limit() or 0.0)

    def read_limit(self) -> float | None:
        return self.limit(self._phase_limit())

    def settle_for(self, seconds: float) -> None:
        """The answer is complete: wait only a moment for the body's formal end."""
        self.phase = "next chunk"
        self.timeouts = Timeouts(first_byte=seconds, between_chunks=seconds, total=self.timeouts.total)

    def _phase_limit(self) -> float | None:
        if self.phase == "connect":
            return self.timeouts.connect
        return self.timeouts.first_byte if self.phase == "first byte" else self.timeouts.between_chunks


class InterruptibleBackend(httpcore2.NetworkBackend):
    """Opens the socket of one connection. ``exchange`` is the request that uses it now, set by the driver."""

    def __init__(self) -> None:
        self.exchange: Exchange | None = None

    def in_hand(self) -> Exchange:
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
            addresses = _resolve(host, port, exchange, until)
            sock = _connect_first(addresses, exchange, until)
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
            self._socket.settimeout(exchange.limit(_left(self._connect_until, exchange)))
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
            return self._socket.fileno() < 0 or _ready(self._socket, select.POLLIN, 0)
        if info == "socket":
            return self._socket
        return None

    def _set_timeout(self, seconds: float | None) -> None:
        if seconds != self._timeout:
            self._socket.settimeout(seconds)
            self._timeout = seconds


_Address = tuple[Any, ...]


def _resolve(host: str, port: int, exchange: Exchange, until: float | None) -> list[_Address]:
    """The addresses of a host. A look-up that may block runs in a thread, so that it can be left behind."""
    if host == "localhost" or ":" in host or host.replace(".", "").isdigit():
        return list(socket.getaddrinfo(host, port, type=socket.SOCK_STREAM))
    found: list[_Address] = []
    failed: list[OSError] = []
    finished = threading.Event()

    def look_up() -> None:
        try:
            found.extend(socket.getaddrinfo(host, port, type=socket.SOCK_STREAM))
        except OSError as error:
            failed.append(error)
        finally:
            finished.set()

    threading.Thread(target=look_up, name="hermes-resolve", daemon=True).start()
    while not finished.wait(_TICK):
        exchange.interrupt.check()
        _left(until, exchange)
    if failed:
        raise failed[0]
    return found


def _connect_first(addresses: list[_Address], exchange: Exchange, until: float | None) -> socket.socket:
    """A socket connected to the first address that answers; each gets its share of the time left."""
    last: OSError = OSError("the host has no address")
    for position, (family, kind, protocol, _, address) in enumerate(addresses):
        left = _left(until, exchange)
        share = None if left is None else time.monotonic() + left / (len(addresses) - position)
        sock = socket.socket(family, kind, protocol)
        try:
            _connect(sock, address, exchange, share)
            return sock
        except OSError as error:
            sock.close()
            last = error
        except BaseException:
            sock.close()
            raise
    if isinstance(last, TimeoutError):
        raise exchange.timed_out() from None
    raise last


def _connect(sock: socket.socket, address: Any, exchange: Exchange, until: float | None) -> None:
    sock.setblocking(False)
    code = sock.connect_ex(address)
    if code in (errno.EINPROGRESS, errno.EWOULDBLOCK):
        while not _ready(sock, select.POLLOUT, _TICK):
            exchange.interrupt.check()
            if until is not None and time.monotonic() >= until:
                raise TimeoutError(errno.ETIMEDOUT, "no answer to the connect")
        code = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
    if code:
        raise OSError(code, os.strerror(code))


def _ready(sock: socket.socket, event: int, seconds: float) -> bool:
    poll = select.poll()
    poll.register(sock, event)
    return bool(poll.poll(seconds * 1000))


def _left(until: float | None, exchange: Exchange) -> float | None:
    """Seconds until the connect limit; raises when it has passed."""
    if until is None:
        return None
    left = until - time.monotonic()
    if left <= 0:
        raise exchange.timed_out()
    return left
