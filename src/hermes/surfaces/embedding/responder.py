"""Callbacks of the embedding program that answer approvals and the model's questions."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence

from hermes.agent.approvals.responder import ApprovalAnswer, ApprovalRequest, Choice
from hermes.base.scope import Interrupt
from hermes.surfaces.embedding.callback_failures import CallbackFailures
from hermes.surfaces.embedding.coroutines import settle

log = logging.getLogger("hermes.approvals")

#: Decides about a tool call: an answer, one of its choices, or True for "once" and False for "deny".
Approve = Callable[[ApprovalRequest], "ApprovalAnswer | Choice | bool | Awaitable[ApprovalAnswer | Choice | bool]"]
#: Answers a question of the model's; None declines.
AnswerQuestion = Callable[[str, Sequence[str]], "str | Awaitable[str | None] | None"]

_CHOICES: tuple[Choice, ...] = ("once", "session", "always", "deny", "timeout")


class CallbackResponder:
    """Asks the callbacks, in the thread of the turn."""

    surface = "api"

    def __init__(self, approve: Approve | None, answer: AnswerQuestion | None, failures: CallbackFailures) -> None:
        self._approve = approve
        self._answer = answer
        self._failures = failures

    def approve(self, request: ApprovalRequest, interrupt: Interrupt) -> ApprovalAnswer:
        """The callback's decision. Without a callback the call is denied; so it is when the callback fails."""
        if self._approve is None:
            return ApprovalAnswer("deny", "the program has no approve callback")
        try:
            return _decision(settle(self._approve(request), interrupt))
        except Exception as error:
            self._failures.add("approve", error, "the call was denied")
            raise

    def answer(self, question: str, choices: Sequence[str], interrupt: Interrupt) -> str | None:
        """The callback's answer; None when there is none, or when the callback fails."""
        if self._answer is None:
            return None
        try:
            answer = settle(self._answer(question, choices), interrupt)
        except Exception as error:
            log.exception("the answer callback failed; the question counts as not answered")
            self._failures.add("answer", error, "the question counts as not answered")
            return None
        return None if answer is None else str(answer)


def _decision(answer: object) -> ApprovalAnswer:
    if isinstance(answer, ApprovalAnswer) and answer.choice in _CHOICES:
        return answer
    if isinstance(answer, bool):
        return ApprovalAnswer("once" if answer else "deny")
    for choice in _CHOICES:
        if answer == choice:
            return ApprovalAnswer(choice)
    raise TypeError(f"the approve callback returned {answer!r}; allowed: True, False, {', '.join(_CHOICES)}")
