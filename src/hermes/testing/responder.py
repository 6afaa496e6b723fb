"""Scripted responder: answers approval requests and questions of the model from a list."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import cast

from hermes.agent.approvals.responder import ApprovalAnswer, ApprovalRequest, Choice
from hermes.base.scope import Interrupt

#: An answer, an exception to raise, or a function that decides.
Reaction = ApprovalAnswer | Choice | BaseException | Callable[[ApprovalRequest, Interrupt], ApprovalAnswer]


class ScriptedResponder:
    """Answers each approval request with the next reaction, and keeps the requests.

    Give it to a session with ``host.responders.attach(session.id, responder)``. ``answers`` are for the questions of
    the model (the ``clarify`` tool), in order; None means no answer. A request beyond the script is an error.
    """

    def __init__(self, *reactions: Reaction, answers: Iterable[str | None] = (), surface: str = "cli") -> None:
        self.surface = surface
        self.requests: list[ApprovalRequest] = []
        self.questions: list[tuple[str, Sequence[str]]] = []
        self._reactions = list(reactions)
        self._answers = list(answers)

    def approve(self, request: ApprovalRequest, interrupt: Interrupt) -> ApprovalAnswer:
        self.requests.append(request)
        if not self._reactions:
            raise AssertionError(f"nothing is scripted for approval request {len(self.requests)}: {request.subject}")
        reaction = self._reactions.pop(0)
        if isinstance(reaction, BaseException):
            raise reaction
        if isinstance(reaction, str):
            return ApprovalAnswer(cast("Choice", reaction))
        return reaction if isinstance(reaction, ApprovalAnswer) else reaction(request, interrupt)

    def answer(self, question: str, choices: Sequence[str], interrupt: Interrupt) -> str | None:
        self.questions.append((question, choices))
        return self._answers.pop(0) if self._answers else None
