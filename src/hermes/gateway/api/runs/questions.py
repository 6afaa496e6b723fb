"""Questions of turns: they wait in the journal for the caller that may answer, or for the owner.

A turn that asks is suspended and holds no thread. It continues with the answer, also after a restart of the server.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from hermes.agent.approvals.responder import ApprovalAnswer, ApprovalRequest
from hermes.errors import TurnSuspended
from hermes.gateway.api.conversations import PLATFORM
from hermes.gateway.api.documents import ApprovalDocument
from hermes.gateway.api.errors import ApiError, invalid, not_found
from hermes.host import Host
from hermes.http_server.principals import Principal
from hermes.journal.questions import OWNER, QuestionRow, Questions, abridged
from hermes.journal.turns.lifecycle import open_submissions
from hermes.sanitize import Redactor
from hermes.sanitize.hidden import escape_hidden
from hermes.scope import Interrupt

_NOT_FOR_CALLERS = "no caller of this server may approve it"
_NO_ANSWER = "no answer in time"
_MAX_SUBJECT_CHARS = 1_000
#: The choices of a caller, and how the journal stores them.
_CHOICES = {"approve": "once", "session": "session", "deny": "deny"}
_ALLOWED = "allowed: approve, session and deny"


class ApiResponder:
    """Suspends the turn of a caller until there is an answer: the caller's, or about an approval the owner's."""

    surface = PLATFORM

    def __init__(self, principal: Principal, timeout: float, *, can_answer: bool) -> None:
        self._timeout = timeout
        #: Whether the client sees questions of the model and can answer them.
        self._can_answer = can_answer
        #: Where approvals are asked: a caller with the scope answers its own, the owner those of all others.
        self.approval_surface = PLATFORM if principal.may_approve else OWNER

    def approve(self, request: ApprovalRequest, interrupt: Interrupt) -> ApprovalAnswer:
        """Suspend the turn until there is an answer."""
        interrupt.check()
        if self.approval_surface != OWNER and not request.can_be_kept:
            # An answer that cannot be kept is about approvals themselves, or the call hides what it does.
            return ApprovalAnswer("deny", _NOT_FOR_CALLERS)
        raise TurnSuspended(time.time() + self._timeout)

    def answer(self, question: str, choices: Sequence[str], interrupt: Interrupt) -> str | None:
        """Suspend the turn until the client has answered; at once without an answer when it cannot."""
        interrupt.check()
        if not self._can_answer:
            return None
        raise TurnSuspended(time.time() + self._timeout)


class SuspendedTurns:
    """The turns that wait for answers: they are continued when a question is answered, or its deadline has passed."""

    def __init__(self, host: Host) -> None:
        self._store = host.store
        self.questions = Questions(host.store)
        #: The turn of each open question.
        self._waiting: dict[str, str] = {}

    def __len__(self) -> int:
        return len(self._waiting)

    def load(self) -> None:
        """Find the turns that an earlier process left suspended."""
        for submission in open_submissions(self._store):
            if submission.source == PLATFORM and submission.state == "running":
                self.add(submission.turn_id, submission.session_id)

    def add(self, turn_id: str, session_id: str) -> list[QuestionRow]:
        """The open questions of a suspended turn, oldest first; from now on they are watched."""
        asked = self.asked(session_id)
        for question in asked:
            self._waiting[question.id] = turn_id
        return asked

    def asked(self, session_id: str) -> list[QuestionRow]:
        """The open questions of a session, oldest first."""
        return list(reversed(self.questions.pending(session_id=session_id)))

    def forget(self, turn_id: str) -> None:
        """Watch the questions of a turn no longer: it is about to be stopped, which withdraws them."""
        for question_id in [one for one, turn in list(self._waiting.items()) if turn == turn_id]:
            self._waiting.pop(question_id, None)

    def take_answered(self) -> list[str]:
        """The turns whose questions are answered or overdue; they are watched no longer. Blocking."""
        for question in self.questions.overdue(time.time()):
            if question.id in self._waiting:
                self.questions.answer(question.id, "deny" if question.kind == "approval" else "", _NO_ANSWER)
        turns = [self._waiting.pop(question_id, "") for question_id in self.questions.settled(list(self._waiting))]
        left = set(self._waiting.values())
        return [turn_id for turn_id in dict.fromkeys(turns) if turn_id and turn_id not in left]

    def answer(self, session_id: str, principal: Principal, given: ApprovalDocument) -> QuestionRow:
        """Store the answer of a caller to the oldest question of its session, or to the one that it names."""
        asked = self.asked(session_id)
        if given.approval_id is not None:
            asked = [question for question in asked if question.id == given.approval_id]
        if not asked:
            raise not_found("no question of this run waits for an answer", "no_pending_question")
        question = asked[0]
        if question.kind == "clarify":
            if given.choice is not None:
                raise invalid("choice: a question of the model waits, not an approval; send an answer", "choice")
            if given.answer is None:
                raise invalid("answer: send the answer to the question", "answer")
            return self.questions.answer(question.id, given.answer, "answered by the caller")
        if not principal.may_approve or question.surface == OWNER:
            raise ApiError(
                403, "the owner is asked about this call; approving it needs the scope approve", code="owner_is_asked"
            )
        if given.answer is not None:
            raise invalid(f"answer: an approval waits, not a question; send a choice ({_ALLOWED})", "answer")
        if given.choice is None:
            raise invalid(f"choice: is missing; {_ALLOWED}", "choice")
        choice = _CHOICES.get(given.choice)
        if choice is None:
            raise invalid(f"choice: found {given.choice!r}; {_ALLOWED}", "choice")
        return self.questions.answer(question.id, choice, given.reason or "answered by the caller")


def shown_question(question: QuestionRow, redactor: Redactor) -> dict[str, Any]:
    """A question as clients see it, without secrets."""
    subject = abridged(escape_hidden(redactor.redact(question.subject)), _MAX_SUBJECT_CHARS)
    if question.kind == "clarify":
        return {"question_id": question.id, "question": subject, "choices": list(question.choices)}
    return {
        "approval_id": question.id,
        "tool": question.tool,
        "summary": subject,
        "reason": redactor.redact(question.description),
        "choices": list(_CHOICES),
        "answered_by": "owner" if question.surface == OWNER else "caller",
    }
