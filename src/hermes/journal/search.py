"""Full-text search over past conversations: a derived index that may be deleted at any time."""

from __future__ import annotations

import contextlib
import sqlite3
from dataclasses import dataclass
from pathlib import Path

from hermes.errors import JournalError
from hermes.journal.bodies import message_text, unpack
from hermes.journal.store import Store, explain

_SCHEMA = """
    CREATE TABLE IF NOT EXISTS docs (message_id INTEGER PRIMARY KEY, session_id TEXT NOT NULL, role TEXT NOT NULL,
                                     text TEXT NOT NULL) STRICT;
    CREATE TABLE IF NOT EXISTS watermark (message_id INTEGER NOT NULL) STRICT;
    CREATE VIRTUAL TABLE IF NOT EXISTS words USING fts5 (text, content = 'docs', content_rowid = 'message_id');
"""
_BATCH = 2_000


@dataclass(frozen=True, slots=True)
class Hit:
    """A message that matched."""

    session_id: str
    title: str
    role: str
    snippet: str
    updated_at: float


class SearchIndex:
    """``search.db``: the words of user and assistant messages. Tool output is not indexed."""

    def __init__(self, store: Store, path: Path) -> None:
        self._store = store
        self.path = path

    def search(self, query: str, *, limit: int = 20) -> list[Hit]:
        """The best matches first. Words are joined by *and*; "a phrase" in quotes is kept together."""
        expression = _match_expression(query)
        if not expression:
            raise JournalError("nothing to search for: give at least one word")
        try:
            return self._search(expression, limit)
        except sqlite3.DatabaseError as error:
            if _is_missing_fts(error):
                raise JournalError(
                    "this Python's SQLite has no full-text search (FTS5); sessions cannot be searched"
                ) from error
            # Only this derived file is thrown away; the truth it was built from is untouched.
            self._discard()
            try:
                return self._search(expression, limit)
            except sqlite3.Error as again:
                raise explain(again, self.path) from again

    def _search(self, expression: str, limit: int) -> list[Hit]:
        with contextlib.closing(self._connect()) as index:
            self._catch_up(index)
            rows = index.execute(
                "SELECT d.message_id, d.session_id, d.role, snippet(words, 0, '[', ']', ' … ', 16) FROM words "
                "JOIN docs d ON d.message_id = words.rowid WHERE words MATCH ? ORDER BY rank LIMIT ?",
                (expression, limit * 2),
            ).fetchall()
        # A message may have been deleted or replaced since it was indexed.
        hits = (self._current_hit(*row) for row in rows)
        return [hit for hit in hits if hit is not None][:limit]

    def _current_hit(self, message_id: int, session_id: str, role: str, snippet: str) -> Hit | None:
        query = "SELECT s.title, s.updated_at FROM messages m JOIN sessions s ON s.id = m.session_id WHERE m.id = ?"
        row = self._store.read(lambda connection: connection.execute(query, (message_id,)).fetchone())
        return None if row is None else Hit(session_id, row[0], role, snippet, row[1])

    def _connect(self) -> sqlite3.Connection:
        self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        index = sqlite3.connect(self.path, isolation_level=None, timeout=30)
        try:
            self.path.chmod(0o600)
            index.execute("PRAGMA journal_mode=WAL")
            index.execute("PRAGMA synchronous=NORMAL")
            index.executescript(_SCHEMA)
        except BaseException:
            index.close()
            raise
        return index

    def _catch_up(self, index: sqlite3.Connection) -> None:
        """Index the messages that came since the last time, a bounded batch per transaction."""
        while True:
            index.execute("BEGIN IMMEDIATE")
            row = index.execute("SELECT max(message_id) FROM watermark").fetchone()
            watermark: int = row[0] or 0
            fresh = self._store.read(lambda connection, after=watermark: _messages_after(connection, after))
            for message_id, session_id, role, text in fresh:
                if text:
                    index.execute(
                        "INSERT OR REPLACE INTO docs VALUES (?, ?, ?, ?)",
                        (message_id, session_id, role, text),
                    )
                    index.execute("INSERT INTO words (rowid, text) VALUES (?, ?)", (message_id, text))
            if fresh:
                index.execute("DELETE FROM watermark")
                index.execute("INSERT INTO watermark VALUES (?)", (fresh[-1][0],))
            index.execute("COMMIT")
            if len(fresh) < _BATCH:
                return

    def _discard(self) -> None:
        for suffix in ("", "-wal", "-shm"):
            self.path.with_name(self.path.name + suffix).unlink(missing_ok=True)


def _messages_after(connection: sqlite3.Connection, message_id: int) -> list[tuple[int, str, str, str]]:
    rows = connection.execute(
        "SELECT id, session_id, role, body FROM messages WHERE id > ? AND role IN ('user', 'assistant') "
        "ORDER BY id LIMIT ?",
        (message_id, _BATCH),
    ).fetchall()
    return [(found, session, role, message_text(unpack(connection, body))) for found, session, role, body in rows]


def _match_expression(query: str) -> str:
    """The query as FTS5 reads it, with every term quoted so that no character is an operator."""
    terms: list[str] = []
    for position, piece in enumerate(query.split('"')):
        terms.extend([piece.strip()] if position % 2 else piece.split())
    return " AND ".join(f'"{term}"' for term in terms if any(c.isalnum() for c in term))


def _is_missing_fts(error: sqlite3.Error) -> bool:
    return "no such module" in str(error)
