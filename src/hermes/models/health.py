"""Which endpoints failed lately, so that the next message does not wait for them again."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence

from hermes.errors import FailureReason
from hermes.models.endpoint import Endpoint

#: Seconds an endpoint rests after it failed; each failure in a row doubles them.
FIRST_REST = 60.0
LONGEST_REST = 600.0

_Place = tuple[str, str, str, str]


class Health:
    """Remembers, for one process, which endpoints failed. Safe to use from many threads."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        #: How long each rests, until when, and why.
        self._rests: dict[_Place, tuple[float, float, FailureReason]] = {}

    def failed(self, endpoint: Endpoint, reason: FailureReason) -> None:
        """It was given up on: it rests, longer each time."""
        now, place = self._clock(), _place(endpoint)
        with self._lock:
            last = self._rests.get(place)
            if last is not None and now < last[1]:
                return  # several turns at once saw the same failure
            seconds = FIRST_REST if last is None else min(last[0] * 2, LONGEST_REST)
            self._rests[place] = (seconds, now + seconds, reason)

    def worked(self, endpoint: Endpoint) -> None:
        """It answered: whatever was wrong is over."""
        if self._rests:
            with self._lock:
                self._rests.pop(_place(endpoint), None)

    def failure(self, endpoint: Endpoint) -> FailureReason | None:
        """Why it failed the last time it was asked; ``None`` when it did not."""
        rest = self._rests.get(_place(endpoint))
        return None if rest is None else rest[2]

    def order(self, endpoints: Sequence[Endpoint]) -> list[Endpoint]:
        """The endpoints in the order to try them: those that rest come last, when nothing else is left."""
        if not self._rests:
            return list(endpoints)
        return sorted(endpoints, key=self._is_resting)

    def _is_resting(self, endpoint: Endpoint) -> bool:
        rest = self._rests.get(_place(endpoint))
        return rest is not None and self._clock() < rest[1]


def _place(endpoint: Endpoint) -> _Place:
    return (endpoint.provider, endpoint.base_url, endpoint.model, endpoint.credential)
