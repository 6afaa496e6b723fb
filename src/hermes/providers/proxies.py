"""Which proxy, if any, stands between us and a host, by the usual environment variables."""

from __future__ import annotations

import os
import sys


def proxy_for(scheme: str, host: str) -> str | None:
    """The proxy URL for a host, or ``None`` to connect directly.

    Loopback is always direct: a proxy elsewhere would reach its own machine, not ours. With no variable set
    nothing is imported, since a plain chat needs none of it.
    """
    if host == "localhost" or host == "::1" or host.startswith("127."):
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
