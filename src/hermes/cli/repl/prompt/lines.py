"""Lines from a terminal or a pipe, read so that waiting for one can end at any moment."""

from __future__ import annotations

import codecs
import contextlib
import os
import select
import socket
from collections import deque


class Lines:
    """Reads a descriptor without a buffer that others could wait for. Close it when done."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._ready: deque[str] = deque()
        self._partial = ""
        self._at_end = False
        # Sockets rather than a pipe: one that is closed is never mistaken for another file.
        self._alarm, self._bell = socket.socketpair()
        self._bell.setblocking(False)

    def wait(self, *, for_line: bool = True) -> str | None:
        """The next line, without its end. None when woken, or when there is no whole line yet.

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

    def wake(self) -> None:
        """End the wait. Signal handlers and other threads may call it, even when it is too late."""
        with contextlib.suppress(OSError):  # it rings already, or nobody waits any more
            self._bell.send(b".")

    def close(self) -> None:
        """Put the alarm away; the descriptor that was read stays open."""
        self._alarm.close()
        self._bell.close()

    def _take(self, data: bytes) -> None:
        *whole, self._partial = (self._partial + self._decoder.decode(data, final=not data)).split("\n")
        self._ready.extend(line.removesuffix("\r") for line in whole)
        if not data:
            self._at_end = True
            if self._partial:
                self._ready.append(self._partial)
