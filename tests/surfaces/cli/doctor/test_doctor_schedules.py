"""``hermes doctor`` about schedules: whether they fire, and how their last runs ended."""

from __future__ import annotations

import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from hermes.journal.store.port import open_store
from hermes.service.schedules.scheduler import announced
from hermes.service.schedules.store import Schedules, new_schedule
from hermes.surfaces.cli.doctor.check import CheckResult, Installation, ok
from hermes.surfaces.cli.doctor.journal import check_schedules


def results(home: Path, workdir: Path) -> list[CheckResult]:
    return list(check_schedules(Installation(home, workdir, offline=True, fix=False, load=False)))


def add(home: Path, name: str, *, age: float = 0.0, **changes: Any) -> None:
    """A schedule for every hour that was made so many seconds ago."""
    with closing(open_store(home)) as store:
        schedules = Schedules(store)
        made = new_schedule(name=name, prompt="x", timing="every 1h", zone="UTC", cwd=str(home), now=time.time() - age)
        made = schedules.add(made)
        if changes:
            fields = ", ".join(f"{field} = ?" for field in changes)
            query = f"UPDATE schedules SET {fields} WHERE id = ?"
            store.write(lambda connection: connection.execute(query, (*changes.values(), made.id)))


def test_without_schedules_all_is_well(home: Path, workdir: Path) -> None:
    assert results(home, workdir) == [ok("schedules", "none")]
    add(home, "gone", state="done", next_fire=None)
    assert results(home, workdir) == [ok("schedules", "none")]


def test_active_schedules_need_a_scheduler(home: Path, workdir: Path) -> None:
    add(home, "fine")
    (found,) = results(home, workdir)
    assert (found.status, found.detail) == ("warning", "1 active schedule, and no scheduler runs now")
    assert "hermes cron daemon" in found.fix
    with announced(home):
        (found,) = results(home, workdir)
    assert (found.status, found.detail) == ("ok", "1 active schedule, and a scheduler runs")


def test_overdue_schedules_that_never_ran(home: Path, workdir: Path) -> None:
    add(home, "late", age=3 * 3_600)
    overdue, never = results(home, workdir)
    assert overdue.detail == "1 schedule overdue, by up to 2 h, and no scheduler runs"
    assert never.detail == "'late' has never run, although its first time is over"


@pytest.mark.parametrize(("state", "failures"), [("active", 3), ("active", 1), ("paused", 3)])
def test_schedules_that_fail(home: Path, workdir: Path, state: str, failures: int) -> None:
    add(home, "bad", failures=failures, state=state, reason="failed 3 times in a row; the last time: no key")
    with closing(open_store(home)) as store:
        schedule = Schedules(store).get("bad")
        query = (
            "INSERT INTO schedule_runs (schedule_id, planned, state, session_id, detail) "
            "VALUES (?, 1.0, 'failed', 's', 'no key')"
        )
        store.write(lambda connection: connection.execute(query, (schedule.id,)))
    found = results(home, workdir)[-1]
    assert found.status == "warning"
    if state == "paused":
        assert "'bad' is paused: failed 3 times in a row" in found.detail
        assert found.command == f"hermes cron resume {schedule.id}"
    else:
        times = "3 times in a row" if failures == 3 else "the last time"
        assert found.detail == f"'bad' failed {times}: no key"
        assert found.command == f"hermes cron show {schedule.id}"
