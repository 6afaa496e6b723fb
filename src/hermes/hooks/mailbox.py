"""Events of one plugin that are delivered behind the turn: in order, bounded, on one thread."""

from __future__ import annotations

import contextvars
import logging
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from time import monotonic

from hermes.scope import Interrupt, current_scope

log = logging.getLogger("hermes.hooks")

CAPACITY = 1000


class Mailbox:
    """A queue and the daemon thread that empties it, started by the first event."""

    __slots__ = ("_busy", "_changed", "_closed", "_name", "_thread", "_work")

    def __init__(self, name: str) -> None:
        self._name = name
        self._work: deque[Callable[[], object]] = deque()
        self._changed = threading.Condition()
        self._busy = False
        self._closed = False
        self._thread: threading.Thread | None = None

    def put(self, work: Callable[[], object]) -> bool:
        """Queue an event; False when the queue is full or closed."""
        context = contextvars.copy_context()
        with self._changed:
            if self._closed or len(self._work) >= CAPACITY:
                return False
            self._work.append(lambda: context.run(_behind_the_turn, work))
            if self._thread is None:
                self._thread = threading.Thread(target=self._serve, name=f"hermes-events {self._name}", daemon=True)
                self._thread.start()
            self._changed.notify_all()
        return True

    def flush(self, seconds: float) -> bool:
        """Wait until everything queued so far is delivered; False when that takes longer."""
        deadline = monotonic() + seconds
        with self._changed:
            while self._work or self._busy:
                left = deadline - monotonic()
                if left <= 0:
                    return False
                self._changed.wait(left)
        return True

    def close(self) -> None:
        """Take no more events and end the thread once it is idle. A callback that hangs is left behind."""
        with self._changed:
            self._closed = True
            self._work.clear()
            self._changed.notify_all()
            thread, idle = self._thread, not self._busy
        if thread is not None and idle and thread is not threading.current_thread():
            thread.join(1.0)

    def _serve(self) -> None:
        while True:
            with self._changed:
                self._busy = False
                self._changed.notify_all()
                while not self._work and not self._closed:
                    self._changed.wait()
                if self._closed:
                    return
                work = self._work.popleft()
                self._busy = True
            try:
                work()
            except BaseException as error:
                # Even an exit asked for by one event must not cost the plugin those that follow.
                log.warning("plugin %r: a background event raised %r", self._name, error)


def _behind_the_turn(work: Callable[[], object]) -> object:
    """The event keeps its ids, but cancelling the turn it came from does not cancel its delivery."""
    scope = current_scope.get()
    if scope is not None:
        current_scope.set(replace(scope, interrupt=Interrupt()))
    return work()
