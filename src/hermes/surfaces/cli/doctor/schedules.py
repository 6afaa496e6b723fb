"""Checks of schedules: those that fail, were paused, or never fire because no scheduler runs."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing

from hermes.service.schedules.schedule import Schedule, ScheduleRun
from hermes.service.schedules.scheduler import is_running
from hermes.service.schedules.store import Schedules
from hermes.surfaces.cli.doctor.check import CheckResult, ok, warning
from hermes.surfaces.cli.doctor.installation import Installation
from hermes.surfaces.commands.text import duration, plural

_MOST_LISTED = 5


def check_schedules(installation: Installation) -> Iterator[CheckResult]:
    """Whether schedules fire, and how their last runs ended."""
    found: list[Schedule] = []
    last: dict[str, ScheduleRun | None] = {}
    if installation.has_current_journal():
        with closing(installation.store()) as store:
            schedules = Schedules(store)
            found = schedules.list(include_done=False)
            last = {one.id: next(iter(schedules.runs(one.id, limit=1)), None) for one in found}
    if not found:
        yield ok("schedules", "none")
        return
    settings, has_scheduler = installation.settings().cron, is_running(installation.home)
    active = [one for one in found if one.state == "active"]
    if has_scheduler:
        yield ok("schedules", f"{plural(len(active), 'active schedule')}, and a scheduler runs")
    elif active:
        yield from _without_scheduler(active, settings.grace)
    problems = [result for one in found for result in _problems(one, last[one.id])]
    yield from problems[:_MOST_LISTED]
    if len(problems) > _MOST_LISTED:
        yield warning("schedule", f"{len(problems) - _MOST_LISTED} more with problems", command="hermes cron list")


def _without_scheduler(active: list[Schedule], grace: float) -> Iterator[CheckResult]:
    """A timer that runs ``hermes cron tick`` leaves no process to be seen, but nothing is overdue then."""
    now = time.time()
    late = [now - one.next_fire for one in active if one.next_fire is not None and now - one.next_fire > grace]
    fix = "start 'hermes gateway run' or 'hermes cron daemon', or let a timer run 'hermes cron tick'"
    if late:
        detail = f"{plural(len(late), 'schedule')} overdue, by up to {duration(max(late))}, and no scheduler runs"
        yield warning("schedules", detail, fix)
    else:
        yield warning("schedules", f"{plural(len(active), 'active schedule')}, and no scheduler runs now", fix)


def _problems(schedule: Schedule, last: ScheduleRun | None) -> Iterator[CheckResult]:
    show = f"hermes cron show {schedule.id}"
    if schedule.state == "paused" and schedule.failures:
        detail = f"{schedule.name!r} is paused: {schedule.reason}"
        yield warning("schedule", detail, command=f"hermes cron resume {schedule.id}")
    elif schedule.failures and last is not None:
        times = "the last time" if schedule.failures == 1 else f"{schedule.failures} times in a row"
        yield warning("schedule", f"{schedule.name!r} failed {times}: {last.detail}", command=show)
    elif last is None and schedule.state == "active" and _fired_before_now(schedule):
        yield warning("schedule", f"{schedule.name!r} has never run, although its first time is over", command=show)


def _fired_before_now(schedule: Schedule) -> bool:
    first = schedule.fire_after(schedule.created_at)
    return first is not None and first < time.time()
