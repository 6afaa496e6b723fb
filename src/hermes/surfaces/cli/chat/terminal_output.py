"""Output of a one-shot run on a terminal: rendered Markdown, diffs and command output, and a spinner while it waits."""

from __future__ import annotations

import os
import sys
import threading
from typing import TextIO

from msgspec.structs import replace

from hermes.agent.events import TurnResult
from hermes.base.config.schema.sections import DisplayConfig
from hermes.base.sanitize import Redactor
from hermes.contract.events import TurnEvent
from hermes.surfaces.cli.chat.notifier import Notifier
from hermes.surfaces.cli.chat.output import TextOutput, usage_line
from hermes.surfaces.cli.chat.theme import theme_for
from hermes.surfaces.cli.repl.turn_view import TurnView
from hermes.surfaces.cli.terminal import shows_unicode, terminal_width

_TICK_SECONDS = 0.12
_ERASE_LINE = "\r\x1b[2K"


class TerminalOutput(TextOutput):
    """Draws finished lines, and below them one line of what is happening. Thread-safe."""

    def __init__(self, stdout: TextIO, redactor: Redactor, display: DisplayConfig) -> None:
        super().__init__(stdout, redactor)
        unicode = shows_unicode(stdout.encoding, os.environ.get("TERM"))
        self._view = TurnView(
            redactor,
            theme=theme_for(display.theme, os.environ),
            unicode=unicode,
            declaration=lambda name: self.declaration(name),
        )
        self._notifier = Notifier(display)
        self._lock = threading.Lock()
        self._is_drawn = False
        self._ended = threading.Event()
        self._spinner: threading.Thread | None = None

    def event(self, event: TurnEvent) -> None:
        self._view.look_ahead(event, self.cwd)
        with self._lock:
            self._view.width = terminal_width(80)
            self._print(self._view.take(event))
        if self._spinner is None:
            self._view.activity = self.activity or self._view.activity
            self._spinner = threading.Thread(target=self._tick, name="hermes-spinner", daemon=True)
            self._spinner.start()

    def end(self, result: TurnResult) -> None:
        self._ended.set()
        with self._lock:
            self._erase()
            if result.status in ("completed", "incomplete"):
                # The command itself reports what is missing, a failure, and how an interrupted turn is continued.
                self._print(self._view.end(replace(result, status="completed")))
            else:
                self._print(self._view.break_off())
            self.stdout.flush()
            print(self._view.dim(usage_line(result)), file=sys.stderr, flush=True)
            self.stdout.write(self._notifier.signal("the answer is there"))
            self.stdout.flush()

    def pause(self) -> None:
        """Remove the spinner: a question is about to be printed."""
        with self._lock:
            self._erase()
            self.stdout.write(self._notifier.signal("a question waits"))
            self.stdout.flush()

    def close(self) -> None:
        """Stop the spinner; for a run that ends without a result."""
        self._ended.set()
        with self._lock:
            self._erase()
            self.stdout.flush()

    def _tick(self) -> None:
        while not self._ended.wait(_TICK_SECONDS):
            try:
                with self._lock:
                    if not self._ended.is_set() and not self.is_asking():
                        self._draw()
            except (OSError, ValueError):  # the terminal is gone; the turn notices that itself
                return

    def _draw(self) -> None:
        self._view.width = terminal_width(80) - 1  # a line as wide as the terminal would wrap
        [line] = self._view.live(1) or [""]
        self._erase()
        self.stdout.write(self._view.dim(line))
        self.stdout.flush()
        self._is_drawn = bool(line)

    def _print(self, text: str) -> None:
        if text:
            self._erase()
            self.stdout.write(text)
            self.stdout.flush()

    def _erase(self) -> None:
        if self._is_drawn:
            self.stdout.write(_ERASE_LINE)
            self._is_drawn = False
