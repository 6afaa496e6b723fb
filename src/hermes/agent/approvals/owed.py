"""The answer that plugins are owed: they were told of a question about a call, and are told its answer, once.

Between the two the turn may be suspended, the process may end, and another one may go on with the call. What is owed is
then stored with the question, and with a call that waits (``records.WaitingCall``).

The question also says how far plugins are told, noted before they are and after. A process that is killed in between
leaves it open whether they know, and the next one tells them again, as ``redelivered``.
"""

from __future__ import annotations

import contextlib

import msgspec
from msgspec import UNSET
from msgspec.structs import asdict, replace

from hermes.base.errors import Interrupted, JournalError
from hermes.base.scope import Scope
from hermes.contract.events import ApprovalAnswered, ApprovalRequested
from hermes.hooks.table import Hooks
from hermes.journal.questions import QuestionRow, Questions, Told


def is_observed(hooks: Hooks) -> bool:
    """Whether a plugin hears of approvals."""
    return hooks.pre_approval_request is not None or hooks.post_approval_response is not None


class OwedAnswer(msgspec.Struct):
    """The approval of a call that plugins have heard of, and not yet how it was answered."""

    #: The question; empty when nothing is owed.
    question: str = ""
    #: Where it was asked, as hooks report it.
    surface: str = ""
    #: Whether plugins know that it is asked, and not only perhaps.
    is_known: bool = True
    _requested: ApprovalRequested | None = None

    def announce(self, hooks: Hooks, questions: Questions, question: str, requested: ApprovalRequested) -> None:
        """Tell plugins of a question, unless an earlier run of the call has."""
        is_repeated = self.question == question
        self.question, self.surface, self._requested = question, requested.surface, requested
        if (is_repeated and self.is_known) or not is_observed(hooks):
            return
        if hooks.pre_approval_request is not None:
            hooks.pre_approval_request(replace(requested, redelivered=is_repeated or UNSET))
        self.is_known = True
        questions.end_telling(question, "asked")

    def tell(self, hooks: Hooks, questions: Questions, choice: str, by: str = "") -> None:
        """Tell plugins of the answer, and by whom it is, unless they know."""
        question, requested = self.question, self._requested
        self.question, self._requested = "", None
        emit = hooks.post_approval_response
        if requested is None or emit is None:
            return
        told: Told = ""
        with contextlib.suppress(JournalError):  # which ends the turn elsewhere
            told = questions.begin_telling(question)
        if told == "told":
            return
        answer = ApprovalAnswered(
            **asdict(replace(requested, redelivered=told == "telling" or UNSET)),
            choice=choice,
            decided_by=by or UNSET,
        )
        # The answer is stored: cancelling the wait for an async callback does not undo it.
        with contextlib.suppress(Interrupted):
            emit(answer)
        with contextlib.suppress(JournalError):
            questions.end_telling(question)

    def tell_stored(self, hooks: Hooks, questions: Questions, row: QuestionRow, scope: Scope) -> None:
        """Tell plugins of the stored answer to a question; one that was withdrawn counts as denied."""
        self._requested = ApprovalRequested(
            command=row.subject,
            description=row.description,
            pattern_key=row.rules[0] if row.rules else "",
            pattern_keys=list(row.rules),
            session_key=row.session_id,
            surface=self.surface,
            **scope.ids("tool_call_id"),
        )
        self.tell(hooks, questions, row.answer or "deny", row.answered_by)

    def settle(self, hooks: Hooks, questions: Questions, scope: Scope, reason: str) -> None:
        """The call does not wait any more: withdraw the question if it is open, and tell plugins how it ended."""
        if not self.question:
            return
        row: QuestionRow | None = None
        with contextlib.suppress(JournalError):
            questions.withdraw(self.question, reason)
            row = questions.get(self.question)
        if row is None:
            self.tell(hooks, questions, "deny")
        else:
            self.tell_stored(hooks, questions, row, scope)
