"""Signals to a person who looks elsewhere: the bell or a desktop notification, and the title of the terminal."""

from __future__ import annotations

import os
import time
from collections.abc import Callable

from hermes.base.config.schema.sections import DisplayConfig
from hermes.surfaces.cli.terminal import one_line

#: Terminals that print the sequences of titles and notifications, or have no window.
_WITHOUT_WINDOW = ("linux", "dumb", "")
_SAVE_TITLE, _RESTORE_TITLE = "\x1b[22;2t", "\x1b[23;2t"


class Notifier:
    """Makes the sequences to print; they are empty where nothing is to be signalled."""

    def __init__(self, display: DisplayConfig, clock: Callable[[], float] = time.monotonic) -> None:
        self._display = display
        self._clock = clock
        self._since = clock()
        self._title = ""
        self._has_window = os.environ.get("TERM", "") not in _WITHOUT_WINDOW

    def work_begins(self) -> None:
        """The person sent something: they are here."""
        self._since = self._clock()

    def signal(self, what: str) -> str:
        """The signal that an answer or a question is there, when the work before it took long enough."""
        elapsed, self._since = self._clock() - self._since, self._clock()
        if self._display.notify == "off" or elapsed < self._display.notify_after:
            return ""
        if self._display.notify == "osc9" and self._has_window:
            return f"\x1b]9;hermes: {one_line(what, 80)}\x07"
        return "\x07"

    def title(self, text: str) -> str:
        """The sequence that sets the title of the terminal; empty when it has that title already."""
        if not self._display.title or not self._has_window or text == self._title:
            return ""
        save = "" if self._title else _SAVE_TITLE
        self._title = text
        return f"{save}\x1b]2;{one_line(text, 80)}\x07"

    def restore_title(self) -> str:
        """The sequence that gives the terminal its old title back."""
        return _RESTORE_TITLE if self._title else ""
