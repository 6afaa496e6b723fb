"""Carries requests over kept connections, in the thread that waits for the answer."""

from __future__ import annotations

from hermes.models.http.certificates import Certificates
from hermes.models.http.connections import Connection, Connections
from hermes.models.http.exchange import Exchange, TimedOut
from hermes.models.http.network import Stream
from hermes.models.http.network_errors import ConnectionLost, NetworkError
from hermes.models.http.route import route_to
from hermes.models.http.transfer import Transfer


class Carrier:
    """The idle connections of a driver and the certificates it trusts."""

    def __init__(self) -> None:
        self._connections: Connections[Stream] = Connections()
        self._certificates = Certificates()

    def carry(self, transfer: Transfer, exchange: Exchange) -> None:
        """Send the request and read the answer to its end, or to where it breaks off."""
        connection = None
        try:
            connection = self._connections.take(transfer.key) or self._open(transfer, exchange)
            self._converse(connection, transfer, exchange)
        except (NetworkError, TimedOut) as error:
            transfer.break_off(error, exchange.phase)
        finally:
            exchange.release()
            if connection is not None:
                self._connections.give_back(connection)

    def close(self) -> None:
        """Close what is idle."""
        self._connections.close()

    def _converse(self, connection: Connection[Stream], transfer: Transfer, exchange: Exchange) -> None:
        stream, http = connection.stream, connection.http
        stream.exchange = exchange
        exchange.phase = "sending"
        try:
            for piece in transfer.outgoing(connection):
                stream.write(piece)
        except ConnectionLost:
            pass  # a server that refuses early closes early, but may have said why
        exchange.phase = "first byte"
        while transfer.receive(stream.read(), http, exchange):
            pass

    def _open(self, transfer: Transfer, exchange: Exchange) -> Connection[Stream]:
        route = route_to(transfer.address)
        before, after = route.secured_hosts()
        stream = Stream.connect(route, exchange)
        try:
            if before:
                stream.secure(self._certificates.context(transfer.ca_bundle), before)
            if steps := route.tunnel():
                stream.negotiate(steps)
            if after:
                stream.secure(self._certificates.context(transfer.ca_bundle), after)
        except BaseException:
            stream.close()
            raise
        return Connection(transfer.key, stream, route.forwarder)
