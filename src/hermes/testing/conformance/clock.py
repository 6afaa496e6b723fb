"""Load-adjusted clock: time without the moments in which this process was ready to run and had no CPU.

Limits in seconds are about the plugin, not about the machine. On a machine with too much to do, work that needs one
second of a CPU takes ten on the wall clock. The kernel counts how long each thread waited for a CPU (Linux, in
``/proc/<pid>/task/<tid>/schedstat``); that wait is subtracted. Elsewhere this is a plain monotonic clock.
"""

from __future__ import annotations

import threading
from pathlib import Path
from time import monotonic


def cpu_waits(pid: int | str = "self") -> dict[str, float]:
    """Seconds that each thread of a process has waited for a CPU so far; empty where the kernel does not count."""
    waits: dict[str, float] = {}
    try:
        for task in Path("/proc", str(pid), "task").iterdir():
            waits[task.name] = int((task / "schedstat").read_text().split()[1]) / 1e9
    except (OSError, ValueError, IndexError):
        pass  # a thread that ended meanwhile, or no such counter
    return waits


class Stopwatch:
    """Load-adjusted seconds since it was made, for this process or for another one."""

    def __init__(self, pid: int | str = "self") -> None:
        self._pid = pid
        self.restart()

    def restart(self) -> None:
        self._waits = cpu_waits(self._pid)
        self._started = monotonic()

    @property
    def wall_seconds(self) -> float:
        return monotonic() - self._started

    @property
    def seconds(self) -> float:
        # The thread that waited most, not their sum: threads wait at the same time, and together longer than the clock
        # runs. Thread by thread: one that has ended takes its count along, which must not make time jump.
        waits = [wait - self._waits.get(thread, 0.0) for thread, wait in cpu_waits(self._pid).items()]
        return max(self.wall_seconds - max(waits, default=0.0), 0.0)

    def reached(self, limit: float) -> bool:
        """Whether this much load-adjusted time has passed. Adjusted time is never more than wall time."""
        return self.wall_seconds >= limit and self.seconds >= limit

    def wait(self, done: threading.Event, limit: float) -> bool:
        """Wait for an event until the limit is reached; whether it happened."""
        while not done.wait(max(limit - self.seconds, 0.001)):
            if self.reached(limit):
                return done.is_set()
        return True

    def join(self, thread: threading.Thread, limit: float) -> bool:
        """Wait for the end of a thread until the limit is reached; whether it ended."""
        while thread.is_alive() and not self.reached(limit):
            thread.join(max(limit - self.seconds, 0.001))
        return not thread.is_alive()
