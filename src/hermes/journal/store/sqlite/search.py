"""The search index of a SQLite journal: a derived file that may be deleted at any time."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import time
from collections.abc import Callable, Generator, Iterable
from pathlib import Path
from typing import TypeVar

from hermes.base.errors import JournalError
from hermes.journal.bodies import message_text, to_json, unpack
from hermes.journal.history.search import Hit, SearchIndex, SearchScope
from hermes.journal.store.connection import JournalConnection
from hermes.journal.store.port import Store
from hermes.journal.store.sqlite.database import companion, explain

T = TypeVar("T")

#: Raised when the tables change; an index of another version is built anew.
_VERSION = 2
_SCHEMA = f"""
    CREATE TABLE IF NOT EXISTS docs (
        message_id INTEGER PRIMARY KEY, session_id TEXT NOT NULL, principal TEXT NOT NULL, role TEXT NOT NULL,
        text TEXT NOT NULL
    ) STRICT;
    CREATE INDEX IF NOT EXISTS docs_session ON docs (session_id);
    CREATE TABLE IF NOT EXISTS watermark (message_id INTEGER NOT NULL) STRICT;
    CREATE VIRTUAL TABLE IF NOT EXISTS words USING fts5 (text, content = 'docs', content_rowid = 'message_id');
    CREATE TRIGGER IF NOT EXISTS docs_added AFTER INSERT ON docs BEGIN
        INSERT INTO words (rowid, text) VALUES (new.message_id, new.text);
    END;
    CREATE TRIGGER IF NOT EXISTS docs_removed AFTER DELETE ON docs BEGIN
        INSERT INTO words (words, rowid, text) VALUES ('delete', old.message_id, old.text);
    END;
    PRAGMA user_version = {_VERSION};
"""
_OTHER_VERSION = "the search index has another version"
_OTHER_JOURNAL = "the search index belongs to another journal"
_PATIENCE_SECONDS = 30.0
_BATCH = 2_000
_MATCHES = """
    SELECT d.message_id, d.session_id, d.role, snippet(words, 0, '[', ']', ' … ', 16)
    FROM words JOIN docs d ON d.message_id = words.rowid WHERE words MATCH :words
      AND (:role = '' OR d.role = :role)
      AND (:principal IS NULL OR d.principal = :principal)
      AND (:only IS NULL OR d.session_id IN (SELECT value FROM json_each(:only)))
      AND d.session_id NOT IN (SELECT value FROM json_each(:without))
    ORDER BY {order} LIMIT :limit
