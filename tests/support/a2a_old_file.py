"""``a2a.db`` as former versions of the A2A server wrote it, in each version of its schema."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

#: What brought the file from each version to the next.
OLD_MIGRATIONS = (
    """
    CREATE TABLE tasks (
        owner TEXT NOT NULL, id TEXT NOT NULL, context_id TEXT NOT NULL, state INTEGER NOT NULL,
        updated_ns INTEGER, body BLOB NOT NULL, PRIMARY KEY (owner, id)
    ) WITHOUT ROWID;
    CREATE INDEX tasks_by_time ON tasks (owner, updated_ns, id);
    CREATE INDEX tasks_by_state ON tasks (state);
    CREATE TABLE push_configs (
        owner TEXT NOT NULL, task_id TEXT NOT NULL, id TEXT NOT NULL, body BLOB NOT NULL,
        PRIMARY KEY (task_id, owner, id)
    ) WITHOUT ROWID;
    CREATE TABLE contexts (
        owner TEXT NOT NULL, context_id TEXT NOT NULL, session_id TEXT NOT NULL, PRIMARY KEY (owner, context_id)
    ) WITHOUT ROWID;
    CREATE TABLE questions (
        task_id TEXT PRIMARY KEY, owner TEXT NOT NULL, context_id TEXT NOT NULL, approval_id TEXT NOT NULL,
        tool TEXT NOT NULL, summary TEXT NOT NULL, reason TEXT NOT NULL, deadline REAL NOT NULL
    ) WITHOUT ROWID;
    """,
    """
    ALTER TABLE questions RENAME COLUMN approval_id TO id;
    ALTER TABLE questions ADD COLUMN kind TEXT NOT NULL DEFAULT 'approval';
    ALTER TABLE questions ADD COLUMN choices TEXT NOT NULL DEFAULT '[]';
    CREATE TABLE answers (
        task_id TEXT NOT NULL, question_id TEXT NOT NULL, answer TEXT NOT NULL, PRIMARY KEY (task_id, question_id)
    ) WITHOUT ROWID;
    """,
    """
    DROP TABLE questions;
    DROP TABLE answers;
    """,
    """
    ALTER TABLE push_configs ADD COLUMN version TEXT NOT NULL DEFAULT '1.0';
    CREATE TABLE messages (
        owner TEXT NOT NULL, context_id TEXT NOT NULL, message_id TEXT NOT NULL, digest BLOB NOT NULL,
        task_id TEXT NOT NULL, PRIMARY KEY (owner, context_id, message_id)
    );
    """,
)
NEWEST = len(OLD_MIGRATIONS)
_Rows = Sequence[tuple[Any, ...]]


def write_old_file(
    home: Path,
    *,
    version: int = NEWEST,
    tasks: _Rows = (),
    contexts: _Rows = (),
    webhooks: _Rows = (),
    messages: _Rows = (),
) -> Path:
    """The file with these rows; those of webhooks end with their version, and older files have no messages."""
    home.mkdir(parents=True, exist_ok=True)
    path = home / "a2a.db"
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("PRAGMA journal_mode=WAL")
        connection.executescript(f"{''.join(OLD_MIGRATIONS[:version])} PRAGMA user_version = {version};")
        connection.executemany("INSERT INTO tasks VALUES (?, ?, ?, ?, ?, ?)", tasks)
        connection.executemany("INSERT INTO contexts VALUES (?, ?, ?)", contexts)
        if version == NEWEST:
            connection.executemany("INSERT INTO push_configs VALUES (?, ?, ?, ?, ?)", webhooks)
            connection.executemany("INSERT INTO messages VALUES (?, ?, ?, ?, ?)", messages)
        else:
            connection.executemany("INSERT INTO push_configs VALUES (?, ?, ?, ?)", [row[:4] for row in webhooks])
    return path


def move_to_old_file(home: Path, *, version: int = NEWEST) -> None:
    """Make the home of a server that was stopped look as a former version left it."""
    with closing(sqlite3.connect(home / "state.db")) as connection, connection:

        def take(columns: str, table: str) -> list[Any]:
            rows = connection.execute(f"SELECT {columns} FROM {table}").fetchall()
            connection.execute(f"DELETE FROM {table}")
            return rows

        write_old_file(
            home,
            version=version,
            tasks=take("owner, id, context_id, state, updated_ns, body", "a2a_tasks"),
            contexts=take("owner, context_id, session_id", "a2a_contexts"),
            webhooks=take("owner, task_id, id, body, version", "a2a_webhooks"),
            messages=take("owner, context_id, message_id, digest, task_id", "a2a_messages"),
        )
