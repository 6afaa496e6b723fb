"""Questions for the user: approvals, questions of the model, and confirmations of commands."""

from __future__ import annotations

import os
import select
import sys
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

import msgspec
from msgspec import field

from hermes.agent.approvals.responder import ApprovalAnswer, ApprovalRequest, Choice
from hermes.base.errors import HermesError, Interrupted
from hermes.base.sanitize.hidden import escape_hidden
from hermes.base.scope import Interrupt
from hermes.surfaces.cli.terminal import one_line, terminal_width, word_wrapped
from hermes.tools.declarations.builtin import builtin_declaration

T = TypeVar("T")

#: Interval for checking whether the turn was cancelled. An answer is noticed at once.
_POLL_SECONDS = 0.05
#: How often a shown approval is looked up, because it may have been answered elsewhere.
_LOOK_UP_SECONDS = 0.5

_WORDS: dict[Choice, tuple[str, ...]] = {
    "once": ("o", "once", "y", "yes"),
    "session": ("s", "session"),
    "always": ("a", "always"),
    "deny": ("d", "deny", "n", "no"),
}
_CHOICES: dict[str, Choice] = {word: choice for choice, words in _WORDS.items() for word in words}
#: Beginnings of a longer answer that may be meant as a yes: such an answer is asked for again.
_UNCLEAR = frozenset({"ok", "okay", "sure", "y", "yes", "o", "once", "session", "always"})


class PromptQuestion(msgspec.Struct, Generic[T], kw_only=True, eq=False):
    """One question: its text, the accepted input, and its answer. Thread-safe."""

    #: The full text, shown once.
    text: str
    #: The accepted input, shown while it waits.
    hint: str
    #: The text before the cursor.
    label: str
    #: Makes the answer of a typed line, or raises ``HermesError`` when it is none.
    read: Callable[[str], T]
    #: The answer when there is none.
    refusal: T
    timeout: float | None = None
    #: The approval it is about, if it is about one.
    request: ApprovalRequest | None = None
    #: Whether other text than an answer is a message, and the answer is no.
    takes_messages: bool = False
    #: When the time is over; None until it is shown, and without a timeout.
    deadline: float | None = None
    #: None as long as there is none.
    answer: T | None = None
    settled: threading.Event = field(default_factory=threading.Event)

    def reply(self, line: str) -> None:
        """Read the typed line. Raises ``HermesError`` when it is not an answer."""
        self.settle(self.read(line.strip()))

    def refuse(self) -> None:
        """Settle it without an answer."""
        self.settle(self.refusal)

    def settle(self, answer: T) -> None:
        """Set the answer; only the first one counts."""
        if not self.settled.is_set():
            self.answer = answer
            self.settled.set()

    def start_clock(self) -> None:
        """Start the timeout: it is shown from now on."""
        if self.timeout is not None:
            self.deadline = time.monotonic() + self.timeout

    def seconds_left(self) -> float | None:
        """Time left; None without a timeout."""
        return None if self.deadline is None else max(self.deadline - time.monotonic(), 0)


class PromptQuestions:
    """The open questions of all turns, the oldest first. A ``Responder``.

    A person at a prompt may take any time to answer.
    """

    surface = "cli"
    _has_time_limit = False

    def __init__(self, changed: Callable[[], None], is_answered: Callable[[str], bool] = lambda _id: False) -> None:
        """``changed`` is called, by any thread, when the first question changes.

        ``is_answered`` says whether the approval with that id was answered elsewhere: that answer counts then.
        """
        self._changed = changed
        self._is_answered = is_answered
        self._open: list[PromptQuestion[Any]] = []

    @property
    def current(self) -> PromptQuestion[Any] | None:
        """The question that is shown."""
        return next(iter(self._open[:1]), None)

    def approve(self, request: ApprovalRequest, interrupt: Interrupt) -> ApprovalAnswer:
        timeout = request.timeout if self._has_time_limit else None
        return self._ask(approval_question(request, timeout), interrupt) or ApprovalAnswer("timeout")

    def answer(self, question: str, choices: Sequence[str], interrupt: Interrupt) -> str | None:
        return self._ask(clarifying_question(question, choices), interrupt) or None

    def decide(self, text: str, interrupt: Interrupt) -> bool | None:
        """Ask for a decision; None when the user stopped, or typed something else."""
        try:
            return self._ask(yes_or_no(text), interrupt)
        except Interrupted:
            return None

    def _ask(self, question: PromptQuestion[T], interrupt: Interrupt) -> T | None:
        """Wait for the answer; None after the timeout."""
        self._open.append(question)
        shown, looked_up = False, time.monotonic()
        try:
            while not question.settled.is_set() and question.seconds_left() != 0:
                interrupt.check()
                if shown:
                    self._wait(question)
                elif self.current is question:
                    shown = True
                    question.start_clock()
                    self._show(question)
                else:
                    interrupt.wait(_POLL_SECONDS)
                if time.monotonic() - looked_up > _LOOK_UP_SECONDS:
                    looked_up = time.monotonic()
                    if question.request is not None and self._is_answered(question.request.id):
                        question.refuse()  # the stored answer counts, not this one
            return question.answer
        finally:
            self._open.remove(question)
            self._changed()

    def _show(self, question: PromptQuestion[Any]) -> None:
        self._changed()

    def _wait(self, question: PromptQuestion[Any]) -> None:
        """Wait for a moment, or until there is an answer."""
        question.settled.wait(_POLL_SECONDS)


