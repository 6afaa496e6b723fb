"""Files that cannot be used: newer, foreign, damaged, read-only, on a full disk. A clear line each, and no loss."""

from __future__ import annotations

import fcntl
import os
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from hermes.base.errors import JournalCorrupt, JournalError, JournalTooNew
from hermes.journal.runner import FileRunner, Runner
from hermes.journal.sessions import Sessions
from hermes.journal.store import schema
from hermes.journal.store.connection import JournalConnection
from hermes.journal.store.port import Store
from hermes.journal.store.sqlite.search import SqliteSearchIndex
from hermes.journal.store.sqlite.store import SqliteStore
from hermes.tools.files.guard import FileGuard
from journal.kit import (
    StoreFactory,
    can_mount,
    finish_turn,
    in_own_mounts,
    insert_session,
    python,
    rows,
    session_ids,
    start_turn,
    user,
)


def write_session(store: Store, session_id: str = "s") -> None:
    store.write(lambda connection: insert_session(connection, session_id))


def read_sessions(store: Store) -> list[tuple[str]]:
    return store.read(lambda connection: connection.execute("SELECT id FROM sessions ORDER BY id").fetchall())


def make_journal(path: Path, *session_ids_: str) -> None:
    store = SqliteStore(path)
    for session_id in session_ids_:
        write_session(store, session_id)
    store.close()


# -- schema -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("action", [write_session, read_sessions])
def test_a_newer_journal_is_refused_and_left_alone(store: Store, journal_path: Path, action: object) -> None:
    make_journal(journal_path, "old")
    with closing(sqlite3.connect(journal_path)) as connection:
        connection.execute("PRAGMA user_version = 99")
    before = journal_path.read_bytes()
    with pytest.raises(JournalTooNew) as caught:
        write_session(store) if action is write_session else read_sessions(store)
    known = len(schema.MIGRATIONS)
    assert str(caught.value) == (
        f"{journal_path} was written by a newer version of hermes (schema 99, this one knows {known}); "
        f"upgrade hermes, or set HERMES_HOME to another folder. The file was not changed."
    )
    store.close()
    assert journal_path.read_bytes() == before


def test_a_newer_journal_with_a_log_keeps_both_as_they_are(store: Store, journal_path: Path) -> None:
    """A program that died leaves its last commits in the log, and folding them back is not ours to do."""
    journal_path.parent.mkdir()
    script = (
        "import os, sqlite3, sys; c = sqlite3.connect(sys.argv[1], isolation_level=None)\n"
        "c.execute('PRAGMA journal_mode=WAL'); c.execute('CREATE TABLE t (x)'); c.execute('PRAGMA user_version = 99')\n"
        "os.kill(os.getpid(), 9)"
    )
    python(script, str(journal_path))
    log = Path(f"{journal_path}-wal")
    before = (journal_path.read_bytes(), log.read_bytes())
    assert before[1], "the last commits are in the log"
    with pytest.raises(JournalTooNew):
        write_session(store)
    store.close()
    assert (journal_path.read_bytes(), log.read_bytes()) == before


def test_the_database_of_another_program_is_refused_and_left_alone(store: Store, journal_path: Path) -> None:
    journal_path.parent.mkdir()
    with closing(sqlite3.connect(journal_path)) as connection:
        connection.execute("CREATE TABLE sessions (id TEXT)")
    before = journal_path.read_bytes()
    for action in (write_session, read_sessions):
        with pytest.raises(JournalError, match="is the database of another program; move it aside"):
            action(store)
    store.close()
    assert journal_path.read_bytes() == before


ADD_COLUMN = "ALTER TABLE sessions ADD COLUMN archived INTEGER NOT NULL DEFAULT 0;"


