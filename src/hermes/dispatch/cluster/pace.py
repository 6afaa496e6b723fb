"""The pace at which a worker looks at one of its queues: at set times, and earlier when a turn was handed over."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable

#: Workers that were woken by the same turn look one after the other within this time, those with free slots first.
SPREAD_SECONDS = 0.02
#: Taking turns costs the same for one and for many: a worker whose slots are all used waits so long for more of them,
#: one whose slots are half used half as long.
_GAP_SECONDS = 0.25
#: A turn that was taken from the queue counts as running from then on; for so long at most until it begins to.
_START_SECONDS = 5.0


class QueuePace:
    """Waits for the next look at a queue, and counts the turns that were taken and have yet to begin. Thread-safe."""

    def __init__(self, seconds: float, has_turns: Callable[[], bool]) -> None:
        """``has_turns`` says at little cost whether anything may be in the queue."""
        self._seconds = seconds
        self._has_turns = has_turns
        self._woken = threading.Event()
        self._is_closed = False
        self._lock = threading.Lock()
        #: Turns that were taken, with the time of that.
        self._starting: dict[str, float] = {}
        self._took_at = 0.0
        self._is_full = False

    def wake(self) -> None:
        """Look soon: a turn was handed over, or a slot became free."""
        self._woken.set()

    def close(self) -> None:
        """Wait no more."""
        self._is_closed = True
        self._woken.set()

    def wait(self, running: Callable[[], int], slots: int) -> bool:
        """Wait for the next look. Whether it may find a turn for one of the slots of this worker."""
        was_woken = self._woken.wait(self._seconds)
        if self._is_closed:
            return False
        self._woken.clear()
        used = running() + self.starting
        pause = self._took_at + _GAP_SECONDS * (used / slots if slots else 1.0) - time.monotonic()
        if was_woken:
            spread = SPREAD_SECONDS * (random.random() + (used / slots if slots else 1.0)) / 2
            time.sleep(max(pause, spread))
        elif pause > 0:
            return False
        self._is_full = running() + self.starting >= slots
        return not self._is_full and self._has_turns()

    def ended(self) -> None:
        """A turn has ended: its slot is used again at once if there was no other."""
        if self._is_full:
            self.wake()

    @property
    def starting(self) -> int:
        """How many turns were taken and have not begun."""
        with self._lock:
            old = time.monotonic() - _START_SECONDS
            self._starting = {turn: at for turn, at in self._starting.items() if at > old}
            return len(self._starting)

    def took(self, workflows: list[str]) -> None:
        """These turns were taken from the queue."""
        now = self._took_at = time.monotonic()
        with self._lock:
            self._starting.update(dict.fromkeys(workflows, now))

    def began(self, workflow: str) -> None:
        """A turn that was taken counts among those that run."""
        with self._lock:
            self._starting.pop(workflow, None)
