"""Sessions as the journal holds them: find, read, rename, export, delete."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec.structs import asdict

from hermes.base.errors import SessionNotFound
from hermes.journal.bodies import clean_text, drop_unused_blobs, message_text, unpack
from hermes.journal.history.compactions import visible_messages
from hermes.journal.history.inspection import SessionTables
from hermes.journal.history.rows import FAMILY, TurnFacts, ancestors, family_ids, find_request, last_turn
from hermes.journal.leases import refuse_if_busy
from hermes.journal.runner import Runner
from hermes.journal.store.connection import JournalConnection, placeholders
from hermes.journal.store.port import Store
from hermes.journal.turns.steps import Message


class SessionRow(msgspec.Struct, frozen=True):
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
    runner: str | None
    branched_from: str | None
    #: The caller it belongs to; empty is the owner of the home.
    principal: str
    #: The permission mode that the user chose for it, if any.
    mode: str


class SessionHead(msgspec.Struct, frozen=True):
    """The facts with which a session is opened again."""

    id: str
    cwd: str
    principal: str
    mode: str
    #: Whether anything has happened in it: in one that only waits for its first turn nothing has.
    has_events: bool


_HEAD = "SELECT id, cwd, principal, mode, head_seq > 0 FROM sessions WHERE id = ?"
_SESSION_QUERY = """
    SELECT s.id, s.title, s.platform, s.cwd, s.provider, s.model, s.parent_id, s.parent_call,
           s.created_at, s.updated_at,
           (SELECT count(*) FROM turns t WHERE t.session_id = s.id AND t.undone = 0),
           coalesce((SELECT t.state FROM turns t WHERE t.session_id = s.id AND t.undone = 0
                     ORDER BY t.ordinal DESC LIMIT 1), 'empty'),
           coalesce((SELECT sum(input_tokens) FROM model_calls m WHERE m.session_id = s.id), 0),
           coalesce((SELECT sum(output_tokens) FROM model_calls m WHERE m.session_id = s.id), 0),
           (SELECT sum(cost_usd) FROM model_calls m WHERE m.session_id = s.id),
           s.runner, s.branched_from, s.principal, s.mode
    FROM sessions s
