"""One writer per process, grouped commits, patience with other processes."""

from __future__ import annotations

import fcntl
import os
import sqlite3
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from hermes.base.errors import Interrupted, JournalError, SessionBusy
from hermes.journal.store.connection import JournalConnection
from hermes.journal.store.port import Store
from hermes.journal.store.sqlite import database
from hermes.journal.store.sqlite import store as store_module
from hermes.journal.store.sqlite.store import SqliteStore
from journal.kit import Caller, StoreFactory, insert_session, one_batch, rows, session_ids
from support.waiting import wait_until

Work = Callable[[JournalConnection], Any]


def add(session_id: str) -> Work:
    return lambda connection: insert_session(connection, session_id)


def failing(error: BaseException, session_id: str = "undone") -> Work:
    """Write something, then fail."""

    def work(connection: JournalConnection) -> None:
        insert_session(connection, session_id)
        raise error

    return work


# -- group commit -----------------------------------------------------------------------------------------------------


def test_a_write_returns_its_result_once_others_can_see_it(store: Store, journal_path: Path) -> None:
    assert store.write(add("a")) == "a"
    assert session_ids(journal_path) == ["a"]
    assert store.read(lambda connection: connection.execute("SELECT id FROM sessions").fetchall()) == [("a",)]


@pytest.fixture
def groups(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many writes each transaction has."""
    sizes: list[int] = []
    run: Callable[..., None] = vars(store_module)["_run_in_transaction"]

    def record(connection: sqlite3.Connection, batch: list[Any], path: Path) -> None:
        sizes.append(len(batch))
        run(connection, batch, path)

    monkeypatch.setattr(store_module, "_run_in_transaction", record)
    return sizes


def test_writes_that_wait_are_committed_together(store: Store, journal_path: Path, groups: list[int]) -> None:
    names = [f"s{number:02}" for number in range(12)]
    store.write(add("first"))
    with one_batch(store, *map(add, names)) as callers:
        pass
    assert [caller.result for caller in callers] == names
    assert session_ids(journal_path) == ["first", *names]
    # The write that held the others up, and one for all of them.
    assert groups == [1, 1, 12]


def test_while_several_threads_write_a_transaction_waits_for_more_of_them(
    store: Store, journal_path: Path, groups: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    late = Caller(store, add("d"))

    def join_meanwhile(_seconds: float) -> None:
        monkeypatch.setattr(store_module.time, "sleep", waits.append)
        late.start()
        wait_until(lambda: len(vars(store)["_waiting"]) == 1, "the writer has queued up")

    waits: list[float] = []
    with one_batch(store, add("a"), add("b")):
        monkeypatch.setattr(store_module, "time", SimpleNamespace(sleep=join_meanwhile, monotonic=time.monotonic))
    store.write(add("c"))
    late.join(60)
    assert session_ids(journal_path) == ["a", "b", "c", "d"]
    assert groups == [1, 2, 2]
    # One that has written alone does not have the next one wait.
    for name in ("e", "f"):
        store.write(add(name))
    assert groups == [1, 2, 2, 1, 1] and len(waits) == 1


def test_no_result_comes_back_before_the_commit(store: Store, journal_path: Path) -> None:
    seen: list[tuple[bool, list[str]]] = []

    def look(_: JournalConnection) -> None:
        if threading.current_thread() is not callers[0]:
            callers[0].join(0.05)
        seen.append((callers[0].is_alive(), session_ids(journal_path)))

    with one_batch(store, add("a"), look) as callers:
        pass
    assert seen == [(True, [])]
    assert session_ids(journal_path) == ["a"]


def test_one_failing_write_does_not_undo_the_others(store: Store, journal_path: Path) -> None:
    store.write(add("taken"))
    busy, wrong = SessionBusy("in use"), TypeError("not a number")
    works = (add("a"), failing(busy), add("taken"), failing(wrong), add("b"))
    with one_batch(store, *works) as (first, own_error, duplicate, python_error, last):
        pass
    assert (first.error, last.error) == (None, None)
    assert own_error.error is busy and python_error.error is wrong
    assert isinstance(duplicate.error, JournalError) and "UNIQUE" in str(duplicate.error)
    assert isinstance(duplicate.error.__cause__, sqlite3.IntegrityError)
    assert session_ids(journal_path) == ["a", "b", "taken"]


@pytest.mark.parametrize("error", [SessionBusy("in use"), TypeError("no"), Interrupted("stop")])
def test_a_write_that_fails_alone_leaves_nothing(store: Store, journal_path: Path, error: BaseException) -> None:
    with pytest.raises(type(error)) as caught:
        store.write(failing(error))
    assert caught.value is error
    store.write(add("after"))
    assert session_ids(journal_path) == ["after"]


def test_an_interrupt_fails_the_whole_batch_and_says_so_to_the_others(store: Store, journal_path: Path) -> None:
    with one_batch(store, add("a"), failing(Interrupted("stop"))) as callers:
        pass
    errors = [caller.error for caller in callers]
    assert any(isinstance(error, Interrupted) for error in errors)
    assert all(isinstance(error, Interrupted | JournalError) for error in errors)
    assert session_ids(journal_path) == []


def test_many_threads_lose_nothing(store: Store, journal_path: Path) -> None:
    def write_some(thread: int) -> None:
        for number in range(20):
            store.write(add(f"{thread:02}-{number:02}"))

    threads = [threading.Thread(target=write_some, args=(number,)) for number in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert session_ids(journal_path) == [f"{thread:02}-{number:02}" for thread in range(16) for number in range(20)]


def test_a_read_sees_one_instant(store: Store, open_store: StoreFactory) -> None:
    other = open_store()
    store.write(add("a"))

    def count_twice(connection: JournalConnection) -> tuple[int, int]:
        query = "SELECT count(*) FROM sessions"
        before = connection.execute(query).fetchone()[0]
        other.write(add("b"))
        return before, connection.execute(query).fetchone()[0]

    assert store.read(count_twice) == (1, 1)
    assert store.read(lambda connection: connection.execute("SELECT count(*) FROM sessions").fetchone()) == (2,)


def test_a_failing_read_leaves_the_reader_usable(store: Store) -> None:
    store.write(add("a"))
    with pytest.raises(ZeroDivisionError):
        store.read(lambda connection: connection.execute("SELECT 1").fetchone()[0] / 0)
    with pytest.raises(JournalError, match="no such table"):
        store.read(lambda connection: connection.execute("SELECT * FROM no_table"))
    assert store.read(lambda connection: connection.execute("SELECT id FROM sessions").fetchall()) == [("a",)]


def test_a_reader_cannot_write(store: Store, journal_path: Path) -> None:
    store.write(add("a"))
    with pytest.raises(JournalError, match="cannot open or write"):
        store.read(lambda connection: connection.execute("DELETE FROM sessions"))
    assert session_ids(journal_path) == ["a"]


# -- the log ----------------------------------------------------------------------------------------------------------


def test_the_log_is_folded_back_while_the_journal_stays_open(
    store: Store, journal_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_module, "CHECKPOINT_EVERY_COMMITS", 10)
    log = Path(f"{journal_path}-wal")
    store.write(add("first"))
    sizes: list[int] = []
    for number in range(60):
        store.write(add(f"s{number:02}"))
        sizes.append(log.stat().st_size)
    assert sizes[-1] == sizes[20], "the log starts over after each checkpoint instead of growing"
    assert len(session_ids(journal_path)) == 61


def test_a_checkpoint_that_fails_does_not_fail_the_commit(
    store: Store, journal_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_module, "CHECKPOINT_EVERY_COMMITS", 1)

    def refuse_checkpoints(connection: JournalConnection) -> None:
        assert isinstance(connection, sqlite3.Connection)
        connection.set_authorizer(_refuse_checkpoint)

    store.write(refuse_checkpoints)
    assert store.write(add("a")) == "a"
    assert session_ids(journal_path) == ["a"]


def _refuse_checkpoint(action: int, name: str | None, *_: object) -> int:
    refused = action == sqlite3.SQLITE_PRAGMA and name == "wal_checkpoint"
    return sqlite3.SQLITE_DENY if refused else sqlite3.SQLITE_OK


def test_a_long_log_is_folded_back_at_close_though_others_have_the_file_open(
    open_store: StoreFactory, journal_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_module, "CHECKPOINT_AT_CLOSE_BYTES", 0)
    idle, busy = open_store(), open_store()
    idle.write(add("a"))
    size = journal_path.stat().st_size
    for number in range(200):
        busy.write(add(f"s{number:03}"))
    assert journal_path.stat().st_size == size
    busy.close()
    assert journal_path.stat().st_size > size
    assert len(session_ids(journal_path)) == 201


def test_what_was_written_survives_close_and_open(open_store: StoreFactory, journal_path: Path) -> None:
    first = open_store()
    first.write(add("a"))
    first.close()
    assert not Path(f"{journal_path}-wal").exists()
    again = open_store()
    again.write(add("b"))
    assert session_ids(journal_path) == ["a", "b"]


def test_a_closed_store_opens_again_when_it_is_used(store: Store) -> None:
    store.write(add("a"))
    store.close()
    store.close()
    assert store.read(lambda connection: connection.execute("SELECT id FROM sessions").fetchall()) == [("a",)]
    assert store.write(add("b")) == "b"


# -- patience ---------------------------------------------------------------------------------------------------------


@contextmanager
def locked_elsewhere(journal_path: Path) -> Generator[Callable[[], None]]:
    """Hold the journal's lock as another process would; yields the function that lets it go."""
    file = os.open(f"{journal_path}.lock", os.O_RDWR)
    fcntl.flock(file, fcntl.LOCK_EX)
    try:
        yield lambda: fcntl.flock(file, fcntl.LOCK_UN)
    finally:
        os.close(file)


def test_a_lock_that_is_never_released_ends_the_patience(
    store: Store, journal_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "LOCK_TIMEOUT_SECONDS", 0.1)
    store.write(add("before"))
    ran: list[bool] = []
    with locked_elsewhere(journal_path), pytest.raises(JournalError) as caught:
        store.write(lambda _: ran.append(True))
    assert f"{journal_path} has been locked by another process for 0.1 s" in str(caught.value)
    assert not ran, "nothing may happen before the lock is held"
    store.write(add("after"))
    assert session_ids(journal_path) == ["after", "before"]


def test_a_writer_waits_for_the_lock(store: Store, journal_path: Path) -> None:
    store.write(add("before"))
    with locked_elsewhere(journal_path) as release:
        timer = threading.Timer(0.05, release)
        timer.start()
        store.write(add("after"))
        assert timer.finished.is_set()
        timer.join()
    assert session_ids(journal_path) == ["after", "before"]


def test_reading_needs_no_lock(store: Store, journal_path: Path) -> None:
    store.write(add("a"))
    with locked_elsewhere(journal_path):
        assert store.read(lambda connection: connection.execute("SELECT id FROM sessions").fetchall()) == [("a",)]


# -- opening ----------------------------------------------------------------------------------------------------------


def test_nothing_is_made_until_something_is_written(store: Store, journal_path: Path) -> None:
    assert store.read(lambda connection: connection.execute("SELECT * FROM sessions").fetchall()) == []
    assert not journal_path.parent.exists()


def test_a_reader_of_the_empty_journal_finds_the_file_when_it_appears(store: Store, open_store: StoreFactory) -> None:
    query = "SELECT id FROM sessions"
    assert store.read(lambda connection: connection.execute(query).fetchall()) == []
    open_store().write(add("a"))
    assert store.read(lambda connection: connection.execute(query).fetchall()) == [("a",)]


def test_opening_and_reading_change_no_byte(open_store: StoreFactory, journal_path: Path) -> None:
    first = open_store()
    first.write(add("a"))
    first.close()
    before = (journal_path.read_bytes(), journal_path.stat().st_mtime_ns)
    again = open_store()
    again.read(lambda connection: connection.execute("SELECT * FROM sessions").fetchall())
    # A write that changes no row opens the writer and commits nothing.
    again.write(lambda connection: connection.execute("SELECT 1").fetchone())
    again.close()
    assert (journal_path.read_bytes(), journal_path.stat().st_mtime_ns) == before


def test_the_files_are_private_from_the_start(store: Store, journal_path: Path) -> None:
    previous = os.umask(0)
    try:
        store.write(add("a"))
    finally:
        os.umask(previous)
    assert {file.name: file.stat().st_mode & 0o777 for file in store.files()} == {
        "state.db": 0o600,
        "state.db-wal": 0o600,
        "state.db-shm": 0o600,
        "state.db.lock": 0o600,
    }
    assert journal_path.parent.stat().st_mode & 0o777 == 0o700


def test_a_process_that_died_while_making_the_file_leaves_no_trouble(store: Store, journal_path: Path) -> None:
    journal_path.parent.mkdir()
    journal_path.touch()
    assert store.read(lambda connection: connection.execute("SELECT * FROM sessions").fetchall()) == []
    store.write(add("a"))
    assert rows(journal_path, "PRAGMA journal_mode") == [("wal",)]
    assert rows(journal_path, "PRAGMA auto_vacuum") == [(2,)]


def test_an_sqlite_that_is_too_old_is_refused(journal_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database, "MINIMUM_SQLITE", (99, 1, 0))
    with pytest.raises(JournalError, match=r"is too old for the journal; 99\.1\.0 or newer is needed"):
        SqliteStore(journal_path)


def test_a_journal_that_another_process_creates_at_this_moment_is_not_that_of_another_program(
    journal_path: Path, open_store: StoreFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal_path.parent.mkdir(parents=True)
    with sqlite3.connect(journal_path) as connection:
        connection.execute("PRAGMA journal_mode=WAL")  # as far as the other process is
    connection.close()
    read_version = database._version  # pyright: ignore[reportPrivateUsage]

    def version_then_creation(connection: sqlite3.Connection) -> int:
        version = read_version(connection)
        monkeypatch.setattr(database, "_version", read_version)
        open_store().write(add("of the other process"))
        return version

    monkeypatch.setattr(database, "_version", version_then_creation)
    found = open_store().read(lambda connection: connection.execute("SELECT id FROM sessions").fetchall())
    assert found == [("of the other process",)]


@pytest.mark.sqlite_only
def test_what_is_recorded_after_the_end_leaves_no_file_open(journal_path: Path) -> None:
    """A turn's thread may outlive its host: its last words are kept, and its connection is not."""
    store = SqliteStore(journal_path)
    store.write(add("before"))
    store.close()
    store.write(add("after"))
    assert store.read(lambda connection: connection.execute("SELECT COUNT(*) FROM sessions").fetchone()) == (2,)
    names = {str(path) for path in store.files()}
    assert [link for link in map(read_link, Path("/proc/self/fd").iterdir()) if link in names] == []


def read_link(descriptor: Path) -> str:
    """What a descriptor stands for; those of the listing itself are gone by now."""
    try:
        return str(descriptor.readlink())
    except OSError:
        return ""
