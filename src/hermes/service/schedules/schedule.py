"""A schedule, its runs, and the rules for what may be written into one."""

from __future__ import annotations

import os
import re
import time
from typing import Literal

from msgspec import Struct

from hermes.base.errors import HermesError
from hermes.contract.commands import COMMAND_NAMES
from hermes.service.schedules.timing import Timing, moment_text, next_fire, read_timing

ScheduleState = Literal["active", "paused", "done"]
RunState = Literal["queued", "running", "completed", "failed", "skipped"]
Missed = Literal["", "once", "skip"]
Overlap = Literal["", "skip", "queue"]

LONGEST_NAME = 80
LONGEST_PROMPT = 20_000


class ScheduleError(HermesError):
    """A schedule that cannot be made, changed or found."""


class Schedule(Struct, frozen=True, kw_only=True):
    """A message that is sent to the agent at set times. Fields are the columns of its row."""

    id: str
    #: Who it belongs to; empty is the owner.
    principal: str = ""
    #: The surface that made it: ``cli``, ``tool`` or ``plugin``.
    source: str = "cli"
    name: str
    prompt: str
    timing: str
    zone: str
    #: Intervals count from here.
    anchor: float
    #: Where the answer goes: empty, ``file:PATH`` or ``PLATFORM:CHAT``.
    deliver: str = ""
    cwd: str
    provider: str = ""
    model: str = ""
    missed: Missed = ""
    overlap: Overlap = ""
    remaining: int | None = None
    state: ScheduleState = "active"
    reason: str = ""
    next_fire: float | None = None
    planned_at: float = 0.0
    failures: int = 0
    created_at: float = 0.0
    updated_at: float = 0.0

    @property
    def times(self) -> Timing:
        """The timing."""
        return read_timing(self.timing)

    def fire_after(self, moment: float) -> float | None:
        """The first fire time after that moment."""
        return next_fire(self.times, self.zone, self.anchor, moment)

    def clock(self, moment: float) -> str:
        """A moment on the clock of its time zone."""
        return moment_text(moment, self.zone)


class ScheduleRun(Struct, frozen=True, kw_only=True):
    """One fire of a schedule: what was planned for a time and what became of it. Fields are the columns of its row."""

    schedule_id: str
    planned: float
    state: RunState
    is_manual: bool = False
    runner: str | None = None
    session_id: str
    started_at: float | None = None
    ended_at: float | None = None
    detail: str = ""
    delivery: str = ""
    #: How many processes died while they ran it.
    crashes: int = 0

    @property
    def request_key(self) -> str:
        """The idempotency key of its turn."""
        return f"cron:{self.schedule_id}:{self.planned:.3f}"


def session_id_of(schedule_id: str, planned: float) -> str:
    """The session of a planned run. Derived from what is planned, so that every process means the same one."""
    return f"{time.strftime('%Y%m%d_%H%M%S', time.gmtime(planned))}_{schedule_id}"


def check_text(name: str, prompt: str) -> tuple[str, str]:
    """The name and the prompt, trimmed. Raises ``ScheduleError`` when one cannot be used."""
    prompt = prompt.strip()
    if not prompt:
        raise ScheduleError("the prompt is empty; say what the agent is to do each time")
    command = re.match(r"/([a-zA-Z][\w:-]*)(?=\s|$)", prompt)
    if command and (command[1].lower() in COMMAND_NAMES or not os.path.lexists(f"/{command[1]}")):
        raise ScheduleError(
            f"the prompt begins with the slash command {command[0]}, and no command is run in a scheduled session; "
            "say in words what the agent is to do"
        )
    if len(prompt) > LONGEST_PROMPT:
        raise ScheduleError(f"the prompt has {len(prompt):,} characters; at most {LONGEST_PROMPT:,} are allowed")
    name = " ".join((name or prompt).split())
    return (name if len(name) <= LONGEST_NAME else f"{name[: LONGEST_NAME - 1]}…"), prompt


def check_interval(schedule: Schedule, least: float, now: float) -> None:
    """Refuse a schedule that fires more often than every ``least`` seconds, as far as its next fires show."""
    before = schedule.fire_after(now)
    for _ in range(5):
        following = None if before is None else schedule.fire_after(before)
        if before is None or following is None:
            return
        if following - before < least:
            raise ScheduleError(
                f"{schedule.timing!r} fires after {following - before:g} s; here at least {least:g} s must lie "
                f"between two runs (cron.min_interval)"
            )
        before = following
