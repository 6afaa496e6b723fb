"""The SQLite file: connections, schema migrations, and errors explained for users. Everything that only SQLite has."""

from __future__ import annotations

import contextlib
import os
import sqlite3
from pathlib import Path

from hermes.base.errors import JournalCorrupt, JournalError, JournalTooNew
from hermes.journal.store import schema
from hermes.journal.store.connection import JournalConnection

#: How long a writer waits for another process before it gives up, visibly and before the effect.
LOCK_TIMEOUT_SECONDS = 30.0
#: A row of a journal is small and several tables change with each commit: small pages halve what is written and synced.
PAGE_SIZE = 2_048
#: The size that the write-ahead log keeps on disk when it starts over after a checkpoint.
LOG_SIZE_LIMIT = 16 * 1024 * 1024
#: How much of the file a deletion gives back at once; the rest is used for what comes next.
_PAGES_TO_GIVE_BACK = 10_000
#: Larger files are not checked as a whole at a start.
_CHECK_WHOLE_BYTES = 64 * 1024 * 1024
MINIMUM_SQLITE = (3, 37, 0)


def check_sqlite_version() -> None:
    """Refuse a SQLite that lacks what the schema uses."""
    if sqlite3.sqlite_version_info < MINIMUM_SQLITE:
        needed = ".".join(map(str, MINIMUM_SQLITE))
        raise JournalError(
            f"SQLite {sqlite3.sqlite_version} is too old for the journal; {needed} or newer is needed: "
            f"use a newer Python build"
        )


def companion(path: Path, suffix: str) -> Path:
    """A file beside the database, such as its write-ahead log."""
    return path.with_name(path.name + suffix)


# -- connections ----------------------------------------------------------------------------------------------------


def open_writer(path: Path) -> sqlite3.Connection:
    """The connection that writes, with the schema up to date. Call it under the lock of the journal."""
    if not path.exists():
        # Made by hand so that it is private from its first instant. No connection can be open to it yet.
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
    # A connection that may write folds the log back when it closes, so a file that is refused must not see one.
    open_reader(path).close()
    connection = sqlite3.connect(path, check_same_thread=False, isolation_level=None, timeout=LOCK_TIMEOUT_SECONDS)
    try:
        if _version(connection) == 0:
            _prepare_new_file(connection, path)
        for pragma in (
            "synchronous=FULL",
            "foreign_keys=ON",
            "trusted_schema=OFF",
            "wal_autocheckpoint=0",
            f"journal_size_limit={LOG_SIZE_LIMIT}",
        ):
            connection.execute(f"PRAGMA {pragma}")
        _migrate(connection, path)
        # From here on ``durability.LogSync`` syncs the log; SQLite still does so around checkpoints.
        connection.execute("PRAGMA synchronous=NORMAL")
    except BaseException:
        connection.close()
        raise
    return connection


def open_reader(path: Path) -> sqlite3.Connection:
    """A connection that cannot change the file. Its schema may be an older one; a newer or a foreign one is refused."""
    try:
        return _connect_read_only(path, "mode=ro")
    except sqlite3.OperationalError as error:
        # In a folder it may not write SQLite cannot keep its shared memory. Without a log there is nothing to share.
        if not _code(error).startswith(("SQLITE_CANTOPEN", "SQLITE_READONLY")) or _has_log(path):
            raise
        return _connect_read_only(path, "immutable=1")


def found_version(path: Path) -> int | None:
    """The schema version of a file, read without migrating it; None when there is no file."""
    if not path.exists():
        return None
    try:
        with contextlib.closing(open_reader(path)) as connection:
            return _version(connection)
    except (sqlite3.Error, OSError) as error:
        raise explain(error, path) from error


def empty_journal(version: int | None = None) -> sqlite3.Connection:
    """A journal in memory that answers every question with nothing, with the newest tables or those of a version."""
    connection = sqlite3.connect(":memory:", check_same_thread=False, isolation_level=None)
    for script in schema.MIGRATIONS[:version]:
        connection.executescript(script)
    return connection


def needs_migration(connection: sqlite3.Connection) -> bool:
    """Whether the file has an older schema than this program."""
    return _version(connection) < len(schema.MIGRATIONS)


def give_back_space(connection: JournalConnection) -> None:
    """Make the file smaller where rows were deleted."""
    free: int = connection.execute("PRAGMA freelist_count").fetchone()[0]
    for _ in range(min(free, _PAGES_TO_GIVE_BACK)):
        # The Python module takes one step of this statement only, which is one page.
        connection.execute("PRAGMA incremental_vacuum(1)")


def find_damage(connection: JournalConnection) -> str:
    """What a quick check finds wrong with the file, as text. A large file is checked in part, in the tables that
    every turn needs."""
    pages, size = (connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("page_count", "page_size"))
    scopes = ("1",) if pages * size <= _CHECK_WHOLE_BYTES else ("sessions", "turns")
    for scope in scopes:
        verdict = str(connection.execute(f"PRAGMA quick_check({scope})").fetchone()[0])
        if verdict != "ok":
            return verdict
    return ""


