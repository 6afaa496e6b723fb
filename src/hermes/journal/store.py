"""The database file: one writer per process, grouped commits, readers beside it."""

from __future__ import annotations

import contextlib
import fcntl
import os
import sqlite3
import threading
import time
from collections import deque
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any, Generic, TypeVar

from hermes.errors import HermesError, JournalCorrupt, JournalError, JournalTooNew
from hermes.journal.crash import crash_point
from hermes.journal.schema import MIGRATIONS, SCHEMA_VERSION

T = TypeVar("T")

#: How long a writer waits for another process before it gives up, visibly and before the effect.
LOCK_PATIENCE_SECONDS = 30.0
CHECKPOINT_EVERY_COMMITS = 1_000
MINIMUM_SQLITE = (3, 37, 0)


class Store:
    """Access to ``state.db``.

    Writes of a process go through one connection, under a thread lock and then an advisory lock on a sidecar file.
    Threads that wait are committed together by the one that holds the lock: one sync serves them all.
    """

    def __init__(self, path: Path) -> None:
        if sqlite3.sqlite_version_info < MINIMUM_SQLITE:
            raise JournalError(
                f"SQLite {sqlite3.sqlite_version} is too old for the journal; "
                f"{'.'.join(map(str, MINIMUM_SQLITE))} or newer is needed: use a newer Python build"
            )
        self.path = path
        self._writer: sqlite3.Connection | None = None
        self._reader: sqlite3.Connection | None = None
        self._reader_is_empty = False
        self._reader_lock = threading.Lock()
        self._commit_lock = threading.Lock()
        self._waiting: deque[_Write[Any]] = deque()
        self._lock_file = -1
        self._commits = 0

    # -- writing ------------------------------------------------------------------------------------------------

    def write(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Run ``work`` in a transaction and return its result once that is on disk."""
        write = _Write(work)
        self._waiting.append(write)
        with self._commit_lock:
            if not write.finished:
                self._commit_waiting()
        return write.result()

    def _commit_waiting(self) -> None:
        batch = [self._waiting.popleft() for _ in range(len(self._waiting))]
        crash_point()
        try:
            with self.errors():
                connection = self._open_writer()
                with self._exclusive():
                    _run_in_transaction(connection, batch)
                    self._commits += 1
                    if self._commits % CHECKPOINT_EVERY_COMMITS == 0:
                        connection.execute("PRAGMA wal_checkpoint(PASSIVE)")
        except BaseException as error:
            for write in batch:
                write.fail(error)
            if not isinstance(error, Exception):
                raise
        crash_point()

    def _open_writer(self) -> sqlite3.Connection:
        if self._writer is None:
            self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            lock_path = self.path.with_name(self.path.name + ".lock")
            if self._lock_file < 0:
                self._lock_file = os.open(lock_path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            with self._exclusive():
                self._writer = _connect_writer(self.path)
        return self._writer

    @contextlib.contextmanager
    def _exclusive(self) -> Generator[None]:
        """Hold the sidecar lock. Faster and fairer between processes than SQLite's own busy handler, and no
        checkpoint can run beside a write."""
        _lock_patiently(self._lock_file, self.path)
        try:
            yield
        finally:
            fcntl.flock(self._lock_file, fcntl.LOCK_UN)

    # -- reading ------------------------------------------------------------------------------------------------

    def read(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Run ``work`` on a read-only connection; it sees every finished commit."""
        with self._reader_lock, self.errors():
            if self._reader is None or (self._reader_is_empty and self.path.exists()):
                self._reader = self._connect_reader()
            return work(self._reader)

    def _connect_reader(self) -> sqlite3.Connection:
        if self._reader is not None:
            self._reader.close()
        self._reader_is_empty = not self.path.exists()
        if self._reader_is_empty:
            # Nothing was ever journaled: an empty journal in memory answers the same questions.
            connection = sqlite3.connect(":memory:", check_same_thread=False, isolation_level=None)
            _migrate(connection, self.path)
            return connection
        mode = "mode=ro"
        if not os.access(self.path.parent, os.W_OK):
            # Without a writable folder SQLite cannot keep its shared memory file; nobody else writes there either.
            mode = "immutable=1"
        connection = sqlite3.connect(
            f"{self.path.absolute().as_uri()}?{mode}", uri=True, check_same_thread=False, isolation_level=None
        )
        try:
            version = _usable_version(connection, self.path)
            if version < SCHEMA_VERSION:
                with self._commit_lock:
                    self._open_writer()
        except BaseException:
            connection.close()
            raise
        return connection

    # -- life ---------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Close the connections, the last one under the lock because it folds the write-ahead log back."""
        with self._reader_lock:
            if self._reader is not None:
                self._reader.close()
                self._reader = None
        with self._commit_lock:
            if self._writer is not None:
                with contextlib.suppress(sqlite3.Error, JournalError), self._exclusive():
                    self._writer.close()
                self._writer = None
            if self._lock_file >= 0:
                os.close(self._lock_file)
                self._lock_file = -1

    @contextlib.contextmanager
    def errors(self) -> Generator[None]:
        """Turn SQLite's and the system's errors into ones a person can act on."""
        try:
            yield
        except sqlite3.Error as error:
            raise explain(error, self.path) from error
        except OSError as error:
            raise JournalError(f"cannot use the journal {self.path}: {error.strerror or error}") from error


class _Write(Generic[T]):
    """One caller's transaction while it waits to be committed, perhaps by another thread."""

    __slots__ = ("_error", "_value", "finished", "work")

    def __init__(self, work: Callable[[sqlite3.Connection], T]) -> None:
        self.work = work
        self.finished = False
        self._value: T | None = None
        self._error: BaseException | None = None

    def run(self, connection: sqlite3.Connection) -> None:
        self._value = self.work(connection)

    def succeed(self) -> None:
        self.finished = True

    def fail(self, error: BaseException) -> None:
        self._error = self._error or error
        self.finished = True

    @property
    def failed(self) -> bool:
        return self._error is not None

    def result(self) -> T:
        if self._error is not None:
            raise self._error
        return self._value  # pyright: ignore[reportReturnType]  (set by run, which fail() would have replaced)


def _run_in_transaction(connection: sqlite3.Connection, batch: list[_Write[Any]]) -> None:
    connection.execute("BEGIN IMMEDIATE")
    try:
        for write in batch:
            _run_isolated(connection, write, alone=len(batch) == 1)
        connection.execute("COMMIT")
    except BaseException:
        with contextlib.suppress(sqlite3.Error):
            connection.execute("ROLLBACK")
        raise
    for write in batch:
        write.succeed()


def _run_isolated(connection: sqlite3.Connection, write: _Write[Any], *, alone: bool) -> None:
    """One caller's failure must not undo the writes of the others in the same transaction."""
    if alone:
        write.run(connection)
        return
    connection.execute("SAVEPOINT one_write")
    try:
        write.run(connection)
    except (HermesError, sqlite3.IntegrityError) as error:
        connection.execute("ROLLBACK TO one_write")
        write.fail(error)
    connection.execute("RELEASE one_write")


def _connect_writer(path: Path) -> sqlite3.Connection:
    new = not path.exists()
    connection = sqlite3.connect(path, check_same_thread=False, isolation_level=None, timeout=LOCK_PATIENCE_SECONDS)
    try:
        if new:
            path.chmod(0o600)
            connection.execute("PRAGMA auto_vacuum=INCREMENTAL")
            connection.execute("PRAGMA journal_mode=WAL")
        for pragma in ("synchronous=FULL", "foreign_keys=ON", "trusted_schema=OFF", "wal_autocheckpoint=0"):
            connection.execute(f"PRAGMA {pragma}")
        _usable_version(connection, path)
        _migrate(connection, path)
    except BaseException:
        connection.close()
        raise
    return connection


def _usable_version(connection: sqlite3.Connection, path: Path) -> int:
    version: int = connection.execute("PRAGMA user_version").fetchone()[0]
    if version > SCHEMA_VERSION:
        raise JournalTooNew(
            f"{path} was written by a newer version of hermes (schema {version}, this one knows {SCHEMA_VERSION}); "
            f"upgrade hermes, or set HERMES_HOME to another folder. The file was not changed."
        )
    return version


def _migrate(connection: sqlite3.Connection, path: Path) -> None:
    version: int = connection.execute("PRAGMA user_version").fetchone()[0]
    for number in range(version, SCHEMA_VERSION):
        if number > 0:
            _back_up(connection, path, number)
        script = MIGRATIONS[number]
        connection.executescript(f"BEGIN IMMEDIATE; {script}; PRAGMA user_version = {number + 1}; COMMIT;")


def _back_up(connection: sqlite3.Connection, path: Path, version: int) -> None:
    target = path.with_name(f"{path.name}.schema{version}.bak")
    target.unlink(missing_ok=True)
    connection.execute("VACUUM INTO ?", (str(target),))
    target.chmod(0o600)


def _lock_patiently(lock_file: int, path: Path) -> None:
    deadline = 0.0
    pause = 0.0005
    while True:
        try:
            fcntl.flock(lock_file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            now = time.monotonic()
            deadline = deadline or now + LOCK_PATIENCE_SECONDS
            if now > deadline:
                raise JournalError(
                    f"{path} has been locked by another process for {LOCK_PATIENCE_SECONDS:.0f} s; "
                    f"see which hermes processes run and try again"
                ) from None
            time.sleep(pause)
            pause = min(pause * 2, 0.01)


def explain(error: sqlite3.Error, path: Path) -> JournalError:
    """The journal error that says what a SQLite error means for the person who sees it."""
    text = str(error)
    code = getattr(error, "sqlite_errorname", "") or ""
    if code in ("SQLITE_CORRUPT", "SQLITE_NOTADB") or "malformed" in text or "not a database" in text:
        return JournalCorrupt(
            f"{path} is damaged ({text}). It was left as it is: move it aside (with its -wal file) to start afresh, "
            f"or recover it with 'sqlite3 {path.name} .recover'"
        )
    if code == "SQLITE_FULL":
        return JournalError(f"no space left for {path}; free some and run the same command again")
    if code.startswith("SQLITE_READONLY") or code == "SQLITE_CANTOPEN":
        return JournalError(f"cannot write {path} ({text}); check the permissions of {path.parent} or set HERMES_HOME")
    if code.startswith("SQLITE_IOERR"):
        return JournalError(f"the disk refused to read or write {path} ({text}); free space or check the disk")
    return JournalError(f"the journal {path} failed: {text}")
