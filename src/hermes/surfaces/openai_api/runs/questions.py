"""Questions of runs: as clients see them, and the answers that clients send."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hermes.base.http_server.principals import Principal
from hermes.base.sanitize import Redactor
from hermes.journal.questions import OWNER, QuestionRow
from hermes.service.live.questions import SuspendingResponder, outgoing_subject, refusing_unkept
from hermes.surfaces.openai_api.conversations import PLATFORM
from hermes.surfaces.openai_api.documents import ApprovalDocument
from hermes.surfaces.openai_api.errors import ApiError, invalid, not_found

_NOT_FOR_CALLERS = "no caller of this server may approve it"
_MAX_SUBJECT_CHARS = 1_000
#: The choices of a caller, and how the journal stores them.
_CHOICES = {"approve": "once", "session": "session", "deny": "deny"}
_ALLOWED = "allowed: approve, session and deny"
#: The reason of an answer, when the caller gives none.
BY_CALLER = "answered by the caller"


def caller_responder(principal: Principal, timeout: float, *, can_answer: bool) -> SuspendingResponder:
    """Asks a caller about its turn. A caller with the scope approves its own calls, the owner those of all others."""
    if not principal.may_approve:
        return SuspendingResponder(PLATFORM, timeout=timeout, asks_owner=True, can_answer=can_answer)
    decide = refusing_unkept(_NOT_FOR_CALLERS)
    return SuspendingResponder(PLATFORM, timeout=timeout, decide=decide, can_answer=can_answer)


def read_answer(asked: Sequence[QuestionRow], principal: Principal, given: ApprovalDocument) -> tuple[str, str, str]:
    """The question that a caller answers (the oldest, or the one that it names), the answer, and the reason."""
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
        return question.id, given.answer, BY_CALLER
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
    return question.id, choice, given.reason or BY_CALLER


def shown_question(question: QuestionRow, redactor: Redactor) -> dict[str, Any]:
    """A question as clients see it, without secrets."""
    subject = outgoing_subject(question, redactor, _MAX_SUBJECT_CHARS)
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
