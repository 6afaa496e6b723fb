"""The keeping of connections."""

from __future__ import annotations

from hermes.models.http.connections import Connection, Connections


class Line:
    """A stream that is never really connected."""

    def __init__(self) -> None:
        self.closed = False
        self.stale = False

    def is_stale(self) -> bool:
        return self.stale

    def close(self) -> None:
        self.closed = True


def used(connections: Connections[Line], key: str = "server") -> Connection[Line]:
    """A connection that has carried one request and its answer."""
    return use(connections.take(key) or Connection(key, Line()))


def use(connection: Connection[Line]) -> Connection[Line]:
    connection.http.ask("GET", "/", [("host", "h")], b"")
    connection.http.receive(b"HTTP/1.1 204 No Content\r\n\r\n")
    while connection.http.next() != "end":
        pass
    return connection


def test_the_warmest_connection_is_taken_first() -> None:
    connections: Connections[Line] = Connections()
    first, second = used(connections), used(connections)
    connections.give_back(first)
    connections.give_back(second)
    assert connections.take("another server") is None
    assert connections.take("server") is second
    assert connections.take("server") is first
    assert connections.take("server") is None


def test_idle_connections_are_few_and_young() -> None:
    connections: Connections[Line] = Connections(max_idle=2, keep_alive=60)
    idle = [used(connections) for _ in range(4)]
    for connection in idle:
        connections.give_back(connection)
    assert [connection.stream.closed for connection in idle] == [True, True, False, False]
    assert connections.take("server") is idle[3]
    idle[2].idle_since -= 120
    connections.give_back(use(idle[3]))
    assert idle[2].stream.closed
    idle[3].idle_since -= 120
    assert connections.take("server") is None
    assert idle[3].stream.closed


def test_one_that_the_server_closed_is_not_taken() -> None:
    connections: Connections[Line] = Connections()
    connection = used(connections)
    connections.give_back(connection)
    connection.stream.stale = True
    assert connections.take("server") is None
    assert connection.stream.closed


def test_one_in_the_middle_of_an_answer_is_not_kept() -> None:
    connections: Connections[Line] = Connections()
    connection = Connection("server", Line())
    connection.http.ask("GET", "/", [("host", "h")], b"")
    connections.give_back(connection)
    assert connection.stream.closed
    assert connections.take("server") is None


def test_after_the_end_nothing_is_kept() -> None:
    connections: Connections[Line] = Connections()
    idle, busy = used(connections), used(connections)
    connections.give_back(idle)
    connections.close()
    assert idle.stream.closed
    connections.give_back(busy)
    assert busy.stream.closed
