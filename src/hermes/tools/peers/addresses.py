"""Addresses of other agents: by name or URL, and the SSRF guard for connections to them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from hermes.base.config.schema.sections import A2AConfig
from hermes.base.errors import did_you_mean
from hermes.base.http.address import Address, is_loopback
from hermes.tools.peers.failures import PeerError

_CARD_PATH = "/.well-known/agent-card.json"
_PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
class Peer:
    """Another agent: its name here, its URL and its token."""

    name: str
    url: str
    token: str = field(default="", repr=False)
    #: Named by the user, in the configuration or on the command line: it may be in a private network.
    is_trusted: bool = False


def find_peer(settings: A2AConfig, env: Mapping[str, str], target: str) -> Peer:
    """The agent with that name in the configuration, or at that URL. A configured one has its token."""
    target = target.strip()
    for name, agent in settings.agents.items():
        if target == name or ("://" in target and base_of(target) == base_of(agent.url)):
            token = read_token(env, agent.token_env, f"a2a.agents.{name}") if agent.token_env else ""
            return Peer(name, base_of(agent.url), token, is_trusted=True)
    if "://" in target:
        url = base_of(target)
        return Peer(url, url)
    hint = did_you_mean(target, settings.agents, then="A URL such as https://agent.example.org is allowed too")
    raise PeerError(f"there is no agent {target!r} under a2a.agents{hint}")


def read_token(env: Mapping[str, str], variable: str, where: str) -> str:
    """The token in an environment variable."""
    token = env.get(variable, "").strip()
    if not token:
        raise PeerError(f"{where}: {variable} is not set; put the token in .env, or name another variable")
    return token


def base_of(url: str) -> str:
    """The base URL of an agent, also from the URL of its card. Raises ``PeerError`` for anything else."""
    try:
        parts = urlsplit(url.strip())
        host, _ = parts.hostname, parts.port
    except ValueError as error:
        raise PeerError(f"{_shown(url)} is not a URL: {error}") from None
    if parts.scheme not in _PORTS or not host:
        raise PeerError(
            f"{_shown(url)} is not the URL of an agent; it starts with http:// or https:// and names a host"
        )
    if parts.username is not None or parts.password is not None:
        raise PeerError("the URL of an agent holds a user name or a password; put the token in an environment variable")
    if parts.query or parts.fragment or any(character.isspace() for character in parts.netloc + parts.path):
        raise PeerError(f"{_shown(url)} is not the URL of an agent; it has no query, no fragment and no blanks")
    return f"{parts.scheme}://{parts.netloc}{parts.path.removesuffix(_CARD_PATH).rstrip('/')}"


def same_server(one: str, other: str) -> bool:
    """Whether two URLs have the same server. All names of this machine are the same host."""
    (scheme, host, port), (other_scheme, other_host, other_port) = _server(one), _server(other)
    same_host = host == other_host or (is_loopback(host) and is_loopback(other_host))
    return (scheme, port) == (other_scheme, other_port) and same_host


def _server(url: str) -> tuple[str, str, int]:
    parts = urlsplit(url)
    return parts.scheme, (parts.hostname or "").lower(), parts.port or _PORTS.get(parts.scheme, 0)


def _shown(url: str) -> str:
    """The URL for a message; the part before an @ may be a password."""
    return repr(url[:100]) if "@" not in url else "what was given"


@dataclass(frozen=True, slots=True)
class PeerGuard:
    """SSRF guard for calls to one agent: public addresses, and the agent's own if it is trusted."""

    peer: Peer
    allow_private: bool = False

    def __call__(self, server: Address, is_public: bool) -> str:
        """Why this server must not be connected to; empty allows it."""
        if self.allow_private or is_public or (self.peer.is_trusted and same_server(server.origin, self.peer.url)):
            return ""
        return (
            f"{server.host} is in a private network; name the agent under a2a.agents, or set "
            f"security.allow_private_urls: true, if it may be reached"
        )
