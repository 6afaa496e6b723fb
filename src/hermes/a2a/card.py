"""The agent card: what is served, where, for whom, and what can be asked for."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import msgspec
from a2a.server.routes import create_agent_card_routes
from a2a.types import (
    AgentCapabilities,
    AgentCard,
    AgentInterface,
    APIKeySecurityScheme,
    HTTPAuthSecurityScheme,
    SecurityRequirement,
    SecurityScheme,
    StringList,
)

from hermes.a2a.skills import skills_of
from hermes.errors import ConfigError
from hermes.tools.registry import Tool
from hermes.version import __version__

if TYPE_CHECKING:
    from starlette.routing import Route

#: Where each binding is served, below the base URL.
RPC_PATH = "/"
REST_PATH = "/rest"
API_KEY_HEADER = "X-API-Key"

#: A card changes only with a restart; whoever has an old one asks whether it still holds.
CACHE_CONTROL = "public, max-age=60, must-revalidate"

_VERSIONS = ("1.0", "0.3")


class Served(msgspec.Struct, frozen=True, kw_only=True):
    """What a server offers. The card promises no more than is set here."""

    #: The address others use, which a proxy may have made another than the one listened on.
    base_url: str
    tools: Sequence[Tool] = ()
    name: str = "Hermes"
    description: str = "An agent that reads, writes and runs things on the machine it lives on."
    input_modes: Sequence[str] = ("text/plain",)
    output_modes: Sequence[str] = ("text/plain",)
    #: ``host:port`` of the gRPC server, when there is one.
    grpc_address: str = ""
    streaming: bool = True
    push: bool = False
    needs_token: bool = False
    #: Whether callers who say who they are get a card that tells more.
    extended: bool = False


def agent_card(served: Served, *, detailed: bool = False) -> AgentCard:
    """The card for everybody, or the ``detailed`` one for callers that are known.

    Raises ``ConfigError`` when the base URL is none that others could call.
    """
    schemes, requirements = _security() if served.needs_token else ({}, [])
    return AgentCard(
        name=served.name,
        description=served.description,
        version=__version__,
        supported_interfaces=_interfaces(served),
        capabilities=AgentCapabilities(
            streaming=served.streaming, push_notifications=served.push, extended_agent_card=served.extended
        ),
        default_input_modes=list(served.input_modes),
        default_output_modes=list(served.output_modes),
        skills=skills_of(served.tools, detailed=detailed),
        security_schemes=schemes,
        security_requirements=requirements,
    )


def card_routes(card: AgentCard) -> list[Route]:
    """The route that serves the card, with an ETag, an answer to ``If-None-Match``, and how long a copy holds."""
    return create_agent_card_routes(card, cache_control=CACHE_CONTROL)


def _interfaces(served: Served) -> list[AgentInterface]:
    """Every way to call, best first: clients take the first one they know."""
    base_url = _checked(served.base_url)
    places = [("JSONRPC", base_url + RPC_PATH), ("HTTP+JSON", base_url + REST_PATH)]
    found = [(binding, url, version) for version in _VERSIONS for binding, url in places]
    if served.grpc_address:
        found.append(("GRPC", served.grpc_address, "1.0"))
    return [
        AgentInterface(url=url, protocol_binding=binding, protocol_version=version) for binding, url, version in found
    ]


def _security() -> tuple[dict[str, SecurityScheme], list[SecurityRequirement]]:
    """A token in either of two headers; one of them is enough."""
    schemes = {
        "bearer": SecurityScheme(http_auth_security_scheme=HTTPAuthSecurityScheme(scheme="Bearer")),
        "apiKey": SecurityScheme(api_key_security_scheme=APIKeySecurityScheme(location="header", name=API_KEY_HEADER)),
    }
    return schemes, [SecurityRequirement(schemes={name: StringList()}) for name in schemes]


def _checked(base_url: str) -> str:
    """The base URL without its last slash."""
    problem = _problem_of(base_url)
    if problem:
        raise ConfigError(f"the public URL of an A2A server {problem}; an example is https://agents.example.org/hermes")
    return base_url.rstrip("/")


def _problem_of(base_url: str) -> str:
    try:
        parts = urlsplit(base_url)
        host, _ = parts.hostname or "", parts.port
    except ValueError as error:
        return f"cannot be parsed ({error})"
    if parts.scheme not in ("http", "https"):
        return "must start with http:// or https://"
    if parts.username is not None or parts.password is not None or parts.query or parts.fragment:
        return "must have no user name, password, query or fragment"
    if not host or any(character.isspace() for character in base_url):
        return "names no host"
    try:
        unspecified = ipaddress.ip_address(host).is_unspecified
    except ValueError:
        unspecified = False
    return f"must name a host that others can reach, and {host} is every address and none" if unspecified else ""
