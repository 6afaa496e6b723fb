"""Where a server listens, and why it may not listen there."""

from __future__ import annotations

from dataclasses import dataclass

from hermes.a2a.server.access.principals import TOKEN_VARIABLE, Principals, is_loopback, is_wildcard
from hermes.errors import HermesError


@dataclass(frozen=True, slots=True)
class Place:
    """Where to listen, and what to tell others."""

    host: str = "127.0.0.1"
    port: int = 0
    #: None serves no gRPC; 0 is any free port.
    grpc_port: int | None = None
    public_url: str = ""


def check_place(place: Place, principals: Principals) -> None:
    """Refuse to be open to others without tokens, and to name an address that nobody can call."""
    if not is_loopback(place.host) and not principals:
        raise HermesError(
            f"{place.host} can be reached by others, and nobody needs a token: set {TOKEN_VARIABLE} in .env, "
            f"name callers under a2a.principals, or listen on 127.0.0.1"
        )
    if is_wildcard(place.host) and not place.public_url:
        raise HermesError(
            f"{place.host} is an address to listen on, not one to call; say with --public-url how others reach "
            f"this server"
        )
