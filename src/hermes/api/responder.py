"""Callbacks of the embedding program that answer approvals and the model's questions."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from hermes.agent.approvals.responder import ApprovalAnswer, ApprovalRequest, Choice
from hermes.api.coroutines import settle
from hermes.scope import Interrupt

#: Decides about a tool call: an answer, one of its choices, or True for "once" and False for "deny".
Approve = Callable[[ApprovalRequest], "ApprovalAnswer | Choice | bool | Awaitable[ApprovalAnswer | Choice | bool]"]
#: Answers a question of the model's; None declines.
AnswerQuestion = Callable[[str, Sequence[str]], "str | Awaitable[str | None] | None"]

_CHOICES = ("once", "session", "always", "deny", "timeout")


class CallbackResponder:
    """Asks the callbacks, in the thread of the turn."""

    surface = "api"

    def __init__(self, approve: Approve | None, answer: AnswerQuestion | None) -> None:
        self._approve = approve
        self._answer = answer

    def approve(self, request: ApprovalRequest, interrupt: Interrupt) -> ApprovalAnswer:
        """The callback's decision. Without a callback the call is denied."""
        if self._approve is None:
            return ApprovalAnswer("deny", "the program has no approve callback")
        answer = settle(self._approve(request), interrupt)
        if isinstance(answer, ApprovalAnswer):
            return answer
        if isinstance(answer, bool):
            return ApprovalAnswer("once" if answer else "deny")
        if answer in _CHOICES:
            return ApprovalAnswer(answer)
        raise TypeError(f"the approve callback returned {answer!r}; allowed: True, False, {', '.join(_CHOICES)}")

    def answer(self, question: str, choices: Sequence[str], interrupt: Interrupt) -> str | None:
        """The callback's answer; None when there is none."""
        if self._answer is None:
            return None
        answer = settle(self._answer(question, choices), interrupt)
        return None if answer is None else str(answer)
