"""One question about one call: on record before it is asked, announced, asked, answered on record, announced again."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Set
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from msgspec import UNSET, UnsetType
from msgspec.structs import asdict

from hermes.agent.approvals.messages import why
from hermes.agent.approvals.stored_question import StoredQuestion
from hermes.contract.events import ApprovalAnswered, ApprovalRequested
from hermes.errors import Interrupted, TurnSuspended
from hermes.hooks.table import Hooks
from hermes.journal.questions import QuestionRow, Questions
from hermes.scope import Scope, new_id
from hermes.tools.registry import Args

if TYPE_CHECKING:
    from hermes.policy import Finding


@dataclass(frozen=True, slots=True)
class Question:
    """A call that somebody must decide about."""

    tool: str
    args: Args
    scope: Scope
    #: The step it belongs to; empty for a call that a plugin makes.
    key: str
    digest: str
    subject: str
    findings: tuple[Finding, ...]

    @property
    def rules(self) -> tuple[str, ...]:
        """The rules that asked, each once."""
        return tuple(dict.fromkeys(finding.rule for finding in self.findings))

    @property
    def description(self) -> str:
        """Why it needs a decision, in one line."""
        return why(self.findings)

    def without(self, rules: Set[str]) -> Question:
        """The same question as if these rules had not asked."""
        return replace(self, findings=tuple(finding for finding in self.findings if finding.rule not in rules))


@dataclass(frozen=True, slots=True)
class Answer:
    """What was said, by a person or by a model."""

    choice: str
    reason: str = ""


class Inquiry:
    """Puts a question to one party after another until it is answered, with the hooks around each time."""

    def __init__(self, question: Question, hooks: Hooks, rows: Questions, earlier: QuestionRow | None) -> None:
        self._question = question
        self.hooks = hooks
        self._stored = StoredQuestion(rows, self._row(new_id("appr_")[:17]), earlier)
        self.id = self._stored.id

    @property
    def approval_id(self) -> str:
        """The id of the row that holds the answer; empty when there is none."""
        return self._stored.stored_id

    def put(
        self, surface: str, ask: Callable[[], Answer], *, command: str, decided_by: str | UnsetType = UNSET
    ) -> Answer:
        """Ask there. ``post_approval_response`` follows on every way out but one: an answer that comes later."""
        requested = self._event(surface, command)

        def announce_and_ask() -> tuple[str, str]:
            if self.hooks.pre_approval_request is not None:
                self.hooks.pre_approval_request(requested)
            answer = ask()
            return answer.choice, answer.reason

        try:
            answer = Answer(*self._stored.ask(surface, announce_and_ask))
        except TurnSuspended:
            raise
        except BaseException:
            self._announce(requested, "deny", decided_by)
            raise
        self._announce(requested, answer.choice, decided_by)
        return answer

    def withdraw(self, reason: str) -> None:
        """Close the question without an answer."""
        self._stored.withdraw(reason)

    def _announce(self, requested: ApprovalRequested, choice: str, decided_by: str | UnsetType) -> None:
        emit = self.hooks.post_approval_response
        if emit is not None:
            # The answer is on record: cancelling the wait for an async callback does not undo it.
            with contextlib.suppress(Interrupted):
                emit(ApprovalAnswered(**asdict(requested), choice=choice, decided_by=decided_by))

    def _row(self, approval_id: str) -> QuestionRow:
        question, scope = self._question, self._question.scope
        return QuestionRow(
            id=approval_id,
            session_id=scope.session_id,
            turn_id=scope.turn_id,
            key=question.key or scope.tool_call_id,
            tool=question.tool,
            digest=question.digest,
            subject=question.subject,
            rules=question.rules,
            description=question.description,
        )

    def _event(self, surface: str, command: str) -> ApprovalRequested:
        question, scope = self._question, self._question.scope
        return ApprovalRequested(
            command=command,
            description=question.description,
            pattern_key=question.rules[0],
            pattern_keys=list(question.rules),
            session_key=scope.session_id,
            surface=surface,
            session_id=scope.session_id,
            task_id=scope.task_id,
            turn_id=scope.turn_id,
            tool_call_id=scope.tool_call_id,
        )
