"""Takeover of ``a2a.db``, in which former versions kept the tasks of a home: once, into the journal."""

from __future__ import annotations

import contextlib
import logging
import sqlite3
import time
from pathlib import Path
from typing import Any

from hermes.base.errors import HermesError
from hermes.host import Host
from hermes.journal.questions import Questions
from hermes.journal.store.connection import JournalConnection
from hermes.journal.turns.recovery import adopt_turns
from hermes.surfaces.a2a.server.entry import SURFACE

log = logging.getLogger("hermes.a2a")

#: The last version of the file.
_NEWEST = 4
#: Seconds to wait for another process that does the same.
_LOCK_SECONDS = 10.0


#: The tables of the journal with their columns, and the names that they had in the file.
_TABLES = (
    ("a2a_tasks", "owner, id, context_id, state, updated_ns, body", "tasks"),
    ("a2a_contexts", "owner, context_id, session_id", "contexts"),
    ("a2a_webhooks", "owner, task_id, id, version, body", "push_configs"),
    ("a2a_messages", "owner, context_id, message_id, digest, task_id", "messages"),
)
#: The rows for each table of the journal.
_Rows = dict[str, list[tuple[Any, ...]]]


def old_files(home: Path) -> list[Path]:
    """The file of former versions, before and after it was taken over."""
    return [home / name for name in ("a2a.db", "a2a.db-wal", "a2a.db-shm", "a2a.db.migrated")]


def take_over(host: Host) -> None:
    """Copy what ``a2a.db`` holds into the journal, and rename it.

    The rows are one transaction. A process that dies before the file is renamed leaves it to the next one, which
    changes no row that is there already.
    """
    path, *logs, renamed = old_files(host.home)
    if not path.exists():
        return
    try:
        with contextlib.closing(_open(path)) as connection:
            # The log is to be in the file when that gets another name.
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            connection.execute("BEGIN IMMEDIATE")
            if not path.exists():
                return  # another process was faster
            rows = _read(connection, path)
            host.store.write(lambda target: _insert(target, rows))
            _bring_up_to_date(host, rows)
            path.rename(renamed)
    except sqlite3.Error as error:
        if not path.exists():
            return
        raise HermesError(
            f"cannot use {path} ({error}); move it aside to start with an empty one: finished tasks are then lost, "
            f"conversations are not"
        ) from error
    for file in logs:
        file.unlink(missing_ok=True)
    log.warning("%d tasks of %s are in the journal now; the file is %s", len(rows["a2a_tasks"]), path, renamed.name)


def _open(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(f"{path.as_uri()}?mode=rw", uri=True, isolation_level=None, timeout=_LOCK_SECONDS)


def _read(connection: sqlite3.Connection, path: Path) -> _Rows:
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    if version > _NEWEST:
        raise HermesError(
            f"{path} was written by a newer version of hermes (schema {version}, this one knows {_NEWEST}); "
            f"upgrade hermes, or set HERMES_HOME to another folder"
        )
    rows: _Rows = {}
    for table, columns, old in _TABLES:
        if version < _NEWEST:  # without versions of webhooks, and without messages
            columns = columns.replace("version", "'1.0'")
        is_there = version == _NEWEST or (version > 0 and old != "messages")  # 0: nothing was stored in it
        rows[table] = connection.execute(f"SELECT {columns} FROM {old}").fetchall() if is_there else []
    return rows


def _insert(connection: JournalConnection, rows: _Rows) -> None:
    for table, columns, _ in _TABLES:
        marks = ", ".join("?" * len(columns.split(",")))
        query = f"INSERT INTO {table} ({columns}) VALUES ({marks}) ON CONFLICT DO NOTHING"
        connection.executemany(query, rows[table])


def _bring_up_to_date(host: Host, rows: _Rows) -> None:
    """What versions with that file left in the journal, as it is now: whose sessions, until when, and run by whom."""
    if host.sessions.assign({session_id: owner for owner, _, session_id in rows["a2a_contexts"]}):
        host.search.discard()  # it has them as the owner's
    questions = Questions(host.store)
    for question in questions.pending():
        if question.surface == SURFACE and question.deadline is None:
            questions.defer(question.id, time.time() + host.config.a2a.approval_timeout)
    adopt_turns(host.store, host.runner, SURFACE)
