"""Line-based prompt for simple terminals and pipes, and the interruptible reader of its lines."""

from __future__ import annotations

import codecs
import contextlib
import os
import select
import signal
import socket
import sys
import threading
from collections import deque
from collections.abc import Generator
from typing import TextIO

from hermes.agent.events import TurnResult
from hermes.base.sanitize import Redactor
from hermes.contract.events import TurnEvent
from hermes.surfaces.cli import failures
from hermes.surfaces.cli.chat.output import TextOutput
from hermes.surfaces.cli.repl.dialogue import Dialogue, Display
from hermes.surfaces.cli.terminal import column_wrapped, one_line, plain, terminal_width

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class LineReader:
    """Reads lines from a file descriptor; ``wake`` ends a wait. Close it when done."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._ready: deque[str] = deque()
        self._partial = ""
        self._at_end = False
        # Sockets rather than a pipe: a reused descriptor number cannot be mistaken for it.
        self._alarm, self._bell = socket.socketpair()
        self._bell.setblocking(False)

    def wait(self, *, for_line: bool = True) -> str | None:
        """The next line, without its end. None when woken, or when there is no complete line yet.

        Raises ``EOFError`` at the end of the input.
        """
        if for_line and self._ready:
            return self._ready.popleft()
        if for_line and self._at_end:
            raise EOFError
        sources = [self._alarm, self._descriptor] if for_line else [self._alarm]
        readable, _, _ = select.select(sources, [], [])
        if self._alarm in readable:
            self._alarm.recv(4_096)
        elif self._descriptor in readable:
            self._take(os.read(self._descriptor, 65_536))
            return self._ready.popleft() if self._ready else None
        return None

    @contextlib.contextmanager
    def woken_by_signals(self) -> Generator[None]:
        """End the wait with each signal. Its handler cannot do that: it runs only when the main thread no longer waits.

        Without it a signal that another thread receives, or that arrives in the instant before the wait, is not
        handled until the next line.
        """
        before = signal.set_wakeup_fd(self._bell.fileno(), warn_on_full_buffer=False)
        try:
            yield
        finally:
            signal.set_wakeup_fd(before)

    def wake(self) -> None:
        """End the wait. Safe in other threads, even after ``close``."""
        with contextlib.suppress(OSError):  # already woken, or closed
            self._bell.send(b".")

    def close(self) -> None:
        """Close the wake-up sockets; the descriptor stays open."""
        self._alarm.close()
        self._bell.close()

    def _take(self, data: bytes) -> None:
        *whole, self._partial = (self._partial + self._decoder.decode(data, final=not data)).split("\n")
        self._ready.extend(line.removesuffix("\r") for line in whole)
        if not data:
            self._at_end = True
            if self._partial:
                self._ready.append(self._partial)


class PlainPrompt(Display):
    """A display that only appends lines. Answers go to stdout, everything else to stderr."""

    def __init__(self, stdin: TextIO, stdout: TextIO, redactor: Redactor) -> None:
        #: Whether stdin is a terminal.
        self.is_interactive = stdin.isatty()
        #: Whether any input was read.
        self.any_line = False
        self._lines = LineReader(stdin.fileno())
        self._redactor = redactor
        self._output = _PlainOutput(stdout, redactor)
        self._lock = threading.RLock()
        self._signals: deque[int] = deque()
        self._dialogue: Dialogue | None = None
        self._question: object | None = None
        #: Whether the output ends with the prompt or a question.
        self._asked = False
        self._ended = False

    def run(self, dialogue: Dialogue) -> None:
        """Read until the end of the input, or until ``end``. Signals are handled here, outside of any lock."""
        self._dialogue = dialogue
        self.changed()
        collected = failures.handled_signals(lambda number, _frame: self._signals.append(number), *_SIGNALS)
        with collected, self._lines.woken_by_signals():
            self._read(dialogue)
        self._lines.close()

    def _read(self, dialogue: Dialogue) -> None:
        typed = ""
        while not self._ended:
            # A pipe is read one message per turn; a terminal at any time.
            may_read = dialogue.exit_code is None and (self.is_interactive or dialogue.is_idle)
            try:
                line = self._lines.wait(for_line=may_read)
            except EOFError:
                if typed:
                    self._enter(dialogue, typed)
                elif self.is_interactive:
                    dialogue.quit()
                else:
                    dialogue.leave(failures.EXIT_FAILED if dialogue.unanswered else 0)
                typed = ""
                continue
            self._handle_signals(dialogue)
            if line is None:
                continue
            typed = f"{typed}\n{line}" if typed else line
            if typed.endswith("\\"):
                typed = typed[:-1]
                continue
            self._enter(dialogue, typed)
            typed = ""

    def _enter(self, dialogue: Dialogue, text: str) -> None:
        with self._lock:
            self._asked = False
        self.any_line |= bool(text.strip())
        dialogue.enter(text)
        self.changed()

    def _handle_signals(self, dialogue: Dialogue) -> None:
        while self._signals:
            if self._signals.popleft() != signal.SIGINT:
                dialogue.leave(failures.EXIT_TERMINATED, "terminated")
            elif self.is_interactive:
                dialogue.ctrl_c()
            elif dialogue.exit_code is None:
                dialogue.leave(failures.EXIT_INTERRUPTED)
            else:
                self.end()
            self.changed()

    # -- display; called by any thread --------------------------------------------------------------------------

    def event(self, event: TurnEvent) -> None:
        with self._lock:
            self._output.event(event)

    def turn_ended(self, result: TurnResult) -> None:
        with self._lock:
            self._output.end(result)
            if result.status == "interrupted":
                self._print("[interrupted]")
            elif result.status == "failed":
                self._print(f"Error: {one_line(self._redactor.redact(result.error or 'the turn failed'))}")

    def message(self, text: str) -> None:
        if self.is_interactive:
            self._print(one_line(f"> {text}"))

    def say(self, text: str) -> None:
        with self._lock, self._leave_on_closed_output():
            self._output.new_line()
            print(plain(text), file=self._output.stdout, flush=True)

    def note(self, text: str) -> None:
        self._print(plain(text))

    def error(self, text: str) -> None:
        self._print(f"Error: {one_line(text)}")

    def changed(self) -> None:
        dialogue = self._dialogue
        if dialogue is None:
            return
        with self._lock:
            question = dialogue.questions.current
            if question is not self._question:
                self._question = question
                if question is None:
                    self._print("")
                else:
                    self._print(question.text)
                    self._print(question.hint)
                    self._prompt(question.label)
            elif question is None and self.is_interactive and dialogue.is_idle and dialogue.exit_code is None:
                self._prompt("> ")
        self._lines.wake()

    def end(self) -> None:
        self._ended = True
        self._lines.wake()

    # -- internal -----------------------------------------------------------------------------------------------

    def _prompt(self, label: str) -> None:
        if not self._asked:
            self._asked = True
            with self._leave_on_closed_output():
                self._output.new_line()
                print(label, end="", file=sys.stderr, flush=True)

    def _print(self, text: str) -> None:
        if self.is_interactive:
            text = "\n".join(column_wrapped(text, terminal_width(80)))
        with self._lock, self._leave_on_closed_output():
            self._output.new_line()
            if self._asked:
                print(file=sys.stderr)
            if text:
                print(text, file=sys.stderr, flush=True)
            self._asked = False

    @contextlib.contextmanager
    def _leave_on_closed_output(self) -> Generator[None]:
        try:
            yield
        except OSError:
            if self._dialogue is not None:
                self._dialogue.leave(failures.EXIT_OUTPUT_CLOSED, failures.OUTPUT_LOST)


class _PlainOutput(TextOutput):
    """The output of ``hermes chat --query``, for a sequence of messages, and with reasoning."""

    _is_thinking = False

    def reasoning(self, text: str) -> None:
        self.new_line()
        print(plain(text), end="", file=sys.stderr, flush=True)
        self._is_thinking = True

    def reasoning_over(self) -> None:
        if self._is_thinking:
            self._is_thinking = False
            print(file=sys.stderr)
