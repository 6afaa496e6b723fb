"""Circuit breaker: remembers which endpoints failed, so that the next message does not wait for them again."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence

from hermes.base.errors import FailureReason
from hermes.models.endpoint import Endpoint

#: Seconds for which the circuit of a failed endpoint stays open; each failure in a row doubles them.
FIRST_COOLDOWN = 60.0
LONGEST_COOLDOWN = 600.0

_Key = tuple[str, str, str, str]


class Health:
    """The circuit breaker of all endpoints of a process. Thread-safe."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        #: The length of each open circuit, its end, and the failure.
        self._open: dict[_Key, tuple[float, float, FailureReason]] = {}

    def failed(self, endpoint: Endpoint, reason: FailureReason) -> None:
        """Open the circuit of an endpoint that was given up, longer each time."""
        now, key = self._clock(), _key(endpoint)
        with self._lock:
            last = self._open.get(key)
            if last is not None and now < last[1]:
                return  # several turns at once saw the same failure
            seconds = FIRST_COOLDOWN if last is None else min(last[0] * 2, LONGEST_COOLDOWN)
            self._open[key] = (seconds, now + seconds, reason)

    def worked(self, endpoint: Endpoint) -> None:
        """Close the circuit of an endpoint that answered."""
        if self._open:
            with self._lock:
                self._open.pop(_key(endpoint), None)

    def failure(self, endpoint: Endpoint) -> FailureReason | None:
        """Why the last request to an endpoint failed; ``None`` when it did not."""
        found = self._open.get(_key(endpoint))
        return None if found is None else found[2]

    def order(self, endpoints: Sequence[Endpoint]) -> list[Endpoint]:
        """The endpoints in the order to try them: those with an open circuit come last."""
        if not self._open:
            return list(endpoints)
        return sorted(endpoints, key=self._is_open)

    def _is_open(self, endpoint: Endpoint) -> bool:
        found = self._open.get(_key(endpoint))
        return found is not None and self._clock() < found[1]


def _key(endpoint: Endpoint) -> _Key:
    return (endpoint.provider, endpoint.base_url, endpoint.model, endpoint.credential)
