"""A thread that works behind the turn: in order, with a bounded queue, and nobody waits for it longer than he wants."""

from __future__ import annotations

import logging
import os
import threading
from collections import deque
from collections.abc import Callable

log = logging.getLogger(__name__)

CAPACITY = 10_000
#: How long a thread without work stays.
_IDLE_SECONDS = 60.0


class Worker:
    """A queue of calls and the daemon thread that makes them. The thread begins with the first one."""

    def __init__(self, name: str, capacity: int = CAPACITY) -> None:
        self._name = name
        self._capacity = capacity
        self._has_failed = False
        self._start_over()

    def _start_over(self) -> None:
        self._pid = os.getpid()
        self._changed = threading.Condition()
        self._work: deque[Callable[[], object]] = deque()
        self._put = self._done = 0
        self._late = self._closed = False
        self._thread: threading.Thread | None = None

    def put(self, work: Callable[[], object]) -> bool:
        """Queue a call; False when there are too many already."""
        if os.getpid() != self._pid:
            self._start_over()  # a fork has left the thread behind, and the work is the other process's
        with self._changed:
            if self._closed or len(self._work) >= self._capacity:
                return False
            self._work.append(work)
            self._put += 1
            if self._thread is None:
                self._thread = threading.Thread(target=self._serve, name=self._name, daemon=True)
                self._thread.start()
            self._changed.notify_all()
            return True

    def wait(self, seconds: float) -> bool:
        """Whether everything queued so far was done in time. While it is late nobody waits a second time."""
        with self._changed:
            mine = self._put
            if self._late:
                return self._done >= mine
            in_time = self._changed.wait_for(lambda: self._done >= mine, seconds)
            self._late = not in_time
            return in_time

    def close(self) -> None:
        """Take no more work and end the thread when it is idle."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def _serve(self) -> None:
        while (work := self._next()) is not None:
            try:
                work()
            except Exception as error:
                self._complain(error)
            with self._changed:
                self._done += 1
                self._late = self._late and self._done < self._put
                self._changed.notify_all()

    def _complain(self, error: Exception) -> None:
        """Only the first time for all to see: what goes wrong once goes wrong again and again."""
        level = logging.DEBUG if self._has_failed else logging.ERROR
        self._has_failed = True
        log.log(level, "%s: something was left undone", self._name, exc_info=error)

    def _next(self) -> Callable[[], object] | None:
        with self._changed:
            self._changed.wait_for(lambda: self._work or self._closed, _IDLE_SECONDS)
            if self._work:
                return self._work.popleft()
            self._thread = None
            return None
