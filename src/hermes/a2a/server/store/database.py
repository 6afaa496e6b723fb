"""``a2a.db``, the database of the server: tasks, webhooks, and the session of each context."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import sqlite3
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from hermes.errors import HermesError

T = TypeVar("T")
Key = tuple[str, ...]
Write = Callable[[sqlite3.Connection], object]

log = logging.getLogger("hermes.a2a")

#: A quick turn changes its task four times: one transaction for all. The answer does not wait for it, because the
#: messages themselves are in the journal.
_SECONDS_TO_BATCH = 0.01

#: The migrations, from each version of the file to the next.
_MIGRATIONS = (
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
    # Questions and answers are in the journal.
    """
DROP TABLE questions;
DROP TABLE answers;
""",
    # The protocol version of a webhook; the messages that were accepted, for those that are sent twice.
    """
ALTER TABLE push_configs ADD COLUMN version TEXT NOT NULL DEFAULT '1.0';
CREATE TABLE messages (
    owner TEXT NOT NULL, context_id TEXT NOT NULL, message_id TEXT NOT NULL, digest BLOB NOT NULL,
    task_id TEXT NOT NULL, PRIMARY KEY (owner, context_id, message_id)
);
""",
)


class Database:
    """One connection, used by one thread at a time; the loop itself never waits for the disk."""

    def __init__(self, path: Path) -> None:
        self.path = path
        #: Writes of the next transaction, by key.
        self._writes: dict[Key, Write] = {}
        #: Guards ``_writes``, and is never held for long.
        self._writes_lock = threading.Lock()
        self._timer: asyncio.TimerHandle | None = None
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="hermes-a2a-db")
        #: Held by the thread that has a transaction open.
        self._transaction = threading.Lock()
        try:
            self._connection = _open(path)
        except sqlite3.Error as error:
            raise HermesError(
                f"cannot use {path} ({error}); move it aside to start with an empty one: finished tasks are then lost, "
                f"conversations are not"
            ) from error

    def files(self) -> list[Path]:
        """The files that tools must not open."""
        return [self.path.with_name(self.path.name + suffix) for suffix in ("", "-wal", "-shm")]

    async def run(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """``transact`` for a coroutine, on the database's own thread."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, self.transact, work)

    def run_soon(self, key: Key, write: Write, seconds: float | None = None) -> None:
        """Write with the next transaction, without waiting for it; replaces an earlier write with the same key."""
        with self._writes_lock:
            self._writes.pop(key, None)
            self._writes[key] = write
        loop = asyncio.get_running_loop()
        at = loop.time() + (_SECONDS_TO_BATCH if seconds is None else seconds)
        if self._timer is None or self._timer.when() > at:
            if self._timer is not None:
                self._timer.cancel()
            self._timer = loop.call_at(at, self._flush)

    def _flush(self) -> None:
        self._timer = None
        if self._writes:
            self._thread.submit(self.flush).add_done_callback(_log_failure)

    def flush(self) -> None:
        """Store what waits to be written. Blocking."""
        self.transact(lambda _connection: None)

    def transact(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Run ``work`` after all earlier writes, and return its result once it is committed. Blocking.

        It runs on the thread of the caller: a worker that has to wait for it need not wake another thread.
        """
        with self._transaction:
            with self._writes_lock:
                writes, self._writes = self._writes, {}
            connection = self._connection
            connection.execute("BEGIN")
            try:
                for write in writes.values():
                    write(connection)
                result = work(connection)
                connection.execute("COMMIT")
            except BaseException as error:
                if connection.in_transaction:  # a full disk may have ended it already
                    connection.execute("ROLLBACK")
                if isinstance(error, sqlite3.OperationalError):
                    self._write_later(writes)
                raise
        return result

    def _write_later(self, writes: dict[Key, Write]) -> None:
        """Try again with the next transaction what could not be written, as on a full disk, but for what is newer."""
        with self._writes_lock:
            self._writes = {**writes, **self._writes}

    def close(self) -> None:
        """Finish all writes and close the file."""
        if self._timer is not None:
            self._timer.cancel()
        self._thread.shutdown()
        self.flush()
        self._connection.close()


def _log_failure(done: Future[None]) -> None:
    error = done.exception()
    if error is not None:
        log.error("a task could not be stored: %s", error)


def _open(path: Path) -> sqlite3.Connection:
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with contextlib.suppress(FileExistsError):
        # Created here so that it is private from the start.
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    connection = sqlite3.connect(path, check_same_thread=False, isolation_level=None, timeout=10)
    try:
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=NORMAL")
        version = connection.execute("PRAGMA user_version").fetchone()[0]
        newest = len(_MIGRATIONS)
        if version > newest:
            raise HermesError(
                f"{path} was written by a newer version of hermes (schema {version}, this one knows {newest}); "
                f"upgrade hermes, or set HERMES_HOME to another folder"
            )
        if version < newest:
            steps = "".join(_MIGRATIONS[version:])
            connection.executescript(f"BEGIN IMMEDIATE; {steps} PRAGMA user_version = {newest}; COMMIT;")
    except BaseException:
        connection.close()
        raise
    return connection
