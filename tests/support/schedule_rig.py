"""Schedules on a host whose scheduler lives by a clock that the test sets."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hermes.host import Host
from hermes.service.schedules.delivery import ChatAddress
from hermes.service.schedules.run import RunReport
from hermes.service.schedules.schedule import Schedule
from hermes.service.schedules.scheduler import Scheduler
from hermes.service.schedules.store import Schedules, new_schedule

#: 2026-11-16 08:00 UTC, a Monday.
MONDAY = 1_794_816_000.0


class RecordedOutbox:
    """Keeps what was put into it, once for each key."""

    def __init__(self) -> None:
        self.messages: dict[str, tuple[ChatAddress, str]] = {}

    def put(self, key: str, address: ChatAddress, text: str) -> bool:
        self.messages.setdefault(key, (address, text))
        return True


class Rig:
    """Schedules of one home, and a scheduler of it."""

    def __init__(self, host: Host) -> None:
        self.now = MONDAY
        self.host = host
        self.reports: list[RunReport] = []
        self.outbox = RecordedOutbox()
        self.schedules = Schedules(host.store, clock=lambda: self.now)
        self.scheduler = Scheduler(host, outbox=self.outbox, on_report=self.reports.append, clock=lambda: self.now)

    def add(self, timing: str, prompt: str = "report", **more: Any) -> Schedule:
        fields: dict[str, Any] = {"name": "", "zone": "UTC", "cwd": str(self.host.cwd), "now": self.now, **more}
        return self.schedules.add(new_schedule(prompt=prompt, timing=timing, **fields))

    def tick(self, later: float = 0.0) -> list[RunReport]:
        """Let the clock go on, look for due runs and wait for their ends."""
        self.now += later
        before = len(self.reports)
        self.scheduler.tick()
        self.scheduler.join()
        return self.reports[before:]

    def runs(self, schedule: Schedule) -> list[tuple[str, str]]:
        """Planned time and state of its runs, oldest first."""
        found = self.schedules.runs(schedule.id)
        return [(schedule.clock(run.planned)[:16], run.state) for run in reversed(found)]


MakeRig = Callable[..., Rig]
