"""The runner of a process among several machines: alive while it holds its advisory lock in their database.

The lock belongs to a connection of its own, so it ends with the process, or with its machine. Beside it a thread keeps
the time of the last sign of life in the table ``runners``, by the clock of the database: a process that is frozen still
holds its lock, and only shows there. Deleting that row evicts the runner.
"""

from __future__ import annotations

import contextlib
import logging
import os
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import psycopg

from hermes.base.errors import JournalError
from hermes.journal.runner import Runner
from hermes.journal.store.connection import Cursor
from hermes.journal.store.postgres.errors import explain, is_connection_lost
from hermes.journal.store.postgres.pool import connection_name

if TYPE_CHECKING:
    from hermes.journal.store.postgres.dialect import PostgresConnection
    from hermes.journal.store.postgres.store import PostgresStore

log = logging.getLogger("hermes.journal")

#: Seconds between two signs of life.
BEAT_SECONDS = 1.0
#: After a start of the server its clients have to take their locks again: until then none of them counts as dead.
SERVER_START_SECONDS = 5
#: How long a process waits for its own lock, which a connection that broke may hold a moment longer.
_LOCK_SECONDS = 5.0
_NOW = "extract(epoch FROM clock_timestamp())::double precision"


def _lock_number(runner: str) -> str:
    """SQL for the lock of a runner. The schema is part of it, so that journals in one database are apart."""
    return f"hashtextextended(current_schema() || ':' || {runner}, 0)"


def _locked(runner: str) -> str:
    """SQL for whether a runner holds its lock."""
    return f"""
        EXISTS (SELECT 1 FROM pg_locks l WHERE l.locktype = 'advisory' AND l.objsubid = 1 AND l.granted
            AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
            AND (l.classid::bigint << 32) | l.objid::bigint = {_lock_number(runner)})
    """


def alive(runner: str) -> str:
    """SQL for whether a runner holds its lock, or has had no time to take it again after a start of the server.

    ``runner`` is SQL for its id.
    """
    return (
        f"({_locked(runner)} OR (EXISTS (SELECT 1 FROM runners a WHERE a.id = {runner}) "
        f"AND clock_timestamp() - pg_postmaster_start_time() < make_interval(secs => {SERVER_START_SECONDS})))"
    )


_ALIVE = f"SELECT {alive('w.id')} FROM (SELECT CAST(? AS text) AS id) w"
_LOCK = f"SELECT pg_try_advisory_lock({_lock_number('CAST(? AS text)')})"
_NOTE = f"INSERT INTO runners (id, host, pid, started_at, beat_at) VALUES (?, ?, ?, {_NOW}, {_NOW})"
_BEAT = f"UPDATE runners SET beat_at = {_NOW} WHERE id = ?"
#: Rows of runners that died long ago, and left them behind.
_SWEEP = f"DELETE FROM runners r WHERE beat_at < {_NOW} - 3600 AND NOT {_locked('r.id')} AND id <> ?"


class PostgresRunner(Runner):
    """A runner among the processes of one database. Its lock is taken with the first session it takes."""

    def __init__(self, store: PostgresStore, runner_id: str) -> None:
        super().__init__()
        self.id = runner_id
        self._store = store
        self._using = threading.RLock()
        self._own: PostgresConnection | None = None
        self._is_started = False
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None
        #: Its row was deleted: others have taken its sessions, and it must not take any more.
        self.is_evicted = False
        #: Called once, on the thread of the heartbeat, when that was found out.
        self.on_eviction: Callable[[], object] | None = None

    def start(self) -> bool:
        """Take the lock and begin to give signs of life, once. Raises ``JournalError`` when this runner was evicted."""
        with self._using:
            if self.is_evicted:
                raise JournalError("this process was evicted by another one, and takes no more sessions")
            if self._is_started:
                return False
            try:
                self._lock(self._connection())
                self._execute(_NOTE, (self.id, os.uname().nodename, os.getpid()))
                self._execute(_SWEEP, (self.id,))
            except psycopg.Error as error:
                raise explain(error, self._store.url) from error
            self._is_started = True
            self._thread = threading.Thread(target=self._serve, name="hermes-runner", daemon=True)
            self._thread.start()
        return False

    def is_alive(self, runner_id: str) -> bool:
        """Whether that runner holds its lock, or has had no time to take it again after a start of the server."""
        return runner_id == self.id or bool(self._ask(_ALIVE, (runner_id,))[0])

    def describe(self, runner_id: str) -> str:
        """A living runner as text."""
        row = self._ask("SELECT pid, host, started_at FROM runners WHERE id = ?", (runner_id,))
        if row is None:
            return "another process"
        since = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(row[2]))
        return f"process {row[0]} on {row[1]} since {since}"

    def close(self) -> None:
        """Release every session of this process."""
        self._ended.set()
        with self._using:
            if self._is_started and not self.is_evicted:
                with contextlib.suppress(psycopg.Error, JournalError):
                    self._execute("DELETE FROM runners WHERE id = ?", (self.id,))
            self._is_started = False
            if self._own is not None:
                self._own.close()
                self._own = None
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()
            self._thread = None

    # -- the connection of its own ------------------------------------------------------------------------------

    def _connection(self) -> PostgresConnection:
        if self._own is None or self._own.is_closed:
            self._own = self._store.connect(connection_name(self.id))
            if self._is_started:
                self._lock(self._own)
        return self._own

    def _lock(self, connection: PostgresConnection) -> None:
        give_up = time.monotonic() + _LOCK_SECONDS
        while not connection.execute(_LOCK, (self.id,)).fetchall()[0][0]:
            if time.monotonic() > give_up:
                connection.close()
                raise JournalError(f"another process has the name {self.id} of this one")
            time.sleep(0.05)

    def _execute(self, query: str, values: tuple[object, ...]) -> Cursor:
        return self._connection().execute(query, values)

    def _ask(self, query: str, values: tuple[object, ...]) -> Any:
        """Ask on the connection of this runner: the caller may hold one of the pool."""
        with self._using:
            for is_last in (False, True):
                try:
                    return self._execute(query, values).fetchone()
                except psycopg.Error as error:
                    if is_last or not is_connection_lost(error):
                        raise explain(error, self._store.url) from error
                    self._drop()
        raise AssertionError("the last attempt returned or raised")

    def _drop(self, *, unless_alive: bool = False) -> None:
        """Close the connection. With it goes the lock: not after an error that left it alive, such as a full disk."""
        if self._own is not None and not (unless_alive and self._own.is_idle):
            self._own.close()
            self._own = None

    # -- signs of life ------------------------------------------------------------------------------------------

    def _serve(self) -> None:
        while not self._ended.wait(BEAT_SECONDS):
            try:
                with self._using:
                    if self._ended.is_set():
                        return
                    lives = self._execute(_BEAT, (self.id,)).rowcount == 1
            except (psycopg.Error, JournalError) as error:
                log.debug("no sign of life could be given: %s", explain(error, self._store.url))
                with self._using:
                    self._drop(unless_alive=True)
                continue
            if not lives:
                self._was_evicted()
                return

    def _was_evicted(self) -> None:
        log.error("this process was evicted by another one: it takes no more sessions")
        with self._using:
            self.is_evicted = True
            self._drop()
        if self.on_eviction is not None:
            self.on_eviction()
