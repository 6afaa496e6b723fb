"""The journal in a SQLite file: one writer connection per process, group commit, readers beside it."""

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
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import msgspec

from hermes.base.config.files import open_lock, try_lock
from hermes.base.errors import JournalCorrupt, JournalError
from hermes.journal.crash import crash_point
from hermes.journal.runner import FileRunner
from hermes.journal.store.connection import JournalConnection
from hermes.journal.store.port import Store
from hermes.journal.store.sqlite import database
from hermes.journal.store.sqlite.database import companion, explain, is_fatal
from hermes.journal.store.sqlite.durability import LogSync

if TYPE_CHECKING:
    from hermes.journal.store.sqlite.search import SqliteSearchIndex

T = TypeVar("T")

CHECKPOINT_EVERY_COMMITS = 1_000
#: Commit delay: how many seconds a transaction waits for others to join it, when the last one had several writes.
_COMMIT_DELAY = 0.001
#: A process that leaves a longer log than this behind folds it back, as far as others let it.
CHECKPOINT_AT_CLOSE_BYTES = 4 * 1024 * 1024


class SqliteStore(Store):
    """Access to ``state.db``. Thread-safe.

    Writes of a process go through one connection, under a thread lock and then an advisory lock on a sidecar file.
    Group commit: waiting threads are committed together by the one that holds the lock, and share a sync. While several
    threads write at once, each transaction waits a moment for more of them: it costs more than what is written in it.
    """

    def __init__(self, path: Path, *, is_scratch: bool = False) -> None:
        """``is_scratch``: the file is thrown away afterwards, so that nothing waits for the disk."""
        database.check_sqlite_version()
        self.is_scratch = is_scratch
        self.path = path
        self._writer: sqlite3.Connection | None = None
        self._reader: sqlite3.Connection | None = None
        self._reader_is_empty = False
        self._reader_lock = threading.Lock()
        self._commit_lock = threading.Lock()
        self._waiting: deque[_Write[Any]] = deque()
        self._lock_file = -1
        self._commits = 0
        #: How many writes the last transaction had.
        self._last_group = 1
        self._damage: JournalCorrupt | None = None
        self._is_closed = False
        self._log = LogSync(companion(path, "-wal"))

    def files(self) -> list[Path]:
        """The files no other code of this process may open: closing any descriptor of them drops SQLite's locks."""
        return [self.path, *(companion(self.path, suffix) for suffix in ("-wal", "-shm", ".lock"))]

    @property
    def location(self) -> str:
        """The file."""
        return str(self.path)

    def exists(self) -> bool:
        """Whether the file is there."""
        return self.path.exists()

    def notice(self) -> str:
        """A warning when the file is empty although others show that there was one."""
        return database.lost_history(self.path)

    def new_runner(self) -> FileRunner:
        """This process as an owner of sessions, with a file beside the journal."""
        return FileRunner(self.path.with_name("runners"))

    def search_index(self) -> SqliteSearchIndex:
        """The search index, in a file beside the journal."""
        from hermes.journal.store.sqlite.search import SqliteSearchIndex  # most runs search nothing

        return SqliteSearchIndex(self, self.path.with_name("search.db"))

    def number_on(self, connection: JournalConnection) -> None:
        """SQLite follows the highest number by itself."""

    @contextlib.contextmanager
    def erasing(self, connection: JournalConnection) -> Generator[None]:
        """While it is open, what is deleted is overwritten. A transaction has the file to itself."""
        connection.execute("PRAGMA secure_delete=ON")
        try:
            yield
        finally:
            connection.execute("PRAGMA secure_delete=OFF")

    def give_back_space(self) -> None:
        """Make the file smaller."""
        self.write(database.give_back_space)

    # -- writing ------------------------------------------------------------------------------------------------

    def write(self, work: Callable[[JournalConnection], T]) -> T:
        result = self.write_soon(work)
        self.sync()
        return result

    def write_soon(self, work: Callable[[JournalConnection], T]) -> T:
        write = _Write(work)
        self._waiting.append(write)
        with self._commit_lock:
            if not write.finished:
                self._commit_waiting()
            if self._is_closed:
                self._close_files()
        return write.result()

    def start_sync(self) -> None:
        if not self.is_scratch:
            self._log.start()

    def sync(self) -> None:
        try:
            if not self.is_scratch:
                self._log.wait()
        except OSError as error:
            raise explain(error, self.path) from error

    def _commit_waiting(self) -> None:
        batch = self._take_waiting()
        crash_point()
        try:
            if self._last_group > 1:
                time.sleep(_COMMIT_DELAY)
                batch += self._take_waiting()
            self._last_group = len(batch)
            if self._damage is not None:
                raise self._damage
            connection = self._writer or self._open_writer()
            self._lock()
            try:
                _run_in_transaction(connection, batch, self.path)
                self._log.written += 1
                self._commits += 1
                if self._commits % CHECKPOINT_EVERY_COMMITS == 0:
                    _checkpoint(connection)
            finally:
                fcntl.flock(self._lock_file, fcntl.LOCK_UN)
        except Exception as error:
            self._fail(batch, explain(error, self.path))
        except BaseException:
            self._fail(batch, JournalError("the write was cut off before it reached the disk; nothing was recorded"))
            raise
        crash_point()

    def _take_waiting(self) -> list[_Write[Any]]:
        return [self._waiting.popleft() for _ in range(len(self._waiting))]

    def _fail(self, batch: list[_Write[Any]], error: Exception) -> None:
        if isinstance(error, JournalCorrupt):
            self._damage = error  # writing on would only make it worse
        for write in batch:
            write.fail(error)

    def _open_writer(self) -> sqlite3.Connection:
        if self._lock_file < 0:
            self._lock_file = open_lock(companion(self.path, ".lock"))
        self._lock()
        try:
            self._writer = database.open_writer(self.path)
        finally:
            fcntl.flock(self._lock_file, fcntl.LOCK_UN)
        return self._writer

    def _lock(self) -> None:
        """Take the sidecar lock. Faster and fairer between processes than SQLite's own busy handler, and no
        checkpoint can run beside a write."""
        deadline, pause = time.monotonic() + database.LOCK_TIMEOUT_SECONDS, 0.0005
        while not try_lock(self._lock_file):
            if time.monotonic() > deadline:
                raise JournalError(
                    f"{self.path} has been locked by another process for {database.LOCK_TIMEOUT_SECONDS:g} s; "
                    f"see which hermes processes run and try again"
                )
            time.sleep(pause)
            pause = min(pause * 2, 0.002)

    # -- reading ------------------------------------------------------------------------------------------------

    def read(self, work: Callable[[JournalConnection], T]) -> T:
        """Run ``work`` on a read-only connection. It sees every finished commit, and all its queries see the same."""
        with self._reader_lock:
            try:
                connection = self._usable_reader()
                connection.execute("BEGIN")
                try:
                    return work(connection)
                finally:
                    connection.rollback()
            except Exception as error:
                explained = explain(error, self.path)
                if explained is error:
                    raise
                raise explained from error
            finally:
                if self._is_closed:
                    self._close_reader()

    def change_mark(self) -> object:
        """The number that SQLite raises for a connection whenever another one has changed the file."""
        mark = self.read(lambda connection: connection.execute("PRAGMA data_version").fetchone()[0])
        return mark, self._reader_is_empty

    def _usable_reader(self) -> sqlite3.Connection:
        if self._reader is not None and not (self._reader_is_empty and self.path.exists()):
            return self._reader
        self._close_reader()
        self._reader_is_empty = not self.path.exists()
        if self._reader_is_empty:
            # Nothing was ever journaled: an empty journal in memory answers the same questions.
            self._reader = database.empty_journal()
            return self._reader
        reader = database.open_reader(self.path)
        try:
            if database.needs_migration(reader):
                with self._commit_lock:
                    if self._writer is None:  # else another thread is about to finish the file
                        self._open_writer()
        except BaseException:
            reader.close()
            raise
        self._reader = reader
        return reader

    def check_after_crash(self) -> None:
        """Look for damage in the file when the process that used it last has died. Raises ``JournalCorrupt``."""
        if self.path.exists():
            damage = self.read(database.find_damage)
            if damage:
                self._damage = database.damaged(self.path, damage)
                raise self._damage

    # -- life ---------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Close the connections. A thread that still has something to record opens them for that alone."""
        self._is_closed = True
        with self._reader_lock:
            self._close_reader()
        with self._commit_lock:
            self._close_files()

    def _close_reader(self) -> None:
        if self._reader is not None:
            self._reader.close()
            self._reader = None

    def _close_files(self) -> None:
        with contextlib.suppress(OSError):  # a caller that needs the result has waited for it
            self._log.close()
        self._close_writer()
        if self._lock_file >= 0:
            os.close(self._lock_file)
            self._lock_file = -1

    def _close_writer(self) -> None:
        """Close the writer under the lock, because the last connection folds the write-ahead log back."""
        writer, self._writer = self._writer, None
        if writer is None:
            return
        # Whatever goes wrong here, everything that was acknowledged is in the log. The lock ends with its file.
        with contextlib.suppress(JournalError):
            self._lock()
        with contextlib.suppress(OSError):
            if companion(self.path, "-wal").stat().st_size > CHECKPOINT_AT_CLOSE_BYTES:
                _checkpoint(writer)
        with contextlib.suppress(sqlite3.Error):
            writer.close()