def lost_history(path: Path) -> str:
    """A warning when the database is empty although other files show that there was one; empty when all is well."""
    try:
        size = path.stat().st_size
    except FileNotFoundError:
        size = 0
    if size > PAGE_SIZE or _has_log(path):
        return ""
    traces = [path.with_name("search.db"), *path.parent.glob(f"{path.name}.schema*.bak")]
    found = next((file for file in traces if file.exists() and file.stat().st_size), None)
    if found is None:
        return ""
    state = "is missing" if not path.exists() else "is empty"
    return (
        f"{path} {state}, but {found.name} shows that sessions were recorded here: the database or its -wal file was "
        f"removed. A new one is begun; restore a backup to get them back"
    )


def _connect_read_only(path: Path, mode: str) -> sqlite3.Connection:
    address = f"{path.absolute().as_uri()}?{mode}"
    connection = sqlite3.connect(address, uri=True, check_same_thread=False, isolation_level=None)
    try:
        _refuse_unknown_schema(connection, path)
    except BaseException:
        connection.close()
        raise
    return connection


def _has_log(path: Path) -> bool:
    try:
        return companion(path, "-wal").stat().st_size > 0
    except OSError:
        return False


# -- schema ---------------------------------------------------------------------------------------------------------


def _version(connection: sqlite3.Connection) -> int:
    return connection.execute("PRAGMA user_version").fetchone()[0]


def _refuse_unknown_schema(connection: sqlite3.Connection, path: Path) -> None:
    known = len(schema.MIGRATIONS)
    # One snapshot: another process may be creating the tables, with their version, at this moment.
    connection.execute("BEGIN")
    try:
        version = _version(connection)
        tables = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
    finally:
        connection.rollback()
    if version > known:
        raise JournalTooNew(
            f"{path} was written by a newer version of hermes (schema {version}, this one knows {known}); "
            f"upgrade hermes, or set HERMES_HOME to another folder. The file was not changed."
        )
    if version == 0 and tables:
        raise JournalError(
            f"{path} is the database of another program; move it aside, or set HERMES_HOME to another folder. "
            f"The file was not changed."
        )


def _prepare_new_file(connection: sqlite3.Connection, path: Path) -> None:
    connection.execute(f"PRAGMA page_size={PAGE_SIZE}")
    connection.execute("PRAGMA auto_vacuum=INCREMENTAL")
    mode = connection.execute("PRAGMA journal_mode=WAL").fetchone()[0]
    if mode != "wal":
        raise JournalError(
            f"the file system of {path.parent} cannot hold the journal (SQLite offers {mode!r} there instead of a "
            f"write-ahead log; is it a network folder?); set HERMES_HOME to a folder on a local disk"
        )


def _migrate(connection: sqlite3.Connection, path: Path) -> None:
    found = _version(connection)
    if 0 < found < len(schema.MIGRATIONS):
        _back_up(connection, companion(path, f".schema{found}.bak"))
    for number in range(found, len(schema.MIGRATIONS)):
        script = schema.MIGRATIONS[number]
        connection.executescript(f"BEGIN IMMEDIATE; {script}; PRAGMA user_version = {number + 1}; COMMIT;")


def _back_up(connection: sqlite3.Connection, target: Path) -> None:
    with contextlib.suppress(FileNotFoundError):
        target.unlink()
    os.close(os.open(target, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    connection.execute("VACUUM INTO ?", (str(target),))


# -- errors ---------------------------------------------------------------------------------------------------------


def is_fatal(error: Exception) -> bool:
    """Whether it is the disk or the file that failed, and not just what one caller asked for."""
    return isinstance(error, sqlite3.OperationalError) or type(error) is sqlite3.DatabaseError


def _code(error: sqlite3.Error) -> str:
    # An error that the Python module raises by itself has none.
    return getattr(error, "sqlite_errorname", None) or ""


def explain(error: Exception, path: Path) -> Exception:
    """The journal error that says what SQLite's or the system's error means for the user who sees it."""
    if isinstance(error, sqlite3.Error):
        explained = _explain_sqlite(error, path)
    elif isinstance(error, OSError):
        reason = error.strerror or error
        explained = JournalError(
            f"cannot use the journal {path}: {reason}; check the folder {path.parent}, "
            f"or set HERMES_HOME to another one"
        )
    else:
        return error
    explained.__cause__ = error
    return explained


def damaged(path: Path, text: str) -> JournalCorrupt:
    """The error that a file is damaged."""
    return JournalCorrupt(
        f"{path} is damaged ({text}). It was left as it is: move it aside (with its -wal file) to start afresh, "
        f"or recover it with 'sqlite3 {path.name} .recover'"
    )


_NO_ACCESS = (
    "cannot open or write {path} ({text}); check the permissions of {path.parent}, or set HERMES_HOME to another folder"
)
#: The beginning of a code of SQLite, and what it means to the user.
_MEANINGS = (
    ("SQLITE_FULL", "no space left for {path}; free some and run the same command again"),
    *((code, _NO_ACCESS) for code in ("SQLITE_READONLY", "SQLITE_CANTOPEN", "SQLITE_PERM")),
    ("SQLITE_IOERR", "the disk refused to read or write {path} ({text}); free space or check the disk"),
    ("SQLITE_BUSY", "{path} is locked by another program ({text}); close it and try again"),
    ("", "the journal {path} failed: {text}"),
)


def _explain_sqlite(error: sqlite3.Error, path: Path) -> JournalError:
    text, code = str(error), _code(error)
    if code.startswith("SQLITE_CORRUPT") or code == "SQLITE_NOTADB":
        return damaged(path, text)
    meaning = next(meaning for beginning, meaning in _MEANINGS if code.startswith(beginning))
    return JournalError(meaning.format(path=path, text=text))