"""


class Sessions:
    """The sessions of one journal."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def list(self, *, limit: int = 20, children: bool = False, principal: str | None = None) -> list[SessionRow]:
        """The sessions used last, newest first; those that others delegated to only with ``children``.

        With ``principal`` only those of that principal; the empty one is the owner.
        """
        where = "" if children else " AND s.parent_id IS NULL"
        where += "" if principal is None else " AND s.principal = ?"
        query = f"{_SESSION_QUERY} WHERE 1 = 1{where} ORDER BY s.updated_at DESC LIMIT ?"
        values = (limit,) if principal is None else (principal, limit)
        return self._store.read(lambda connection: [SessionRow(*row) for row in connection.execute(query, values)])

    def children(self, session_id: str) -> list[SessionRow]:
        """The sessions that this one delegated to, in the order of their start."""
        query = f"{_SESSION_QUERY} WHERE s.parent_id = ? ORDER BY s.created_at, s.rowid"
        return self._store.read(
            lambda connection: [SessionRow(*row) for row in connection.execute(query, (session_id,))]
        )

    def get(self, session_id: str) -> SessionRow:
        """The session with that id, or with an id that starts so when only one does."""
        return self._store.read(lambda connection: _find(connection, clean_text(session_id)))

    def head(self, session_id: str) -> SessionHead:
        """The same session, with only what it takes to open it."""

        def find(connection: JournalConnection) -> SessionHead:
            row = connection.execute(_HEAD, (clean_text(session_id),)).fetchone()
            if row is None:
                row = connection.execute(_HEAD, (_find(connection, clean_text(session_id)).id,)).fetchone()
            return SessionHead(*row[:4], has_events=bool(row[4]))

        return self._store.read(find)

    def latest(self, *, cwd: str | None = None) -> SessionRow | None:
        """The owner's session used last, preferring one of the working directory."""

        def find(connection: JournalConnection) -> SessionRow | None:
            for clause, values in ((" AND s.cwd = ?", (cwd and clean_text(cwd),)), ("", ())):
                query = (
                    f"{_SESSION_QUERY} WHERE s.parent_id IS NULL AND s.principal = ''{clause} "
                    "ORDER BY s.updated_at DESC LIMIT 1"
                )
                row = connection.execute(query, values).fetchone()
                if row is not None:
                    return SessionRow(*row)
            return None

        return self._store.read(find)

    def to_continue(self, cwd: str) -> str:
        """The id of that session. Raises ``SessionNotFound`` when there is none."""
        row = self.latest(cwd=cwd)
        if row is None:
            raise SessionNotFound("there is no session to continue; start one with 'hermes chat --query TEXT'")
        return row.id

    def last_used_before(self, moment: float) -> list[SessionRow]:
        """The sessions, without those of children, that were last used before that time, oldest first."""
        query = f"{_SESSION_QUERY} WHERE s.parent_id IS NULL AND s.updated_at < ? ORDER BY s.updated_at"
        return self._store.read(lambda connection: [SessionRow(*row) for row in connection.execute(query, (moment,))])

    def has_open_turn(self, session_id: str) -> bool:
        """Whether a turn of the session, or of one that it delegated to, has not ended."""
        query = (
            f"{FAMILY}SELECT 1 FROM turns t JOIN family f ON t.session_id = f.id "
            "WHERE t.state IN ('queued', 'running') AND t.undone = 0 LIMIT 1"
        )
        values = {"id": session_id}
        return self._store.read(lambda connection: connection.execute(query, values).fetchone() is not None)

    def messages(self, session_id: str, *, before_turn: int | None = None) -> list[Message]:
        """The whole conversation in order, without undone turns."""
        query = (
            "SELECT body FROM messages WHERE session_id = :id AND turn < :turn AND turn NOT IN "
            "(SELECT ordinal FROM turns WHERE session_id = :id AND undone <> 0) ORDER BY turn, step, position"
        )
        values = {"id": session_id, "turn": 2**62 if before_turn is None else before_turn}

        def read(connection: JournalConnection) -> list[Message]:
            return [unpack(connection, body) for (body,) in connection.execute(query, values).fetchall()]

        return self._store.read(read)

    def said(self, session_id: str) -> list[str]:
        """What was said to begin the turns of a conversation; for a child agent, of the one that delegated to it."""
        query = "SELECT body FROM messages WHERE session_id = ? AND step = 0 AND position = 0 ORDER BY turn"

        def read(connection: JournalConnection) -> list[str]:
            first = [session_id, *ancestors(connection, session_id)][-1]
            return [
                message_text(unpack(connection, body)) for (body,) in connection.execute(query, (first,)).fetchall()
            ]

        return self._store.read(read)

    def context(self, session_id: str, *, before_turn: int | None = None) -> list[Message]:
        """The conversation as a model sees it: summarised messages are replaced by their summary."""
        limit = 2**62 if before_turn is None else before_turn
        return self._store.read(lambda connection: visible_messages(connection, session_id, limit))

    def turn_count(self, session_id: str) -> int:
        """How many turns a session has had."""
        query = "SELECT count(*) FROM turns WHERE session_id = ? AND ordinal >= 0"
        return self._store.read(lambda connection: connection.execute(query, (session_id,)).fetchone()[0])

    def last_turn(self, session_id: str) -> TurnFacts | None:
        """The last turn that was not undone."""
        return self._store.read(lambda connection: last_turn(connection, session_id))

    def turn_of(self, session_id: str, request_key: str) -> TurnFacts | None:
        """The turn with that idempotency key."""
        return self._store.read(lambda connection: find_request(connection, session_id, request_key))

    def open_turns(self, session_id: str) -> dict[str, str]:
        """The ids of the turns that have not ended, by their idempotency keys."""
        query = "SELECT request_key, id FROM turns WHERE session_id = ? AND state IN ('queued', 'running')"
        return dict(self._store.read(lambda connection: connection.execute(query, (session_id,)).fetchall()))

    def events(self, session_id: str, *, after: int = 0) -> list[dict[str, Any]]:
        """The committed events with a sequence number above ``after``."""
        found = self._store.read(lambda connection: list(SessionTables(connection, session_id).events()))
        return [event for event in found if event["seq"] > after]

    def model_calls(self, session_id: str) -> list[dict[str, Any]]:
        """Every attempt at a provider, in order."""
        return self._store.read(lambda connection: SessionTables(connection, session_id).model_calls())

    def export(self, session_id: str) -> list[dict[str, Any]]:
        """Everything the journal knows of a session at one instant, as records that say what they are."""

        def load(connection: JournalConnection) -> list[dict[str, Any]]:
            session = _find(connection, clean_text(session_id))
            return [{"record": "session", **asdict(session)}, *SessionTables(connection, session.id).all()]

        return self._store.read(load)

    def rename(self, session_id: str, title: str) -> None:
        """Give a session another title."""
        values = (clean_text(title), self.get(session_id).id)
        self._store.write(lambda connection: connection.execute("UPDATE sessions SET title = ? WHERE id = ?", values))

    def set_model(self, session_id: str, provider: str, model: str) -> None:
        """Note which model a session uses from now on."""
        values = (clean_text(provider), clean_text(model), session_id)
        query = "UPDATE sessions SET provider = ?, model = ? WHERE id = ?"
        self._store.write(lambda connection: connection.execute(query, values))

    def set_mode(self, session_id: str, mode: str) -> None:
        """Note which permission mode the user chose for a session, if it is stored already."""
        query = "UPDATE sessions SET mode = ? WHERE id = ?"
        self._store.write(lambda connection: connection.execute(query, (mode, session_id)))

    def assign(self, principals: Mapping[str, str]) -> int:
        """Give sessions that have no principal, with those they delegated to, to the ones named by session id.

        Returns how many there were.
        """
        query = (
            f"{FAMILY}UPDATE sessions SET principal = :principal WHERE principal = '' AND id IN (SELECT id FROM family)"
        )
        named = tuple(principals)
        if not named:
            return 0
        find = f"SELECT id FROM sessions WHERE principal = '' AND id IN ({placeholders(named)})"
        found = self._store.read(lambda connection: connection.execute(find, named).fetchall())
        if found:
            rows = [{"id": one, "principal": clean_text(principals[one])} for (one,) in found]
            self._store.write(lambda connection: connection.executemany(query, rows))
        return len(found)

    def delete(self, session_id: str, runner: Runner) -> list[str]:
        """Remove a session and the sessions it delegated to; returns their ids. A running one is refused."""
        session = self.get(session_id)

        def write(connection: JournalConnection) -> list[str]:
            family = family_ids(connection, session.id)
            for member in family:
                refuse_if_busy(connection, runner, member)
            with self._store.erasing(connection):
                connection.executemany("DELETE FROM sessions WHERE id = ?", [(member,) for member in family])
                drop_unused_blobs(connection)
            return family

        deleted = self._store.write(write)
        self._store.give_back_space()
        return deleted


def _find(connection: JournalConnection, session_id: str) -> SessionRow:
    rows = connection.execute(f"{_SESSION_QUERY} WHERE s.id = ?", (session_id,)).fetchall()
    if not rows and session_id:
        query = f"{_SESSION_QUERY} WHERE substr(s.id, 1, ?) = ? ORDER BY s.id LIMIT 4"
        rows = connection.execute(query, (len(session_id), session_id)).fetchall()
    if len(rows) == 1:
        return SessionRow(*rows[0])
    if rows:
        names = ", ".join(row[0] for row in rows[:3]) + (" …" if len(rows) > 3 else "")
        raise SessionNotFound(f"several sessions start with {session_id!r} ({names}); give more of the id")
    raise SessionNotFound(f"no session {session_id!r}; 'hermes sessions list' shows those there are")
