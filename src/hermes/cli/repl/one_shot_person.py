"""The person at the terminal of a single run: asked on stderr, heard on stdin, and only when there is a question."""

from __future__ import annotations

import sys
import threading

from hermes.cli.repl.prompt.lines import Lines
from hermes.cli.repl.questions import Question, Questions
from hermes.cli.terminal import one_line
from hermes.errors import HermesError


class OneShotPerson(Questions):
    """A person without a prompt."""

    def __init__(self) -> None:
        super().__init__(self._look)
        self._lock = threading.Lock()
        self._lines: Lines | None = None

    def _look(self) -> None:
        """A question came or went: listen as long as there is one."""
        with self._lock:
            if self._lines is not None:
                self._lines.wake()
            elif self.current is not None:
                self._lines = Lines(sys.stdin.fileno())
                threading.Thread(target=self._listen, args=(self._lines,), name="hermes-asking", daemon=True).start()

    def _listen(self, lines: Lines) -> None:
        shown: Question[object] | None = None
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

    def _show(self, question: Question[object]) -> None:
        left = question.seconds_left()
        _forget_what_was_typed()
        print(question.text, file=sys.stderr)
        print(question.hint + ("" if left is None else f" ({left:.0f} s)"), file=sys.stderr)
        print(question.label, end="", file=sys.stderr, flush=True)

    def _read(self, lines: Lines, question: Question[object]) -> None:
        try:
            line = lines.wait()
        except EOFError:
            question.refuse()
            line = None
        if question.is_settled() or self.current is not question:
            print(file=sys.stderr)  # it ended without the person: the cursor still stands behind the label
        elif line is not None:
            try:
                question.reply(line)
            except HermesError as error:
                print(f"Error: {one_line(str(error))}\n{question.label}", end="", file=sys.stderr, flush=True)


def _forget_what_was_typed() -> None:
    """What was typed before the question was there is no answer to it."""
    import termios

    termios.tcflush(sys.stdin.fileno(), termios.TCIFLUSH)
