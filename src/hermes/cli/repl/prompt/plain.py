"""The prompt as plain lines: for a terminal that can do no more, and for a pipe."""

from __future__ import annotations

import contextlib
import signal
import sys
import threading
from collections import deque
from collections.abc import Generator
from types import FrameType
from typing import TextIO

from hermes.agent.events import TurnResult
from hermes.cli.chat.output import PersonOutput
from hermes.cli.failures import EXIT_FAILED, EXIT_INTERRUPTED, EXIT_OUTPUT_CLOSED, EXIT_TERMINATED, OUTPUT_LOST
from hermes.cli.repl.dialogue import Dialogue
from hermes.cli.repl.prompt.lines import Lines
from hermes.cli.repl.questions import Question
from hermes.cli.terminal import one_line, plain
from hermes.contract.events import ReasoningDelta, TurnEvent
from hermes.sanitize import Redactor

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class PlainPrompt:
    """A display that only ever adds lines. Answers go to stdout, everything about them to stderr."""

    def __init__(self, stdin: TextIO, stdout: TextIO, redactor: Redactor) -> None:
        #: Whether somebody types, rather than a program.
        self.is_interactive = stdin.isatty()
        #: Whether there was anything to do.
        self.any_line = False
        self._lines = Lines(stdin.fileno())
        self._output = _PlainOutput(stdout, redactor)
        self._lock = threading.RLock()
        self._signals: deque[int] = deque()
        self._dialogue: Dialogue | None = None
        self._question: object | None = None
        #: The prompt, or a question, stands at the end of the output.
        self._asked = False
        self._ended = False

    def run(self, dialogue: Dialogue) -> None:
        """Read until the end of the input, or until ``end``."""
        self._dialogue = dialogue
        self.changed()
        with self._signals_taken():
            typed = ""
            while not self._ended:
                try:
                    line = self._lines.wait(for_line=self._may_read(dialogue))
                except EOFError:
                    self._end_of_input(dialogue, typed)
                    typed = ""
                    continue
                self._obey_signals(dialogue)
                if line is None:
                    continue
                typed = f"{typed}\n{line}" if typed else line
                if typed.endswith("\\"):
                    typed = typed[:-1]
                    continue
                self._enter(dialogue, typed)
                typed = ""
        self._lines.close()

    def _may_read(self, dialogue: Dialogue) -> bool:
        """A pipe is read as the answers come; a person may speak at any time."""
        return dialogue.exit_code is None and (self.is_interactive or dialogue.is_idle)

    def _enter(self, dialogue: Dialogue, text: str) -> None:
        with self._lock:
            self._asked = False
        self.any_line |= bool(text.strip())
        dialogue.enter(text)
        self.changed()

    def _end_of_input(self, dialogue: Dialogue, typed: str) -> None:
        if typed:
            self._enter(dialogue, typed)
        elif self.is_interactive:
            dialogue.quit()
        else:
            dialogue.leave(EXIT_FAILED if dialogue.unanswered else 0)

    def _obey_signals(self, dialogue: Dialogue) -> None:
        while self._signals:
            if self._signals.popleft() != signal.SIGINT:
                dialogue.leave(EXIT_TERMINATED, "terminated")
            elif self.is_interactive:
                dialogue.ctrl_c()
            elif dialogue.exit_code is None:
                dialogue.leave(EXIT_INTERRUPTED)
            else:
                self.end()
            self.changed()

    @contextlib.contextmanager
    def _signals_taken(self) -> Generator[None]:
        """A signal only wakes the loop: what it means is found out where no lock can be held."""

        def take(number: int, _frame: FrameType | None) -> None:
            self._signals.append(number)
            self._lines.wake()

        before = {number: signal.signal(number, take) for number in _SIGNALS}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    # -- what others want shown; called by any thread -----------------------------------------------------------

    def event(self, event: TurnEvent) -> None:
        with self._lock:
            self._output.event(event)

    def turn_over(self, result: TurnResult) -> None:
        with self._lock:
            self._output.end(result)
            if result.status == "interrupted":
                self._tell("[interrupted]")
            elif result.status == "failed":
                self._tell(f"Error: {one_line(self._output.redacted(result.error or 'the turn failed'))}")

    def say(self, text: str) -> None:
        with self._lock, self._closed_output_ends():
            self._output.say(text)

    def note(self, text: str) -> None:
        self._tell(plain(text))

    def complain(self, text: str) -> None:
        self._tell(f"Error: {one_line(text)}")

    def give_back(self, text: str) -> None:
        """It is still on the screen, or in the file it came from."""

    def changed(self) -> None:
        dialogue = self._dialogue
        if dialogue is None:
            return
        with self._lock:
            question = dialogue.questions.current
            if question is not self._question:
                self._question = question
                if question is None:
                    self._tell("")
                else:
                    self._ask(question)
            elif question is None and self.is_interactive and dialogue.is_idle and dialogue.exit_code is None:
                self._prompt("> ")
        self._lines.wake()

    def clear(self) -> None:
        """What was printed stays."""

    def end(self) -> None:
        self._ended = True
        self._lines.wake()

    # -- inside -------------------------------------------------------------------------------------------------

    def _ask(self, question: Question[object]) -> None:
        left = question.seconds_left()
        self._tell(question.text)
        self._tell(question.hint + ("" if left is None else f" ({left:.0f} s)"))
        self._prompt(question.label)

    def _prompt(self, label: str) -> None:
        if not self._asked:
            self._asked = True
            with self._closed_output_ends():
                self._output.prompt(label)

    def _tell(self, text: str) -> None:
        with self._lock, self._closed_output_ends():
            self._output.tell(text, behind_prompt=self._asked)
            self._asked = False

    @contextlib.contextmanager
    def _closed_output_ends(self) -> Generator[None]:
        try:
            yield
        except OSError:
            if self._dialogue is not None:
                self._dialogue.leave(EXIT_OUTPUT_CLOSED, OUTPUT_LOST)


class _PlainOutput(PersonOutput):
    """What one message in ``hermes chat --query`` shows, for one after the other."""

    def __init__(self, stdout: TextIO, redactor: Redactor) -> None:
        super().__init__(stdout, redactor)
        self._thinking = False

    def event(self, event: TurnEvent) -> None:
        if isinstance(event, ReasoningDelta):
            self._new_line()
            print(plain(event.text), end="", file=sys.stderr, flush=True)
            self._thinking = True
            return
        if self._thinking:
            self._thinking = False
            print(file=sys.stderr)
        super().event(event)

    def say(self, text: str) -> None:
        """What a command answered."""
        self._new_line()
        print(plain(text), file=self._stdout, flush=True)

    def tell(self, text: str, *, behind_prompt: bool) -> None:
        """A remark; one that comes while the prompt stands there begins a new line."""
        self._new_line()
        if behind_prompt:
            print(file=sys.stderr)
        if text:
            print(text, file=sys.stderr, flush=True)

    def prompt(self, label: str) -> None:
        """What stands before the line being typed."""
        self._new_line()
        print(label, end="", file=sys.stderr, flush=True)

    def redacted(self, text: str) -> str:
        """The text without secrets."""
        return self._redactor.redact(text)
