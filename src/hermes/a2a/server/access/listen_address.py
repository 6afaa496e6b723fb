"""Listen address of the server: refuses to be open to other machines without tokens."""

from __future__ import annotations

import functools
import ipaddress
from dataclasses import dataclass

from hermes.a2a.server.access.principals import TOKEN_VARIABLE, Principals
from hermes.errors import HermesError


@dataclass(frozen=True, slots=True)
class ListenAddress:
    """The host and ports to listen on, and the URL to publish."""

    host: str = "127.0.0.1"
    port: int = 0
    #: None serves no gRPC; 0 is any free port.
    grpc_port: int | None = None
    public_url: str = ""


def check_listen_address(address: ListenAddress, principals: Principals) -> None:
    """Raise ``HermesError`` for an address open to other machines without tokens, or one that cannot be called."""
    if not is_loopback(address.host) and not principals:
        raise HermesError(
            f"{address.host} can be reached by other machines, and no token is required: set {TOKEN_VARIABLE} in "
            f".env, name callers under a2a.principals, or listen on 127.0.0.1"
        )
    if is_wildcard(address.host) and not address.public_url:
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
