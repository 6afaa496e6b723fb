"""Circuit breaker of a callback: switches it off for a while after repeated failures."""

from __future__ import annotations

from time import monotonic


class CircuitBreaker:
    """Stops calling a callback that keeps failing or is always late; every late call leaves a thread behind.

    Consecutive failures open it for a while; then one call is tried, which closes it or opens it again for twice as
    long.
    """

    __slots__ = ("_open_seconds", "_open_until", "failures", "late")

    _LATE_TO_OPEN = 3
    _FAILURES_TO_OPEN = 10
    _OPEN_SECONDS = 60.0
    _MOST_OPEN_SECONDS = 3600.0

    def __init__(self) -> None:
        #: Failures in a row, and how many of them were late calls.
        self.failures = 0
        self.late = 0
        self._open_seconds = 0.0
        self._open_until = 0.0

    @property
    def is_open(self) -> bool:
        return self._open_seconds > 0 and monotonic() < self._open_until

    @property
    def is_late(self) -> bool:
        """Whether late calls opened it."""
        return self.late >= self._LATE_TO_OPEN

    def record_failure(self, *, late: bool) -> float:
        """Count a failure; for how many seconds the callback is switched off from now on, 0 when it is not."""
        self.failures += 1
        self.late += late
        if self.failures < self._FAILURES_TO_OPEN and self.late < self._LATE_TO_OPEN:
            return 0.0
        self._open_seconds = min(self._open_seconds * 2 or self._OPEN_SECONDS, self._MOST_OPEN_SECONDS)
        self._open_until = monotonic() + self._open_seconds
        return self._open_seconds

    def record_success(self) -> None:
        self.failures = self.late = 0
        self._open_seconds = 0.0
