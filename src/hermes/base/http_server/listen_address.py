"""Listen address of a server: one that is open to other machines needs tokens."""

from __future__ import annotations

import functools
import ipaddress
from dataclasses import dataclass

from hermes.base.errors import HermesError
from hermes.base.http_server.principals import Principals


@dataclass(frozen=True, slots=True)
class ListenAddress:
    """The host and port to listen on, and the URL to publish."""

    host: str = "127.0.0.1"
    port: int = 0
    public_url: str = ""


def check_listen_address(address: ListenAddress, principals: Principals, *, is_published: bool = True) -> None:
    """Raise ``HermesError`` for an address open to other machines without tokens.

    ``is_published``: clients are given the address, so it must be one that can be called.
    """
    if not is_loopback(address.host) and not principals:
        raise HermesError(
            f"{address.host} can be reached by other machines, and no token is required: set "
            f"{principals.token_variable} in .env, name callers under principals, or listen on 127.0.0.1"
        )
    if is_published and is_wildcard(address.host) and not address.public_url:
        raise HermesError(
            f"{address.host} is an address to listen on, not one to call; use --public-url to say how others reach "
            f"this server"
        )


@functools.lru_cache(256)
def is_loopback(host: str) -> bool:
    """Whether only this machine can reach the host."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def is_wildcard(host: str) -> bool:
    """Whether the host means every address of this machine, which is not an address that can be called."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_unspecified
    except ValueError:
        return not host


def base_url(host: str, port: int) -> str:
    """The URL of a server at that host, as a program on this machine calls it."""
    called = "127.0.0.1" if is_wildcard(host) else host
    return f"http://[{called}]:{port}" if ":" in called else f"http://{called}:{port}"
