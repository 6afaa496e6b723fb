"""Who calls: named principals, known by a token, each with what it may do."""

from __future__ import annotations

import functools
import hashlib
import hmac
import ipaddress
import re
from collections.abc import Mapping
from dataclasses import dataclass

from a2a.auth.user import User

from hermes.config.sections import A2AConfig, A2AScope
from hermes.errors import ConfigError
from hermes.sanitize import Redactor

ALL_SCOPES: frozenset[A2AScope] = frozenset(("send", "read", "cancel", "approve"))
#: A single caller needs no configuration: its token in this variable is enough.
TOKEN_VARIABLE = "HERMES_A2A_TOKEN"
_SHORTEST_TOKEN = 16
_DIGEST = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class Principal:
    """A caller and what it may do."""

    name: str
    scopes: frozenset[A2AScope] = ALL_SCOPES
    #: Whether it showed a token.
    is_known: bool = True


#: Whoever is on this machine, when nobody needs a token.
LOCAL = Principal("local", is_known=False)
#: Whoever has the token of the environment.
_TOKEN_HOLDER = Principal("token")
_RESERVED = frozenset({LOCAL.name, _TOKEN_HOLDER.name})


class Peer(User):
    """A principal as the SDK sees it: its name owns tasks."""

    def __init__(self, principal: Principal) -> None:
        self.principal = principal

    @property
    def is_authenticated(self) -> bool:
        return self.principal.is_known

    @property
    def user_name(self) -> str:
        return self.principal.name


class Principals:
    """Everybody who may call."""

    def __init__(self, known: Mapping[bytes, Principal] | None = None) -> None:
        #: By the digest of the token.
        self._known = dict(known or {})

    def __bool__(self) -> bool:
        return bool(self._known)

    def of(self, headers: Mapping[str, str]) -> Principal | None:
        """Who sent these headers (names in lower case). None when a token is needed and there is none that is right."""
        if not self._known:
            return LOCAL
        scheme, _, token = headers.get("authorization", "").partition(" ")
        given = token.strip() if scheme.lower() == "bearer" else headers.get("x-api-key", "")
        digest = hashlib.sha256(given.encode("utf-8", "replace")).digest()
        found: Principal | None = None
        for known, principal in self._known.items():  # all of them: how long it takes tells nothing
            if hmac.compare_digest(known, digest):
                found = principal
        return found


def read_principals(settings: A2AConfig, env: Mapping[str, str], redactor: Redactor) -> Principals:
    """Those of the configuration, and the one whose token is in the environment."""
    known: dict[bytes, Principal] = {}
    for name, entry in settings.principals.items():
        where = f"a2a.principals.{name}"
        if name in _RESERVED:
            raise ConfigError(f"{where}: this name stands for callers without one of their own; give another")
        if bool(entry.token_env) == bool(entry.token_sha256):
            raise ConfigError(f"{where}: give either token_env or token_sha256")
        if entry.token_env:
            token = env.get(entry.token_env, "")
            if not token:
                raise ConfigError(f"{where}: {entry.token_env} is not set; put the token in .env, or unset token_env")
            digest = _digest(token, f"{where}: the token in {entry.token_env}", redactor)
        elif _DIGEST.fullmatch(entry.token_sha256.lower()):
            digest = bytes.fromhex(entry.token_sha256)
            if digest == hashlib.sha256().digest():
                raise ConfigError(f"{where}.token_sha256: is that of an empty token; make it of the token itself")
        else:
            raise ConfigError(f"{where}.token_sha256: not a SHA-256 in hex (64 digits)")
        if digest in known:
            raise ConfigError(f"{where}: has the same token as {known[digest].name}; give each its own")
        known[digest] = Principal(name, frozenset(entry.scopes))
    token = env.get(TOKEN_VARIABLE, "")
    if token:
        known.setdefault(_digest(token, TOKEN_VARIABLE, redactor), _TOKEN_HOLDER)
    return Principals(known)


def _digest(token: str, what: str, redactor: Redactor) -> bytes:
    if len(token) < _SHORTEST_TOKEN:
        raise ConfigError(
            f"{what} has {len(token)} characters; at least {_SHORTEST_TOKEN} are needed. Make one with: "
            f"python -c 'import secrets; print(secrets.token_urlsafe(32))'"
        )
    redactor.add_secret(token)
    return hashlib.sha256(token.encode("utf-8", "replace")).digest()


@functools.lru_cache(256)
def is_loopback(host: str) -> bool:
    """Whether only this machine reaches the host."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def is_wildcard(host: str) -> bool:
    """Whether the host stands for every address of this machine, and so for none that can be called."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_unspecified
    except ValueError:
        return not host
