"""Streams of the prompt: an interruptible line reader, and a capture of stdout and stderr."""

from __future__ import annotations

import codecs
import contextlib
import io
import os
import select
import signal
import socket
import threading
from collections import deque
from collections.abc import Callable, Generator
from typing import TextIO

from hermes.surfaces.cli.terminal import plain


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


class CapturedStream(io.TextIOBase):
    """Replaces stdout or stderr while a screen is drawn: passes on complete lines, made safe to print."""

    def __init__(self, real: TextIO, show: Callable[[str], None]) -> None:
        super().__init__()
        self._real = real
        self._show = show
        self._partial = ""
        self._lock = threading.Lock()

    @property
    def encoding(self) -> str:  # pyright: ignore[reportIncompatibleVariableOverride]  (a property, as in TextIOWrapper)
        """All text can be shown."""
        return "utf-8"

    def fileno(self) -> int:
        """The real descriptor: child processes write to the terminal."""
        return self._real.fileno()

    def isatty(self) -> bool:
        """False: it does not support cursor control."""
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
        """Nothing to do: only complete lines are passed on."""

    def finish(self) -> None:
        """Show an incomplete last line."""
        if self._partial:
            self.write("\n")
