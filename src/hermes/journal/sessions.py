"""Sessions as the journal holds them: find, read, rename, export, delete."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from hermes.errors import SessionBusy, SessionNotFound
from hermes.journal.bodies import unpack
from hermes.journal.runner import Runner
from hermes.journal.store import Store
from hermes.journal.turns import Message


@dataclass(frozen=True, slots=True)
class SessionRow:
    """One session with what a list shows of it."""

    id: str
    title: str
    platform: str
    cwd: str
    provider: str
    model: str
    parent_id: str | None
    parent_call: str | None
    created_at: float
    updated_at: float
    turns: int
    state: str
    input_tokens: int
    output_tokens: int
    cost_usd: float | None


_SESSION_QUERY = """
    SELECT s.id, s.title, s.platform, s.cwd, s.provider, s.model, s.parent_id, s.parent_call,
           s.created_at, s.updated_at,
           (SELECT count(*) FROM turns t WHERE t.session_id = s.id),
           coalesce((SELECT t.state FROM turns t WHERE t.session_id = s.id ORDER BY t.ordinal DESC LIMIT 1), 'empty'),
           coalesce((SELECT sum(input_tokens) FROM model_calls m WHERE m.session_id = s.id), 0),
           coalesce((SELECT sum(output_tokens) FROM model_calls m WHERE m.session_id = s.id), 0),
           (SELECT sum(cost_usd) FROM model_calls m WHERE m.session_id = s.id)
    FROM sessions s
