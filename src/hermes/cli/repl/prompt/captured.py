"""Stands in for stdout and stderr while a screen is drawn, so that what others print does not run into it."""

from __future__ import annotations

import io
import threading
from collections.abc import Callable
from typing import TextIO

from hermes.cli.terminal import plain


class Captured(io.TextIOBase):
    """A stream that hands on whole lines, made safe to print."""

    def __init__(self, real: TextIO, show: Callable[[str], None]) -> None:
        super().__init__()
        self._real = real
        self._show = show
        self._partial = ""
        self._lock = threading.Lock()

    @property
    def encoding(self) -> str:  # pyright: ignore[reportIncompatibleVariableOverride]  (a property, as in TextIOWrapper)
        """Whatever is written can be shown."""
        return "utf-8"

    def fileno(self) -> int:
        """A program that is started on it writes to the terminal itself."""
        return self._real.fileno()

    def isatty(self) -> bool:
        """Nobody should draw on it."""
        return False

    def writable(self) -> bool:
        return True

    def write(self, text: str, /) -> int:
        with self._lock:
            *whole, self._partial = (self._partial + text).split("\n")
        if whole:
            self._show("".join(f"{plain(line)}\n" for line in whole))
        return len(text)

    def flush(self) -> None:
        """Lines go out when they are whole."""

    def finish(self) -> None:
        """Show a last line without an end."""
        if self._partial:
            self.write("\n")
