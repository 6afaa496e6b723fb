"""The store of a principal's checkpoints: one private SQLite file with contents by digest, compressed, each once.

Every change is one transaction, so a process that dies at any moment leaves the store as it was before or after it.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import time
import zlib
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, TypeVar

import msgspec

from hermes.base.config.principals import FOLDER, make_private
from hermes.base.errors import HermesError
from hermes.tools.files.checkpoints.states import FileState
from hermes.tools.files.checkpoints.trees import CachedFile, Tree

T = TypeVar("T")

FILE_NAME = "checkpoints.db"
_COMPRESSION = 1
_BUSY_SECONDS = 10
#: How long the stat cache of a folder is kept without being used.
_CACHE_DAYS = 30

_SCHEMA = """
CREATE TABLE checkpoints (
    id INTEGER PRIMARY KEY AUTOINCREMENT, session_id TEXT NOT NULL, turn_id TEXT NOT NULL, turn INTEGER NOT NULL,
    reason TEXT NOT NULL, created_at REAL NOT NULL, folder BLOB NOT NULL, summary TEXT NOT NULL,
    tree BLOB, tree_folder BLOB, UNIQUE (session_id, turn_id));
CREATE TABLE files (
    checkpoint INTEGER NOT NULL REFERENCES checkpoints ON DELETE CASCADE, path BLOB NOT NULL,
    kind TEXT NOT NULL, mode INTEGER NOT NULL, digest BLOB NOT NULL, made BLOB NOT NULL,
    left_kind TEXT, left_mode INTEGER, left_digest BLOB, PRIMARY KEY (checkpoint, path)) WITHOUT ROWID;
