"""Proxies: the one that the environment names for a host, the route through it, and its tunnels (CONNECT, SOCKS 5)."""

from __future__ import annotations

import os
import sys
from collections.abc import Generator
from urllib.parse import unquote, urlsplit

import msgspec

from hermes.base.errors import ConfigError
from hermes.base.http.address import Address, is_loopback
from hermes.base.http.errors import ConnectError, NetworkError, ProxyError, ProxyUnreachable
from hermes.base.http.http11 import Head, HttpConnection
from hermes.base.http.network import Steps

_PORTS = {"http": 80, "https": 443, "socks5": 1080, "socks5h": 1080}
_SOCKS_REFUSALS = {
    1: "it failed",
    2: "its rules forbid it",
    3: "the network cannot be reached",
    4: "the host cannot be reached",
    5: "the connection was refused",
    6: "it took too long",
}
_SOCKS_ADDRESS_LENGTHS = {1: 4, 4: 16}


class Proxy(msgspec.Struct, frozen=True):
    """A proxy and its login."""

    scheme: str
    host: str
    port: int
    username: str = ""
    password: str = ""

    def __repr__(self) -> str:  # without the login
        return f"Proxy({self.scheme!r}, {self.host!r}, {self.port!r})"

    @property
    def is_socks(self) -> bool:
        return self.scheme.startswith("socks")

    def login(self) -> list[tuple[str, str]]:
        """The header with the login for an HTTP proxy, if there is one."""
        if not self.username:
            return []
        from base64 import b64encode

        token = b64encode(f"{self.username}:{self.password}".encode()).decode()
        return [("proxy-authorization", f"Basic {token}")]


def parse_proxy(url: str) -> Proxy:
    """A proxy URL in its parts."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        # The text of the URL stays out: it may hold a password.
        raise ConfigError(f"the proxy URL in the environment cannot be parsed: {error}") from None
    if parts.scheme not in _PORTS or not parts.hostname:
        known = ", ".join(f"{scheme}://" for scheme in _PORTS)
        raise ConfigError(
            f"proxy URLs start with one of {known} and name a host; the environment has {parts.scheme}://"
        )
    return Proxy(
        parts.scheme,
        parts.hostname,
        port or _PORTS[parts.scheme],
        unquote(parts.username or ""),
        unquote(parts.password or ""),
    )


def proxy_for(scheme: str, host: str) -> str | None:
    """The proxy URL for a host, or ``None`` to connect directly.

    Loopback is always direct: a proxy elsewhere would reach its own machine, not ours. With no variable set
    nothing is imported, since a plain chat needs none of it.
    """
    if is_loopback(host):
        return None
    if sys.platform != "darwin" and not any(name.lower().endswith("_proxy") for name in os.environ):
        return None
    # macOS keeps proxies in the system settings too, which only this module reads.
    from urllib.request import getproxies, proxy_bypass

    proxies = getproxies()
    proxy = proxies.get(scheme) or proxies.get("all")
    if not proxy or proxy_bypass(host) or _in_excluded_network(host, proxies.get("no", "")):
        return None
    return proxy if "://" in proxy else f"http://{proxy}"


def _in_excluded_network(host: str, excluded: str) -> bool:
    """``NO_PROXY`` may name networks such as ``10.0.0.0/8``, which the standard library does not match."""
    if "/" not in excluded:
        return False
    import contextlib
    import ipaddress

    with contextlib.suppress(ValueError):
        address = ipaddress.ip_address(host)
        for entry in excluded.split(","):
            with contextlib.suppress(ValueError):
                if "/" in entry and address in ipaddress.ip_network(entry.strip(), strict=False):
                    return True
    return False


class Route(msgspec.Struct, frozen=True):
    """How to open a connection to ``server``."""

    server: Address
    proxy: Proxy | None = None

    @property
    def first_hop(self) -> Address:
        """The address to connect to."""
        proxy = self.proxy
        if proxy is None:
            return self.server
        return Address("https" if proxy.scheme == "https" else "http", proxy.host, proxy.port)

    @property
    def forwarder(self) -> Proxy | None:
        """The proxy that takes each request and passes it on; ``None`` when the server itself receives it."""
        return self.proxy if self.proxy is not None and not self._needs_tunnel(self.proxy) else None

    def tunnel(self) -> Steps | None:
        """The dialogue that makes the proxy pass all further bytes on to the server, if one is needed."""
        proxy = self.proxy
        if proxy is None or not self._needs_tunnel(proxy):
            return None
        return _socks(proxy, self.server) if proxy.is_socks else _connect(proxy, self.server)

    def tls_hosts(self) -> tuple[str, str]:
        """The hosts whose certificates are checked before the tunnel and after it; empty without TLS."""
        if self.proxy is None or self.proxy.scheme != "https":
            return "", self.server.host if self.server.scheme == "https" else ""
        return self.proxy.host, ""

    def unreachable(self, error: OSError) -> ConnectError:
        """The error when the first connection fails."""
        if self.proxy is None:
            return ConnectError(str(error))
        return ProxyUnreachable(f"the proxy {self.proxy.host}:{self.proxy.port}: {error}")

    def _needs_tunnel(self, proxy: Proxy) -> bool:
        return proxy.is_socks or self.server.scheme == "https"


def route_to(server: Address) -> Route:
    """The route to a server by the environment's proxies."""
    url = None if server.socket_path else proxy_for(server.scheme, server.host)
    if url is None:
        return Route(server)
    proxy = parse_proxy(url)
    if proxy.scheme == "https" and server.scheme == "https":
        raise ConfigError(
            f"the environment names the proxy https://{proxy.host}:{proxy.port}, which cannot carry https:// requests; "
            f"use its http:// address"
        )
    return Route(server, proxy)