class _Write(msgspec.Struct, Generic[T]):
    """One caller's transaction while it waits to be committed, perhaps by another thread."""

    work: Callable[[JournalConnection], T]
    finished: bool = False
    _value: T | None = None
    _error: Exception | None = None

    def run(self, connection: JournalConnection) -> None:
        self._value = self.work(connection)

    def fail(self, error: Exception) -> None:
        if not self.finished:
            self._error = error
            self.finished = True

    def result(self) -> T:
        if self._error is not None:
            raise self._error
        return self._value  # pyright: ignore[reportReturnType]  (set by run, which fail() would have replaced)


def _run_in_transaction(connection: sqlite3.Connection, batch: list[_Write[Any]], path: Path) -> None:
    connection.execute("BEGIN IMMEDIATE")
    try:
        try:
            for write in batch:
                write.run(connection)
        except Exception as error:
            if len(batch) == 1 or is_fatal(error):
                raise
            connection.execute("ROLLBACK")
            connection.execute("BEGIN IMMEDIATE")
            for write in batch:
                _run_isolated(connection, write, path)
        connection.execute("COMMIT")
    except BaseException:
        with contextlib.suppress(sqlite3.Error):
            connection.execute("ROLLBACK")
        raise
    for write in batch:
        write.finished = True


def _run_isolated(connection: sqlite3.Connection, write: _Write[Any], path: Path) -> None:
    """Run one that may be the one that fails: it must not undo the writes of the others in the same transaction."""
    connection.execute("SAVEPOINT one_write")
    try:
        write.run(connection)
    except Exception as error:
        if is_fatal(error):
            raise
        connection.execute("ROLLBACK TO one_write")
        write.fail(explain(error, path))
    connection.execute("RELEASE one_write")


def _checkpoint(connection: sqlite3.Connection) -> None:
    # The commit before it is safe, so a checkpoint that fails is only postponed.
    with contextlib.suppress(sqlite3.Error):
        connection.execute("PRAGMA wal_checkpoint(PASSIVE)")
