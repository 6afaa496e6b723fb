"""``gateway.session_context``: the chat and the session that running code works for, by the names of variables."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextvars import ContextVar
from typing import Any

from hermes.base.scope import current_scope
from hermes.plugins.compat.names import Names
from hermes.plugins.services import PluginHost

#: The fields of the chat behind each variable.
_OF_CHAT = {
    "HERMES_SESSION_CHAT_ID": "chat_id",
    "HERMES_SESSION_CHAT_NAME": "chat_name",
    "HERMES_SESSION_THREAD_ID": "thread_id",
    "HERMES_SESSION_USER_ID": "user_id",
    "HERMES_SESSION_USER_NAME": "user_name",
    "HERMES_SESSION_MESSAGE_ID": "message_id",
}
_SET = ("platform", "source", "session_key", "session_id", "profile", "ui_session_id")
_NAMES = {
    **{f"HERMES_SESSION_{name.removeprefix('session_').upper()}": name for name in _SET if name != "ui_session_id"},
    "HERMES_UI_SESSION_ID": "ui_session_id",
    **_OF_CHAT,
}
#: What a plugin's own gateway has set for the work that it starts; None while it has set nothing.
_given: ContextVar[dict[str, str] | None] = ContextVar("hermes_session_variables", default=None)


def session_context(host: PluginHost) -> Names:
    """``gateway.session_context``: the session of the running turn; where a chat started it, that chat too."""

    def get_session_env(name: str, default: str = "") -> str:
        """The variable's value for the work that is running; else that of the environment, else the default."""
        given = _given.get()
        if given is not None and name in _NAMES:
            return given.get(_NAMES[name], "")
        found = _of_turn(host, name) if name in _NAMES else None
        return os.environ.get(name, default) if found is None else found

    return {
        "clear_session_vars": clear_session_vars,
        "get_session_env": get_session_env,
        "reset_session_vars": lambda: _given.set(None),
        "set_session_vars": set_session_vars,
    }


def set_session_vars(*, cwd: str = "", async_delivery: bool = True, **values: str) -> list[Any]:
    """Have these values in this context from now on, instead of those of a turn."""
    unknown = values.keys() - set(_NAMES.values())
    if unknown:
        raise TypeError(f"set_session_vars has no {sorted(unknown)[0]!r}")
    return [_given.set({name: str(value) for name, value in values.items()})]


def clear_session_vars(tokens: Sequence[Any]) -> None:
    """From now on every one of them is empty in this context."""
    _given.set({})


def current_session_key(host: PluginHost, default: str = "default") -> str:
    """The key of the conversation that running code works for: that of its chat, else the id of its session."""
    return _of_turn(host, "HERMES_SESSION_KEY") or os.environ.get("HERMES_SESSION_KEY", "") or default


def _of_turn(host: PluginHost, name: str) -> str | None:
    scope = current_scope.get()
    if scope is None or not scope.session_id:
        return None
    known = {
        "HERMES_SESSION_ID": scope.session_id,
        "HERMES_SESSION_PLATFORM": scope.platform,
        "HERMES_SESSION_SOURCE": scope.platform,
        "HERMES_SESSION_PROFILE": host.services.profile_name,
        "HERMES_UI_SESSION_ID": "",
    }
    if name in known:
        return known[name]
    row = chat_of(host, scope.session_id)
    if name == "HERMES_SESSION_KEY":
        return scope.session_id if row is None else row.key
    return "" if row is None else str(getattr(row.read_source(), _OF_CHAT[name]) or "")


def chat_of(host: PluginHost, session_id: str) -> Any:
    """The conversation of the gateway that a session belongs to, if any."""
    gateway: Any = host.plugins.gateway
    return None if gateway is None else gateway.inbox.chat_of(session_id)
