"""What goes wrong on a connection, before anybody has said what it means for the request."""

from __future__ import annotations


class NetworkError(Exception):
    """A connection could not be made or did not last."""


class ConnectError(NetworkError):
    """The server cannot be reached, or the connection to it cannot be secured."""


class ProxyError(NetworkError):
    """A proxy stands in between and does not pass the connection on."""


class ConnectionLost(NetworkError):
    """A connection that was there broke off."""


class NotHttp(NetworkError):
    """The other side says something that is not HTTP."""


class UnsendableHeader(NetworkError):
    """A header has characters that HTTP cannot carry. The message must not show it: it may be the key."""


class ProxyUnreachable(ConnectError):
    """The proxy itself cannot be reached."""
