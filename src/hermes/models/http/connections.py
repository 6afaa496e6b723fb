"""The open connections of a process, each lent to one request at a time."""

from __future__ import annotations

import threading
import time
from typing import Generic, Protocol, TypeVar

from hermes.models.http.http11 import Conversation
from hermes.models.http.proxies import Proxy


class Closable(Protocol):
    """What a connection needs of the stream under it when no request is using it."""

    def is_stale(self) -> bool: ...

    def close(self) -> None: ...


S = TypeVar("S", bound=Closable)


class Connection(Generic[S]):
    """One connection to one server: the stream, and the HTTP that is spoken on it."""

    __slots__ = ("http", "idle_since", "key", "proxy", "stream")

    def __init__(self, key: str, stream: S, proxy: Proxy | None = None) -> None:
        #: The server and whose certificates are trusted: who asks for the same may use the connection.
        self.key = key
        self.stream = stream
        self.http = Conversation()
        #: The proxy that is told with every request where it goes; ``None`` when the server itself listens.
        self.proxy = proxy
        self.idle_since = 0.0


class Connections(Generic[S]):
    """Idle connections by server, the last one used first.

    A request has its connection to itself, so there is no shared pool for a thousand threads to queue at:
    taking one is a list operation under a short lock. The warmest connection serves the next request,
    whichever thread, event loop, child or plugin sends it.
    """

    def __init__(self, *, max_idle: int = 1024, keep_alive: float = 60.0) -> None:
        self._max_idle = max_idle
        self._keep_alive = keep_alive
        self._idle: dict[str, list[Connection[S]]] = {}
        self._lock = threading.Lock()
        self._closed = False

    def take(self, key: str) -> Connection[S] | None:
        """An idle connection that is still good, if there is one."""
        while True:
            with self._lock:
                idle = self._idle.get(key)
                connection = idle.pop() if idle else None
            if connection is None:
                return None
            if time.monotonic() - connection.idle_since <= self._keep_alive and not connection.stream.is_stale():
                return connection
            connection.stream.close()

    def give_back(self, connection: Connection[S]) -> None:
        """Keep the connection for the next request, or close it when it cannot serve one."""
        surplus = [connection]
        if connection.http.start_over():
            connection.idle_since = now = time.monotonic()
            with self._lock:
                if not self._closed:
                    idle = self._idle.setdefault(connection.key, [])
                    idle.append(connection)
                    surplus = self._take_surplus(idle, now)
        for old in surplus:
            old.stream.close()

    def close(self) -> None:
        """Close what is idle; connections in use are closed when they come back."""
        with self._lock:
            self._closed = True
            connections = [connection for idle in self._idle.values() for connection in idle]
            self._idle.clear()
        for connection in connections:
            connection.stream.close()

    def _take_surplus(self, idle: list[Connection[S]], now: float) -> list[Connection[S]]:
        """Connections at the cold end that nobody has used for long, or that are too many."""
        cut = max(len(idle) - self._max_idle, 0)
        while cut < len(idle) and now - idle[cut].idle_since > self._keep_alive:
            cut += 1
        surplus = idle[:cut]
        del idle[:cut]
        return surplus
