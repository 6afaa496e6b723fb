"""Metrics of the turns of a process, for Prometheus. Costs an import of ``prometheus_client`` where they are wanted."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any

#: Turns take from milliseconds to hours.
_BUCKETS = (0.1, 0.5, 1, 2, 5, 10, 30, 60, 120, 300, 600, 1_800, 3_600)


class TurnMetrics:
    """Counters and gauges of one process."""

    def __init__(self) -> None:
        from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
        from prometheus_client.process_collector import ProcessCollector

        self._registry = registry = CollectorRegistry()
        ProcessCollector(registry=registry)
        self._turns = Counter("hermes_turns", "Turns that ended here, by how.", ["state"], registry=registry)
        self._seconds = Histogram("hermes_turn_seconds", "Time of a turn.", buckets=_BUCKETS, registry=registry)
        self._waited = Histogram(
            "hermes_turn_wait_seconds",
            "Time from the acceptance of a turn to its start.",
            buckets=_BUCKETS,
            registry=registry,
        )
        self._gauges: dict[str, Any] = {}
        self._make_gauge: Callable[[str, str], Any] = lambda name, text: Gauge(name, text, registry=registry)

    def gauge(self, name: str, text: str, value: Callable[[], float]) -> None:
        """Add a value that is asked for when the metrics are read."""
        self._gauges[name] = made = self._make_gauge(name, text)
        made.set_function(value)

    def waited(self, seconds: float) -> None:
        """A turn starts that was accepted so long ago."""
        self._waited.observe(max(seconds, 0.0))

    @contextmanager
    def turn(self) -> Generator[list[str]]:
        """The time of a turn; how it ended is appended to the list."""
        states: list[str] = []
        started = time.perf_counter()
        try:
            yield states
        finally:
            self._seconds.observe(time.perf_counter() - started)
            self._turns.labels(states[-1] if states else "error").inc()

    def text(self) -> str:
        """All of them in the text format."""
        from prometheus_client import generate_latest

        return generate_latest(self._registry).decode()
