"""Fetches what is at an address that somebody else chose, without being led into the private network."""

from __future__ import annotations

import http.client
import ipaddress
import socket
import time
import urllib.error
import urllib.request
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from hermes.providers.proxies import proxy_for

_CHUNK = 64 * 1024


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
    opener = urllib.request.build_opener(
        urllib.request.ProxyHandler({}), _Redirections(), _Http(allow_private), _Https(allow_private)
    )
    request = urllib.request.Request(url, headers={"User-Agent": "hermes"})
    deadline = time.monotonic() + timeout
    try:
        with opener.open(request, timeout=timeout) as response:
            data = bytearray()
            while piece := response.read(_CHUNK):
                data += piece
                if len(data) > max_bytes:
                    raise ValueError(f"it is larger than {max_bytes:,} bytes")
                if time.monotonic() > deadline:
                    raise TimeoutError(f"it took longer than {timeout:g} s")
            return Fetched(bytes(data), response.headers.get_content_type())
    except urllib.error.HTTPError as error:
        error.close()
        raise OSError(f"the server answered with status {error.code}") from None
    except urllib.error.URLError as error:
        raise _reason(error) from None
    except http.client.HTTPException as error:
        raise OSError(f"the server's answer cannot be read ({type(error).__name__})") from None


def is_public(address: str) -> bool:
    """Whether an IP address belongs to the public network, whatever notation it comes in."""
    found = ipaddress.ip_address(address.partition("%")[0])
    if isinstance(found, ipaddress.IPv6Address):
        inner = found.ipv4_mapped or found.sixtofour
        if found in ipaddress.ip_network("64:ff9b::/96"):
            inner = ipaddress.IPv4Address(int(found) & 0xFFFFFFFF)
        if inner is not None:
            found = inner
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
    def __init__(self, allow_private: bool) -> None:
        super().__init__()
        self._allow_private = allow_private

    def http_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        _prepare(req, self._allow_private)
        return self.do_open(_connection(http.client.HTTPConnection, req, self._allow_private), req)


class _Https(urllib.request.HTTPSHandler):
    def __init__(self, allow_private: bool) -> None:
        super().__init__()
        self._allow_private = allow_private

    def https_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        _prepare(req, self._allow_private)
        return self.do_open(_connection(http.client.HTTPSConnection, req, self._allow_private), req)


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
    try:
        public = is_public(host.strip("[]"))
    except ValueError:
        public = "." in host and not host.lower().endswith((".local", ".internal", ".localhost", ".lan"))
    if not public:
        raise ValueError(_refusal(host))


def _refusal(host: str) -> str:
    return f"{host} is in a private network; set security.allow_private_urls: true if it may be reached"


def _connection(kind: type[http.client.HTTPConnection], request: urllib.request.Request, allow_private: bool) -> Any:
    """Makes connections that look at the address they are about to connect to. A proxy is the user's own choice."""
    screened = not allow_private and not request.has_proxy()

    def make(host: str, **options: Any) -> http.client.HTTPConnection:
        connection = kind(host, **options)
        if screened:
            connection._create_connection = _connect_to_public  # pyright: ignore[reportAttributeAccessIssue]
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
