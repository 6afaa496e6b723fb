"""The file that keeps what callers may ask for again: tasks, webhooks, conversations, open questions."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import sqlite3
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from hermes.errors import HermesError

T = TypeVar("T")
Key = tuple[str, ...]
Write = Callable[[sqlite3.Connection], object]

log = logging.getLogger("hermes.a2a")

#: A quick turn changes its task four times; one transaction is enough for that, and it need not hold up the answer:
#: what was said and answered is in the journal.
_SECONDS_TO_GATHER = 0.01

#: What each version of the file adds to the one before.
_VERSIONS = (
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
)


class Database:
    """``a2a.db`` under the home: one connection on a thread of its own, so that nobody on the loop waits for a disk."""

    def __init__(self, path: Path) -> None:
        self.path = path
        #: What is to be written in a moment, all together, by what it is about.
        self._writes: dict[Key, Write] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="hermes-a2a-db")
        try:
            self._connection = _open(path)
        except sqlite3.Error as error:
            raise HermesError(
                f"cannot use {path} ({error}); move it aside to start afresh: finished tasks are then forgotten, "
                f"conversations are not"
            ) from error

    def files(self) -> list[Path]:
        """The files nobody else in this process may open."""
        return [self.path.with_name(self.path.name + suffix) for suffix in ("", "-wal", "-shm")]

    async def run(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Run ``work`` after everything that was asked for before, and return its result once that is written."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._thread, self._transact, self._take_writes(), work)

    def run_soon(self, key: Key, write: Write) -> None:
        """Write something within a moment, without waiting for it; what was to be written under the key is not."""
        self._writes.pop(key, None)
        self._writes[key] = write
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(_SECONDS_TO_GATHER, self.flush)

    def flush(self) -> None:
        """Write now what was to be written soon."""
        written = self._thread.submit(self._transact, self._take_writes(), lambda _connection: None)
        written.add_done_callback(_tell_failure)

    def run_now(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Like ``run``, for a thread that may wait."""
        return self._thread.submit(self._transact, self._take_writes(), work).result()

    def close(self) -> None:
        """Finish what is under way and close the file."""
        self.run_now(lambda _connection: None)
        self._thread.submit(self._connection.close).result()
        self._thread.shutdown()

    def _take_writes(self) -> list[Write]:
        taken = list(self._writes.values())
        self._writes.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        return taken

    def _transact(self, writes: list[Write], work: Callable[[sqlite3.Connection], T]) -> T:
        connection = self._connection
        connection.execute("BEGIN")
        try:
            for write in writes:
                write(connection)
            result = work(connection)
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:  # a full disk may have ended it already
                connection.execute("ROLLBACK")
            raise
        return result


def _tell_failure(done: Future[None]) -> None:
    error = done.exception()
    if error is not None:
        log.error("a task could not be written down: %s", error)


def _open(path: Path) -> sqlite3.Connection:
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with contextlib.suppress(FileExistsError):
        # Made by hand so that it is private from its first instant.
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    connection = sqlite3.connect(path, check_same_thread=False, isolation_level=None, timeout=10)
    try:
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=NORMAL")
        version = connection.execute("PRAGMA user_version").fetchone()[0]
        newest = len(_VERSIONS)
        if version > newest:
            raise HermesError(
                f"{path} was written by a newer version of hermes (schema {version}, this one knows {newest}); "
                f"upgrade hermes, or set HERMES_HOME to another folder"
            )
        if version < newest:
            steps = "".join(_VERSIONS[version:])
            connection.executescript(f"BEGIN IMMEDIATE; {steps} PRAGMA user_version = {newest}; COMMIT;")
    except BaseException:
        connection.close()
        raise
    return connection
