"""Principals: the callers of a server, authenticated by a token, each with its scopes and its workspace."""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from hermes.base.config.principals import configured_principals, default_workspace, make_private
from hermes.base.config.schema.sections import Config, PrincipalScope
from hermes.base.errors import ConfigError
from hermes.base.sanitize import Redactor

#: Answering approvals (``approve``) has to be granted by name: who asks for something does not approve it.
DEFAULT_SCOPES: frozenset[PrincipalScope] = frozenset(("send", "read", "cancel"))
#: Holds the token of a single caller of A2A and MCP, without any configuration.
TOKEN_VARIABLE = "HERMES_A2A_TOKEN"
#: The same for the OpenAI-compatible API.
API_KEY_VARIABLE = "API_SERVER_KEY"
_MIN_TOKEN_CHARS = 16
_DIGEST = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class Principal:
    """A caller and its scopes."""

    name: str
    scopes: frozenset[PrincipalScope] = DEFAULT_SCOPES
    #: The folder that the configuration gives it; empty is one of its own in the home.
    workspace: str = ""
    #: Whether it sent a valid token.
    is_authenticated: bool = True
    #: Whether it is the owner of the home, at the surfaces where the owner can be a caller.
    is_owner: bool = False

    @property
    def may_approve(self) -> bool:
        """Whether it may answer approvals of its own work."""
        return "approve" in self.scopes


#: Every caller on this machine, when no token is required.
LOCAL = Principal("local", is_authenticated=False)
#: The caller with the token from the environment.
_TOKEN_HOLDER = Principal("token")
#: These have no token in the configuration, which may give them scopes and a workspace.
_BUILT_IN = {principal.name: principal for principal in (LOCAL, _TOKEN_HOLDER)}


class Principals:
    """All callers that have a token, and the one for callers without a token, when no caller has one."""

    def __init__(
        self,
        known: Mapping[bytes, Principal] | None = None,
        local: Principal = LOCAL,
        token_variable: str = TOKEN_VARIABLE,
    ) -> None:
        #: By the SHA-256 digest of the token.
        self._known = dict(known or {})
        self.local = local
        #: The variable with the token of a single caller.
        self.token_variable = token_variable

    def __bool__(self) -> bool:
        return bool(self._known)

    def __iter__(self) -> Iterator[Principal]:
        """Every caller that there can be."""
        return iter(self._known.values() if self._known else (self.local,))

    def named(self, name: str) -> Principal:
        """The caller with that name; one that the configuration no longer has may do nothing."""
        return next((known for known in self if known.name == name), Principal(name, frozenset()))

    def authenticate(self, headers: Mapping[str, str]) -> Principal | None:
        """The caller with these headers (names in lower case). None when a valid token is required and missing."""
        if not self._known:
            return self.local
        scheme, _, token = headers.get("authorization", "").partition(" ")
        given = token.strip() if scheme.lower() == "bearer" else headers.get("x-api-key", "")
        digest = hashlib.sha256(given.encode("utf-8", "replace")).digest()
        found: Principal | None = None
        for known, principal in self._known.items():  # all of them: a constant-time comparison
            if hmac.compare_digest(known, digest):
                found = principal
        return found


def workspace_of(principal: Principal, home: Path, cwd: Path) -> Path:
    """The folder that a caller works in: that of the configuration (relative to ``cwd``), or its own in the home."""
    if not principal.workspace:
        return make_private(default_workspace(home, principal.name))
    folder = (cwd / Path(principal.workspace).expanduser()).resolve()
    if not folder.is_dir():
        raise ConfigError(f"principals.{principal.name}.workspace: {folder} is not a folder; make it, or name another")
    return folder


def read_principals(
    config: Config, env: Mapping[str, str], redactor: Redactor, token_variable: str = TOKEN_VARIABLE
) -> Principals:
    """The principals of the configuration, and the one whose token is in the environment."""
    known: dict[bytes, Principal] = {}
    built_in = dict(_BUILT_IN)
    for where, name, entry in configured_principals(config):
        if not name.strip():
            raise ConfigError(f"{where.removesuffix('.')}: a caller has an empty name; give it one")
        if name in _BUILT_IN:
            if entry.token_env or entry.token_sha256:
                raise ConfigError(f"{where}: this name is for callers without a token here; choose another")
            scopes = frozenset(entry.scopes)
            built_in[name] = replace(_BUILT_IN[name], scopes=scopes, workspace=entry.workspace, is_owner=entry.owner)
            continue
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
                raise ConfigError(f"{where}.token_sha256: is the digest of an empty token; use that of your token")
        else:
            raise ConfigError(f"{where}.token_sha256: not a SHA-256 in hex (64 digits)")
        if digest in known:
            raise ConfigError(f"{where}: has the same token as {known[digest].name}; give each its own")
        twin = next((one.name for one in known.values() if one.name.casefold() == name.casefold()), None)
        if twin is not None:
            raise ConfigError(f"{where}: differs from {twin} only in case; some file systems take them for one")
        known[digest] = Principal(name, frozenset(entry.scopes), entry.workspace, is_owner=entry.owner)
    token = env.get(token_variable, "")
    if token:
        known.setdefault(_digest(token, token_variable, redactor), built_in[_TOKEN_HOLDER.name])
    return Principals(known, built_in[LOCAL.name], token_variable)


def _digest(token: str, what: str, redactor: Redactor) -> bytes:
    if len(token) < _MIN_TOKEN_CHARS:
        raise ConfigError(
            f"{what} has {len(token)} characters; at least {_MIN_TOKEN_CHARS} are needed. Make one with: "
            f"python -c 'import secrets; print(secrets.token_urlsafe(32))'"
        )
    redactor.add_secret(token)
    return hashlib.sha256(token.encode("utf-8", "replace")).digest()