@pytest.mark.parametrize("action", [write_session, read_sessions])
def test_an_older_journal_moves_forward_with_a_backup(
    store: Store, journal_path: Path, monkeypatch: pytest.MonkeyPatch, action: object
) -> None:
    make_journal(journal_path, "old")
    now = len(schema.MIGRATIONS)
    monkeypatch.setattr(schema, "MIGRATIONS", (*schema.MIGRATIONS, ADD_COLUMN, "CREATE TABLE extra (x TEXT) STRICT;"))
    if action is write_session:
        write_session(store, "new")
    assert ("old",) in read_sessions(store)
    assert rows(journal_path, "PRAGMA user_version") == [(now + 2,)]
    assert rows(journal_path, "SELECT id, archived FROM sessions WHERE id = 'old'") == [("old", 0)]
    backup = Path(f"{journal_path}.schema{now}.bak")
    assert rows(backup, "PRAGMA user_version") == [(now,)]
    assert session_ids(backup) == ["old"]
    assert backup.stat().st_mode & 0o777 == 0o600
    assert [file.name for file in journal_path.parent.glob("*.bak")] == [f"state.db.schema{now}.bak"]


def test_a_migration_that_fails_changes_nothing(
    store: Store, journal_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_journal(journal_path, "old")
    good = schema.MIGRATIONS
    monkeypatch.setattr(schema, "MIGRATIONS", (*good, f"{ADD_COLUMN} INSERT INTO no_table VALUES (1);"))
    with pytest.raises(JournalError, match="no such table"):
        write_session(store)
    assert rows(journal_path, "PRAGMA user_version") == [(len(good),)]
    monkeypatch.setattr(schema, "MIGRATIONS", good)
    write_session(store, "new")
    assert session_ids(journal_path) == ["new", "old"]


def test_every_migration_has_run_once_in_a_new_journal(
    store: Store, journal_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(schema, "MIGRATIONS", (*schema.MIGRATIONS, ADD_COLUMN))
    write_session(store)
    assert rows(journal_path, "SELECT archived FROM sessions") == [(0,)]
    assert not list(journal_path.parent.glob("*.bak")), "there is nothing to back up"


# -- damage -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "content",
    [b"this is no database\n" * 300, b"\0" * 8192, bytes(range(1, 256)) * 20],
    ids=["text", "zeros", "bytes"],
)
def test_garbage_is_refused_and_left_alone(store: Store, journal_path: Path, content: bytes) -> None:
    journal_path.parent.mkdir()
    journal_path.write_bytes(content)
    for action in (write_session, read_sessions):
        with pytest.raises(JournalCorrupt, match=r"is damaged .* It was left as it is: move it aside"):
            action(store)
    store.close()
    assert journal_path.read_bytes() == content


def test_a_journal_that_lost_its_end_is_refused_and_left_alone(
    store: Store, open_store: StoreFactory, runner: Runner, journal_path: Path
) -> None:
    first = open_store()
    for number in range(30):
        finish_turn(start_turn(first, runner, f"s{number}"), "x" * 5000)
    first.close()
    whole = journal_path.read_bytes()
    journal_path.write_bytes(whole[: len(whole) // 3])
    with pytest.raises(JournalCorrupt):
        start_turn(store, runner, "new")
    with pytest.raises(JournalCorrupt):
        Sessions(store).list()
    store.close()
    assert journal_path.read_bytes() == whole[: len(whole) // 3]


def test_after_damage_was_found_nothing_more_is_written(store: Store, journal_path: Path) -> None:
    write_session(store, "before")
    with pytest.raises(JournalCorrupt):
        store.write(_find_damage)
    with pytest.raises(JournalCorrupt):
        write_session(store, "after")
    assert session_ids(journal_path) == ["before"]


def _find_damage(connection: JournalConnection) -> None:
    """Make SQLite itself report damage, by having it read a broken file through the same connection."""
    connection.execute("COMMIT")
    name = connection.execute("PRAGMA database_list").fetchone()[2]
    broken = Path(name).with_name("broken.db")
    broken.write_bytes(b"garbage " * 1000)
    connection.execute("ATTACH ? AS broken", (str(broken),))
    connection.execute("SELECT * FROM broken.sqlite_master")


# -- disks and permissions --------------------------------------------------------------------------------------------


def test_a_full_database_says_so_and_keeps_what_it_has(store: Store, runner: Runner, journal_path: Path) -> None:
    turn = start_turn(store, runner)
    turn.event("note", "kept", "before")
    turn.commit()
    pages = store.write(lambda connection: connection.execute("PRAGMA page_count").fetchone()[0])
    store.write(lambda connection: connection.execute(f"PRAGMA max_page_count = {pages + 2}").fetchone())
    turn.event("note", "big", "x" * 30_000)
    with pytest.raises(JournalError) as caught:
        turn.commit()
    assert str(caught.value) == f"no space left for {journal_path}; free some and run the same command again"
    assert [event["key"] for event in Sessions(store).events("s1")] == ["", "kept"]
    # Somebody frees space: what was recorded meanwhile is not lost.
    store.write(lambda connection: connection.execute("PRAGMA max_page_count = 1000000").fetchone())
    turn.event("note", "later", "")
    turn.commit()
    events = Sessions(store).events("s1")
    assert [event["key"] for event in events] == ["", "kept", "big", "later"]
    assert [event["seq"] for event in events] == [1, 2, 3, 4]


FILL_THE_DISK = """
import sys
from pathlib import Path
from journal.kit import rows, start_turn
from hermes.base.errors import JournalError
from hermes.journal.runner import FileRunner, Runner
from hermes.journal.store.port import Store
from hermes.journal.store.sqlite.store import SqliteStore

folder = Path(sys.argv[1])
store, runner = SqliteStore(folder / "state.db"), FileRunner(folder / "runners")
turn = start_turn(store, runner)
acknowledged = 1
try:
    for number in range(10_000):
        turn.event("note", str(number), "x" * 3000)
        turn.commit()
        acknowledged += 1
except JournalError as error:
    print(error)
store.close()
assert acknowledged > 5, acknowledged
assert rows(folder / "state.db", "SELECT count(*), max(seq) FROM events") == [(acknowledged, acknowledged)]
assert rows(folder / "state.db", "PRAGMA integrity_check") == [("ok",)]
# Nothing can begin on a disk that has been full from the start, either.
filler = folder / "filler"
with filler.open("wb", buffering=0) as file:
    try:
        while file.write(b"x" * 512): pass
    except OSError: pass
try:
    start_turn(SqliteStore(folder / "other.db"), FileRunner(folder / "others"))
except JournalError as error:
    print(error)
"""


@pytest.mark.skipif(not can_mount(), reason="needs a small disk of its own")
def test_a_disk_that_fills_up_loses_nothing_acknowledged(tmp_path: Path) -> None:
    wrapper = in_own_mounts("mount -t tmpfs -o size=600k none FOLDER", tmp_path)
    done = python(FILL_THE_DISK, str(tmp_path), wrapper=wrapper)
    assert done.returncode == 0, done.stderr
    first, second = done.stdout.splitlines()
    assert first == f"no space left for {tmp_path}/state.db; free some and run the same command again"
    assert "other" in second and ("space" in second or "disk" in second)


READ_ONLY = """
import sys
from pathlib import Path
from journal.kit import insert_session
from hermes.base.errors import JournalError
from hermes.journal.store.port import Store
from hermes.journal.store.sqlite.store import SqliteStore

store = SqliteStore(Path(sys.argv[1]) / "state.db")
try:
    print([row[0] for row in store.read(lambda c: c.execute("SELECT id FROM sessions").fetchall())])
except JournalError as error:
    print(error)
try:
    store.write(lambda c: insert_session(c, "new"))
except JournalError as error:
    print(error)
"""


def read_only(folder: Path) -> tuple[str, ...]:
    """Make a folder and its files such that they cannot be written, for root too."""
    if os.geteuid() != 0:
        for file in folder.iterdir():
            file.chmod(0o400)
        folder.chmod(0o500)
        return ()
    if not can_mount():
        pytest.skip("root may write everywhere, and no read-only mount is possible here")
    return in_own_mounts("mount --bind FOLDER FOLDER; mount -o remount,ro,bind FOLDER", folder)


def leave_by_kill(journal_path: Path) -> None:
    """The last commits of a killed process are in its log."""
    script = (
        "import os, sys; from pathlib import Path; from journal.kit import insert_session\n"
        "from hermes.journal.store.sqlite.store import SqliteStore\n"
        "SqliteStore(Path(sys.argv[1])).write(lambda c: insert_session(c, 'a')); os.kill(os.getpid(), 9)"
    )
    python(script, str(journal_path))
    assert Path(f"{journal_path}-wal").stat().st_size


def use_read_only(folder: Path) -> list[str]:
    try:
        done = python(READ_ONLY, str(folder), wrapper=read_only(folder))
    finally:
        folder.chmod(0o700)
        for file in folder.iterdir():
            file.chmod(0o600)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.mark.parametrize("left_by", ["close", "kill"])
def test_a_folder_that_cannot_be_written_can_still_be_read(journal_path: Path, left_by: str) -> None:
    make_journal(journal_path, "a") if left_by == "close" else leave_by_kill(journal_path)
    listed, refused = use_read_only(journal_path.parent)
    assert listed == "['a']"
    assert str(journal_path) in refused and "set HERMES_HOME" in refused


def test_a_log_that_cannot_be_read_is_not_passed_over(journal_path: Path) -> None:
    leave_by_kill(journal_path)
    Path(f"{journal_path}-shm").unlink()
    listed, _ = use_read_only(journal_path.parent)
    assert listed.startswith(f"cannot open or write {journal_path}"), "rows are in the log, so an empty list is a lie"


def test_a_home_that_is_a_file_is_named(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.write_text("")
    with pytest.raises(JournalError, match=rf"cannot use the journal {home}/state.db: .*set HERMES_HOME"):
        write_session(SqliteStore(home / "state.db"))
    with pytest.raises(JournalError, match=rf"cannot write {home}/runners: .*set HERMES_HOME"):
        FileRunner(home / "runners").start()


# -- the trap of the closed descriptor ---------------------------------------------------------------------------------

HAS_LOCKS = """
import fcntl, sys
with open(sys.argv[1], "r+b") as file:
    try:
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 512, 0x40000000)
    except OSError:
        print("held")
"""


def test_a_raw_open_of_the_file_drops_the_locks_and_is_what_the_guard_refuses(
    store: Store, journal_path: Path, tmp_path: Path
) -> None:
    """POSIX locks end when *any* descriptor of the file is closed in the process: another process may then believe
    that nobody uses the database, delete the log, and commits that follow are lost. So nothing may open these files."""
    write_session(store)
    index = SqliteSearchIndex(store, journal_path.with_name("search.db"))
    guard = FileGuard()
    guard.protect(*store.files(), *index.files())
    link = tmp_path / "innocent.txt"
    link.symlink_to(journal_path)
    for path in (*store.files(), *index.files(), link):
        assert guard.refusal(path), path

    assert python(HAS_LOCKS, str(journal_path)).stdout == "held\n"
    # What a child process opens is harmless.
    python("import sys; open(sys.argv[1], 'rb').read()", str(journal_path))
    assert python(HAS_LOCKS, str(journal_path)).stdout == "held\n"
    # What this process opens is not.
    journal_path.read_bytes()
    assert python(HAS_LOCKS, str(journal_path)).stdout == ""


def test_the_lock_between_processes_survives_a_raw_open(store: Store, journal_path: Path) -> None:
    """The sidecar lock belongs to its open file description, so a stray close cannot drop it."""
    write_session(store)
    lock = Path(f"{journal_path}.lock")
    seen: list[bool] = []

    def look(_: JournalConnection) -> None:
        lock.read_bytes()
        file = os.open(lock, os.O_RDWR)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            seen.append(True)
        finally:
            os.close(file)

    store.write(look)
    assert seen == [True]


def test_a_prompt_of_a_megabyte_is_kept_whole(store: Store, runner: Runner) -> None:
    text = "prompt \u00e9\n" * 120_000
    start_turn(store, runner, message=user(text))
    assert Sessions(store).messages("s1") == [user(text)]
    assert len(Sessions(store).get("s1").title) <= 60
