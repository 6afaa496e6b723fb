"""Checks of the journal: its file, checkpoints, runners and workers, sessions, schedules and search index."""

from __future__ import annotations

import fcntl
import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from hermes.base.errors import HermesError
from hermes.journal.history.inspection import inspect_session
from hermes.journal.questions import count_unanswered
from hermes.journal.runner import FileRunner, Runner, count_runners
from hermes.journal.sessions import SessionRow, Sessions
from hermes.journal.store import schema
from hermes.journal.store.port import Store
from hermes.journal.store.sqlite.database import companion, explain
from hermes.journal.store.sqlite.search import SqliteSearchIndex, messages_after
from hermes.journal.turns.recovery import dead_letters
from hermes.service.schedules.schedule import Schedule, ScheduleRun
from hermes.service.schedules.scheduler import is_running
from hermes.service.schedules.store import Schedules
from hermes.surfaces.cli.doctor.check import CheckResult, Installation, broken, ok, size, warning
from hermes.surfaces.commands.text import duration, plural
from hermes.trace.verify.session import verify

_LONG_LOG = 64_000_000
#: How many sessions are checked, and how many results of a kind are listed one by one.
_LAST_SESSIONS = 20
_MOST_LISTED = 5


def check_file(installation: Installation) -> Iterator[CheckResult]:
    """The database: readable, undamaged, with a known schema."""
    version = installation.journal_version()
    if version is None:
        yield ok("journal", "nothing recorded yet")
        return
    newest = len(schema.MIGRATIONS)
    if installation.has_shared_journal:
        with closing(installation.store()) as store:
            yield ok("journal", f"{store.location}, schema {version}")
        return
    try:
        with closing(sqlite3.connect(f"{installation.database.absolute().as_uri()}?mode=ro", uri=True)) as connection:
            verdict = str(connection.execute("PRAGMA quick_check(1)").fetchone()[0])
    except sqlite3.Error as error:
        raise explain(error, installation.database) from error
    if verdict != "ok":
        advice = (
            f"move it aside, or recover it with 'sqlite3 {installation.database.name} .recover'; nothing was changed"
        )
        yield broken("journal", f"{installation.database} is damaged: {verdict}", advice)
        return
    schema_note = f"schema {version}" + (f"; the next run migrates it to {newest}" if version < newest else "")
    yield ok("journal", f"{installation.database}, {size(installation.database.stat().st_size)}, {schema_note}")
    log = companion(installation.database, "-wal")
    if log.exists() and log.stat().st_size > _LONG_LOG:
        detail = f"its write-ahead log has grown to {size(log.stat().st_size)}"
        yield warning("journal", detail, "stop the running hermes processes; the last one checkpoints it")


def check_checkpoints(installation: Installation) -> Iterator[CheckResult]:
    """The store of checkpoints: how much it holds, and whether it can be read."""
    from hermes.tools.files.checkpoints.store import CheckpointError, CheckpointStore

    if not installation.settings().checkpoints.enabled:
        yield ok("checkpoints", "off (checkpoints.enabled)")
        return
    store = CheckpointStore(installation.home)
    if not store.exists():
        yield ok("checkpoints", "none yet; one is made before the first change of a turn")
        return
    try:
        yield ok("checkpoints", f"{len(store.list()):,} with {size(store.stored_bytes())} in {store.path}")
    except CheckpointError as error:
        yield warning("checkpoints", str(error), f"move {store.path} aside; a new one is made")
    finally:
        store.close()


def check_runners(installation: Installation) -> Iterator[CheckResult]:
    """The runner files of processes. Those of dead processes are harmless leftovers."""
    if installation.has_shared_journal:
        with closing(installation.store()) as store:
            count = store.read(count_runners)
        yield ok("runners", f"{count} on all machines")
        return
    folder = installation.home / "runners"
    files = sorted(folder.iterdir()) if folder.is_dir() else []
    dead = [file for file in files if not _is_locked(file)]
    alive = len(files) - len(dead)
    if alive:
        yield ok("runners", f"{alive} running")
    if dead and installation.fix:
        for file in dead:
            FileRunner(folder).is_alive(file.name)  # removes the file, under its lock
        yield ok("runners", f"{plural(len(dead), 'file')} of dead processes removed", fixed=True)
    elif dead:
        detail = f"{plural(len(dead), 'file')} of dead processes in {folder}"
        yield warning("runners", detail, command="hermes doctor --fix", fixable=True)


