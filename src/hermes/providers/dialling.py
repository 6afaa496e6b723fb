"""From a host name to a connected socket, in steps short enough for an interrupt to end."""

from __future__ import annotations

import errno
import os
import select
import socket
import threading
import time
from typing import Any

from hermes.providers.exchange import Exchange

#: How often a wait that no socket can end (a name look-up, a connect) looks at the interrupt.
_TICK = 0.05

_Address = tuple[Any, ...]


def dial(host: str, port: int, exchange: Exchange, until: float | None) -> socket.socket:
    """A socket connected to the host before ``until``, a moment of the monotonic clock."""
    return _connect_first(_resolve(host, port, exchange, until), exchange, until)


def _resolve(host: str, port: int, exchange: Exchange, until: float | None) -> list[_Address]:
    """The addresses of a host. A look-up that may block runs in a thread, so that it can be left behind."""
    if host == "localhost" or ":" in host or host.replace(".", "").isdigit():
        return list(socket.getaddrinfo(host, port, type=socket.SOCK_STREAM))
    found: list[_Address] = []
    failed: list[Exception] = []
    finished = threading.Event()

    def look_up() -> None:
        try:
            found.extend(socket.getaddrinfo(host, port, type=socket.SOCK_STREAM))
        except (OSError, UnicodeError) as error:  # a label of more than 63 characters is the latter
            failed.append(error)
        finally:
            finished.set()

    threading.Thread(target=look_up, name="hermes-resolve", daemon=True).start()
    while not finished.wait(_TICK):
        exchange.interrupt.check()
        exchange.left(until)
    if failed:
        raise OSError(str(failed[0])) if isinstance(failed[0], UnicodeError) else failed[0]
    return found


def _connect_first(addresses: list[_Address], exchange: Exchange, until: float | None) -> socket.socket:
    """A socket connected to the first address that answers; each gets its share of the time left."""
    last: OSError = OSError("the host has no address")
    for position, (family, kind, protocol, _, address) in enumerate(addresses):
        left = exchange.left(until)
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
        while not ready(sock, select.POLLOUT, _TICK):
            exchange.interrupt.check()
            if until is not None and time.monotonic() >= until:
                raise TimeoutError(errno.ETIMEDOUT, "no answer to the connect")
        code = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
    if code:
        raise OSError(code, os.strerror(code))


def ready(sock: socket.socket, event: int, seconds: float) -> bool:
    """Whether the socket has reached the event within the time given."""
    poll = select.poll()
    poll.register(sock, event)
    return bool(poll.poll(seconds * 1000))
