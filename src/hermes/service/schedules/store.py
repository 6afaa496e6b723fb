"""Schedules in the journal: made, listed, changed, paused and removed."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from typing import Any

from msgspec.structs import asdict, replace

from hermes.base.errors import did_you_mean
from hermes.journal.bodies import clean_text
from hermes.journal.store.connection import JournalConnection
from hermes.journal.store.port import Store
from hermes.service.schedules.schedule import Schedule, ScheduleError, ScheduleRun, check_text
from hermes.service.schedules.timing import parse_timing, zone_of

_COLUMNS = Schedule.__struct_fields__
_SELECT = f"SELECT {', '.join(_COLUMNS)} FROM schedules"
_RUN_COLUMNS = ScheduleRun.__struct_fields__
SELECT_RUNS = f"SELECT {', '.join(_RUN_COLUMNS)} FROM schedule_runs"


class Schedules:
    """The schedules of a home.

    ``principal`` limits a method to the schedules of one principal; None, as for the owner on the command line, means
    all of them.
    """

    def __init__(self, store: Store, *, clock: Callable[[], float] = time.time) -> None:
        self.store = store
        self._clock = clock

    # -- reading ------------------------------------------------------------------------------------------------

    def list(self, principal: str | None = None, *, include_done: bool = True) -> list[Schedule]:
        """The schedules, those that fire next first."""
        conditions = ["1 = 1", *(["principal = ?"] if principal is not None else [])]
        conditions += [] if include_done else ["state <> 'done'"]
        query = f"{_SELECT} WHERE {' AND '.join(conditions)} ORDER BY next_fire IS NULL, next_fire, created_at, id"
        values = () if principal is None else (principal,)
        return self.store.read(lambda connection: [_schedule(row) for row in connection.execute(query, values)])

    def get(self, reference: str, principal: str | None = None) -> Schedule:
        """The schedule with that id, a unique beginning of it, or that name."""
        reference = reference.strip()
        known = self.list(principal)
        for matches in (
            [one for one in known if one.id == reference],
            [one for one in known if one.name == reference],
            [one for one in known if reference and one.id.startswith(reference)],
        ):
            if len(matches) == 1:
                return matches[0]
            if matches:
                names = ", ".join(one.id for one in matches[:4])
                raise ScheduleError(f"{reference!r} fits several schedules ({names}); give the id")
        listed = ", ".join(f"{one.id} ({one.name})" for one in known[:5])
        hint = did_you_mean(reference, [one.name for one in known], otherwise=f"there are: {listed}" if known else None)
        raise ScheduleError(f"there is no schedule {reference!r}{hint}")

    def runs(self, schedule_id: str | None = None, *, limit: int = 20) -> list[ScheduleRun]:
        """The latest runs, newest first: those of one schedule, or of all."""
        condition, values = ("", ()) if schedule_id is None else ("WHERE schedule_id = ?", (schedule_id,))
        query = f"{SELECT_RUNS} {condition} ORDER BY planned DESC, schedule_id LIMIT ?"
        return self.store.read(lambda connection: [run_row(row) for row in connection.execute(query, (*values, limit))])

    # -- changing -----------------------------------------------------------------------------------------------

    def add(self, schedule: Schedule, *, most: int | None = None) -> Schedule:
        """Store a new schedule; ``most`` is how many its principal may have of that source."""
        name, prompt = check_text(schedule.name, schedule.prompt)
        schedule = replace(schedule, name=clean_text(name), prompt=clean_text(prompt))

        def write(connection: JournalConnection) -> None:
            count: int = connection.execute(
                "SELECT count(*) FROM schedules WHERE principal = ? AND source = ? AND state <> 'done'",
                (schedule.principal, schedule.source),
            ).fetchone()[0]
            if most is not None and count >= most:
                raise ScheduleError(
                    f"there are {count} schedules already, and at most {most} are allowed (cron.max_schedules); "
                    f"remove one first"
                )
            fields = asdict(schedule)
            marks = ", ".join("?" for _ in fields)
            connection.execute(f"INSERT INTO schedules ({', '.join(fields)}) VALUES ({marks})", tuple(fields.values()))

        self.store.write(write)
        return schedule

    def edit(
        self, schedule: Schedule, check: Callable[[Schedule], None] = lambda _changed: None, **changes: Any
    ) -> Schedule:
        """Change fields of a schedule. A new timing or zone plans it anew, also when it was over.

        ``check`` raises ``ScheduleError`` when the result is not allowed.
        """
        now = self._clock()

        def change(current: Schedule) -> Schedule:
            changed = replace(current, **changes, updated_at=now)
            name, prompt = check_text(changed.name, changed.prompt)
            changed = replace(changed, name=clean_text(name), prompt=clean_text(prompt))
            check(changed)
            if changed.state == "paused" or not changes.keys() & {"timing", "zone", "remaining"}:
                return changed
            return _planned(changed, now)

        return self._change(schedule, change)

    def pause(self, schedule: Schedule, reason: str = "") -> Schedule:
        """Fire it no more until it is resumed. A run that has started continues."""
        now, reason = self._clock(), clean_text(reason) or "paused by hand"

        def change(current: Schedule) -> Schedule:
            return replace(current, state="paused", reason=reason, next_fire=None, updated_at=now)

        return self._change(schedule, change)

    def resume(self, schedule: Schedule) -> Schedule:
        """Fire it again, from the next of its times on."""
        now = self._clock()
        return self._change(schedule, lambda current: replace(_planned(current, now), failures=0, updated_at=now))

    def fire_soon(self, schedule: Schedule) -> Schedule:
        """Let the next look of a scheduler run it. One that is over fires once more."""
        now = self._clock()

        def change(current: Schedule) -> Schedule:
            if current.state == "paused":
                raise ScheduleError(f"{current.name!r} is paused ({current.reason}); resume it first")
            return replace(current, state="active", next_fire=now, planned_at=now, updated_at=now)

        return self._change(schedule, change)

    def remove(self, schedule: Schedule) -> None:
        """Delete it with the list of its runs. Their sessions stay."""
        self.store.write(lambda connection: connection.execute("DELETE FROM schedules WHERE id = ?", (schedule.id,)))

    def _change(self, schedule: Schedule, change: Callable[[Schedule], Schedule]) -> Schedule:
        """Change a schedule as it is now: a scheduler may have written to it since it was read."""

        def write(connection: JournalConnection) -> Schedule:
            found = read_schedules(connection, "id = ?", (schedule.id,))
            if not found:
                raise ScheduleError(f"the schedule {schedule.name!r} was removed meanwhile")
            changed = change(found[0])
            update_schedule(connection, changed)
            return changed

        return self.store.write(write)


def new_schedule(*, name: str, prompt: str, timing: str, zone: str, cwd: str, now: float, **more: Any) -> Schedule:
    """A schedule as a user or a model describes it. Raises ``TimingError`` or ``ScheduleError``."""
    zone_of(zone)
    read = parse_timing(timing, zone, now)
    name, prompt = check_text(name, prompt)
    schedule = Schedule(
        id=os.urandom(3).hex(),
        name=name,
        prompt=prompt,
        timing=read.text,
        zone=zone,
        anchor=float(int(now)),
        cwd=cwd,
        planned_at=now,
        created_at=now,
        updated_at=now,
        **more,
    )
    return replace(schedule, next_fire=schedule.fire_after(now))


def _planned(schedule: Schedule, now: float) -> Schedule:
    """The schedule with its next fire time. Raises ``ScheduleError`` when it has none."""
    following = schedule.fire_after(now)
    if following is None or schedule.remaining == 0:
        raise ScheduleError(
            f"{schedule.name!r} is over: {schedule.timing} has no later time, or no run is left; "
            f"change it with 'hermes cron edit {schedule.id} --when TIMING' or --times"
        )
    return replace(schedule, state="active", reason="", next_fire=following, planned_at=now)


def update_schedule(connection: JournalConnection, schedule: Schedule) -> None:
    """Write every field of a schedule that is stored already."""
    names = [name for name in _COLUMNS if name != "id"]
    values = [getattr(schedule, name) for name in names]
    assignments = ", ".join(f"{name} = ?" for name in names)
    connection.execute(f"UPDATE schedules SET {assignments} WHERE id = ?", (*values, schedule.id))


def read_schedules(connection: JournalConnection, condition: str, values: Sequence[Any]) -> list[Schedule]:
    """The schedules that fulfil an SQL condition, by the time they fire at."""
    query = f"{_SELECT} WHERE {condition} ORDER BY next_fire, id"
    return [_schedule(row) for row in connection.execute(query, tuple(values)).fetchall()]


def _schedule(row: Sequence[Any]) -> Schedule:
    return Schedule(**dict(zip(_COLUMNS, row, strict=True)))


def run_row(row: Sequence[Any]) -> ScheduleRun:
    """A run as a row of its table."""
    fields: dict[str, Any] = dict(zip(_RUN_COLUMNS, row, strict=True))
    fields["is_manual"] = bool(fields["is_manual"])
    return ScheduleRun(**fields)
