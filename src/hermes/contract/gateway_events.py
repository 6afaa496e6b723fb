"""The events of gateway hooks (``HOOK.yaml``) as data: when each is told, the hooks it comes from, what it carries."""

from __future__ import annotations

from typing import NamedTuple


class GatewayEvent(NamedTuple):
    """One event: the keys of its context, and the hooks of the contract that it is made from."""

    when: str
    context: tuple[str, ...]
    hooks: tuple[str, ...] = ()


_SESSION = ("platform", "user_id", "session_id", "session_key")
_CHAT = ("platform", "user_id", "chat_id", "thread_id", "chat_type", "session_id", "session_key")

STARTUP = "gateway:startup"
#: In front of the name of a command.
COMMAND = "command:"
ANY_COMMAND = f"{COMMAND}*"

GATEWAY_EVENTS = {
    STARTUP: GatewayEvent("The gateway has started.", ("platforms",)),
    "session:start": GatewayEvent("A chat has a new session, with its first message.", _SESSION, ("on_session_start",)),
    "session:end": GatewayEvent(
        "The session of a chat ends, because of `/new` or because it was idle for too long. Not when the gateway ends.",
        _SESSION,
        ("on_session_finalize",),
    ),
    "session:reset": GatewayEvent("Another session has taken its place.", _SESSION, ("on_session_reset",)),
    "agent:start": GatewayEvent("The agent begins to work on a message.", (*_CHAT, "message"), ("pre_llm_call",)),
    "agent:step": GatewayEvent(
        "The model has answered, with calls of tools or with text.",
        (*_SESSION, "iteration", "tool_names"),
        ("post_api_request",),
    ),
    "agent:end": GatewayEvent(
        "The agent is done; `response` is empty when it was stopped or failed.",
        (*_CHAT, "message", "response", "model"),
        ("post_llm_call", "on_session_end"),
    ),
    ANY_COMMAND: GatewayEvent(
        "A slash command is about to run; `command:new` is told of `/new` alone.",
        (*_SESSION, "command", "args"),
        ("pre_command",),
    ),
}


def gateway_event(name: str) -> GatewayEvent | None:
    """The event of that name, which may be that of one command; None when there is none."""
    return GATEWAY_EVENTS.get(ANY_COMMAND if name.startswith(COMMAND) and name != COMMAND else name)