def check_workers(installation: Installation) -> Iterator[CheckResult]:
    """Whether submitted turns are run by workers, where the journal is shared."""
    from hermes.surfaces.cli.serve.cluster.serve import check_commands

    settings = installation.settings()
    try:
        check_commands(settings)
    except HermesError as error:
        yield broken("serve", str(error), "change serve.commands")
    if not installation.has_shared_journal:
        return
    from hermes.journal.store.postgres.workers import SILENT_SECONDS, count_waiting, list_workers, takes_turns
    from hermes.service.dispatch.choose import no_worker_text, runs_on_workers

    found = installation.from_journal(lambda store: (store.read(list_workers), store.read(count_waiting)), None)
    if found is None:
        return
    workers, waiting = found
    silent = [worker for worker in workers if worker.silent > SILENT_SECONDS]
    for worker in silent:
        detail = f"worker {worker.id} on {worker.host} gave its last sign of life {worker.silent:.0f} s ago"
        yield warning("workers", detail, command=f"hermes workers evict {worker.id}")
    workspace = settings.worker.workspace
    has_worker = any(takes_turns(worker, workspace) for worker in workers)
    if waiting and not has_worker:
        yield broken("workers", f"{plural(waiting, 'turn')} wait and no worker runs", command="hermes worker")
    elif not has_worker and runs_on_workers(settings):
        yield warning("workers", no_worker_text(workspace), command="hermes worker")
    elif not silent:
        yield ok("workers", f"{plural(len(workers), 'worker')}, {plural(waiting, 'waiting turn')}")


def check_unfinished(installation: Installation) -> Iterator[CheckResult]:
    """Sessions whose process died in the middle of a turn."""

    def interrupted(store: Store) -> list[SessionRow]:
        with closing(store.new_runner()) as runner:
            running = [row for row in _last_sessions(store) if row.state == "running" and row.parent_id is None]
            return [row for row in running if row.runner is None or not _is_alive(row.runner, installation, runner)]

    own = installation.from_journal(interrupted, [])
    for row in own[:_MOST_LISTED]:
        detail = f"{row.id} was interrupted in the middle of a turn: {row.title or 'no title'}"
        yield warning("session", detail, command=f"hermes chat --resume {row.id}")
    if len(own) > _MOST_LISTED:
        more = plural(len(own) - _MOST_LISTED, "more session")
        yield warning("session", f"{more} interrupted in the middle of a turn", command="hermes sessions list")


def check_dead_letters(installation: Installation) -> Iterator[CheckResult]:
    """Turns that were given up because every process that took them up ended."""
    found = installation.from_journal(lambda store: dead_letters(store, _LAST_SESSIONS), [])
    for session_id, ordinal, at in found[:_MOST_LISTED]:
        when = time.strftime("%Y-%m-%d %H:%M", time.localtime(at))
        detail = f"turn {ordinal + 1} of {session_id} was given up on {when}: each process that ran it ended"
        yield warning("dead letter", detail, command=f"hermes trace show {session_id}")
    if len(found) > _MOST_LISTED:
        more = plural(len(found) - _MOST_LISTED, "more turn")
        yield warning("dead letter", f"{more} given up", command="hermes sessions list")


def check_approvals(installation: Installation) -> Iterator[CheckResult]:
    """Approval questions without an answer."""
    waiting = installation.from_journal(lambda store: store.read(count_unanswered), 0)
    if waiting:
        yield warning("approvals", f"{plural(waiting, 'question')} without an answer", command="hermes approvals list")


def check_records(installation: Installation) -> Iterator[CheckResult]:
    """The last sessions are complete: every start has exactly one end."""

    def problems_by_session(store: Store) -> dict[str, list[str]]:
        ids = [row.id for row in _last_sessions(store) if row.state != "running"]
        return {one: list(map(str, verify(inspect_session(store, one)))) for one in ids}

    found = installation.from_journal(problems_by_session, {})
    damaged = {session_id: problems for session_id, problems in found.items() if problems}
    for session_id, problems in list(damaged.items())[:_MOST_LISTED]:
        more = f" and {len(problems) - 1} more" if len(problems) > 1 else ""
        detail = f"{session_id} is incomplete: {problems[0]}{more}"
        yield broken("records", detail, command=f"hermes trace verify {session_id}")
    if found and not damaged:
        yield ok("records", f"the last {plural(len(found), 'session')} complete")


