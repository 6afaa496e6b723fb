"""Checks of the journal: the file, its runners, interrupted sessions, the recorded events and the search index."""

from __future__ import annotations

import fcntl
import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from hermes.journal.history.inspection import inspect_session
from hermes.journal.questions import count_unanswered
from hermes.journal.runner import FileRunner, Runner, count_runners
from hermes.journal.sessions import SessionRow, Sessions
from hermes.journal.store import schema
from hermes.journal.store.sqlite.database import companion, explain
from hermes.journal.store.sqlite.search import SqliteSearchIndex, messages_after
from hermes.journal.turns.recovery import dead_letters
from hermes.surfaces.cli.doctor.check import CheckResult, broken, ok, size, warning
from hermes.surfaces.cli.doctor.installation import Installation
from hermes.surfaces.commands.text import plural
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


def check_unfinished(installation: Installation) -> Iterator[CheckResult]:
    """Sessions whose process died in the middle of a turn."""
    with closing(installation.store()) as store, closing(store.new_runner()) as runner:
        interrupted = [
            row
            for row in _sessions(installation)
            if row.state == "running" and (row.runner is None or not _is_alive(row.runner, installation, runner))
        ]
    own = [row for row in interrupted if row.parent_id is None]
    for row in own[:_MOST_LISTED]:
        detail = f"{row.id} was interrupted in the middle of a turn: {row.title or 'no title'}"
        yield warning("session", detail, command=f"hermes chat --resume {row.id}")
    if len(own) > _MOST_LISTED:
        more = plural(len(own) - _MOST_LISTED, "more session")
        yield warning("session", f"{more} interrupted in the middle of a turn", command="hermes sessions list")


def check_dead_letters(installation: Installation) -> Iterator[CheckResult]:
    """Turns that were given up because every process that took them up ended."""
    if not installation.has_current_journal():
        return
    with closing(installation.store()) as store:
        found = dead_letters(store, _LAST_SESSIONS)
    for session_id, ordinal, at in found[:_MOST_LISTED]:
        when = time.strftime("%Y-%m-%d %H:%M", time.localtime(at))
        detail = f"turn {ordinal + 1} of {session_id} was given up on {when}: each process that ran it ended"
        yield warning("dead letter", detail, command=f"hermes trace show {session_id}")
    if len(found) > _MOST_LISTED:
        more = plural(len(found) - _MOST_LISTED, "more turn")
        yield warning("dead letter", f"{more} given up", command="hermes sessions list")


def check_approvals(installation: Installation) -> Iterator[CheckResult]:
    """Approval questions without an answer."""
    if not installation.has_current_journal():
        return
    with closing(installation.store()) as store:
        waiting = store.read(count_unanswered)
    if waiting:
        yield warning("approvals", f"{plural(waiting, 'question')} without an answer", command="hermes approvals list")


def check_records(installation: Installation) -> Iterator[CheckResult]:
    """The last sessions are complete: every start has exactly one end."""
    rows = [row for row in _sessions(installation) if row.state != "running"]
    if not rows:
        return
    damaged: list[str] = []
    with closing(installation.store()) as store:
        for row in rows:
            problems = verify(inspect_session(store, row.id))
            if problems:
                damaged.append(row.id)
                if len(damaged) <= _MOST_LISTED:
                    more = f" and {len(problems) - 1} more" if len(problems) > 1 else ""
                    detail = f"{row.id} is incomplete: {problems[0]}{more}"
                    yield broken("records", detail, command=f"hermes trace verify {row.id}")
    if not damaged:
        yield ok("records", f"the last {plural(len(rows), 'session')} complete")


def check_search(installation: Installation) -> Iterator[CheckResult]:
    """The search index, which is derived from the journal and can be rebuilt."""
    if installation.has_current_journal() and not installation.has_shared_journal:
        yield check_index(installation)


def _sessions(installation: Installation) -> list[SessionRow]:
    if not installation.has_current_journal():
        return []
    with closing(installation.store()) as store:
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


def check_index(installation: Installation) -> CheckResult:
    """Whether the index can be read and belongs to this journal. ``--fix`` removes an unusable one."""
    path = installation.home / "search.db"
    if not path.exists():
        return ok("search index", "not built yet; the first search builds it")
    with closing(installation.store()) as store:
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
