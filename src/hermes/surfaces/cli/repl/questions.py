"""Questions for the user: approvals, questions of the model, and confirmations of commands."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

from hermes.agent.approvals.responder import ApprovalAnswer, ApprovalRequest, Choice
from hermes.base.errors import HermesError, Interrupted
from hermes.base.sanitize.hidden import escape_hidden
from hermes.base.scope import Interrupt
from hermes.surfaces.cli.repl.prompt.streams import LineReader
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


class PromptQuestion(Generic[T]):
    """One question: its text, the accepted input, and its answer. Thread-safe."""

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
        takes_messages: bool = False,
    ) -> None:
        #: The full text, shown once.
        self.text = text
        #: The accepted input, shown while it waits.
        self.hint = hint
        #: The text before the cursor.
        self.label = label
        #: The approval it is about, if it is about one.
        self.request = request
        #: Whether other text than an answer is a message, and the answer is no.
        self.takes_messages = takes_messages
        self.deadline: float | None = None
        self._timeout = timeout
        self._read = read
        self._refusal = refusal
        self._answer: T | None = None
        self._settled = threading.Event()

    def reply(self, line: str) -> None:
        """Read the typed line. Raises ``HermesError`` when it is not an answer."""
        self.settle(self._read(line.strip()))

    def refuse(self) -> None:
        """Settle it without an answer."""
        self.settle(self._refusal)

    def settle(self, answer: T) -> None:
        """Set the answer; only the first one counts."""
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
        """Start the timeout: it is shown from now on."""
        if self._timeout is not None:
            self.deadline = time.monotonic() + self._timeout

    def seconds_left(self) -> float | None:
        """Time left; None without a timeout."""
        return None if self.deadline is None else max(self.deadline - time.monotonic(), 0)


class PromptQuestions:
    """The open questions of all turns, the oldest first. A ``Responder``.

    A person at a prompt may take any time to answer.
    """

    surface = "cli"
    _has_time_limit = False

    def __init__(self, changed: Callable[[], None], is_answered: Callable[[str], bool] | None = None) -> None:
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

    def confirm(self, text: str, interrupt: Interrupt) -> bool:
        """Ask for confirmation; an interrupt is a no."""
        return bool(self.decide(text, interrupt))

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
                if time.monotonic() - looked_up > _LOOK_UP_SECONDS:
                    looked_up = time.monotonic()
                    if self._was_answered_elsewhere(question):
                        question.refuse()  # the stored answer counts, not this one
            return question.answer()
        finally:
            self._open.remove(question)
            self._changed()

    def _was_answered_elsewhere(self, question: PromptQuestion[Any]) -> bool:
        return question.request is not None and self._is_answered is not None and self._is_answered(question.request.id)


def approval_question(request: ApprovalRequest, timeout: float | None = None) -> PromptQuestion[ApprovalAnswer]:
    """The question whether a tool call may run. An answer in other words refuses the call, and is the reason."""
    # The command is shown unredacted: redaction could hide a part of what the user decides about.
    subject = "\n".join(f"    {line}" for line in escape_hidden(request.subject).split("\n"))
    why = f"  {escape_hidden(request.description)} ({', '.join(request.rules)})" if request.rules else ""
    runs_command = builtin_declaration(request.tool).runs_commands
    action = "run this command" if runs_command else f"call {request.tool}"
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
        "\n".join(filter(None, [f"The agent wants to {action}:", subject, why, _coverage(request)])),
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
    rules = ("the rule " if len(request.rules) == 1 else "the rules ") + ", ".join(request.rules)
    revoke = "hermes approvals revoke " + " ".join(request.rules)
    return f"  [s] allows all calls under {rules} in this session;\n  [a] in all sessions, until '{revoke}'."


def clarifying_question(text: str, choices: Sequence[str]) -> PromptQuestion[str]:
    """A question of the model, with choices or a free-text answer."""
    numbered = [f"  {number}. {escape_hidden(choice)}" for number, choice in enumerate(choices, 1)]

    def read(line: str) -> str:
        from hermes.service.live.questions import (
            read_choice,  # loaded with the agent, which the prompt does not wait for
        )

        return read_choice(line, choices)

    what = "Type a number or an answer" if choices else "Type an answer"
    return PromptQuestion(
        "\n".join([f"The agent asks: {escape_hidden(text)}", *numbered]),
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
    return PromptQuestion(text, hint=hint, label="yes? ", read=read, refusal=None, takes_messages=True)


class OneShotQuestions(PromptQuestions):
    """Questions of a single run: asked on stderr, answered on stdin.

    They have a time limit: a script may have started the run, with no one at its terminal.
    """

    _has_time_limit = True

    def __init__(
        self, before_showing: Callable[[], None] = lambda: None, is_answered: Callable[[str], bool] | None = None
    ) -> None:
        super().__init__(self._start_or_wake, is_answered)
        self._before_showing = before_showing
        self._lock = threading.Lock()
        self._lines: LineReader | None = None

    def _start_or_wake(self) -> None:
        """The first question changed: read answers as long as there is one."""
        with self._lock:
            if self._lines is not None:
                self._lines.wake()
            elif self.current is not None:
                self._lines = LineReader(sys.stdin.fileno())
                threading.Thread(target=self._listen, args=(self._lines,), name="hermes-questions", daemon=True).start()

    def _listen(self, lines: LineReader) -> None:
        shown: PromptQuestion[object] | None = None
        while True:
            with self._lock:
                question = self.current
                if question is None:
                    self._lines = None
                    break
            if question is not shown:
                self._show(question)
                shown = question
            self._read(lines, question)
        lines.close()

    def _show(self, question: PromptQuestion[object]) -> None:
        left = question.seconds_left()
        _discard_typed_input()
        self._before_showing()
        hint = question.hint + ("" if left is None else f" ({left:.0f} s)")
        for row in word_wrapped(f"{question.text}\n{hint}", terminal_width(80)):
            print(row, file=sys.stderr)
        print(question.label, end="", file=sys.stderr, flush=True)

    def _read(self, lines: LineReader, question: PromptQuestion[object]) -> None:
        try:
            line = lines.wait()
        except EOFError:
            question.refuse()
            line = None
        if question.is_settled() or self.current is not question:
            print(file=sys.stderr)  # ended without an answer: the cursor is still on the line of the label
        elif line is not None:
            try:
                question.reply(line)
            except HermesError as error:
                print(f"Error: {one_line(str(error))}\n{question.label}", end="", file=sys.stderr, flush=True)


def _discard_typed_input() -> None:
    """Discard input typed before the question was shown."""
    import termios

    termios.tcflush(sys.stdin.fileno(), termios.TCIFLUSH)
