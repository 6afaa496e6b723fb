"""Somebody at a surface who can be asked: to approve a call, or to answer a question of the model's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from hermes.scope import Interrupt

Choice = Literal["once", "session", "always", "deny", "timeout"]


@dataclass(frozen=True, slots=True)
class ApprovalRequest:
    """A call that waits for a person's word."""

    id: str
    session_id: str
    tool_call_id: str
    tool: str
    args: dict[str, Any]
    #: What the person is shown: the command, or the call in short.
    subject: str
    #: Why it needs a decision.
    description: str
    #: The rules that asked; ``always`` and ``session`` cover them.
    rules: tuple[str, ...]
    #: Seconds until the question counts as unanswered.
    timeout: float
    #: False when the answer can only be for this one call.
    can_be_kept: bool = True


@dataclass(frozen=True, slots=True)
class ApprovalAnswer:
    """What the person said, and why, if they said so."""

    choice: Choice
    reason: str = ""


class Person(Protocol):
    """One way to reach a person. Cancelling the interrupt ends either question: it raises ``Interrupted``."""

    #: Where the question is asked, as hooks report it: ``cli``, ``gateway`` …
    surface: str

    def approve(self, request: ApprovalRequest, interrupt: Interrupt) -> ApprovalAnswer:
        """Ask about a call; nobody answering in time is the choice ``timeout``."""
        ...

    def answer(self, question: str, choices: Sequence[str], interrupt: Interrupt) -> str | None:
        """Ask a question of the model's. None when the person will not answer."""
        ...


class People:
    """Who can be asked in which conversation."""

    def __init__(self) -> None:
        self._by_session: dict[str, Person] = {}

    def attend(self, session_id: str, person: Person) -> None:
        """From now on questions of that conversation go to ``person``."""
        self._by_session[session_id] = person

    def leave(self, session_id: str) -> None:
        """Nobody is there any more."""
        self._by_session.pop(session_id, None)

    def of(self, session_id: str) -> Person | None:
        """Who can be asked, if anybody."""
        return self._by_session.get(session_id)
