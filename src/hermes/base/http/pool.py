"""Connection pool: opens connections by the route to a server, and keeps idle ones for the next request."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence

from hermes.base.http.address import Address
from hermes.base.http.errors import ConnectionLost, HeadersCutOff, KeptConnectionLost, NotHttp
from hermes.base.http.exchange import Exchange
from hermes.base.http.http11 import Head, HttpConnection
from hermes.base.http.network import Stream, resolve
from hermes.base.http.proxy import Proxy, Route, route_to
from hermes.base.http.ssrf import Guard, enforce
from hermes.base.http.tls import Certificates

#: Methods whose requests say ``Content-Length: 0`` when they have no body.
_WITH_BODY = ("POST", "PUT", "PATCH")


class Connection:
    """One connection to one server: the stream, and the HTTP state on it."""

    __slots__ = ("_through_proxy", "forwarder", "http", "idle_since", "is_kept", "key", "server", "stream")

    def __init__(self, key: str, route: Route, stream: Stream) -> None:
        #: The server and the trusted authorities: a request for the same may use the connection.
        self.key = key
        self.server = route.server
        self.stream = stream
        self.http = HttpConnection()
        #: The proxy that needs the whole URL with every request; ``None`` when the server itself receives it.
        self.forwarder: Proxy | None = route.forwarder
        self._through_proxy = route.proxy is not None
        self.idle_since = 0.0
        #: Whether it has served a request before.
        self.is_kept = False

    @property
    def ip(self) -> str:
        """The server's address; empty when a proxy knows it."""
        return "" if self._through_proxy else self.stream.ip

    def send(
        self, method: str, target: str, headers: Sequence[tuple[str, str]], body: bytes, exchange: Exchange
    ) -> Head:
        """Send a request and wait for the head of the response."""
        stream, http, server = self.stream, self.http, self.server
        stream.exchange = exchange
        lines = [("host", server.authority), *headers]
        if self.forwarder is not None:
            target = server.origin + target
            lines += self.forwarder.login()
        if body or method in _WITH_BODY:
            lines.append(("content-length", str(len(body))))
        exchange.phase = "sending"
        try:
            for piece in http.send_request(method, target, lines, body):
                stream.write(piece)
        except ConnectionLost:
            pass  # a server that refuses early closes early, but may have sent the reason
        exchange.phase = "first byte"
        if exchange.on_wait is not None:
            exchange.on_wait()
        return self._receive_head(exchange)

    def _receive_head(self, exchange: Exchange) -> Head:
        http = self.http
        try:
            while True:
                http.receive(self.stream.read())
                exchange.phase = "next chunk"
                part = http.next()
                if isinstance(part, Head):
                    return part
                if part != "more":
                    raise NotHttp("the response has no head")
        except ConnectionLost as error:
            if exchange.phase == "next chunk":
                raise HeadersCutOff(str(error)) from error
            if self.is_kept:
                raise KeptConnectionLost(str(error)) from error
            raise


class ConnectionPool:
    """Idle connections by server, the last one used first. Thread-safe.

    A request has its connection to itself, so a thousand threads do not queue for a shared one: taking one is a list
    operation under a short lock. The warmest connection serves the next request, from any thread, child or plugin.
    """

    def __init__(self, *, max_idle: int = 1024, keep_alive: float = 60.0) -> None:
        self._max_idle = max_idle
        self._keep_alive = keep_alive
        self._idle: dict[str, list[Connection]] = {}
        self._lock = threading.Lock()
        self._closed = False
        self._certificates = Certificates()

    def acquire(
        self, server: Address, ca_bundle: str, guard: Guard | None, exchange: Exchange, *, is_new: bool = False
    ) -> Connection:
        """A connection to the server: an idle one that is still good, or a new one."""
        key = f"{server.scheme}://{server.host}:{server.port}{server.socket_path} {ca_bundle}"
        connection = None if is_new else self.take(key)
        if connection is None:
            return self._open(key, route_to(server), ca_bundle, guard, exchange)
        if guard is not None:
            try:
                enforce(guard, server, connection.ip)
            except BaseException:
                connection.stream.close()
                raise
        return connection

    def check(self, server: Address, guard: Guard, exchange: Exchange) -> None:
        """Raise ``AddressRefused`` when the guard refuses an address of the server. Nothing is connected."""
        route = route_to(server)
        try:
            _resolve(route, guard, exchange)
        except OSError as error:
            raise route.unreachable(error) from error

    def take(self, key: str) -> Connection | None:
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

    def release(self, connection: Connection) -> None:
        """Keep the connection for the next request, or close it when it cannot serve one."""
        surplus = [connection]
        if connection.http.start_next():
            connection.idle_since = now = time.monotonic()
            connection.is_kept = True
            with self._lock:
                if not self._closed:
                    idle = self._idle.setdefault(connection.key, [])
                    idle.append(connection)
                    surplus = self._take_surplus(idle, now)
        for old in surplus:
            old.stream.close()

    def close(self) -> None:
        """Close the idle connections; those in use are closed when they are released."""
        with self._lock:
            self._closed = True
            connections = [connection for idle in self._idle.values() for connection in idle]
            self._idle.clear()
        for connection in connections:
            connection.stream.close()

    def _open(self, key: str, route: Route, ca_bundle: str, guard: Guard | None, exchange: Exchange) -> Connection:
        if exchange.on_wait is not None:
            exchange.on_wait()
        before, after = route.tls_hosts()
        stream = _connect(route, guard, exchange)
        try:
            if before:
                stream.secure(self._certificates.context(ca_bundle), before)
            if steps := route.tunnel():
                stream.negotiate(steps)
            if after:
                stream.secure(self._certificates.context(ca_bundle), after)
        except BaseException:
            stream.close()
            raise
        return Connection(key, route, stream)

    def _take_surplus(self, idle: list[Connection], now: float) -> list[Connection]:
        """Connections at the cold end that have been idle for too long, or that are too many."""
        cut = max(len(idle) - self._max_idle, 0)
        while cut < len(idle) and now - idle[cut].idle_since > self._keep_alive:
            cut += 1
        surplus = idle[:cut]
        del idle[:cut]
        return surplus


def _connect(route: Route, guard: Guard | None, exchange: Exchange) -> Stream:
    """A stream to the first hop of the route. The addresses that the guard saw are those that are connected to."""
    path = route.first_hop.socket_path
    try:
        addresses = _resolve(route, guard, exchange)
        return Stream.open_file(path, exchange) if path else Stream.open(addresses, exchange)
    except OSError as error:
        exchange.interrupt.check()
        raise route.unreachable(error) from error


def _resolve(route: Route, guard: Guard | None, exchange: Exchange) -> list[tuple[object, ...]]:
    """The addresses of the first hop, all of them allowed by the guard. A proxy is the user's own choice."""
    hop = route.first_hop
    if guard is not None and (route.proxy is not None or hop.socket_path):
        enforce(guard, route.server, "")
    if hop.socket_path:
        return []
    addresses = resolve(hop.host, hop.port, exchange)
    if guard is not None and route.proxy is None:
        for *_, address in addresses:
            enforce(guard, route.server, str(address[0]))
    return addresses
