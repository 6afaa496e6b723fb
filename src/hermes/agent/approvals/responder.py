"""Responders: the users that can be asked at a surface, to approve a call or to answer a question of the model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, Protocol

import msgspec

from hermes.base.scope import Interrupt

Choice = Literal["once", "session", "always", "deny", "timeout"]


class ApprovalRequest(msgspec.Struct, frozen=True):
    """A call that waits for approval."""

    id: str
    session_id: str
    tool_call_id: str
    tool: str
    args: dict[str, Any]
    #: What is shown: the command, or the call in short.
    subject: str
    #: Why it needs approval.
    description: str
    #: The rules that made it necessary; ``always`` and ``session`` approve them.
    rules: tuple[str, ...]
    #: Seconds until the question counts as unanswered.
    timeout: float
    #: False when the answer can only be for this one call.
    can_be_kept: bool = True

    def named_rules(self) -> str:
        """The rules, for a sentence about what an answer that lasts would allow."""
        return ("the rule " if len(self.rules) == 1 else "the rules ") + ", ".join(self.rules)


class ApprovalAnswer(msgspec.Struct, frozen=True):
    """The answer to a request, with a reason if one was given."""

    choice: Choice
    reason: str = ""
    #: Who gave it, where the surface knows.
    by: str = ""


class Responder(Protocol):
    """A user that can be asked: the prompt of a terminal, the caller of a server.

    Cancelling the interrupt ends a question with ``Interrupted``. A responder whose answer comes later raises
    ``TurnSuspended``; the question then waits in the journal.
    """

    #: Where the question is asked, as hooks report it: ``cli``, ``gateway`` …
    surface: str

    # A responder whose approvals are asked elsewhere than its questions also has ``approval_surface: str``.

    def approve(self, request: ApprovalRequest, interrupt: Interrupt) -> ApprovalAnswer:
        """Ask about a call; no answer in time is the choice ``timeout``."""
        ...

    def answer(self, question: str, choices: Sequence[str], interrupt: Interrupt) -> str | None:
        """Ask a question of the model. None when the user does not answer."""
        ...


class Responders:
    """The responders of the sessions that have one. The others are headless."""

    def __init__(self) -> None:
        self._by_session: dict[str, Responder] = {}

    def attach(self, session_id: str, responder: Responder) -> None:
        """Send the questions of that session to ``responder`` from now on."""
        self._by_session[session_id] = responder

    def detach(self, session_id: str) -> None:
        """Leave the session without a responder."""
        self._by_session.pop(session_id, None)

    def get(self, session_id: str) -> Responder | None:
        """The responder of the session, or None."""
        return self._by_session.get(session_id)
