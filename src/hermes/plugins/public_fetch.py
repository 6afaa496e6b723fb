"""Fetches what is at an address that somebody else chose, without being led into the private network."""

from __future__ import annotations

import http.client
import ipaddress
import socket
import threading
import urllib.error
import urllib.request
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NamedTuple, Self
from urllib.parse import urlsplit

from hermes.models.http.proxies import proxy_for

_CHUNK = 64 * 1024
#: The IPv6 addresses that are handed out to the public. All others are private, reserved or stand for something else.
_PUBLIC_V6 = ipaddress.ip_network("2000::/3")
_DOCUMENTATION = ipaddress.ip_network("3fff::/20")
_NAT64 = ipaddress.ip_network("64:ff9b::/96")
#: Names that only private networks have, whoever looks them up.
_PRIVATE_NAMES = (".local", ".internal", ".localhost", ".lan", ".home.arpa")


class Fetched(NamedTuple):
    """What an address holds."""

    data: bytes
    #: Such as ``image/png``, as the server says.
    content_type: str


def fetch(url: str, *, max_bytes: int, timeout: float = 60.0, allow_private: bool = False) -> Fetched:
    """The content at an http or https address. ``ValueError`` or ``OSError`` when it cannot or must not be had.

    Every address on the way is checked when it is connected to, redirections included, so that a name that changes
    its meaning between two look-ups gains nothing.
    """
    _check_scheme(url)
    with _Deadline(timeout) as deadline:
        try:
            return _read(url, max_bytes, timeout, _Rules(allow_private, deadline))
        except (OSError, ValueError, http.client.HTTPException) as error:
            deadline.check()
            if isinstance(error, urllib.error.HTTPError):
                error.close()
                raise OSError(f"the server answered with status {error.code}") from None
            if isinstance(error, urllib.error.URLError):
                raise _reason(error) from None
            if isinstance(error, http.client.HTTPException):
                raise OSError(f"the server's answer cannot be read ({type(error).__name__})") from None
            raise


def _read(url: str, max_bytes: int, timeout: float, rules: _Rules) -> Fetched:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), _Redirections(), _Http(rules), _Https(rules))
    request = urllib.request.Request(url, headers={"User-Agent": "hermes"})
    with opener.open(request, timeout=timeout) as response:
        data = bytearray()
        while piece := response.read(_CHUNK):
            data += piece
            if len(data) > max_bytes:
                raise ValueError(f"it is larger than {max_bytes:,} bytes")
        rules.deadline.check()  # what was cut off may look whole
        return Fetched(bytes(data), response.headers.get_content_type())


Connect = Callable[..., socket.socket]


