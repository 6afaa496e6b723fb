"""Waits for a bounded time for a flush that itself knows no bound."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable


class Flusher:
    """Runs ``flush`` on a thread of its own, which exists from the start: none can be made while a process exits."""

    def __init__(self, flush: Callable[[], object]) -> None:
        self._flush = flush
        self._start()

    def _start(self) -> None:
        self._pid = os.getpid()
        self._changed = threading.Condition()
        self._asked = self._done = 0
        self._late = self._closed = False
        threading.Thread(target=self._run, name="hermes-trace-flush", daemon=True).start()

    def flush(self, seconds: float) -> bool:
        """Whether everything was out in time. While a flush is late nobody waits for it a second time."""
        if os.getpid() != self._pid:
            self._start()  # a fork has left the thread behind
        with self._changed:
            if self._late or self._closed:
                return False
            self._asked += 1
            mine = self._asked
            self._changed.notify_all()
            in_time = self._changed.wait_for(lambda: self._done >= mine, seconds)
            self._late = not in_time
            return in_time

    def close(self) -> None:
        """End the thread, when it has nothing to do."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def _run(self) -> None:
        changed = self._changed
        while True:
            with changed:
                changed.wait_for(lambda: self._closed or self._asked > self._done)
                if self._closed:
                    return
                goal = self._asked
            try:
                self._flush()
            finally:
                with changed:
                    self._done, self._late = goal, False
                    changed.notify_all()
