"""SSRF guard: keeps a URL that others chose from leading into the private network.

A guard is asked when a connection is made, about the very address that it goes to, and again for every redirect and
every reuse of a connection, so DNS rebinding (a name that changes between two look-ups) gains nothing.
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Callable
from contextlib import suppress

from hermes.base.http.address import Address
from hermes.base.http.errors import AddressRefused

#: Given a server and whether its address is public, returns why it must not be connected to; empty allows it.
Guard = Callable[[Address, bool], str]

#: The IPv6 addresses that are assigned to the public. All others are private, reserved or stand for something else.
_PUBLIC_V6 = ipaddress.ip_network("2000::/3")
_DOCUMENTATION = ipaddress.ip_network("3fff::/20")
_NAT64 = ipaddress.ip_network("64:ff9b::/96")
#: Endings of names that exist only in private networks.
_PRIVATE_NAMES = (".local", ".internal", ".localhost", ".lan", ".home.arpa")


def public_only(server: Address, is_public: bool) -> str:
    """The guard for fetches: public addresses alone."""
    if is_public:
        return ""
    return f"{server.host} is in a private network; set security.allow_private_urls: true if it may be reached"


def enforce(guard: Guard, server: Address, ip: str) -> None:
    """Raise ``AddressRefused`` unless the guard allows the address. ``ip`` is empty when a proxy does the look-up."""
    if server.socket_path:
        raise AddressRefused("only http and https URLs can be requested, not a socket file")
    reason = guard(server, is_public(ip) if ip else is_public_name(server.host))
    if reason:
        raise AddressRefused(reason)


def is_public(ip: str) -> bool:
    """Whether an IP address belongs to the public network, in any notation."""
    found = ipaddress.ip_address(ip.partition("%")[0])
    if isinstance(found, ipaddress.IPv6Address):
        inner = found.ipv4_mapped or found.sixtofour
        if found in _NAT64:
            inner = ipaddress.IPv4Address(int(found) & 0xFFFFFFFF)
        if inner is None and (found not in _PUBLIC_V6 or found in _DOCUMENTATION):
            return False
        found = inner or found
    return found.is_global and not found.is_multicast


def is_public_name(host: str) -> bool:
    """Whether a host name looks public. Behind a proxy, which does the look-up, the name is all there is to check."""
    name = host.strip("[]").rstrip(".").lower()
    with suppress(OSError):
        name = socket.inet_ntoa(socket.inet_aton(name))  # 127.1 and 0x7f.1 are numbers too
    try:
        return is_public(name)
    except ValueError:
        return "." in name and not name.endswith(_PRIVATE_NAMES)