"""


class Sessions:
    """The sessions of one journal."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def list(self, *, limit: int = 20, children: bool = False) -> list[SessionRow]:
        where = "" if children else "WHERE s.parent_id IS NULL"
        query = f"{_SESSION_QUERY} {where} ORDER BY s.updated_at DESC LIMIT ?"
        return self._store.read(lambda connection: [SessionRow(*row) for row in connection.execute(query, (limit,))])

    def get(self, session_id: str) -> SessionRow:
        """The session with that id, or with an id that starts so when only one does."""

        def find(connection: sqlite3.Connection) -> list[SessionRow]:
            rows = connection.execute(f"{_SESSION_QUERY} WHERE s.id = ?", (session_id,)).fetchall()
            if not rows and session_id:
                rows = connection.execute(
                    f"{_SESSION_QUERY} WHERE substr(s.id, 1, ?) = ? LIMIT 3", (len(session_id), session_id)
                ).fetchall()
            return [SessionRow(*row) for row in rows]

        found = self._store.read(find)
        if len(found) == 1:
            return found[0]
        if found:
            names = ", ".join(row.id for row in found)
            raise SessionNotFound(f"several sessions start with {session_id!r} ({names} …); give more of the id")
        raise SessionNotFound(f"no session {session_id!r}; 'hermes sessions list' shows those there are")

    def latest(self, *, cwd: str | None = None) -> SessionRow | None:
        """The session used last, preferring one of the working directory."""

        def find(connection: sqlite3.Connection) -> SessionRow | None:
            for clause, values in ((" AND s.cwd = ?", (cwd,)), ("", ())):
                query = f"{_SESSION_QUERY} WHERE s.parent_id IS NULL{clause} ORDER BY s.updated_at DESC LIMIT 1"
                row = connection.execute(query, values).fetchone()
                if row is not None:
                    return SessionRow(*row)
            return None

        return self._store.read(find)

    def messages(self, session_id: str, *, before_turn: int | None = None) -> list[Message]:
        """The conversation in order, as the loop and a model see it."""
        limit = 2**62 if before_turn is None else before_turn
        query = "SELECT body FROM messages WHERE session_id = ? AND turn < ? ORDER BY turn, step, position"

        def load(connection: sqlite3.Connection) -> list[Message]:
            rows = connection.execute(query, (session_id, limit)).fetchall()
            return [unpack(connection, body) for (body,) in rows]

        return self._store.read(load)

    def turn_count(self, session_id: str) -> int:
        query = "SELECT count(*) FROM turns WHERE session_id = ?"
        return self._store.read(lambda connection: connection.execute(query, (session_id,)).fetchone()[0])

    def last_turn(self, session_id: str) -> dict[str, Any] | None:
        """State, answer and error of the last turn."""
        query = "SELECT id, state, answer, error FROM turns WHERE session_id = ? ORDER BY ordinal DESC LIMIT 1"
        row = self._store.read(lambda connection: connection.execute(query, (session_id,)).fetchone())
        return None if row is None else dict(zip(("id", "state", "answer", "error"), row, strict=True))

    def events(self, session_id: str, *, after: int = 0) -> list[dict[str, Any]]:
        """The committed events with a sequence number above ``after``."""
        query = "SELECT seq, turn_id, kind, key, body, at FROM events WHERE session_id = ? AND seq > ? ORDER BY seq"

        def load(connection: sqlite3.Connection) -> list[dict[str, Any]]:
            return [
                {
                    "seq": seq,
                    "turn_id": turn,
                    "kind": kind,
                    "key": key,
                    "body": unpack(connection, body),
                    "at": at,
                }
                for seq, turn, kind, key, body, at in connection.execute(query, (session_id, after)).fetchall()
            ]

        return self._store.read(load)

    def model_calls(self, session_id: str) -> list[dict[str, Any]]:
        """Every attempt at a provider, in order."""

        def load(connection: sqlite3.Connection) -> list[dict[str, Any]]:
            cursor = connection.execute(
                "SELECT * FROM model_calls WHERE session_id = ? ORDER BY started_at, rowid", (session_id,)
            )
            names = [column[0] for column in cursor.description]
            return [dict(zip(names, row, strict=True)) for row in cursor]

        return self._store.read(load)

    def rename(self, session_id: str, title: str) -> None:
        session = self.get(session_id)
        self._store.write(
            lambda connection: connection.execute("UPDATE sessions SET title = ? WHERE id = ?", (title, session.id))
        )

    def delete(self, session_id: str, runner: Runner) -> list[str]:
        """Remove a session and the sessions it delegated to; returns their ids. A running one is refused."""
        session = self.get(session_id)

        def write(connection: sqlite3.Connection) -> list[str]:
            rows = connection.execute(
                "WITH RECURSIVE family(id) AS (SELECT ? UNION SELECT s.id FROM sessions s JOIN family f "
                "ON s.parent_id = f.id) SELECT f.id, s.runner FROM family f JOIN sessions s ON s.id = f.id",
                (session.id,),
            ).fetchall()
            for member, owner in rows:
                if owner is not None and owner != runner.id and runner.is_alive(owner):
                    raise SessionBusy(f"session {member} is in use by {runner.describe(owner)}; it was not deleted")
            ids = [member for member, _ in rows]
            connection.executemany("DELETE FROM sessions WHERE id = ?", [(member,) for member in ids])
            _drop_unused_blobs(connection)
            return ids

        return self._store.write(write)

    def export(self, session_id: str) -> Iterator[dict[str, Any]]:
        """Everything the journal knows of a session, as records a program can read line by line."""
        session = self.get(session_id)
        yield {"record": "session", **asdict(session)}
        for call in self.model_calls(session.id):
            yield {"record": "model_call", **call}
        for event in self.events(session.id):
            yield {"record": "event", **event}
        for message in self.messages(session.id):
            yield {"record": "message", "message": message}


def _drop_unused_blobs(connection: sqlite3.Connection) -> None:
    connection.execute(
        """
        DELETE FROM blobs WHERE sha256 NOT IN (
            SELECT substr(body, 11, 64) FROM events WHERE body LIKE '{"$blob":"%'
            UNION SELECT substr(body, 11, 64) FROM messages WHERE body LIKE '{"$blob":"%')
        """
    )
