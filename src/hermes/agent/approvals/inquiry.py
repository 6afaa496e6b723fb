"""One question about one call: on record before it is asked, announced, asked, answered on record, announced again."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Set
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from hermes.agent.approvals.messages import why
from hermes.errors import ApprovalSuspended, Interrupted, JournalError
from hermes.hooks.table import Hooks
from hermes.journal.approvals import ApprovalRow, ApprovalRows
from hermes.scope import Scope, new_id
from hermes.tools.registry import Args

if TYPE_CHECKING:
    from hermes.policy import Finding

#: What a second opinion says when it has none; the question stays open.
UNSURE = "smart_unsure"


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
    """Puts a question to one party after another until it is answered, under one id."""

    def __init__(self, question: Question, hooks: Hooks, rows: ApprovalRows, earlier: ApprovalRow | None) -> None:
        self.id = new_id("appr_")[:17] if earlier is None else earlier.id
        self._question = question
        self.hooks = hooks
        self._rows = rows
        #: None until something was asked; False when there is no session that the row could belong to.
        self._on_record: bool | None = None if earlier is None else True

    @property
    def approval_id(self) -> str:
        """The id of the row that holds the answer; empty when there is none."""
        return self.id if self._on_record else ""

    def put(self, surface: str, ask: Callable[[], Answer], *, command: str, **extra: str) -> Answer:
        """Ask there. On every way out but one somebody hears of the end: an answer that comes later is no end yet."""
        self._record(surface)
        payload = self._payload(surface, command)
        try:
            if self.hooks.pre_approval_request is not None:
                self.hooks.pre_approval_request(**payload)
            answer = self._settle(ask())
        except ApprovalSuspended:
            raise
        except BaseException as error:
            with contextlib.suppress(JournalError):
                self.withdraw(f"cut off: {type(error).__name__}")
            self._announce({**payload, **extra}, "deny")
            raise
        self._announce({**payload, **extra}, answer.choice)
        return answer

    def withdraw(self, reason: str) -> None:
        """Close the question without an answer."""
        if self._on_record:
            self._rows.withdraw(self.id, reason)

    def _record(self, surface: str) -> None:
        if self._on_record:
            self._rows.ask_again(self.id, surface)
        elif self._on_record is None:
            self._on_record = self._rows.ask(self._row(surface))

    def _settle(self, answer: Answer) -> Answer:
        """Put the answer on record. Somebody else may have answered the same question first; then that counts."""
        if answer.choice == UNSURE or not self._on_record:
            return answer
        row = self._rows.answer(self.id, answer.choice, answer.reason)
        return Answer("deny" if row.choice is None else row.choice, row.reason)

    def _announce(self, payload: dict[str, Any], choice: str) -> None:
        emit = self.hooks.post_approval_response
        if emit is not None:
            # The answer is on record: cancelling the wait for an async callback does not undo it.
            with contextlib.suppress(Interrupted):
                emit(**payload, choice=choice)

    def _row(self, surface: str) -> ApprovalRow:
        question, scope = self._question, self._question.scope
        return ApprovalRow(
            id=self.id,
            session_id=scope.session_id,
            turn_id=scope.turn_id,
            key=question.key or scope.tool_call_id,
            tool=question.tool,
            digest=question.digest,
            subject=question.subject,
            rules=question.rules,
            description=question.description,
            surface=surface,
        )

    def _payload(self, surface: str, command: str) -> dict[str, Any]:
        question, scope = self._question, self._question.scope
        return {
            "command": command,
            "description": question.description,
            "pattern_key": question.rules[0],
            "pattern_keys": list(question.rules),
            "session_key": scope.session_id,
            "surface": surface,
            "session_id": scope.session_id,
            "task_id": scope.task_id,
            "turn_id": scope.turn_id,
            "tool_call_id": scope.tool_call_id,
        }
