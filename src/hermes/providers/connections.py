"""The open HTTP connections of a process, each lent to one request at a time."""

from __future__ import annotations

import ssl
import threading
import time
from functools import lru_cache
from urllib.parse import quote, unquote, urlsplit

import httpcore2

from hermes.errors import ConfigError
from hermes.providers.network import InterruptibleBackend
from hermes.providers.proxies import proxy_for

_PROXY_PORTS = {"http": 80, "https": 443, "socks5": 1080, "socks5h": 1080}


class Connection:
    """One connection to one origin, with the network backend that knows which request uses it."""

    __slots__ = ("backend", "http", "idle_since", "origin")

    def __init__(self, origin: str, http: httpcore2.ConnectionInterface, backend: InterruptibleBackend) -> None:
        self.origin = origin
        self.http = http
        self.backend = backend
        self.idle_since = 0.0


class Connections:
    """Idle connections by origin, the last one used first.

    A request has its connection to itself, so there is no shared pool for a thousand threads to queue at:
    taking one is a list operation under a short lock. The warmest connection serves the next request,
    whichever thread, child or plugin sends it.
    """

    def __init__(self, *, max_idle: int = 1024, keep_alive: float = 60.0) -> None:
        self._max_idle = max_idle
        self._keep_alive = keep_alive
        self._idle: dict[str, list[Connection]] = {}
        self._lock = threading.Lock()
        self._closed = False
        self._tls: ssl.SSLContext | None = None

    def take(self, url: httpcore2.URL) -> Connection:
        """A connection for the URL's origin: an idle one that is still good, or a new one."""
        origin = str(url.origin)
        while True:
            with self._lock:
                idle = self._idle.get(origin)
                connection = idle.pop() if idle else None
            if connection is None:
                return self._open(origin, url)
            if not connection.http.has_expired():
                return connection
            connection.http.close()

    def give_back(self, connection: Connection) -> None:
        """Keep the connection for the next request, or close it when it cannot serve one."""
        connection.backend.exchange = None
        surplus = [connection]
        if connection.http.is_available() and not self._closed:
            connection.idle_since = now = time.monotonic()
            with self._lock:
                idle = self._idle.setdefault(connection.origin, [])
                idle.append(connection)
                surplus = self._take_surplus(idle, now)
        for old in surplus:
            old.http.close()

    def close(self) -> None:
        """Close what is idle; connections in use are closed when they come back."""
        with self._lock:
            self._closed = True
            connections = [connection for idle in self._idle.values() for connection in idle]
            self._idle.clear()
        for connection in connections:
            connection.http.close()

    def _take_surplus(self, idle: list[Connection], now: float) -> list[Connection]:
        """Connections at the cold end that nobody has used for long, or that are too many."""
        cut = max(len(idle) - self._max_idle, 0)
        while cut < len(idle) and now - idle[cut].idle_since > self._keep_alive:
            cut += 1
        surplus = idle[:cut]
        del idle[:cut]
        return surplus

    def _open(self, origin: str, url: httpcore2.URL) -> Connection:
        backend = InterruptibleBackend()
        secure = url.scheme == b"https"
        tls = self._shared_tls() if secure else None
        proxy = proxy_for(url.scheme.decode(), url.host.decode())
        if proxy is None:
            http: httpcore2.ConnectionInterface = httpcore2.HTTPConnection(
                url.origin, ssl_context=tls, keepalive_expiry=self._keep_alive, network_backend=backend
            )
        else:
            pool = self._proxy_pool(proxy, tls, backend)
            http = pool.create_connection(url.origin)
        return Connection(origin, http, backend)

    def _proxy_pool(
        self, proxy: str, tls: ssl.SSLContext | None, backend: InterruptibleBackend
    ) -> httpcore2.ConnectionPool:
        """A pool used as a factory only: it knows how to open a connection through its proxy."""
        parts = urlsplit(proxy)
        if parts.scheme not in _PROXY_PORTS:
            known = ", ".join(f"{scheme}://" for scheme in _PROXY_PORTS)
            raise ConfigError(f"proxy URLs start with one of {known}; the environment has {parts.scheme}://")
        address = httpcore2.URL(
            scheme=parts.scheme, host=parts.hostname or "", port=parts.port or _PROXY_PORTS[parts.scheme], target="/"
        )
        auth = (unquote(parts.username).encode(), unquote(parts.password or "").encode()) if parts.username else None
        if not parts.scheme.startswith("socks"):
            return httpcore2.HTTPProxy(
                address, auth, ssl_context=tls, keepalive_expiry=self._keep_alive, network_backend=backend
            )
        try:
            return httpcore2.SOCKSProxy(
                address, auth, ssl_context=tls, keepalive_expiry=self._keep_alive, network_backend=backend
            )
        except (ImportError, RuntimeError):
            raise ConfigError("the environment names a SOCKS proxy; install the socksio package to use it") from None

    def _shared_tls(self) -> ssl.SSLContext:
        """One context for all connections: loading the certificates takes tens of milliseconds."""
        with self._lock:
            if self._tls is None:
                self._tls = httpcore2.default_ssl_context()
            return self._tls


@lru_cache(maxsize=256)
def parse_url(url: str) -> httpcore2.URL:
    """A URL in the form the HTTP library takes, with an international host name in its ASCII form."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    target = quote(parts.path or "/", safe="/%:@!$&'()*+,;=~")
    if parts.query:
        target += "?" + quote(parts.query, safe="/%:@!$&'()*+,;=~?")
    return httpcore2.URL(
        scheme=parts.scheme,
        host=host if host.isascii() else host.encode("idna"),
        port=parts.port or (443 if parts.scheme == "https" else 80),
        target=target,
    )
