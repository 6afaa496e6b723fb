"""The caller of a turn, as somebody who can be asked: the turn lets go of its thread until there is an answer."""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import partial

from hermes.a2a.server.access.principals import Principal
from hermes.a2a.server.clarifying import question_id
from hermes.a2a.server.store.questions import Answers, Question
from hermes.agent.approvals.responder import ApprovalAnswer, ApprovalRequest
from hermes.config.sections import A2AConfig
from hermes.errors import TurnSuspended
from hermes.sanitize import Redactor
from hermes.scope import Interrupt

_LONGEST_SUMMARY = 1_000
NOT_FOR_CALLERS = "no caller of this server may approve it"


class RemotePerson:
    """The caller of one turn."""

    surface = "a2a"

    def __init__(self, principal: Principal, settings: A2AConfig, redactor: Redactor, answers: Answers) -> None:
        self._principal = principal
        self._settings = settings
        self._redactor = redactor
        #: What it has answered the model in this task.
        self._answers = answers
        self._asked: partial[Question] | None = None

    def approve(self, request: ApprovalRequest, interrupt: Interrupt) -> ApprovalAnswer:
        """Refuse, allow, or let go of the turn until the caller has answered, as the settings say."""
        interrupt.check()
        # What cannot be kept is about this very gate, or hides what it is: not for somebody far away to decide.
        if self._settings.approvals == "deny" or "approve" not in self._principal.scopes or not request.can_be_kept:
            return ApprovalAnswer("deny", NOT_FOR_CALLERS)
        if self._settings.approvals == "allow":
            return ApprovalAnswer("once", "a2a.approvals is allow")
        summary = self._redactor.redact(request.subject)[:_LONGEST_SUMMARY]
        reason = self._redactor.redact(request.description)
        self._asked = partial(Question, id=request.id, tool=request.tool, summary=summary, reason=reason)
        raise TurnSuspended

    def answer(self, question: str, choices: Sequence[str], interrupt: Interrupt) -> str | None:
        """What the caller has answered, None when it did not in time; else let go of the turn until it has."""
        interrupt.check()
        key = question_id(question, choices)
        if key in self._answers:
            return self._answers[key] or None
        redact = self._redactor.redact
        self._asked = partial(
            Question,
            id=key,
            tool="clarify",
            summary=redact(question),
            reason="",
            kind="clarify",
            choices=tuple(map(redact, choices)),
        )
        raise TurnSuspended

    def question(self, task_id: str, owner: str, context_id: str) -> Question | None:
        """What the task waits for now."""
        if self._asked is None:
            return None
        deadline = time.time() + self._settings.approval_timeout
        return self._asked(task_id=task_id, owner=owner, context_id=context_id, deadline=deadline)
