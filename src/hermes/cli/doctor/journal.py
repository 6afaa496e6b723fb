"""Checks of the journal: the file, who works on it, what was left unfinished, and what is derived from it."""

from __future__ import annotations

import fcntl
import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from hermes.cli.doctor.finding import Finding, broken, ok, size, warning
from hermes.cli.doctor.patient import Patient
from hermes.cli.doctor.search_index import check_index
from hermes.commands.wording import plural
from hermes.journal import schema
from hermes.journal.database import companion, explain
from hermes.journal.runner import Runner
from hermes.journal.sessions import SessionRow, Sessions
from hermes.trace.verify.session import verify

_LONG_LOG = 64_000_000
#: How many sessions are looked at, and how many findings of a kind are listed one by one.
_LAST_SESSIONS = 20
_MOST_LISTED = 5


def check_file(patient: Patient) -> Iterator[Finding]:
    """The database: can it be opened, is it whole, is its schema this program's?"""
    version = patient.journal_version()
    if version is None:
        yield ok("journal", "nothing is recorded yet")
        return
    newest = len(schema.MIGRATIONS)
    try:
        with closing(sqlite3.connect(f"{patient.database.absolute().as_uri()}?mode=ro", uri=True)) as connection:
            verdict = str(connection.execute("PRAGMA quick_check(1)").fetchone()[0])
    except sqlite3.Error as error:
        raise explain(error, patient.database) from error
    if verdict != "ok":
        advice = f"move it aside, or recover it with 'sqlite3 {patient.database.name} .recover'; nothing was changed"
        yield broken("journal", f"{patient.database} is damaged: {verdict}", advice)
        return
    schema_note = f"schema {version}" + (f"; the next run brings it to {newest}" if version < newest else "")
    yield ok("journal", f"{patient.database}, {size(patient.database.stat().st_size)}, {schema_note}")
    log = companion(patient.database, "-wal")
    if log.exists() and log.stat().st_size > _LONG_LOG:
        detail = f"its log has grown to {size(log.stat().st_size)}"
        yield warning("journal", detail, "end the hermes processes that run; the last one folds it back")


def check_runners(patient: Patient) -> Iterator[Finding]:
    """The files of processes that run sessions. Those of dead ones are harmless, and litter."""
    folder = patient.home / "runners"
    files = sorted(folder.iterdir()) if folder.is_dir() else []
    dead = [file for file in files if not _is_locked(file)]
    alive = len(files) - len(dead)
    if alive:
        yield ok("runners", f"{plural(alive, 'runner')} at work")
    if dead and patient.fix:
        for file in dead:
            Runner(folder).is_alive(file.name)  # sweeps the file away, under its lock
        yield ok("runners", f"{plural(len(dead), 'file')} of processes that died removed", fixed=True)
    elif dead:
        detail = f"{plural(len(dead), 'file')} of processes that died in {folder}"
        yield warning("runners", detail, command="hermes doctor --fix", fixable=True)


def check_unfinished(patient: Patient) -> Iterator[Finding]:
    """Sessions that a process left in the middle of a turn."""
    cut_off = [row for row in _sessions(patient) if row.state == "running" and not _is_alive(row.runner, patient)]
    own = [row for row in cut_off if row.parent_id is None]
    for row in own[:_MOST_LISTED]:
        detail = f"{row.id} was cut off in the middle of a turn: {row.title or 'no title'}"
        yield warning("session", detail, command=f"hermes chat --resume {row.id}")
    if len(own) > _MOST_LISTED:
        more = plural(len(own) - _MOST_LISTED, "more session")
        yield warning("session", f"{more} cut off in the middle of a turn", command="hermes sessions list")


def check_approvals(patient: Patient) -> Iterator[Finding]:
    """Questions that nobody has answered yet."""
    if not patient.has_current_journal():
        return
    with closing(patient.store()) as store:
        query = "SELECT count(*) FROM questions WHERE kind = 'approval' AND state = 'pending'"
        waiting: int = store.read(lambda connection: connection.execute(query).fetchone()[0])
    if waiting:
        yield warning("approvals", f"{plural(waiting, 'question')} without an answer", command="hermes approvals list")


def check_records(patient: Patient) -> Iterator[Finding]:
    """The sessions used last are whole: every start has its one end."""
    rows = [row for row in _sessions(patient) if row.state != "running"]
    if not rows:
        return
    damaged: list[str] = []
    with closing(patient.store()) as store:
        for row in rows:
            problems = verify(Sessions(store).export(row.id))
            if problems:
                damaged.append(row.id)
                if len(damaged) <= _MOST_LISTED:
                    more = f" and {len(problems) - 1} more" if len(problems) > 1 else ""
                    detail = f"{row.id} is not whole: {problems[0]}{more}"
                    yield broken("records", detail, command=f"hermes trace verify {row.id}")
    if not damaged:
        yield ok("records", f"nothing is missing in the last {plural(len(rows), 'session')}")


def check_search(patient: Patient) -> Iterator[Finding]:
    """The index for searching, which is derived from the journal and can be made anew."""
    if patient.has_current_journal():
        yield check_index(patient)


def _sessions(patient: Patient) -> list[SessionRow]:
    if not patient.has_current_journal():
        return []
    with closing(patient.store()) as store:
        return Sessions(store).list(limit=_LAST_SESSIONS, children=True)


def _is_alive(runner_id: str | None, patient: Patient) -> bool:
    return runner_id is not None and _is_locked(patient.home / "runners" / runner_id)


def _is_locked(file: Path) -> bool:
    """Whether the process that made a runner file still holds it. The file is left as it is."""
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
