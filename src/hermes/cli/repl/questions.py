"""Questions that wait for the person: an approval, a question of the model's, or a yes for a command."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

from hermes.agent.approvals.responder import ApprovalAnswer, ApprovalRequest, Choice
from hermes.errors import HermesError, Interrupted
from hermes.sanitize.visible import visible
from hermes.scope import Interrupt

T = TypeVar("T")

#: How often somebody who waits looks whether the turn was cancelled. An answer is noticed at once.
_POLL_SECONDS = 0.05

_WORDS: dict[Choice, tuple[str, ...]] = {
    "once": ("o", "once", "y", "yes"),
    "session": ("s", "session"),
    "always": ("a", "always"),
    "deny": ("d", "deny", "n", "no"),
}
_CHOICES: dict[str, Choice] = {word: choice for choice, words in _WORDS.items() for word in words}


class Question(Generic[T]):
    """One question: what the person is shown, what they can type, and what that means."""

    def __init__(
        self,
        text: str,
        *,
        hint: str,
        label: str,
        read: Callable[[str], T],
        refusal: T,
        timeout: float | None = None,
        request: ApprovalRequest | None = None,
    ) -> None:
        #: All of it, to be shown once.
        self.text = text
        #: What can be typed, to be shown while it waits.
        self.hint = hint
        #: What stands before the cursor.
        self.label = label
        #: The approval it is about, if it is about one.
        self.request = request
        self.deadline: float | None = None
        self._timeout = timeout
        self._read = read
        self._refusal = refusal
        self._answer: T | None = None
        self._settled = threading.Event()

    def reply(self, line: str) -> None:
        """Take what was typed. Raises ``HermesError`` when it is no answer."""
        self.settle(self._read(line.strip()))

    def refuse(self) -> None:
        """Nobody will answer."""
        self.settle(self._refusal)

    def settle(self, answer: T) -> None:
        """The first answer counts."""
        if not self._settled.is_set():
            self._answer = answer
            self._settled.set()

    def is_settled(self, seconds: float = 0) -> bool:
        """Whether there is an answer within that time."""
        return self._settled.wait(seconds)

    def answer(self) -> T | None:
        """The answer; None as long as there is none."""
        return self._answer

    def start_clock(self) -> None:
        """The person sees it from now on."""
        if self._timeout is not None:
            self.deadline = time.monotonic() + self._timeout

    def seconds_left(self) -> float | None:
        """How long it still waits; None for ever."""
        return None if self.deadline is None else max(self.deadline - time.monotonic(), 0)


class Questions:
    """The questions of all turns of a prompt, the oldest first. A ``Responder``."""

    surface = "cli"

    def __init__(self, changed: Callable[[], None]) -> None:
        """``changed`` is called when the question in front is another one than before, by whichever thread."""
        self._changed = changed
        self._open: list[Question[Any]] = []

    @property
    def current(self) -> Question[Any] | None:
        """The question in front of the person."""
        return next(iter(self._open[:1]), None)

    def approve(self, request: ApprovalRequest, interrupt: Interrupt) -> ApprovalAnswer:
        return self._ask(approval_question(request), interrupt) or ApprovalAnswer("timeout")

    def answer(self, question: str, choices: Sequence[str], interrupt: Interrupt) -> str | None:
        return self._ask(clarifying_question(question, choices), interrupt) or None

    def confirm(self, text: str, interrupt: Interrupt) -> bool:
        """Ask for a yes; stopping is a no."""
        try:
            return bool(self._ask(yes_or_no(text), interrupt))
        except Interrupted:
            return False

    def _ask(self, question: Question[T], interrupt: Interrupt) -> T | None:
        """Wait for the answer; None when it does not come in time."""
        self._open.append(question)
        shown = False
        try:
            while not question.is_settled(_POLL_SECONDS if shown else 0):
                interrupt.check()
                if not shown and self.current is question:
                    shown = True
                    question.start_clock()
                    self._changed()
                elif not shown:
                    interrupt.wait(_POLL_SECONDS)
                if question.seconds_left() == 0:
                    break
            return question.answer()
        finally:
            self._open.remove(question)
            self._changed()


def approval_question(request: ApprovalRequest) -> Question[ApprovalAnswer]:
    """Whether a call may run."""
    # The command is shown as it is, secrets and all: masking could hide a part of what the person decides about.
    subject = "\n".join(f"    {line}" for line in visible(request.subject).split("\n"))
    why = f"  {visible(request.description)} ({', '.join(request.rules)})" if request.rules else ""
    asks = "to run this command" if request.tool == "terminal" else f"to call {request.tool}"
    kept = "this [s]ession, [a]lways, " if request.can_be_kept else ""

    def read(line: str) -> ApprovalAnswer:
        word, _, reason = line.partition(" ")
        choice = _CHOICES.get(word.lower())
        if choice is None or (reason.strip() and choice != "deny"):
            allowed = "o (once), s (session), a (always)" if request.can_be_kept else "o (once)"
            raise HermesError(f"the agent waits for your word: type {allowed} or d (deny), perhaps with a reason")
        if choice in ("session", "always") and not request.can_be_kept:
            raise HermesError("this call can only be allowed once: type o, or d to deny it")
        return ApprovalAnswer(choice, reason.strip())

    return Question(
        "\n".join(filter(None, [f"The agent asks {asks}:", subject, why])),
        hint=f"[o]nce, {kept}or [d]eny (and why)?",
        label="allow? ",
        read=read,
        refusal=ApprovalAnswer("deny"),
        timeout=request.timeout,
        request=request,
    )


def clarifying_question(text: str, choices: Sequence[str]) -> Question[str]:
    """A question of the model's, with answers to choose from, or in the person's own words."""
    numbered = [f"  {number}. {visible(choice)}" for number, choice in enumerate(choices, 1)]

    def read(line: str) -> str:
        number = int(line) if line.isdecimal() and len(line) < 3 else 0
        return choices[number - 1] if 1 <= number <= len(choices) else line

    what = "A number, or your own words" if choices else "Your own words"
    return Question(
        "\n".join([f"The agent asks: {visible(text)}", *numbered]),
        hint=f"{what}; Enter alone leaves it to the agent.",
        label="answer: ",
        read=read,
        refusal="",
    )


def yes_or_no(text: str) -> Question[bool]:
    """Something that needs a yes."""

    def read(line: str) -> bool:
        if line.lower() not in ("y", "yes", "n", "no", ""):
            raise HermesError("type y for yes or n for no")
        return line.lower() in ("y", "yes")

    return Question(text, hint="[y]es or [N]o?", label="yes? ", read=read, refusal=False)
