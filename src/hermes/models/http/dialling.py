"""From an address to a connected socket, in steps short enough for an interrupt to end."""

from __future__ import annotations

import errno
import os
import select
import socket
import threading
import time
from typing import Any

from hermes.models.http.address import Address
from hermes.models.http.exchange import Exchange

#: How often a wait that no socket can end (a name look-up, a connect) looks at the interrupt.
TICK = 0.05

Resolved = tuple[Any, ...]

_UNDER_WAY = (errno.EINPROGRESS, errno.EWOULDBLOCK, errno.EAGAIN)


def dial(address: Address, exchange: Exchange) -> socket.socket:
    """A socket connected to the address within the connect limit."""
    if address.socket_path:
        return _dial_file(address.socket_path, exchange)
    sock = _connect_first(_resolve(address.host, address.port, exchange), exchange)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return sock


def is_quick(host: str) -> bool:
    """Whether the address of a host is known without asking anybody else."""
    return host == "localhost" or ":" in host or host.replace(".", "").isdigit()


def look_up(host: str, port: int) -> list[Resolved]:
    """The addresses of a host, which may take long."""
    try:
        return list(socket.getaddrinfo(host, port, type=socket.SOCK_STREAM))
    except UnicodeError as error:  # a label of more than 63 characters
        raise OSError(str(error)) from None


def connect_file(sock: socket.socket, path: str) -> bool:
    """Try to connect to a socket file; false when the server has too many callers waiting just now."""
    try:
        code = sock.connect_ex(path)
    except OSError as error:  # a path that is too long
        raise OSError(f"{path}: {error}") from None
    if code in _UNDER_WAY:
        return False
    if code:
        raise OSError(code, os.strerror(code))
    return True


def ready(sock: socket.socket, event: int, seconds: float) -> bool:
    """Whether the socket has reached the event within the time given."""
    poll = select.poll()
    poll.register(sock, event)
    return bool(poll.poll(seconds * 1000))


def _dial_file(path: str, exchange: Exchange) -> socket.socket:
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    sock.setblocking(False)
    try:
        while not connect_file(sock, path):
            exchange.left()
            exchange.interrupt.wait(TICK)
            exchange.interrupt.check()
    except BaseException:
        sock.close()
        raise
    return sock


def _resolve(host: str, port: int, exchange: Exchange) -> list[Resolved]:
    """The addresses of a host. A look-up that may block runs in a thread, so that it can be left behind."""
    if is_quick(host):
        return look_up(host, port)
    found: list[Resolved] = []
    failed: list[OSError] = []
    finished = threading.Event()

    def work() -> None:
        try:
            found.extend(look_up(host, port))
        except OSError as error:
            failed.append(error)
        finally:
            finished.set()

    threading.Thread(target=work, name="hermes-resolve", daemon=True).start()
    while not finished.wait(TICK):
        exchange.interrupt.check()
        exchange.left()
    if failed:
        raise failed[0]
    return found


def _connect_first(addresses: list[Resolved], exchange: Exchange) -> socket.socket:
    """A socket connected to the first address that answers; each gets its share of the time left."""
    last: OSError = OSError("the host has no address")
    for position, (family, kind, protocol, _, address) in enumerate(addresses):
        left = exchange.left()
        until = None if left is None else time.monotonic() + left / (len(addresses) - position)
        sock = socket.socket(family, kind, protocol)
        try:
            _connect(sock, address, exchange, until)
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
    if code in _UNDER_WAY:
        while not ready(sock, select.POLLOUT, TICK):
            exchange.interrupt.check()
            if until is not None and time.monotonic() >= until:
                raise TimeoutError(errno.ETIMEDOUT, "no answer to the connect")
        code = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
    if code:
        raise OSError(code, os.strerror(code))
