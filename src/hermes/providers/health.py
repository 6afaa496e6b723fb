"""Which endpoints failed lately, so that the next message does not wait for them again."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence

from hermes.providers.endpoint import Endpoint

#: Seconds an endpoint rests after it failed; each failure in a row doubles them.
FIRST_REST = 60.0
LONGEST_REST = 600.0

_Place = tuple[str, str, str, str]


class Health:
    """Remembers, for one process, which endpoints failed. Safe to use from many threads."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        #: How long each rests, and until when.
        self._rests: dict[_Place, tuple[float, float]] = {}

    def failed(self, endpoint: Endpoint) -> None:
        """It was given up on: it rests, longer each time."""
        now, place = self._clock(), _place(endpoint)
        with self._lock:
            last = self._rests.get(place)
            if last is not None and now < last[1]:
                return  # several turns at once saw the same failure
            seconds = FIRST_REST if last is None else min(last[0] * 2, LONGEST_REST)
            self._rests[place] = (seconds, now + seconds)

    def worked(self, endpoint: Endpoint) -> None:
        """It answered: whatever was wrong is over."""
        if self._rests:
            with self._lock:
                self._rests.pop(_place(endpoint), None)

    def has_failed(self, endpoint: Endpoint) -> bool:
        """Whether it failed the last time it was asked."""
        return _place(endpoint) in self._rests

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
