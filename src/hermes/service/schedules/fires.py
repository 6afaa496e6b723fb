"""The ledger of fires: which run is due, who has claimed it, and how it ended.

A planned time of a schedule has one row, which is inserted with the claim, so that any number of schedulers may look at
the same time. A claim belongs to a runner and ends with it: the run is then continued by the next scheduler.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from msgspec import Struct
from msgspec.structs import asdict, replace

from hermes.base.config.schema.sections import CronConfig
from hermes.base.scope import new_session_id
from hermes.journal.bodies import clean_text
from hermes.journal.runner import Runner
from hermes.journal.store.connection import JournalConnection
from hermes.journal.store.port import Store
from hermes.service.schedules.schedule import RunState, Schedule, ScheduleError, ScheduleRun, session_id_of
from hermes.service.schedules.store import SELECT_RUNS, read_schedules, run_row, update_schedule
from hermes.service.schedules.timing import last_fire

#: The pause after a failure, doubled with each further one in a row, in seconds.
FIRST_BACKOFF = 120.0
LONGEST_BACKOFF = 6 * 3_600.0
#: How far the clocks of two machines may differ without one of them having gone back.
_CLOCK_SLACK = 60.0


class DueRun(Struct, frozen=True):
    """A run that this process has claimed."""

    schedule: Schedule
    run: ScheduleRun

    @property
    def title(self) -> str:
        """The title of its session."""
        return f"{self.schedule.name} · {self.schedule.clock(self.run.planned)[:16]}"


class FireLedger:
    """Claims due runs and records their ends, in one transaction each."""

    def __init__(self, store: Store, runner: Runner, settings: CronConfig, clock: Callable[[], float]) -> None:
        self._store = store
        self._runner = runner
        self._settings = settings
        self._clock = clock

    # -- looking ------------------------------------------------------------------------------------------------

    def next_fire(self) -> float | None:
        """The earliest time that is planned."""
        query = "SELECT min(next_fire) FROM schedules WHERE state = 'active'"
        return self._store.read(lambda connection: connection.execute(query).fetchone()[0])

    def has_work(self) -> bool:
        """Whether a claim would find anything, found out without a write."""
        now = self._clock()
        query = (
            "SELECT 1 FROM schedules WHERE state = 'active' AND (next_fire <= ? OR planned_at > ?) "
            "UNION ALL SELECT 1 FROM schedule_runs WHERE state = 'queued' "
            "UNION ALL SELECT 1 FROM schedule_runs WHERE state = 'running' AND (runner IS NULL OR runner <> ?) LIMIT 1"
        )
        values = (now, now + _CLOCK_SLACK, self._runner.id)
        return self._store.read(lambda connection: connection.execute(query, values).fetchone() is not None)

    def version(self) -> tuple[int, float]:
        """Changes whenever a schedule is made, changed or removed, in any process."""
        query = "SELECT count(*), coalesce(max(updated_at), 0) FROM schedules"
        count, updated = self._store.read(lambda connection: connection.execute(query).fetchone())
        return count, updated

    # -- claiming -----------------------------------------------------------------------------------------------

    def claim(self, most: int, *, only_begun: bool = False) -> list[DueRun]:
        """Claim up to ``most`` runs: those that a dead process left, those that waited, then those that are due.

        ``only_begun`` leaves out the last.
        """
        if most < 1:
            return []
        self._runner.start()
        return self._store.write(lambda connection: self._claim(connection, most, only_begun))

    def _claim(self, connection: JournalConnection, most: int, only_begun: bool) -> list[DueRun]:
        now = self._clock()
        claimed = [*self._left(connection, most)]
        claimed += self._queued(connection, most - len(claimed), now)
        if only_begun:
            return claimed
        self._replan(connection, now)
        due = read_schedules(connection, "state = 'active' AND next_fire <= ?", (now,))
        for schedule in due:
            if len(claimed) >= most:
                break
            run = self._fire(connection, schedule, now)
            if run is not None:
                claimed.append(run)
        return claimed

    def _replan(self, connection: JournalConnection, now: float) -> None:
        """The clock went back: plan anew from now on. Times that have fired already have a row and do not again."""
        for schedule in read_schedules(connection, "state = 'active' AND planned_at > ?", (now + _CLOCK_SLACK,)):
            following = schedule.fire_after(now)
            while following is not None and _find_run(connection, schedule.id, following) is not None:
                following = schedule.fire_after(following)
            update_schedule(connection, replace(schedule, next_fire=following, planned_at=now))

    def _left(self, connection: JournalConnection, most: int) -> list[DueRun]:
        """Runs of processes that are gone."""
        query = f"{SELECT_RUNS} WHERE state = 'running' AND (runner IS NULL OR runner <> ?) ORDER BY planned"
        found: list[DueRun] = []
        for run in [run_row(row) for row in connection.execute(query, (self._runner.id,)).fetchall()]:
            if len(found) < most and (run.runner is None or not self._runner.is_alive(run.runner)):
                # A process that stops in an orderly way leaves no runner behind.
                crashes = run.crashes if run.runner is None else run.crashes + 1
                run = replace(run, runner=self._runner.id, crashes=crashes)
                _update_run(connection, run)
                found.append(DueRun(_schedule_of(connection, run), run))
        return found

    def _queued(self, connection: JournalConnection, most: int, now: float) -> list[DueRun]:
        """Runs that waited for the one before them, which has ended."""
        query = f"{SELECT_RUNS} WHERE state = 'queued' ORDER BY planned"
        found: list[DueRun] = []
        for run in [run_row(row) for row in connection.execute(query).fetchall()]:
            schedule = _schedule_of(connection, run)
            if schedule.state == "paused":
                _update_run(connection, replace(run, state="skipped", ended_at=now, detail="the schedule is paused"))
            elif len(found) < most and not _has_run(connection, run.schedule_id, "running"):
                run = replace(run, state="running", runner=self._runner.id, started_at=now)
                _update_run(connection, run)
                found.append(DueRun(schedule, run))
        return found

    def _fire(self, connection: JournalConnection, schedule: Schedule, now: float) -> DueRun | None:
        """Use up every time of the schedule until now: the last of them is the one that may run."""
        first = schedule.next_fire
        assert first is not None
        planned = last_fire(schedule.times, schedule.zone, schedule.anchor, first, now)
        run = None
        if _find_run(connection, schedule.id, planned) is None:
            run = self._decide(connection, schedule, first, planned, now)
            _insert_run(connection, run)
            if run.state != "skipped" and schedule.remaining is not None:
                schedule = replace(schedule, remaining=schedule.remaining - 1)
        schedule = _after_fire(schedule, run, max(now, planned), now)
        update_schedule(connection, schedule)
        return DueRun(schedule, run) if run is not None and run.state == "running" else None

    def _decide(
        self, connection: JournalConnection, schedule: Schedule, first: float, planned: float, now: float
    ) -> ScheduleRun:
        """The row of a fire: it runs, waits for the run before it, or is skipped, and why."""
        settings = self._settings
        since = f"; times since {schedule.clock(first)} were missed" if planned > first else ""

        def row(state: Literal["queued", "running", "skipped"], detail: str) -> ScheduleRun:
            is_running = state == "running"
            return ScheduleRun(
                schedule_id=schedule.id,
                planned=planned,
                state=state,
                runner=self._runner.id if is_running else None,
                session_id=session_id_of(schedule.id, planned),
                started_at=now if is_running else None,
                ended_at=now if state == "skipped" else None,
                detail=detail.removeprefix("; "),
            )

        if now - planned > settings.grace and (schedule.missed or settings.missed) == "skip":
            return row("skipped", f"missed by {now - planned:.0f} s{since}")
        if not _has_run(connection, schedule.id, "running"):
            return row("running", since)
        if (schedule.overlap or settings.overlap) == "queue" and not _has_run(connection, schedule.id, "queued"):
            return row("queued", f"waits for the run before it{since}")
        return row("skipped", f"the run before it had not ended{since}")

    def start_now(self, schedule: Schedule) -> DueRun:
        """Claim a run outside of the planned times. Refused while one lasts."""
        self._runner.start()
        now, session_id = round(self._clock(), 3), new_session_id()

        def write(connection: JournalConnection) -> DueRun:
            if not read_schedules(connection, "id = ?", (schedule.id,)):
                raise ScheduleError(f"{schedule.name!r} has just been removed")
            if _has_run(connection, schedule.id, "running"):
                raise ScheduleError(f"{schedule.name!r} is running at this moment; wait for it to end")
            run = ScheduleRun(
                schedule_id=schedule.id,
                planned=now,
                state="running",
                is_manual=True,
                runner=self._runner.id,
                session_id=session_id,
                started_at=now,
            )
            _insert_run(connection, run)
            return DueRun(schedule, run)

        return self._store.write(write)

    # -- ending -------------------------------------------------------------------------------------------------

    def release(self, run: ScheduleRun) -> None:
        """Leave a run to the next scheduler, which continues it."""
        query = "UPDATE schedule_runs SET runner = NULL WHERE schedule_id = ? AND planned = ? AND runner = ?"
        values = (run.schedule_id, run.planned, self._runner.id)
        self._store.write(lambda connection: connection.execute(query, values))

    def finish(self, due: DueRun, *, error: str = "", delivery: str = "", is_by_hand: bool = False) -> Schedule:
        """Record the end of a run: without ``error`` it is completed. Too many failures in a row pause the schedule.

        ``is_by_hand``: it was interrupted by hand, which does not count as a failure.
        """
        now = self._clock()
        run = replace(
            due.run,
            state="failed" if error else "completed",
            ended_at=now,
            detail=clean_text(error) or due.run.detail,
            delivery=clean_text(delivery),
        )

        def write(connection: JournalConnection) -> Schedule:
            found = read_schedules(connection, "id = ?", (run.schedule_id,))
            if not found:
                return due.schedule  # it was removed meanwhile
            _update_run(connection, run)
            self._forget_old_runs(connection, run.schedule_id)
            schedule = found[0] if is_by_hand else self._after_end(found[0], error, now)
            update_schedule(connection, schedule)
            return schedule

        return self._store.write(write)

    def _after_end(self, schedule: Schedule, error: str, now: float) -> Schedule:
        if not error:
            return replace(schedule, failures=0)
        schedule = replace(schedule, failures=schedule.failures + 1)
        if schedule.state != "active":
            return schedule
        if schedule.failures >= self._settings.max_failures:
            times = "once" if schedule.failures == 1 else f"{schedule.failures} times in a row"
            reason = f"failed {times}; the last time: {error}"
            return replace(schedule, state="paused", reason=clean_text(reason), next_fire=None, updated_at=now)
        pause = min(FIRST_BACKOFF * 2 ** (schedule.failures - 1), LONGEST_BACKOFF)
        if schedule.next_fire is not None and schedule.next_fire < now + pause:
            schedule = replace(schedule, next_fire=schedule.fire_after(now + pause - 1) or schedule.next_fire)
        return schedule

    def _forget_old_runs(self, connection: JournalConnection, schedule_id: str) -> None:
        connection.execute(
            "DELETE FROM schedule_runs WHERE schedule_id = ? AND state IN ('completed', 'failed', 'skipped') "
            "AND planned < (SELECT min(planned) FROM (SELECT planned FROM schedule_runs WHERE schedule_id = ? "
            "ORDER BY planned DESC LIMIT ?) AS kept)",
            (schedule_id, schedule_id, self._settings.keep_runs),
        )


def _after_fire(schedule: Schedule, run: ScheduleRun | None, after: float, now: float) -> Schedule:
    """The schedule with its next time; done when it has none, or no run is left."""
    following = None if schedule.remaining == 0 else schedule.fire_after(after)
    if following is not None:
        return replace(schedule, next_fire=following, planned_at=now)
    was_skipped = run is not None and run.state == "skipped"
    reason = run.detail if was_skipped and run is not None else "all its runs have started"
    return replace(schedule, state="done", reason=reason, next_fire=None, planned_at=now, updated_at=now)


def _find_run(connection: JournalConnection, schedule_id: str, planned: float) -> ScheduleRun | None:
    query = f"{SELECT_RUNS} WHERE schedule_id = ? AND planned = ?"
    row = connection.execute(query, (schedule_id, planned)).fetchone()
    return None if row is None else run_row(row)


def _has_run(connection: JournalConnection, schedule_id: str, state: RunState) -> bool:
    query = "SELECT 1 FROM schedule_runs WHERE schedule_id = ? AND state = ? LIMIT 1"
    return connection.execute(query, (schedule_id, state)).fetchone() is not None


def _schedule_of(connection: JournalConnection, run: ScheduleRun) -> Schedule:
    return read_schedules(connection, "id = ?", (run.schedule_id,))[0]


def _insert_run(connection: JournalConnection, run: ScheduleRun) -> None:
    fields = {**asdict(run), "is_manual": int(run.is_manual)}
    marks = ", ".join("?" for _ in fields)
    connection.execute(f"INSERT INTO schedule_runs ({', '.join(fields)}) VALUES ({marks})", tuple(fields.values()))


def _update_run(connection: JournalConnection, run: ScheduleRun) -> None:
    connection.execute(
        "UPDATE schedule_runs SET state = ?, runner = ?, started_at = ?, ended_at = ?, detail = ?, delivery = ?, "
        "crashes = ? WHERE schedule_id = ? AND planned = ?",
        (
            run.state,
            run.runner,
            run.started_at,
            run.ended_at,
            run.detail,
            run.delivery,
            run.crashes,
            run.schedule_id,
            run.planned,
        ),
    )
