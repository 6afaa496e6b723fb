"""Questions that wait for an answer, as the page lists and answers them: approvals of calls, and what models ask."""

from __future__ import annotations

from typing import Any

from hermes.base.errors import HermesError
from hermes.base.sanitize.hidden import escape_hidden
from hermes.journal.questions import OWNER, QuestionRow, Questions
from hermes.journal.sessions import Sessions
from hermes.journal.store.port import Store
from hermes.trace.clean import Cleaner

#: What an approval may be answered with. ``always`` changes the configuration and is left to the terminal.
CHOICES = ("once", "session", "deny")
_RECENT = 20
_LONGEST_ANSWER = 20_000


def waiting_questions(store: Store, clean: Cleaner) -> dict[str, Any]:
    """The open questions, oldest first, and the approvals that were answered last."""
    questions, sessions = Questions(store), Sessions(store)
    titles: dict[str, str] = {}

    def shown(row: QuestionRow) -> dict[str, Any]:
        if row.session_id not in titles:
            titles[row.session_id] = clean.text(sessions.get(row.session_id).title)
        return {
            "id": row.id,
            "session": row.session_id,
            "title": titles[row.session_id],
            "kind": row.kind,
            "tool": row.tool,
            # Of an open question nothing may be hidden that is being decided about, except secrets.
            "subject": escape_hidden(clean.text(row.subject)),
            "why": clean.text(row.description),
            "rules": row.rules,
            "choices": [clean.text(choice) for choice in row.choices],
            "principal": row.principal,
            "surface": row.surface,
            "asked": row.created_at,
            "deadline": row.deadline,
            "answer": row.answer,
            "answered": row.answered_at,
            "reason": clean.text(row.reason),
        }

    return {
        "waiting": [shown(row) for row in reversed(questions.pending())],
        "recent": [shown(row) for row in questions.recent(_RECENT)],
    }


def answer_question(store: Store, question_id: str, answer: str, reason: str) -> QuestionRow:
    """Answer a question. The first answer counts; raises ``HermesError`` when there was one already."""
    questions = Questions(store)
    row = questions.get(question_id)
    if row is None:
        raise HermesError(f"there is no question {question_id!r}; it may have been deleted with its session")
    if row.kind == "approval" and answer not in CHOICES:
        raise HermesError(f"found the answer {answer!r}; allowed are {', '.join(CHOICES)}")
    if row.kind == "clarify" and not 0 < len(answer.strip()) <= _LONGEST_ANSWER:
        raise HermesError(f"an answer has 1 to {_LONGEST_ANSWER:,} characters")
    if row.state == "pending":
        why = reason or ("denied" if answer == "deny" else "approved") + " by the owner, in the page"
        row = questions.answer(question_id, answer.strip(), why if row.kind == "approval" else "", by=OWNER)
        if row.answer == answer.strip():
            return row
    raise HermesError(f"this question does not wait any more: {row.answer or row.state}")
