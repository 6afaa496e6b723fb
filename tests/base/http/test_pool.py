"""The keeping of pool."""

from __future__ import annotations

from hermes.base.http.address import Address
from hermes.base.http.network import Stream
from hermes.base.http.pool import Connection, ConnectionPool
from hermes.base.http.proxy import Route

ROUTE = Route(Address("http", "server", 80))


class Line(Stream):
    """A stream that is never really connected."""

    def __init__(self) -> None:
        self.ip = "127.0.0.1"
        self.closed = False
        self.stale = False

    def is_stale(self) -> bool:
        return self.stale

    def close(self) -> None:
        self.closed = True


def used(pool: ConnectionPool, key: str = "server") -> Connection:
    """A connection that has carried one request and its answer."""
    return use(pool.take(key) or Connection(key, ROUTE, Line()))


def use(connection: Connection) -> Connection:
    connection.http.send_request("GET", "/", [("host", "h")], b"")
    connection.http.receive(b"HTTP/1.1 204 No Content\r\n\r\n")
    while connection.http.next() != "end":
        pass
    return connection


def line(connection: Connection) -> Line:
    assert isinstance(connection.stream, Line)
    return connection.stream


def test_the_warmest_connection_is_taken_first() -> None:
    pool = ConnectionPool()
    first, second = used(pool), used(pool)
    pool.release(first)
    pool.release(second)
    assert pool.take("another server") is None
    assert pool.take("server") is second
    assert pool.take("server") is first
    assert pool.take("server") is None


def test_idle_connections_are_few_and_young() -> None:
    pool = ConnectionPool(max_idle=2, keep_alive=60)
    idle = [used(pool) for _ in range(4)]
    for connection in idle:
        pool.release(connection)
    assert [line(connection).closed for connection in idle] == [True, True, False, False]
    assert pool.take("server") is idle[3]
    idle[2].idle_since -= 120
    pool.release(use(idle[3]))
    assert line(idle[2]).closed
    idle[3].idle_since -= 120
    assert pool.take("server") is None
    assert line(idle[3]).closed


def test_one_that_the_server_closed_is_not_taken() -> None:
    pool = ConnectionPool()
    connection = used(pool)
    pool.release(connection)
    line(connection).stale = True
    assert pool.take("server") is None
    assert line(connection).closed


def test_one_in_the_middle_of_an_answer_is_not_kept() -> None:
    pool = ConnectionPool()
    connection = Connection("server", ROUTE, Line())
    connection.http.send_request("GET", "/", [("host", "h")], b"")
    pool.release(connection)
    assert line(connection).closed
    assert pool.take("server") is None


def test_after_the_end_nothing_is_kept() -> None:
    pool = ConnectionPool()
    idle, busy = used(pool), used(pool)
    pool.release(idle)
    pool.close()
    assert line(idle).closed
    pool.release(busy)
    assert line(busy).closed
