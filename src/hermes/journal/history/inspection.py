"""The stored rows of a session as plain records, for exports, and for an inspection that names those it cannot read."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from hermes.base.errors import SessionNotFound
from hermes.journal.bodies import blobs_of, body_digest, unpack
from hermes.journal.store.connection import JournalConnection
from hermes.journal.store.port import Store

Record = dict[str, Any]

_EVENTS = "SELECT seq, turn_id, kind, key, effect, body, at, epoch, chain FROM events"
_TURNS = (
    "SELECT id, ordinal, task_id, request_key, state, attempts, started_at, ended_at, answer, error, undone FROM turns"
)
_MESSAGES = "SELECT turn, step, position, body FROM messages"
_CALLS = "SELECT * FROM model_calls"


def inspect_session(store: Store, session_id: str) -> list[Record]:
    """The records of a session as an export has them, with one of kind ``damage`` for each row that cannot be read."""

    def read(connection: JournalConnection) -> list[Record]:
        row = connection.execute("SELECT head_seq FROM sessions WHERE id = ?", (session_id,)).fetchone()
        if row is None:
            raise SessionNotFound(f"no session {session_id!r}; 'hermes sessions list' shows those there are")
        damage: list[Record] = []
        records = SessionTables(connection, session_id, damage).all()
        return [{"record": "session", "id": session_id, "head_seq": row[0]}, *records, *damage]

    return store.read(read)


class SessionTables:
    """Reads the rows of one session. With ``damage``, those that cannot be read are noted there, not raised."""

    def __init__(self, connection: JournalConnection, session_id: str, damage: list[Record] | None = None) -> None:
        self._connection = connection
        self._session_id = session_id
        self._damage = damage

    def all(self) -> list[Record]:
        """Turns, model calls, events and messages, each saying what it is."""
        # Turns that never started have no place in the conversation yet, and no events.
        turns = (turn for turn in self._table("turn", _TURNS, "ordinal", _turn) if turn["ordinal"] >= 0)
        return [*turns, *self.model_calls(), *self.events(), *self._table("message", _MESSAGES, "id", self._message)]

    def events(self) -> Iterator[Record]:
        """The events in order."""
        return self._table("event", _EVENTS, "seq", self._event)

    def model_calls(self) -> list[Record]:
        """Every attempt at a provider, in order."""
        calls = self._table("model_call", _CALLS, "api_request_id", dict)
        return sorted(calls, key=lambda call: (call["started_at"], call["api_request_id"]))

    def _table(self, kind: str, query: str, key: str, load: Callable[[Record], Record]) -> Iterator[Record]:
        """The records of one table, in the order of its key."""
        try:
            rows = self._rows(f"{query} WHERE session_id = ? ORDER BY {key}")
        except Exception:
            if self._damage is None:
                raise
            rows = self._one_by_one(kind, query, key)
        for row in rows:
            yield {"record": kind, **load(row)}

    def _event(self, row: Record) -> Record:
        name = f"event {row['seq']}"
        row["body_sha256"], row["chain"] = body_digest(row["body"]), (row["chain"] or b"").hex()
        row["body"] = self._body(name, row["body"])
        return row

    def _message(self, row: Record) -> Record:
        name = f"message {row['step']}.{row['position']} of turn {row['turn'] + 1}"
        row["message"] = self._body(name, row.pop("body"))
        return row

    def _body(self, name: str, stored: str) -> Any:
        """The content of a stored body; None, and a note, when it cannot be read."""
        if self._damage is None:
            return unpack(self._connection, stored)
        from hashlib import sha256  # loads OpenSSL, which the start of a program does not need

        try:
            for digest in blobs_of(self._connection, stored):
                query = "SELECT data FROM blobs WHERE sha256 = ?"
                found = self._connection.execute(query, (digest,)).fetchone()
                if found is not None and sha256(found[0].encode()).hexdigest() != digest:
                    self._note(name, f"the stored text {digest[:12]}… that it refers to was altered")
            return unpack(self._connection, stored)
        except Exception as error:
            self._note(name, f"cannot be read ({error})")
            return None

    def _one_by_one(self, kind: str, query: str, key: str) -> Iterator[Record]:
        table = query.rpartition(" ")[2]
        try:
            keys = self._rows(f"SELECT {key} FROM {table} WHERE session_id = ? ORDER BY {key}")
        except Exception as error:
            self._note(f"table {table}", f"cannot be read ({error})")
            return
        for row in keys:
            try:
                yield from self._rows(f"{query} WHERE session_id = ? AND {key} = ?", row[key])
            except Exception as error:
                self._note(f"{kind} {row[key]}", f"cannot be read ({error})")

    def _rows(self, query: str, *values: object) -> list[Record]:
        cursor = self._connection.execute(query, (self._session_id, *values))
        names = [column[0] for column in cursor.description]
        return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]

    def _note(self, where: str, text: str) -> None:
        if self._damage is not None:
            self._damage.append({"record": "damage", "where": where, "text": text})


def _turn(row: Record) -> Record:
    return {**row, "undone": bool(row["undone"])}