class OneShotQuestions(PromptQuestions):
    """Questions of a single run: asked on stderr and answered on stdin, by the threads that ask, one after the other.

    They have a time limit: a script may have started the run, with no one at its terminal.
    """

    _has_time_limit = True

    def __init__(self, before_showing: Callable[[], None], is_answered: Callable[[str], bool]) -> None:
        super().__init__(self._end_line, is_answered)
        self._before_showing = before_showing
        #: The question whose label the cursor is behind.
        self._prompted: PromptQuestion[Any] | None = None

    def _show(self, question: PromptQuestion[Any]) -> None:
        import termios

        termios.tcflush(sys.stdin.fileno(), termios.TCIFLUSH)  # what was typed before is not an answer
        self._before_showing()
        limit = "" if question.timeout is None else f" ({question.timeout:.0f} s)"
        for row in word_wrapped(f"{question.text}\n{question.hint}{limit}", terminal_width(80)):
            print(row, file=sys.stderr)
        self._prompt(question)

    def _prompt(self, question: PromptQuestion[Any]) -> None:
        print(question.label, end="", file=sys.stderr, flush=True)
        self._prompted = question

    def _wait(self, question: PromptQuestion[Any]) -> None:
        """Read a line, if one is typed meanwhile. A terminal gives one at a time."""
        stdin = sys.stdin.fileno()
        if not select.select([stdin], [], [], _POLL_SECONDS)[0]:
            return
        line = os.read(stdin, 65_536)
        if not line:
            question.refuse()
            return
        self._prompted = None
        try:
            question.reply(line.decode("utf-8", "replace"))
        except HermesError as error:
            print(f"Error: {one_line(str(error))}", file=sys.stderr)
            self._prompt(question)

    def _end_line(self) -> None:
        """After a question that ended without a line."""
        if self._prompted is not None and self._prompted is not self.current:
            self._prompted = None
            print(file=sys.stderr, flush=True)


def approval_question(request: ApprovalRequest, timeout: float | None = None) -> PromptQuestion[ApprovalAnswer]:
    """The question whether a tool call may run. An answer in other words refuses the call, and is the reason."""
    from hermes.agent.approvals.connections import connects_to  # the prompt does not wait for it

    # The command is shown unredacted: redaction could hide a part of what the user decides about.
    subject = "\n".join(f"    {line}" for line in escape_hidden(request.subject).split("\n"))
    why = f"  {escape_hidden(request.description)} ({', '.join(request.rules)})" if request.rules else ""
    runs_command = builtin_declaration(request.tool).runs_commands
    action = "run this command" if runs_command else f"call {request.tool}"
    host = connects_to(request.rules)
    asked = f"Connect to {host}?" if host else f"The agent wants to {action}:"
    kept = "this [s]ession, [a]lways, " if request.can_be_kept else ""

    def read(line: str) -> ApprovalAnswer:
        word, _, reason = line.partition(" ")
        word, reason = word.lower().rstrip(",.;:!"), reason.strip()
        choice = _CHOICES.get(word)
        if choice == "deny":
            return ApprovalAnswer(choice, reason)
        if not line or (word in _UNCLEAR and (reason or choice is None)):
            allowed = "o (once), s (session), a (always)" if request.can_be_kept else "o (once)"
            raise HermesError(f"answer {allowed} or d (deny) alone; anything else denies it, with your words as reason")
        if choice is None or reason:
            return ApprovalAnswer("deny", line)
        if choice in ("session", "always") and not request.can_be_kept:
            raise HermesError("this call can only be allowed once: answer o or d")
        return ApprovalAnswer(choice)

    return PromptQuestion(
        text="\n".join(filter(None, [asked, subject, why, _coverage(request)])),
        hint=f"[o]nce, {kept}or [d]eny (with a reason)?",
        label="allow? ",
        read=read,
        refusal=ApprovalAnswer("deny"),
        timeout=timeout,
        request=request,
    )


def _coverage(request: ApprovalRequest) -> str:
    """The calls that an answer for longer than once would allow."""
    if not request.can_be_kept:
        return ""
    revoke = "hermes approvals revoke " + " ".join(request.rules)
    session = f"  [s] allows all calls under {request.named_rules()} in this session;"
    return f"{session}\n  [a] in all sessions, until '{revoke}'."


def clarifying_question(text: str, choices: Sequence[str]) -> PromptQuestion[str]:
    """A question of the model, with choices or a free-text answer."""
    numbered = [f"  {number}. {escape_hidden(choice)}" for number, choice in enumerate(choices, 1)]

    def read(line: str) -> str:
        # It comes with the agent, which the prompt does not wait for.
        from hermes.service.live.questions import read_choice

        return read_choice(line, choices)

    what = "Type a number or an answer" if choices else "Type an answer"
    return PromptQuestion(
        text="\n".join([f"The agent asks: {escape_hidden(text)}", *numbered]),
        hint=f"{what}; Enter lets the agent decide.",
        label="answer: ",
        read=read,
        refusal="",
    )


def yes_or_no(text: str) -> PromptQuestion[bool | None]:
    """A yes-or-no question; None when it was not answered."""

    def read(line: str) -> bool | None:
        if line.lower() not in ("y", "yes", "n", "no", ""):
            raise HermesError("answer y or n")
        return line.lower() in ("y", "yes")

    hint = "[y]es or [N]o? Anything else is a no, and your next message."
    return PromptQuestion(text=text, hint=hint, label="yes? ", read=read, refusal=None, takes_messages=True)