class _Deadline:
    """Ends a fetch that takes too long: a server that sends a byte now and then is never late by itself."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._lock = threading.Lock()
        self._sockets: list[socket.socket] = []
        self._is_over = False
        self._timer = threading.Timer(seconds, self._end)
        self._timer.daemon = True

    def __enter__(self) -> Self:
        self._timer.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._timer.cancel()
        with self._lock:
            for connection in self._sockets:
                connection.close()
            self._sockets.clear()

    def check(self) -> None:
        """Raise ``TimeoutError`` when the time is up."""
        if self._is_over:
            raise TimeoutError(f"it took longer than {self._seconds:g} s")

    def watched(self, connect: Connect) -> Connect:
        """The function, with connections that end with the time."""

        def make(*arguments: Any, **options: Any) -> socket.socket:
            self.check()
            connection = connect(*arguments, **options)
            with self._lock:
                self._sockets.append(connection.dup())  # TLS takes the connection itself apart
            return connection

        return make

    def _end(self) -> None:
        with self._lock:
            self._is_over = True
            for connection in self._sockets:
                with suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)


class _Rules(NamedTuple):
    """What connections keep to."""

    allow_private: bool
    deadline: _Deadline


def is_public(address: str) -> bool:
    """Whether an IP address belongs to the public network, whatever notation it comes in."""
    found = ipaddress.ip_address(address.partition("%")[0])
    if isinstance(found, ipaddress.IPv6Address):
        inner = found.ipv4_mapped or found.sixtofour
        if found in _NAT64:
            inner = ipaddress.IPv4Address(int(found) & 0xFFFFFFFF)
        if inner is None and (found not in _PUBLIC_V6 or found in _DOCUMENTATION):
            return False
        found = inner or found
    return found.is_global and not found.is_multicast


def _check_scheme(url: str) -> None:
    parts = urlsplit(url)
    if parts.scheme.lower() not in ("http", "https") or not parts.hostname:
        raise ValueError(f"only http and https addresses can be fetched, not {url[:60]!r}")


def _reason(error: urllib.error.URLError) -> Exception:
    return error.reason if isinstance(error.reason, OSError | ValueError) else OSError(str(error.reason))


class _Redirections(urllib.request.HTTPRedirectHandler):
    max_redirections = 5

    def redirect_request(
        self, req: urllib.request.Request, fp: Any, code: int, msg: str, headers: Any, newurl: str
    ) -> urllib.request.Request | None:
        _check_scheme(newurl)
        return super().redirect_request(req, fp, code, msg, headers, newurl)


class _Http(urllib.request.HTTPHandler):
    def __init__(self, rules: _Rules) -> None:
        super().__init__()
        self._rules = rules

    def http_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        _prepare(req, self._rules.allow_private)
        return self.do_open(_connection(http.client.HTTPConnection, req, self._rules), req)


class _Https(urllib.request.HTTPSHandler):
    def __init__(self, rules: _Rules) -> None:
        super().__init__()
        self._rules = rules

    def https_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        _prepare(req, self._rules.allow_private)
        return self.do_open(_connection(http.client.HTTPSConnection, req, self._rules), req)


def _prepare(request: urllib.request.Request, allow_private: bool) -> None:
    """Send the request through the proxy of the environment, if there is one for its host."""
    host = urlsplit(request.full_url).hostname or ""
    proxy = proxy_for(request.type, host)
    if proxy is None:
        return
    if not allow_private:
        refuse_private_name(host)
    request.set_proxy(urlsplit(proxy).netloc.rpartition("@")[2], urlsplit(proxy).scheme)


def refuse_private_name(host: str) -> None:
    """A proxy does the look-up itself, so what can be told here is what the name itself says."""
    name = host.strip("[]").rstrip(".").lower()
    with suppress(OSError):
        name = socket.inet_ntoa(socket.inet_aton(name))  # 127.1 and 0x7f.1 are numbers too
    try:
        public = is_public(name)
    except ValueError:
        public = "." in name and not name.endswith(_PRIVATE_NAMES)
    if not public:
        raise ValueError(_refusal(host))


def _refusal(host: str) -> str:
    return f"{host} is in a private network; set security.allow_private_urls: true if it may be reached"


def _connection(kind: type[http.client.HTTPConnection], request: urllib.request.Request, rules: _Rules) -> Any:
    """Makes connections that look at the address they are about to connect to. A proxy is the user's own choice."""
    screened = not rules.allow_private and not request.has_proxy()
    connect = rules.deadline.watched(_connect_to_public if screened else socket.create_connection)

    def make(host: str, **options: Any) -> http.client.HTTPConnection:
        connection = kind(host, **options)
        connection._create_connection = connect  # pyright: ignore[reportAttributeAccessIssue]
        return connection

    return make


def _connect_to_public(
    address: tuple[str, int], timeout: float | None = None, source_address: tuple[str, int] | None = None
) -> socket.socket:
    host, port = address
    failure: OSError | None = None
    for *_, place in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM):
        if not is_public(str(place[0])):
            raise ValueError(_refusal(host))
        try:
            return socket.create_connection((str(place[0]), port), timeout, source_address)
        except OSError as error:
            failure = error
    raise failure or OSError(f"{host} has no address")
