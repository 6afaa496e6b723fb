"""Rate limit per caller (token bucket), and backpressure: a bound on running and on queued tasks."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import OrderedDict
from collections.abc import AsyncGenerator

from hermes.config.sections import A2AConfig

#: Buckets kept in memory; a caller whose bucket was dropped starts with a full one.
_MAX_BUCKETS = 10_000


class RateLimiter:
    """One token bucket for each caller, refilled with time."""

    def __init__(self, per_minute: int) -> None:
        self._per_minute = per_minute
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def retry_after(self, caller: str) -> float:
        """Count a request. Returns 0 when it is allowed, else the seconds to wait."""
        if not self._per_minute:
            return 0.0
        now = time.monotonic()
        tokens, at = self._buckets.pop(caller, (float(self._per_minute), now))
        tokens = min(tokens + (now - at) * self._per_minute / 60, float(self._per_minute))
        allowed = tokens >= 1
        self._buckets[caller] = (tokens - 1 if allowed else tokens, now)
        if len(self._buckets) > _MAX_BUCKETS:
            self._buckets.popitem(last=False)
        return 0.0 if allowed else (1 - tokens) * 60 / self._per_minute


class TaskSlots:
    """A bounded number of tasks run at the same time; a bounded number of further ones wait."""

    def __init__(self, settings: A2AConfig) -> None:
        self._slots = asyncio.Semaphore(settings.max_tasks)
        self._max_waiting = settings.max_waiting
        self._waiting = 0
        #: The server is about to stop: no new tasks.
        self.is_closing = False

    @property
    def is_full(self) -> bool:
        """Whether one more task could neither run nor wait."""
        return self._slots.locked() and self._waiting >= self._max_waiting

    @contextlib.asynccontextmanager
    async def slot(self) -> AsyncGenerator[None]:
        """Room for one running task; waits until there is some."""
        self._waiting += 1
        try:
            await self._slots.acquire()
        finally:
            self._waiting -= 1
        try:
            yield
        finally:
            self._slots.release()