CREATE TABLE blobs (digest BLOB PRIMARY KEY, stored INTEGER NOT NULL, data BLOB NOT NULL);
CREATE TABLE caches (folder BLOB PRIMARY KEY, used_at REAL NOT NULL, data BLOB NOT NULL);
PRAGMA user_version = 1;
"""

CheckpointReason = Literal["turn", "restore"]


class CheckpointError(HermesError):
    """The store cannot be read or written."""


class Checkpoint(msgspec.Struct, frozen=True, kw_only=True):
    """The state of some files at one moment: before the first change of a turn, or before a restore."""

    id: int
    session_id: str
    turn_id: str
    #: The turn's number in its session, counted from 0.
    turn: int
    reason: CheckpointReason
    created_at: float
    #: The working folder.
    folder: str
    #: The beginning of the user's message.
    summary: str
    #: How many files it would change when restored alone.
    changed_files: int = 0


class SavedFile(msgspec.Struct, frozen=True):
    """A path in a checkpoint: its state before, and the state that the turn left. ``left`` is None when unknown."""

    path: str
    before: FileState
    left: FileState | None
    #: The topmost folder that was made for it; empty when there is none.
    made: str = ""


class _Cache(msgspec.Struct):
    files: dict[str, CachedFile]


class CheckpointStore:
    """The checkpoints of one principal. Thread-safe; the file is made by the first checkpoint."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / FILE_NAME
        self._lock = threading.RLock()
        self._connection: sqlite3.Connection | None = None
        self._is_closed = False

    def exists(self) -> bool:
        """Whether there may be any checkpoint."""
        return self.path.exists()

    def close(self) -> None:
        """Close the file. A turn that has not ended yet opens it for each thing that it still saves."""
        self._is_closed = True
        self._close_connection()

    def _close_connection(self) -> None:
        with self._lock:
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    @contextmanager
    def writing(self) -> Generator[sqlite3.Connection]:
        """One transaction. Raises ``CheckpointError`` when it fails; nothing is then changed."""
        with self._lock:
            try:
                connection = self._opened()
                connection.execute("BEGIN IMMEDIATE")
                try:
                    yield connection
                except BaseException:
                    connection.execute("ROLLBACK")
                    raise
                connection.execute("COMMIT")
            except sqlite3.Error as error:
                self._close_connection()
                raise CheckpointError(f"{self.path}: {error}") from None
            except OSError as error:
                raise CheckpointError(f"{self.path}: {error.strerror}") from None
            finally:
                if self._is_closed:
                    self._close_connection()

    def rows(self, query: str, values: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
        """The rows of a query; none when there is no store yet."""
        with self._lock:
            if self._connection is None and not self.exists():
                return []
            try:
                return self._opened().execute(query, values).fetchall()
            except (sqlite3.Error, OSError) as error:
                raise CheckpointError(f"{self.path}: {error}") from None
            finally:
                if self._is_closed:
                    self._close_connection()

    def _opened(self) -> sqlite3.Connection:
        if self._connection is None:
            make_private(self.path.parent)
            # Made here, because SQLite would make it with the rights of any file; its journal takes them over.
            os.close(os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
            connection = sqlite3.connect(
                self.path, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False
            )
            try:
                connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
                connection.execute("PRAGMA journal_mode = TRUNCATE")
                connection.execute("PRAGMA foreign_keys = ON")
                if connection.execute("PRAGMA user_version").fetchone()[0] == 0:
                    _make_tables(connection)
            except BaseException:
                connection.close()
                raise
            self._connection = connection
        return self._connection

    # -- checkpoints --------------------------------------------------------------------------------------------

    def list(self, *, session_id: str = "", limit: int = 1_000) -> list[Checkpoint]:
        """The checkpoints that would change something, newest first."""
        where = "WHERE session_id = ?" if session_id else ""
        values = (session_id, limit) if session_id else (limit,)
        found = self._checkpoints(f"{where} ORDER BY id DESC LIMIT ?", values)
        return [one for one in found if one.changed_files]

    def get(self, checkpoint_id: int) -> Checkpoint:
        """One checkpoint. Raises ``CheckpointError`` when there is none."""
        found = self._checkpoints("WHERE id = ?", (checkpoint_id,))
        if not found:
            raise CheckpointError(f"there is no checkpoint {checkpoint_id}; 'hermes checkpoints list' shows them")
        return found[0]

    def before_turn(self, session_id: str, turn: int) -> Checkpoint | None:
        """The checkpoint that restores the files as they were before that turn (counted from 0) of a session.

        None when that turn and those after it changed no file.
        """
        found = self._checkpoints(
            "WHERE session_id = ? AND turn >= ? AND reason = 'turn' ORDER BY id LIMIT 1", (session_id, turn)
        )
        return found[0] if found else None

    def from_here_on(self, checkpoint: Checkpoint) -> list[Checkpoint]:
        """This checkpoint and the later ones of its session, oldest first."""
        return self._checkpoints("WHERE session_id = ? AND id >= ? ORDER BY id", (checkpoint.session_id, checkpoint.id))

    def _checkpoints(self, rest: str, values: tuple[Any, ...]) -> list[Checkpoint]:
        query = (
            "SELECT id, session_id, turn_id, turn, reason, created_at, folder, summary, (SELECT COUNT(*) FROM files "
            "WHERE checkpoint = checkpoints.id AND (left_kind IS NULL OR left_kind != kind OR left_digest != digest "
            f"OR left_mode != mode)) + (tree IS NOT NULL) FROM checkpoints {rest}"
        )
        found = [dict(zip(Checkpoint.__struct_fields__, row, strict=True)) for row in self.rows(query, values)]
        return [msgspec.convert({**row, "folder": os.fsdecode(row["folder"])}, Checkpoint) for row in found]

    def files(self, checkpoint_id: int) -> list[SavedFile]:
        """The files of a checkpoint."""
        rows = self.rows(
            "SELECT path, kind, mode, digest, made, left_kind, left_mode, left_digest FROM files WHERE checkpoint = ?",
            (checkpoint_id,),
        )
        return [
            SavedFile(
                os.fsdecode(row[0]),
                FileState(row[1], row[2], row[3]),
                None if row[5] is None else FileState(row[5], row[6], row[7]),
                os.fsdecode(row[4]),
            )
            for row in rows
        ]

    def open_tree(self, checkpoint_id: int) -> tuple[str, Tree] | None:
        """The folder and its tree before a command, as long as the turn has not ended."""
        rows = self.rows("SELECT tree_folder, tree FROM checkpoints WHERE id = ?", (checkpoint_id,))
        if not rows or rows[0][1] is None:
            return None
        return os.fsdecode(rows[0][0]), _unpacked(rows[0][1], Tree)

    def content(self, digest: bytes) -> bytes:
        """A stored content."""
        rows = self.rows("SELECT data FROM blobs WHERE digest = ?", (digest,))
        if not rows:
            raise CheckpointError("its content is not in the store any more")
        try:
            return zlib.decompress(rows[0][0])
        except zlib.error as error:
            raise CheckpointError(f"its content is damaged: {error}") from None

    def delete_sessions(self, session_ids: Iterable[str]) -> None:
        """Delete the checkpoints of sessions."""
        if self.exists():
            with self.writing() as connection:
                connection.executemany("DELETE FROM checkpoints WHERE session_id = ?", [(one,) for one in session_ids])
                _delete_unused(connection)
            self.rows("PRAGMA incremental_vacuum")

    # -- stat cache ---------------------------------------------------------------------------------------------

    def cache(self, folder: str) -> dict[str, CachedFile]:
        """The stat cache of a folder."""
        rows = self.rows("SELECT data FROM caches WHERE folder = ?", (os.fsencode(folder),))
        return _unpacked(rows[0][0], _Cache).files if rows else {}

    # -- pruning ------------------------------------------------------------------------------------------------

    def stored_bytes(self) -> int:
        """The compressed size of all contents."""
        rows = self.rows("SELECT COALESCE(SUM(stored), 0) FROM blobs")
        return rows[0][0] if rows else 0

    def prune(self, *, max_bytes: int, older_than: float = 0.0, keep: Iterable[int] = ()) -> int:
        """Delete checkpoints made before ``older_than``, then the oldest until the rest fits; returns how many.

        ``keep`` are checkpoints that stay.
        """
        if not self.exists():
            return 0
        kept = set(keep)
        with self.writing() as connection:
            rows = connection.execute("SELECT id, created_at FROM checkpoints ORDER BY id").fetchall()
            waiting = [row for row in rows if row[0] not in kept]
            doomed = [row[0] for row in waiting if row[1] < older_than]
            connection.execute("DELETE FROM caches WHERE used_at < ?", (time.time() - _CACHE_DAYS * 86_400,))
            count = _delete(connection, doomed)
            waiting = [row for row in waiting if row[0] not in doomed]
            while _stored(connection) > max_bytes and waiting:
                # Some at a time: looking for unused contents reads the whole table.
                some = [row[0] for row in waiting[: max(len(waiting) // 5, 1)]]
                count += _delete(connection, some)
                waiting = waiting[len(some) :]
            if _stored(connection) > max_bytes:
                connection.execute("DELETE FROM caches")
                _delete_unused(connection)
        self.rows("PRAGMA incremental_vacuum")
        return count


def delete_checkpoints_of(home: Path, session_ids: Iterable[str]) -> None:
    """Delete the checkpoints of sessions, in the store of every principal."""
    ids = list(session_ids)
    for path in (home / FILE_NAME, *sorted(home.glob(f"{FOLDER}/*/{FILE_NAME}"))):
        store = CheckpointStore(path.parent)
        try:
            store.delete_sessions(ids)
        finally:
            store.close()


# -- inside a transaction --------------------------------------------------------------------------------------------


def add_checkpoint(connection: sqlite3.Connection, checkpoint: Checkpoint) -> int:
    """Add a checkpoint, or find that of the same turn; returns its id."""
    key = (checkpoint.session_id, checkpoint.turn_id)
    found = connection.execute("SELECT id FROM checkpoints WHERE session_id = ? AND turn_id = ?", key).fetchone()
    if found:
        return found[0]
    cursor = connection.execute(
        "INSERT INTO checkpoints (session_id, turn_id, turn, reason, created_at, folder, summary) "
        "VALUES (?, ?, ?, ?, ?, ?, ?)",
        (
            *key,
            checkpoint.turn,
            checkpoint.reason,
            checkpoint.created_at,
            os.fsencode(checkpoint.folder),
            checkpoint.summary,
        ),
    )
    assert cursor.lastrowid is not None
    return cursor.lastrowid


def add_content(connection: sqlite3.Connection, digest: bytes, data: bytes) -> None:
    """Store a content, once."""
    if connection.execute("SELECT 1 FROM blobs WHERE digest = ?", (digest,)).fetchone() is None:
        packed = zlib.compress(data, _COMPRESSION)
        connection.execute("INSERT INTO blobs VALUES (?, ?, ?)", (digest, len(packed), packed))


def add_file(connection: sqlite3.Connection, checkpoint_id: int, file: SavedFile) -> None:
    """Add the state of a file, unless the checkpoint has an earlier one."""
    left = file.left
    connection.execute(
        "INSERT OR IGNORE INTO files VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            checkpoint_id,
            os.fsencode(file.path),
            file.before.kind,
            file.before.mode,
            file.before.digest,
            os.fsencode(file.made),
            *((None, None, None) if left is None else (left.kind, left.mode, left.digest)),
        ),
    )


def set_left(connection: sqlite3.Connection, checkpoint_id: int, path: str, left: FileState) -> None:
    """Set the state that a turn left a file in."""
    connection.execute(
        "UPDATE files SET left_kind = ?, left_mode = ?, left_digest = ? WHERE checkpoint = ? AND path = ?",
        (left.kind, left.mode, left.digest, checkpoint_id, os.fsencode(path)),
    )


def set_tree(connection: sqlite3.Connection, checkpoint_id: int, folder: str, tree: Tree | None) -> None:
    """Store the tree before a command; None when the turn has ended and its files are known."""
    packed = None if tree is None else zlib.compress(msgspec.msgpack.encode(tree), _COMPRESSION)
    connection.execute(
        "UPDATE checkpoints SET tree = ?, tree_folder = ? WHERE id = ?", (packed, os.fsencode(folder), checkpoint_id)
    )


def set_cache(connection: sqlite3.Connection, folder: str, cache: dict[str, CachedFile]) -> None:
    """Store the stat cache of a folder."""
    packed = zlib.compress(msgspec.msgpack.encode(_Cache(cache)), _COMPRESSION)
    values = (os.fsencode(folder), time.time(), packed)
    connection.execute("INSERT OR REPLACE INTO caches VALUES (?, ?, ?)", values)


def _make_tables(connection: sqlite3.Connection) -> None:
    connection.execute("BEGIN IMMEDIATE")
    try:
        # Another process may have been faster.
        if connection.execute("PRAGMA user_version").fetchone()[0] == 0:
            for statement in _SCHEMA.split(";")[:-1]:
                connection.execute(statement)
        connection.execute("COMMIT")
    except BaseException:
        connection.execute("ROLLBACK")
        raise


def _delete(connection: sqlite3.Connection, ids: Iterable[int]) -> int:
    count = 0
    for one in ids:
        count += connection.execute("DELETE FROM checkpoints WHERE id = ?", (one,)).rowcount
    if count:
        _delete_unused(connection)
    return count


def _delete_unused(connection: sqlite3.Connection) -> None:
    """Delete contents that neither a checkpoint nor a stat cache refers to; damaged ones refer to nothing."""
    used: set[bytes] = {row[0] for row in connection.execute("SELECT digest FROM files")}
    for one, packed in connection.execute("SELECT id, tree FROM checkpoints WHERE tree IS NOT NULL").fetchall():
        try:
            used.update(state.digest for state in _unpacked(packed, Tree).files.values())
        except CheckpointError:
            connection.execute("UPDATE checkpoints SET tree = NULL WHERE id = ?", (one,))
    for folder, packed in connection.execute("SELECT folder, data FROM caches").fetchall():
        try:
            used.update(file.state.digest for file in _unpacked(packed, _Cache).files.values())
        except CheckpointError:
            connection.execute("DELETE FROM caches WHERE folder = ?", (folder,))
    unused = [(row[0],) for row in connection.execute("SELECT digest FROM blobs") if row[0] not in used]
    connection.executemany("DELETE FROM blobs WHERE digest = ?", unused)


def _unpacked(packed: bytes, kind: type[T]) -> T:
    try:
        return msgspec.msgpack.decode(zlib.decompress(packed), type=kind)
    except (zlib.error, msgspec.DecodeError) as error:
        raise CheckpointError(f"the store is damaged: {error}; 'hermes checkpoints prune --older-than all'") from None


def _stored(connection: sqlite3.Connection) -> int:
    return connection.execute("SELECT COALESCE(SUM(stored), 0) FROM blobs").fetchone()[0]
