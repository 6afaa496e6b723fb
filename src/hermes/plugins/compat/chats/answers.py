"""Answers that adapters take with buttons: the approvals and questions of a chat, answered by its own user."""

from __future__ import annotations

from functools import partial
from typing import Any

from hermes.plugins.compat.chats.session_context import current_session_key
from hermes.plugins.compat.names import Names
from hermes.plugins.services import PluginHost

_CHOICES = ("once", "session", "always", "deny")


def approvals(host: PluginHost) -> Names:
    """``tools.approval``: what waits in a chat.

    The adapter does not say who pressed a button, so that an approval counts only in a direct chat with someone who may
    give it. In a group ``/approve`` does. A refusal always counts.
    """

    def resolve_gateway_approval(
        session_key: str, choice: str, resolve_all: bool = False, reason: str | None = None
    ) -> int:
        """Answer the oldest approval of a chat, or all of them; how many were answered."""
        if choice not in _CHOICES:
            raise ValueError(f"an approval is answered with one of {', '.join(_CHOICES)}, not {choice!r}")
        waiting = _waiting(host, session_key, "approval")
        by = _who_may(host, session_key, choice)
        if by is None:
            return 0
        chosen = waiting if resolve_all else waiting[:1]
        return sum(_answer(host, one, choice, reason or "", by) for one in chosen)

    return {
        "get_current_session_key": partial(current_session_key, host),
        "has_blocking_approval": lambda session_key: bool(_waiting(host, session_key, "approval")),  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType]
        "resolve_gateway_approval": resolve_gateway_approval,
    }


def clarify(host: PluginHost) -> Names:
    """``tools.clarify_gateway``: the model's questions to a user, by the id that ``send_clarify`` was given."""

    def resolve_gateway_clarify(clarify_id: str, response: str) -> bool:
        """Answer a question; False when it does not wait any more."""
        waiting = [one for one in _stored(host, "clarify") if one.id == clarify_id]
        return bool(waiting) and _answer(host, waiting[0], str(response or ""), "", "")

    def resolve_text_response_for_session(session_key: str, response: str) -> bool:
        """Answer the oldest question of a chat with a text, which may be the number of a choice."""
        waiting = _waiting(host, session_key, "clarify")
        if not waiting:
            return False
        text, choices = str(response).strip(), waiting[0].choices
        if text.isdecimal() and 1 <= int(text) <= len(choices):
            text = choices[int(text) - 1]
        return _answer(host, waiting[0], text, "", "")

    def has_pending(session_key: str) -> bool:
        return bool(_waiting(host, session_key, "clarify"))

    def mark_awaiting_text(clarify_id: str) -> bool:
        """Whether the question waits: the next message of its chat answers it anyhow."""
        return any(one.id == clarify_id for one in _stored(host, "clarify"))

    def get_pending_for_session(session_key: str, *, include_choice_prompts: bool = False) -> Any:
        """The oldest question of a chat; None when there is none."""
        waiting = _waiting(host, session_key, "clarify")
        return waiting[0] if waiting else None

    return {
        "get_pending_for_session": get_pending_for_session,
        "has_pending": has_pending,
        "mark_awaiting_text": mark_awaiting_text,
        "resolve_gateway_clarify": resolve_gateway_clarify,
        "resolve_text_response_for_session": resolve_text_response_for_session,
    }


def _stored(host: PluginHost, kind: str, session_id: str = "") -> list[Any]:
    gateway: Any = host.plugins.gateway
    if gateway is None:
        return []
    found: list[Any] = gateway.turns.questions.stored.pending(session_id=session_id, kind=kind)
    return found[::-1]  # the oldest first


def _waiting(host: PluginHost, session_key: str, kind: str) -> list[Any]:
    gateway: Any = host.plugins.gateway
    row = None if gateway is None else gateway.inbox.chat(session_key)
    return [] if row is None else _stored(host, kind, row.session_id)


def _who_may(host: PluginHost, session_key: str, choice: str) -> str | None:
    """Who answers, by the chat; None when its user may not answer so."""
    gateway: Any = host.plugins.gateway
    if gateway is None or (row := gateway.inbox.chat(session_key)) is None:
        return None
    source = row.read_source()
    sender = gateway.access.sender(source)
    name = f"{source.platform}:{source.user_id or source.chat_id}"
    if choice == "deny":
        return name
    if sender is None or source.chat_type != "dm" or not sender.may_approve:
        return None
    return None if choice == "always" and sender.role != "owner" else sender.principal or "owner"


def _answer(host: PluginHost, question: Any, text: str, reason: str, by: str) -> bool:
    gateway: Any = host.plugins.gateway
    answered = gateway.turns.questions.stored.answer(question.id, text, reason, by=by)
    return answered.answer == text
