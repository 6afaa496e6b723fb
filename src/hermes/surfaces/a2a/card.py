"""The agent card: transports, capabilities, security schemes and skills of a served agent."""

from __future__ import annotations

import ipaddress
from collections.abc import Awaitable, Callable, Iterable, Sequence
from email.utils import formatdate
from typing import TYPE_CHECKING, cast
from urllib.parse import urlsplit

import msgspec
from a2a.server.routes import create_agent_card_routes
from a2a.types import (
    AgentCapabilities,
    AgentCard,
    AgentInterface,
    AgentSkill,
    APIKeySecurityScheme,
    HTTPAuthSecurityScheme,
    SecurityRequirement,
    SecurityScheme,
    StringList,
)

from hermes.base.errors import ConfigError
from hermes.base.version import __version__
from hermes.tools.declarations.declaration import UNDECLARED, SkillText
from hermes.tools.registry import Tool

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.routing import Route

#: The path of each transport, below the base URL.
RPC_PATH = "/"
REST_PATH = "/rest"
API_KEY_HEADER = "X-API-Key"

#: A card changes only with a restart; clients check whether their copy is still valid.
CACHE_CONTROL = "public, max-age=60, must-revalidate"

_VERSIONS = ("1.0", "0.3")
_CONVERSATION = SkillText(
    "Conversation",
    "Answers questions and works on tasks in plain language. A context keeps its conversation.",
    ("chat", "questions"),
    ("What is the difference between a process and a thread?",),
)


class CardOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The facts on a card."""

    #: The address that others use; behind a proxy not the one listened on.
    base_url: str
    tools: Sequence[Tool] = ()
    name: str = "Hermes"
    description: str = "An agent that reads and writes files and runs commands on its machine."
    input_modes: Sequence[str] = ("text/plain",)
    output_modes: Sequence[str] = ("text/plain",)
    #: ``host:port`` of the gRPC server, when there is one.
    grpc_address: str = ""
    streaming: bool = True
    push: bool = False
    needs_token: bool = False
    #: Whether authenticated callers get a card with more details.
    extended: bool = False


def agent_card(options: CardOptions, *, detailed: bool = False) -> AgentCard:
    """The public card, or the ``detailed`` one for authenticated callers.

    Raises ``ConfigError`` when the base URL cannot be called by others.
    """
    schemes, requirements = _security() if options.needs_token else ({}, [])
    return AgentCard(
        name=options.name,
        description=options.description,
        version=__version__,
        supported_interfaces=_interfaces(options),
        capabilities=AgentCapabilities(
            streaming=options.streaming, push_notifications=options.push, extended_agent_card=options.extended
        ),
        default_input_modes=list(options.input_modes),
        default_output_modes=list(options.output_modes),
        skills=skills_of(options.tools, detailed=detailed),
        security_schemes=schemes,
        security_requirements=requirements,
    )


def card_routes(card: AgentCard) -> list[Route]:
    """The route that serves the card, with ``ETag``, ``If-None-Match``, ``Cache-Control`` and ``Last-Modified``."""
    made_at = formatdate(usegmt=True)
    [route] = create_agent_card_routes(card, cache_control=CACHE_CONTROL)
    serve = cast("Callable[[Request], Awaitable[Response]]", route.endpoint)

    async def with_date(request: Request) -> Response:
        response = await serve(request)
        response.headers["Last-Modified"] = made_at
        return response

    return [type(route)(route.path, with_date, methods=["GET"])]


def _interfaces(options: CardOptions) -> list[AgentInterface]:
    """Every transport, best first: clients take the first one that they support."""
    base_url = _checked(options.base_url)
    transports = [("JSONRPC", base_url + RPC_PATH), ("HTTP+JSON", base_url + REST_PATH)]
    found = [(binding, url, version) for version in _VERSIONS for binding, url in transports]
    if options.grpc_address:
        found.append(("GRPC", options.grpc_address, "1.0"))
    return [
        AgentInterface(url=url, protocol_binding=binding, protocol_version=version) for binding, url, version in found
    ]


def _security() -> tuple[dict[str, SecurityScheme], list[SecurityRequirement]]:
    """A token in one of two headers."""
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
    return f"must name a host that others can reach, and {host} is every address of this machine" if unspecified else ""


# -- skills -----------------------------------------------------------------------------------------------------------


def skills_of(tools: Iterable[Tool], *, detailed: bool) -> list[AgentSkill]:
    """One skill for conversation and one for each toolset; ``detailed`` ones name their tools."""
    by_toolset: dict[str, list[Tool]] = {}
    for tool in tools:
        by_toolset.setdefault(tool.toolset, []).append(tool)
    skills = [_skill("conversation", _CONVERSATION)]
    for toolset, members in sorted(by_toolset.items()):
        shown = [(tool.declares or UNDECLARED).shown for tool in members]
        if any(one.is_internal for one in shown):
            continue
        text = next((one.skill for one in shown if one.skill is not None), None) or _described(toolset, members)
        names = sorted(tool.name for tool in members) if detailed else []
        skills.append(_skill(toolset, text, names))
    return skills


def _skill(skill_id: str, text: SkillText, more_tags: Iterable[str] = ()) -> AgentSkill:
    tags = list(dict.fromkeys([*text.tags, *more_tags]))
    return AgentSkill(
        id=skill_id, name=text.name, description=text.description, tags=tags, examples=list(text.examples)
    )


def _described(toolset: str, tools: Iterable[Tool]) -> SkillText:
    """The text of a plugin's toolset, from the descriptions of its tools."""
    name = toolset.replace("_", " ").replace("-", " ").strip().capitalize() or toolset
    sentences = dict.fromkeys(_first_sentence(tool.description) for tool in tools)
    return SkillText(name, " ".join(filter(None, sentences)) or f"Tools of the group {toolset}.", (toolset,))


def _first_sentence(text: str) -> str:
    sentence, stop, _ = " ".join(text.split()).partition(". ")
    return sentence + "." if stop else sentence