def check_schedules(installation: Installation) -> Iterator[CheckResult]:
    """Whether schedules fire, and how their last runs ended."""
    found = installation.from_journal(lambda store: Schedules(store).list(include_done=False), [])
    if not found:
        yield ok("schedules", "none")
        return
    settings, has_scheduler = installation.settings().cron, is_running(installation.home)
    active = [one for one in found if one.state == "active"]
    if has_scheduler:
        yield ok("schedules", f"{plural(len(active), 'active schedule')}, and a scheduler runs")
    elif active:
        yield from _without_scheduler(active, settings.grace)
    with closing(installation.store()) as store:
        last = {one.id: next(iter(Schedules(store).runs(one.id, limit=1)), None) for one in found}
    problems = [result for one in found for result in _schedule_problems(one, last[one.id])]
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


def _schedule_problems(schedule: Schedule, last: ScheduleRun | None) -> Iterator[CheckResult]:
    show, now = f"hermes cron show {schedule.id}", time.time()
    if schedule.state == "paused" and schedule.failures:
        detail = f"{schedule.name!r} is paused: {schedule.reason}"
        yield warning("schedule", detail, command=f"hermes cron resume {schedule.id}")
    elif schedule.failures and last is not None:
        times = "the last time" if schedule.failures == 1 else f"{schedule.failures} times in a row"
        yield warning("schedule", f"{schedule.name!r} failed {times}: {last.detail}", command=show)
    elif last is None and schedule.state == "active" and (schedule.fire_after(schedule.created_at) or now) < now:
        yield warning("schedule", f"{schedule.name!r} has never run, although its first time is over", command=show)


def _last_sessions(store: Store) -> list[SessionRow]:
    return Sessions(store).list(limit=_LAST_SESSIONS, children=True)


def _is_alive(runner_id: str, installation: Installation, runner: Runner) -> bool:
    if installation.has_shared_journal:
        return runner.is_alive(runner_id)
    return _is_locked(installation.home / "runners" / runner_id)  # a check removes no file


def _is_locked(file: Path) -> bool:
    """Whether a process still holds the lock on its runner file."""
    try:
        opened = os.open(file, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(opened, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    else:
        return False
    finally:
        os.close(opened)


def check_search(installation: Installation) -> Iterator[CheckResult]:
    """Whether the search index can be read and belongs to this journal. ``--fix`` removes an unusable one."""
    if not installation.has_shared_journal:
        yield from installation.from_journal(lambda store: [_index_result(store, installation)], [])


def _index_result(store: Store, installation: Installation) -> CheckResult:
    path = installation.home / "search.db"
    if not path.exists():
        return ok("search index", "not built yet; the first search builds it")
    problem, watermark = _inspect_index(path.absolute().as_uri())
    last, behind = store.read(lambda connection: messages_after(connection, watermark))
    if not problem and watermark > last:
        problem = "it belongs to another journal"
    if not problem:
        lag = f", {plural(behind, 'message')} behind (the next search catches up)" if behind else ""
        return ok("search index", f"{size(path.stat().st_size)}{lag}")
    if not installation.fix:
        detail = f"{path} cannot be used: {problem}"
        return broken("search index", detail, command="hermes doctor --fix", fixable=True)
    for file in SqliteSearchIndex(store, path).files():
        file.unlink(missing_ok=True)
    return ok("search index", f"removed ({problem}); the next search rebuilds it", fixed=True)


def _inspect_index(address: str) -> tuple[str, int]:
    """The problem with the file (empty for none), and the last message indexed."""
    try:
        with closing(sqlite3.connect(f"{address}?mode=ro", uri=True)) as index:
            verdict = str(index.execute("PRAGMA quick_check(1)").fetchone()[0])
            watermark = index.execute("SELECT max(message_id) FROM watermark").fetchone()[0] or 0
    except sqlite3.Error as error:
        return str(error), 0
    return "" if verdict == "ok" else verdict, watermark
