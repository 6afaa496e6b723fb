"""Commands for while the agent works: stop, queue, steer, approve, deny."""

from __future__ import annotations

from typing import cast

from hermes.agent.approvals.responder import ApprovalAnswer, ApprovalRequest, Choice
from hermes.commands.conversation import Conversation
from hermes.commands.wording import plural, shortened
from hermes.errors import HermesError

_GRANTS = ("once", "session", "always")


def stop(conversation: Conversation, arguments: str) -> str:
    """Stop the agent."""
    if not conversation.surface.is_working:
        return "The agent is not working."
    conversation.surface.stop("stopped by /stop")
    return "Stopping."


def queue(conversation: Conversation, arguments: str) -> str:
    """Say something when the agent is done."""
    text = _text(arguments, "/queue")
    surface = conversation.surface
    if not surface.is_working:
        surface.run(text)
        return ""
    surface.queue(text)
    return f"Queued ({plural(surface.queued, 'message')} waiting)."


def steer(conversation: Conversation, arguments: str) -> str:
    """Say something to the agent while it works; it hears it before its next step."""
    text = _text(arguments, "/steer")
    if conversation.surface.steer(text):
        return "The agent is told before its next step."
    return queue(conversation, text)


def _text(arguments: str, command: str) -> str:
    if not arguments:
        raise HermesError(f"say what: {command} TEXT")
    return arguments


def approve(conversation: Conversation, arguments: str) -> str:
    """Allow the call that waits: this once, for the session, or always."""
    choice = arguments.lower() or "once"
    if choice not in _GRANTS:
        raise HermesError(f"/approve takes once, session or always, not {arguments!r}")
    request = _waiting(conversation)
    if choice != "once" and not request.can_be_kept:
        raise HermesError("this call can only be allowed once: /approve once")
    conversation.surface.answer_approval(ApprovalAnswer(cast("Choice", choice)))
    how_long = {"once": "this once", "session": "for this session", "always": "from now on"}[choice]
    return f"Allowed {how_long}: {shortened(request.subject, 60)}"


def deny(conversation: Conversation, arguments: str) -> str:
    """Refuse the call that waits; the agent is told the reason."""
    request = _waiting(conversation)
    conversation.surface.answer_approval(ApprovalAnswer("deny", arguments))
    return f"Refused: {shortened(request.subject, 60)}"


def _waiting(conversation: Conversation) -> ApprovalRequest:
    request = conversation.surface.pending_approval()
    if request is None:
        raise HermesError("no call waits for your word")
    return request
