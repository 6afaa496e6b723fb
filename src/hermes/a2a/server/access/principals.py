"""Principals: the callers of the server, authenticated by a token, each with its scopes."""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Mapping
from dataclasses import dataclass

from a2a.auth.user import User

from hermes.config.sections import A2AConfig, A2AScope
from hermes.errors import ConfigError
from hermes.sanitize import Redactor

ALL_SCOPES: frozenset[A2AScope] = frozenset(("send", "read", "cancel", "approve"))
#: Holds the token of a single caller, without any configuration.
TOKEN_VARIABLE = "HERMES_A2A_TOKEN"
_MIN_TOKEN_CHARS = 16
_DIGEST = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class Principal:
    """A caller and its scopes."""

    name: str
    scopes: frozenset[A2AScope] = ALL_SCOPES
    #: Whether it sent a valid token.
    is_authenticated: bool = True


#: Every caller on this machine, when no token is required.
LOCAL = Principal("local", is_authenticated=False)
#: The caller with the token from the environment.
_TOKEN_HOLDER = Principal("token")
_RESERVED = frozenset({LOCAL.name, _TOKEN_HOLDER.name})


class PrincipalUser(User):
    """A principal as the user of the SDK: its name is the owner of tasks."""

    def __init__(self, principal: Principal) -> None:
        self.principal = principal

    @property
    def is_authenticated(self) -> bool:
        return self.principal.is_authenticated

    @property
    def user_name(self) -> str:
        return self.principal.name


class Principals:
    """All callers that have a token."""

    def __init__(self, known: Mapping[bytes, Principal] | None = None) -> None:
        #: By the SHA-256 digest of the token.
        self._known = dict(known or {})

    def __bool__(self) -> bool:
        return bool(self._known)

    def authenticate(self, headers: Mapping[str, str]) -> Principal | None:
        """The caller with these headers (names in lower case). None when a valid token is required and missing."""
        if not self._known:
            return LOCAL
        scheme, _, token = headers.get("authorization", "").partition(" ")
        given = token.strip() if scheme.lower() == "bearer" else headers.get("x-api-key", "")
        digest = hashlib.sha256(given.encode("utf-8", "replace")).digest()
        found: Principal | None = None
        for known, principal in self._known.items():  # all of them: a constant-time comparison
            if hmac.compare_digest(known, digest):
                found = principal
        return found


def read_principals(settings: A2AConfig, env: Mapping[str, str], redactor: Redactor) -> Principals:
    """The principals of the configuration, and the one whose token is in the environment."""
    known: dict[bytes, Principal] = {}
    for name, entry in settings.principals.items():
        where = f"a2a.principals.{name}"
        if name in _RESERVED:
            raise ConfigError(f"{where}: this name is reserved for callers without one; choose another")
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
        known[digest] = Principal(name, frozenset(entry.scopes))
    token = env.get(TOKEN_VARIABLE, "")
    if token:
        known.setdefault(_digest(token, TOKEN_VARIABLE, redactor), _TOKEN_HOLDER)
    return Principals(known)


def _digest(token: str, what: str, redactor: Redactor) -> bytes:
    if len(token) < _MIN_TOKEN_CHARS:
        raise ConfigError(
            f"{what} has {len(token)} characters; at least {_MIN_TOKEN_CHARS} are needed. Make one with: "
            f"python -c 'import secrets; print(secrets.token_urlsafe(32))'"
        )
    redactor.add_secret(token)
    return hashlib.sha256(token.encode("utf-8", "replace")).digest()
