"""Which proxy, if any, stands between us and a host, by the usual environment variables."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass, field
from urllib.parse import unquote, urlsplit

from hermes.errors import ConfigError
from hermes.models.http.address import is_this_machine

_PORTS = {"http": 80, "https": 443, "socks5": 1080, "socks5h": 1080}


@dataclass(frozen=True, slots=True)
class Proxy:
    """A proxy and how to log in there."""

    scheme: str
    host: str
    port: int
    username: str = field(default="", repr=False)
    password: str = field(default="", repr=False)

    @property
    def is_socks(self) -> bool:
        return self.scheme.startswith("socks")

    def login(self) -> list[tuple[str, str]]:
        """The header that logs in at an HTTP proxy, when it wants one."""
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
    if is_this_machine(host):
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