"""
#: How matches may be sorted. Ids grow with time.
_ORDERS = {"relevance": "rank", "newest": "d.message_id DESC", "oldest": "d.message_id"}


class SqliteSearchIndex(SearchIndex):
    """``search.db``: full-text search by FTS5."""

    def __init__(self, store: Store, path: Path) -> None:
        self._store = store
        self.path = path

    def files(self) -> list[Path]:
        """The files of the index, which no other code in this process may open."""
        return [self.path, companion(self.path, "-wal"), companion(self.path, "-shm")]

    def _find(self, terms: list[str], scope: SearchScope) -> list[Hit]:
        values: dict[str, str | int | None] = {
            # Every term is quoted, so that no character is an operator of FTS5.
            "words": " AND ".join(f'"{term}"' for term in terms),
            "limit": scope.limit,
            "role": scope.role,
            "principal": scope.principal,
            "only": None if scope.only is None else to_json(scope.only),
            "without": to_json(scope.without),
        }
        statement = _MATCHES.format(order=_ORDERS[scope.order])
        return self._with_index(lambda index: self._search(index, statement, values))

    def forget(self, session_ids: Iterable[str]) -> None:
        """Remove the words of deleted sessions."""
        if not self.path.exists():
            return
        rows = [(session_id,) for session_id in session_ids]

        def remove(index: sqlite3.Connection) -> None:
            index.executemany("DELETE FROM docs WHERE session_id = ?", rows)
            # Until its parts are merged, the index itself still holds the words.
            index.execute("INSERT INTO words (words) VALUES ('optimize')")

        self._with_index(remove)

    def _search(self, index: sqlite3.Connection, statement: str, values: dict[str, str | int | None]) -> list[Hit]:
        self._catch_up(index)
        while True:
            rows = index.execute(statement, values).fetchall()
            hits = [(row[0], self._current_hit(*row)) for row in rows]
            stale = [(message_id,) for message_id, hit in hits if hit is None]
            if not stale:
                return [hit for _, hit in hits if hit is not None]
            # These messages were deleted, replaced or undone since they were indexed, and hide others that match.
            index.executemany("DELETE FROM docs WHERE message_id = ?", stale)

    def _current_hit(self, message_id: int, session_id: str, role: str, snippet: str) -> Hit | None:
        query = (
            "SELECT s.title, s.updated_at FROM messages m JOIN sessions s ON s.id = m.session_id "
            "JOIN turns t ON t.session_id = m.session_id AND t.ordinal = m.turn "
            "WHERE m.id = ? AND m.session_id = ? AND t.undone = 0"
        )
        row = self._store.read(lambda connection: connection.execute(query, (message_id, session_id)).fetchone())
        return None if row is None else Hit(session_id, row[0], role, snippet, row[1], message_id)

    def _catch_up(self, index: sqlite3.Connection) -> None:
        """Index the messages that came since the last time, a bounded batch per transaction."""
        while True:
            with _transaction(index):
                watermark: int = index.execute("SELECT max(message_id) FROM watermark").fetchone()[0] or 0
                if watermark > self._store.read(_last_message_id):
                    raise sqlite3.DatabaseError(_OTHER_JOURNAL)
                fresh = self._store.read(lambda connection, after=watermark: _messages_after(connection, after))
                index.executemany("INSERT INTO docs VALUES (?, ?, ?, ?, ?)", [row for row in fresh if row[4]])
                if fresh:
                    index.execute("DELETE FROM watermark")
                    index.execute("INSERT INTO watermark VALUES (?)", (fresh[-1][0],))
            if len(fresh) < _BATCH:
                return

    # -- the file -----------------------------------------------------------------------------------------------

    def _with_index(self, work: Callable[[sqlite3.Connection], T]) -> T:
        for is_last in (False, True):
            try:
                with contextlib.closing(self._connect()) as index:
                    return work(index)
            except (OSError, sqlite3.Error) as error:
                if "no such module" in str(error):
                    raise JournalError(
                        "this Python's SQLite has no full-text search (FTS5); sessions cannot be searched"
                    ) from error
                if is_last or isinstance(error, OSError) or not _is_damage(error):
                    raise explain(error, self.path) from error
            # Only this derived file is thrown away; the truth it was built from is untouched.
            self.discard()
        raise AssertionError("the last attempt returned or raised")

    def _connect(self) -> sqlite3.Connection:
        if not self.path.exists():
            self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            os.close(os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
        index = sqlite3.connect(self.path, isolation_level=None, timeout=_PATIENCE_SECONDS)
        try:
            _use_write_ahead_log(index)
            index.execute("PRAGMA synchronous=NORMAL")
            index.execute("PRAGMA secure_delete=ON")
            version: int = index.execute("PRAGMA user_version").fetchone()[0]
            if version == 0:
                index.executescript(f"BEGIN IMMEDIATE; {_SCHEMA}; COMMIT;")
            elif version != _VERSION:
                raise sqlite3.DatabaseError(_OTHER_VERSION)
        except BaseException:
            index.close()
            raise
        return index

    def discard(self) -> None:
        """Delete the index; the next search builds it anew."""
        for file in self.files():
            file.unlink(missing_ok=True)


def _use_write_ahead_log(index: sqlite3.Connection) -> None:
    """Switch the mode. Of two that do so at once SQLite refuses one on the spot, so that one waits here."""
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while True:
        try:
            index.execute("PRAGMA journal_mode=WAL")
            return
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > deadline:
                raise
            time.sleep(0.01)


def _messages_after(connection: JournalConnection, message_id: int) -> list[tuple[int, str, str, str, str]]:
    rows = connection.execute(
        "SELECT m.id, m.session_id, s.principal, m.role, m.body FROM messages m JOIN sessions s ON s.id = m.session_id "
        "WHERE m.id > ? AND m.role IN ('user', 'assistant') ORDER BY m.id LIMIT ?",
        (message_id, _BATCH),
    ).fetchall()
    return [(*known, message_text(unpack(connection, body))) for *known, body in rows]


def _last_message_id(connection: JournalConnection) -> int:
    """The highest id that was ever given, that of a deleted message included."""
    row = connection.execute("SELECT seq FROM sqlite_sequence WHERE name = 'messages'").fetchone()
    return row[0] if row else 0


@contextlib.contextmanager
def _transaction(index: sqlite3.Connection) -> Generator[None]:
    index.execute("BEGIN IMMEDIATE")
    try:
        yield
        index.execute("COMMIT")
    except BaseException:
        index.rollback()
        raise


def _is_damage(error: sqlite3.Error) -> bool:
    """Whether a new index would help, as it would not when the disk is full or the file is locked."""
    code: str = getattr(error, "sqlite_errorname", None) or "SQLITE_ERROR"
    return code.startswith(("SQLITE_CORRUPT", "SQLITE_NOTADB", "SQLITE_ERROR", "SQLITE_CONSTRAINT"))


def messages_after(connection: JournalConnection, watermark: int) -> tuple[int, int]:
    """The number of the last message there ever was, and how many with words have a higher one than ``watermark``."""
    last = connection.execute("SELECT coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'messages'), 0)")
    behind = "SELECT count(*) FROM messages WHERE id > ? AND role IN ('user', 'assistant')"
    return last.fetchone()[0], connection.execute(behind, (watermark,)).fetchone()[0]
