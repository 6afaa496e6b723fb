"""Access to the agent: the role of a sender, by the settings and the users that the owner let in. Closed by default."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Mapping
from pathlib import Path

import msgspec

from hermes.base.config.principals import default_workspace, make_private
from hermes.base.config.schema.gateway import GatewayConfig, GatewayPlatformConfig
from hermes.host import Host
from hermes.plugins.loading.discovery import is_set
from hermes.surfaces.gateway.adapter import PlatformEntry, SessionSource, build_session_key
from hermes.surfaces.gateway.store.users import GatewayUsers, Role

#: How long a change by ``hermes gateway pair`` may take to count.
_REFRESH_SECONDS = 1.0
EVERYONE = "*"


class Sender(msgspec.Struct, frozen=True):
    """A user of a platform who may use the agent."""

    platform: str
    user_id: str
    name: str
    role: Role

    @property
    def may_approve(self) -> bool:
        """Whether the user may answer approvals."""
        return self.role != "user"

    @property
    def principal(self) -> str:
        """The principal that the user is: the owner of the home (empty), or one of the user's own."""
        return "" if self.role == "owner" else f"{self.platform}:{self.user_id}"


class Access:
    """The users of all platforms. Thread-safe; reading the list of users may block for a moment."""

    def __init__(
        self,
        config: GatewayConfig,
        users: GatewayUsers,
        entries: Mapping[str, PlatformEntry],
        environ: Mapping[str, str] | None = None,
    ) -> None:
        self._config = config
        self._users = users
        self._entries = entries
        self._environ = os.environ if environ is None else environ
        self._roles: dict[tuple[str, str], Role] = {}
        self._read_at = -_REFRESH_SECONDS
        self._lock = threading.Lock()

    def sender(self, source: SessionSource, *, is_trusted: bool = False) -> Sender | None:
        """Who sent a message; None for a user that was not let in. ``is_trusted``: its adapter vouches for it."""
        platform = str(source.platform)
        user_id = source.user_id or (source.chat_id if source.chat_type == "dm" else "")
        role = self._role(platform, [user_id, source.user_id_alt or user_id])
        if role is None and (is_trusted or source.role_authorized):
            role = "user"
        return None if role is None else Sender(platform, user_id, source.user_name or user_id, role)

    def _role(self, platform: str, ids: list[str]) -> Role | None:
        settings = self._config.platforms.get(platform) or GatewayPlatformConfig()
        known = self._known()
        if any(one and (_has(settings.owners, one) or known.get((platform, one)) == "owner") for one in ids):
            return "owner"
        if any(one and (_has(settings.approvers, one) or known.get((platform, one)) == "approver") for one in ids):
            return "approver"
        allowed = [*map(str, settings.allowed_users), *self._from_environment(platform)]
        if EVERYONE in allowed or any(one in allowed or (platform, one) in known for one in ids if one):
            return "user"
        return None

    def _from_environment(self, platform: str) -> list[str]:
        """Users that the variables of a published adapter name."""
        entry = self._entries.get(platform)
        if entry is None:
            return []
        if entry.allow_all_env and is_set(entry.allow_all_env, self._environ):
            return [EVERYONE]
        named = self._environ.get(entry.allowed_users_env, "") if entry.allowed_users_env else ""
        return [one.strip() for one in named.split(",") if one.strip()]

    def _known(self) -> dict[tuple[str, str], Role]:
        with self._lock:
            if time.monotonic() - self._read_at >= _REFRESH_SECONDS:
                self._roles = {(user.platform, user.user_id): user.role for user in self._users.all()}
                self._read_at = time.monotonic()
            return self._roles


def _has(ids: list[str | int], wanted: str) -> bool:
    return any(str(one) == wanted for one in ids)


def session_key(config: GatewayConfig, source: SessionSource) -> str:
    """The key of the conversation that a message belongs to."""
    return build_session_key(source, config.group_sessions_per_user, config.thread_sessions_per_user)


def conversation_principal(config: GatewayConfig, source: SessionSource, sender: Sender) -> str:
    """Whose a conversation is: its user's, or, when several users share it, that of the chat itself."""
    per_user = config.thread_sessions_per_user if source.thread_id else config.group_sessions_per_user
    if source.chat_type == "dm" or (per_user and (source.user_id_alt or source.user_id)):
        return sender.principal
    return f"{source.platform}:{source.chat_id}"


def workspace_path(host: Host, principal: str) -> Path:
    """The folder that the work of a conversation is done in. A turn makes it, if it is missing."""
    return default_workspace(host.home, principal) if principal else host.cwd


def workspace_of(host: Host, principal: str) -> Path:
    """The same, made now."""
    folder = workspace_path(host, principal)
    return make_private(folder) if principal else folder
