"""HTTP errors: everything that keeps a request from a whole response, and one line of advice for each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from hermes.base.errors import HermesError

if TYPE_CHECKING:
    from hermes.base.http.address import Address

#: Parts of what the TLS library says about a certificate or a protocol that it cannot accept.
_TLS_REFUSED = ("certificate verify failed", "wrong version number", "no application protocol")

#: The part of a request that a time limit ended.
Phase = Literal["connect", "sending", "first byte", "next chunk", "total"]


class HttpError(HermesError):
    """The request did not get a whole response."""


class InvalidUrl(HttpError):
    """The URL is not one that a request can be sent to."""


class AddressRefused(HttpError):
    """The SSRF guard does not allow a connection to this address."""


class TimedOut(HttpError):
    """A phase of the request exceeded its time limit."""

    def __init__(self, phase: Phase, seconds: float) -> None:
        super().__init__(f"no answer within {seconds:g} s (timeout: {phase})")
        self.phase: Phase = phase
        self.seconds = seconds


class BadBody(HttpError):
    """The body cannot be decoded."""


class BodyTooLarge(BadBody):
    """The decoded body exceeds its limit."""


class NetworkError(HttpError):
    """A connection could not be made or did not last."""


class ConnectError(NetworkError):
    """The server cannot be reached, or the connection to it cannot be secured."""

    @property
    def is_permanent(self) -> bool:
        """Whether the next try would fail in the same way: a host that does not exist, or TLS that is refused."""
        import socket  # loaded by then; those who only catch errors need not load it

        cause = self.__cause__
        if isinstance(cause, socket.gaierror):
            # A look-up that failed for now may work the next time.
            return cause.errno in (socket.EAI_NONAME, getattr(socket, "EAI_NODATA", socket.EAI_NONAME))
        return any(word in str(self).lower().replace("_", " ") for word in _TLS_REFUSED)


class ProxyUnreachable(ConnectError):
    """The proxy itself cannot be reached."""


class ProxyError(NetworkError):
    """The proxy does not pass the connection on."""


class ConnectionLost(NetworkError):
    """An established connection broke."""


class KeptConnectionLost(ConnectionLost):
    """A connection that had served a request before broke before the first byte of the next answer."""


class HeadersCutOff(ConnectionLost):
    """The connection broke in the middle of the response headers."""


class NotHttp(NetworkError):
    """The other side does not speak HTTP."""


class UnsendableHeader(NetworkError):
    """A header that HTTP does not allow, or that only the client sets. It is not shown: it may be the key."""


def explain(error: HttpError, server: Address, setting: str) -> str:
    """The error as one line with advice. ``setting`` is what to correct when the address is wrong."""
    origin = server.origin
    if isinstance(error, TimedOut):
        return f"{_late(error, origin)} (timeout: {error.phase})"
    if isinstance(error, UnsendableHeader):
        return f"{str(error) or 'a header has characters that cannot be sent'}; check extra_headers"
    if isinstance(error, ProxyError):
        return f"the proxy did not connect to {origin}: {error}"
    if isinstance(error, ConnectError):
        problem = f"the name {server.host} does not resolve" if _is_unknown_host(error) else str(error)
        return f"cannot connect to {origin}: {problem}; {_connect_advice(error, server, setting)}"
    if isinstance(error, NotHttp):
        return f"{origin} does not answer in HTTP ({error})"
    if isinstance(error, HeadersCutOff):
        return f"{origin} closed the connection in the middle of the headers"
    if isinstance(error, ConnectionLost):
        return f"{origin} closed the connection without an answer ({error})"
    return str(error)


def _late(error: TimedOut, origin: str) -> str:
    seconds = f"{error.seconds:g} s"
    return {
        "connect": f"no connection to {origin} within {seconds}",
        "sending": f"the server took nothing of the request for {seconds}",
        "first byte": f"no answer within {seconds}",
        "next chunk": f"the answer stalled for {seconds}",
        "total": f"the request took longer than {seconds} in all",
    }[error.phase]


def _is_unknown_host(error: ConnectError) -> bool:
    import socket  # loaded by then; those who only catch errors need not load it

    return isinstance(error.__cause__, socket.gaierror) and not isinstance(error, ProxyUnreachable)


def _connect_advice(error: ConnectError, server: Address, setting: str) -> str:
    detail = str(error)
    if isinstance(error, ProxyUnreachable):
        return "check the proxy in HTTPS_PROXY, HTTP_PROXY or ALL_PROXY"
    if "Hostname mismatch" in detail or "IP address mismatch" in detail:
        return f"the certificate is for another host, check {setting}"
    if "CERTIFICATE_VERIFY_FAILED" in detail:
        return "if the certificate is your own, name its authority in SSL_CERT_FILE or ca_bundle"
    if "WRONG_VERSION_NUMBER" in detail or "record layer failure" in detail:
        return f"the port does not speak TLS, use http:// in {setting}"
    if "application protocol" in detail.lower().replace("_", " "):
        return f"the server speaks only HTTP/2; put a proxy that speaks HTTP/1.1 in front of it, and into {setting}"
    if server.socket_path:
        return f"check the socket file in {setting} and that the server is running"
    if _is_unknown_host(error):
        return f"check {setting} and the network of this machine"
    return f"check {setting} and that the server is running"
