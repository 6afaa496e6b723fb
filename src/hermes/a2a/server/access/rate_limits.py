"""How much is taken on: requests of one caller in a minute, tasks at work, tasks that wait."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import OrderedDict
from collections.abc import AsyncGenerator

from hermes.config.sections import A2AConfig

#: Callers whose pace is remembered; more are not expected, and forgetting one only forgives it.
_MOST_CALLERS = 10_000


class Pace:
    """A bucket for each caller that fills with time and is emptied by requests."""

    def __init__(self, per_minute: int) -> None:
        self._per_minute = per_minute
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def wait_for(self, caller: str) -> float:
        """Count a request. Seconds to wait when it is one too many, else 0."""
        if not self._per_minute:
            return 0.0
        now = time.monotonic()
        left, at = self._left.pop(caller, (float(self._per_minute), now))
        left = min(left + (now - at) * self._per_minute / 60, float(self._per_minute))
        allowed = left >= 1
        self._left[caller] = (left - 1 if allowed else left, now)
        if len(self._left) > _MOST_CALLERS:
            self._left.popitem(last=False)
        return 0.0 if allowed else (1 - left) * 60 / self._per_minute


class Load:
    """The tasks in hand: so many work, so many wait for their turn."""

    def __init__(self, settings: A2AConfig) -> None:
        self._slots = asyncio.Semaphore(settings.max_tasks)
        self._max_waiting = settings.max_waiting
        self.waiting = 0
        self.working = 0
        #: The server is about to end: nothing new is begun.
        self.is_closing = False

    @property
    def is_full(self) -> bool:
        """Whether one more task could not even wait."""
        return self._slots.locked() and self.waiting >= self._max_waiting

    @contextlib.asynccontextmanager
    async def slot(self) -> AsyncGenerator[None]:
        """Room for one task at work; wait until there is some."""
        self.waiting += 1
        try:
            await self._slots.acquire()
        finally:
            self.waiting -= 1
        self.working += 1
        try:
            yield
        finally:
            self.working -= 1
            self._slots.release()
