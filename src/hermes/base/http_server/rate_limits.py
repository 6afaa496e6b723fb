"""Rate limit per caller (token bucket), and backpressure: a bound on running and on queued tasks."""

from __future__ import annotations

import asyncio
import time
from collections import Counter, OrderedDict

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
    """A bounded number of tasks run at the same time; a bounded number of further ones wait, for a slot or a turn."""

    def __init__(self, max_running: int, max_waiting: int, max_of_one: int) -> None:
        self._slots = asyncio.Semaphore(max_running)
        self._max_admitted = max_running + max_waiting
        self._max_of_one = max_of_one
        #: Messages that were accepted and are not answered yet, by caller.
        self._admitted: Counter[str] = Counter()
        #: The server is about to stop: no new tasks.
        self.is_closing = False

    def admit(self, caller: str) -> Admission | None:
        """Count one more message; None when it could neither run nor wait. Check and count are one step."""
        if self._admitted.total() >= self._max_admitted or self._admitted[caller] >= self._max_of_one:
            return None
        self._admitted[caller] += 1
        return Admission(self._admitted, caller)

    def slot(self) -> asyncio.Semaphore:
        """Room for one running task; entering it waits until there is some."""
        return self._slots


class Admission:
    """One counted message: by its request until that has ended, or by the job that took it over."""

    def __init__(self, counts: Counter[str], caller: str) -> None:
        self._counts = counts
        self._caller = caller
        self._is_taken = False
        self._is_counted = True

    def take(self) -> None:
        """From now on the message counts until ``release``, not until the end of its request."""
        self._is_taken = True

    def end_request(self) -> None:
        """The request has ended, perhaps without a task."""
        if not self._is_taken:
            self.release()

    def release(self) -> None:
        """The message counts no longer."""
        if self._is_counted:
            self._is_counted = False
            self._counts[self._caller] -= 1
            if not self._counts[self._caller]:
                del self._counts[self._caller]
