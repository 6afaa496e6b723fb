"""The way to a server: where to connect first, and what stands in between."""

from __future__ import annotations

from dataclasses import dataclass

from hermes.errors import ConfigError
from hermes.models.http.address import Address
from hermes.models.http.network_errors import ConnectError, ProxyUnreachable
from hermes.models.http.proxies import Proxy, parse_proxy, proxy_for
from hermes.models.http.tunnels import Steps, tunnel


@dataclass(frozen=True, slots=True)
class Route:
    """How to open a connection to ``server``."""

    server: Address
    proxy: Proxy | None = None

    @property
    def first(self) -> Address:
        """Whom to connect to."""
        proxy = self.proxy
        if proxy is None:
            return self.server
        return Address("https" if proxy.scheme == "https" else "http", proxy.host, proxy.port)

    @property
    def forwarder(self) -> Proxy | None:
        """The proxy that takes each request and passes it on; ``None`` when the server itself hears it."""
        return self.proxy if self.proxy is not None and not self._needs_tunnel(self.proxy) else None

    def tunnel(self) -> Steps | None:
        """What is said to the proxy so that it passes everything on."""
        return tunnel(self.proxy, self.server) if self.proxy is not None and self._needs_tunnel(self.proxy) else None

    def secured_hosts(self) -> tuple[str, str]:
        """Whose certificate is checked before the tunnel and after it; empty where there is none to check."""
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
    """The way to a server by the environment's proxies."""
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