def _connect(proxy: Proxy, address: Address) -> Steps:
    host = f"[{address.host}]" if ":" in address.host else address.host
    target = f"{host}:{address.port}"
    http = HttpConnection()
    [to_send] = http.send_request("CONNECT", target, [("host", target), *proxy.login()], b"")
    try:
        while True:
            http.receive((yield to_send))
            to_send = b""
            answer = http.next()
            if isinstance(answer, Head):
                if 200 <= answer.status < 300:
                    return
                raise ProxyError(_refusal(answer.status, proxy))
    except ProxyError:
        raise
    except NetworkError as error:
        raise ProxyError(f"it does not answer in HTTP ({error})") from error


def _refusal(status: int, proxy: Proxy) -> str:
    if status == 407:
        given = "refused the login in" if proxy.username else "wants a login in"
        return f"it {given} the proxy URL (HTTP 407)"
    return f"it answered HTTP {status}"


def _socks(proxy: Proxy, address: Address) -> Steps:
    """SOCKS version 5; the proxy looks the host name up."""
    pending = bytearray()
    method = 2 if proxy.username else 0
    to_send = bytes([5, 1, method])
    chosen = yield from _exactly(2, pending, to_send)
    if chosen[0] != 5 or chosen[1] != method:
        raise ProxyError("it wants another kind of login" if chosen[0] == 5 else "it does not speak SOCKS 5")
    if proxy.username:
        name, password = proxy.username.encode()[:255], proxy.password.encode()[:255]
        verdict = yield from _exactly(2, pending, b"\x01%c%b%c%b" % (len(name), name, len(password), password))
        if verdict[1] != 0:
            raise ProxyError("it refused the login in the proxy URL")
    host = address.host.encode()
    answer = yield from _exactly(
        5, pending, b"\x05\x01\x00\x03%c%b%b" % (len(host), host, address.port.to_bytes(2, "big"))
    )
    if answer[1] != 0:
        raise ProxyError(_SOCKS_REFUSALS.get(answer[1], f"SOCKS error {answer[1]}"))
    # The rest names the address the proxy connects from, which is not needed; its first byte may be its length.
    rest = _SOCKS_ADDRESS_LENGTHS.get(answer[3], answer[4] + 1)
    yield from _exactly(rest - 1 + 2, pending, b"")


def _exactly(count: int, pending: bytearray, to_send: bytes) -> Generator[bytes, bytes, bytes]:
    """Send, then wait for so many bytes."""
    if to_send:
        pending += _alive((yield to_send))
    while len(pending) < count:
        pending += _alive((yield b""))
    found = bytes(pending[:count])
    del pending[:count]
    return found


def _alive(data: bytes) -> bytes:
    if not data:
        raise ProxyError("it closed the connection")
    return data
