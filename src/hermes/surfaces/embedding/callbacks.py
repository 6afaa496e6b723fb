"""Callbacks and coroutines of the embedding program: those that answer approvals and questions, and how they fail."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Sequence
from contextvars import ContextVar
from typing import Any, cast

from hermes.agent.approvals.responder import ApprovalAnswer, ApprovalRequest, Choice
from hermes.base.sanitize import Redactor
from hermes.base.scope import Interrupt
from hermes.hooks.callback import is_awaitable
from hermes.hooks.threads.event_loop import run_on_private_loop

log = logging.getLogger("hermes.approvals")

#: Decides about a tool call: an answer, one of its choices, or True for "once" and False for "deny".
Approve = Callable[[ApprovalRequest], "ApprovalAnswer | Choice | bool | Awaitable[ApprovalAnswer | Choice | bool]"]
#: Answers a question of the model's; None declines.
AnswerQuestion = Callable[[str, Sequence[str]], "str | Awaitable[str | None] | None"]

_CHOICES: tuple[Choice, ...] = ("once", "session", "always", "deny", "timeout")
_MAX_ERROR_CHARS = 300
#: The event loop whose task awaits the turn, so that the program's coroutines run where its other objects live.
caller_loop: ContextVar[asyncio.AbstractEventLoop | None] = ContextVar("hermes_caller_loop", default=None)


class CallbackFailures:
    """Adds a line to the notices of an agent for each callback and kind of failure: the first one. The log has all."""

    def __init__(self, notices: list[str], redactor: Redactor) -> None:
        self._notices = notices
        self._redactor = redactor
        self._known: set[tuple[str, type[Exception]]] = set()

    def add(self, callback: str, error: Exception, outcome: str) -> None:
        """``outcome`` is what follows from the failure."""
        kind = (callback, type(error))
        if kind in self._known:
            return
        self._known.add(kind)
        words = " ".join(self._redactor.redact(str(error)).split())[:_MAX_ERROR_CHARS]
        what = f"{type(error).__name__}: {words}" if words else type(error).__name__
        self._notices.append(f"the {callback} callback failed ({what}): {outcome}; the log has the traceback")


class CallbackResponder:
    """Asks the callbacks, in the thread of the turn."""

    surface = "embedding"

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


def settle(value: Any, interrupt: Interrupt) -> Any:
    """The value, awaited when it is awaitable: on the caller's event loop if there is one, else on a new one."""
    if not is_awaitable(value):
        return value
    loop = caller_loop.get()
    try:
        if loop is None:
            return run_on_private_loop(_until_cancelled(value, interrupt))
        future = asyncio.run_coroutine_threadsafe(_awaited(value), loop)
        with interrupt.on_cancel(lambda: cast("None", future.cancel())):
            return future.result()
    except BaseException:
        interrupt.check()  # a cancelled turn is the reason why the coroutine was cancelled
        raise


async def _awaited(value: Awaitable[Any]) -> Any:
    return await value


async def _until_cancelled(value: Awaitable[Any], interrupt: Interrupt) -> Any:
    """Await it; an interrupt from another thread cancels it."""
    loop, task = asyncio.get_running_loop(), asyncio.ensure_future(_awaited(value))

    def cancel() -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed: it is over
            loop.call_soon_threadsafe(task.cancel)

    with interrupt.on_cancel(cancel):
        return await task
