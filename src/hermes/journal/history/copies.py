"""Copies of sessions: their rows, read from one journal and written to another one as they are."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from hermes.base.errors import HermesError
from hermes.journal.bodies import MissingBlob, blob_text, blobs_of
from hermes.journal.history.rows import family_ids
from hermes.journal.records import SessionPlace
from hermes.journal.store.connection import ROW_NUMBER, Cursor, JournalConnection
from hermes.journal.store.port import Store

Row = dict[str, Any]
_TURN_IDS = "turn_id IN (SELECT id FROM turns WHERE session_id = :id AND ordinal >= :first AND ordinal < :last)"
#: The rows of a session by table, in the order in which they may be written; then those of some turns only.
_ALL = {
    "sessions": "id = :id",
    "turns": "session_id = :id ORDER BY ordinal",
    "events": "session_id = :id ORDER BY seq",
    "messages": "session_id = :id ORDER BY turn, step, position",
    "model_calls": "session_id = :id ORDER BY started_at",
    "questions": "session_id = :id ORDER BY rowid",
}
_OF_TURNS = {
    "turns": "session_id = :id AND ordinal >= :first AND ordinal < :last ORDER BY ordinal",
    "events": "session_id = :id AND seq >= :first_seq AND seq < :last_seq ORDER BY seq",
    "messages": "session_id = :id AND turn >= :first AND turn < :last ORDER BY turn, step, position",
    "model_calls": f"session_id = :id AND {_TURN_IDS}",
    "questions": f"session_id = :id AND {_TURN_IDS} ORDER BY rowid",
}
TABLES = tuple(_ALL)
#: The largest run that can be taken out of the journal: it is held in memory.
MOST_BYTES = 1_000_000_000
_SIZES = (
    "SELECT sum(length(body)) FROM events WHERE session_id = ?",
    "SELECT sum(length(body)) FROM messages WHERE session_id = ?",
    "SELECT sum(length(data)) FROM blob_uses JOIN blobs USING (sha256) WHERE session_id = ?",
)


@dataclass(slots=True)
class SessionRows:
    """The rows of sessions by table, and the blobs that they refer to by digest."""

    tables: dict[str, list[Row]] = field(default_factory=lambda: {name: list[Row]() for name in TABLES})
    blobs: dict[str, str] = field(default_factory=dict[str, str])
    #: Session and digest of each blob that is used.
    uses: set[tuple[str, str]] = field(default_factory=set[tuple[str, str]])


def stored_bytes(store: Store) -> int:
    """The size of the files of a journal; 0 when it is not in files."""
    return sum(path.stat().st_size for path in store.files() if path.exists())


def check_size(store: Store, session_id: str) -> None:
    """Raise ``HermesError`` for a session that is too large to be held in memory, with those it delegated to."""
    if 0 < stored_bytes(store) <= MOST_BYTES:
        return  # no session is larger than the files

    def measure(connection: JournalConnection) -> int:
        total = 0
        for one in family_ids(connection, session_id):
            total += sum(connection.execute(query, (one,)).fetchone()[0] or 0 for query in _SIZES)
        return total

    size = store.read(measure)
    if size > MOST_BYTES:
        raise HermesError(
            f"session {session_id} has {size / 1e9:.1f} GB of records; a run of at most {MOST_BYTES / 1e9:g} GB can "
            "be replayed, compared or exported as a bundle; 'hermes sessions export' writes it in other formats"
        )


def read_sessions(connection: JournalConnection, session_ids: Iterable[str]) -> SessionRows:
    """Everything of some sessions."""
    rows = SessionRows()
    for session_id in session_ids:
        for table, condition in _ALL.items():
            _read(connection, rows, session_id, table, condition, {"id": session_id})
    return rows


def read_turns(connection: JournalConnection, session_id: str, first: int, last: int) -> SessionRows:
    """The rows of the turns from ``first`` to before ``last``, with the events between them."""
    rows = SessionRows()
    query = "SELECT first_seq FROM turns WHERE session_id = ? AND ordinal = ?"
    edges = [connection.execute(query, (session_id, ordinal)).fetchone() for ordinal in (first, last)]
    begin, end = (edge[0] if edge else 2**62 for edge in edges)
    values = {"id": session_id, "first": first, "last": last, "first_seq": 0 if first == 0 else begin, "last_seq": end}
    for table, condition in _OF_TURNS.items():
        _read(connection, rows, session_id, table, condition, values)
    return rows


def _read(
    connection: JournalConnection, rows: SessionRows, session_id: str, table: str, condition: str, values: Row
) -> None:
    cursor = connection.execute(f"SELECT * FROM {table} WHERE {condition}", values)
    names = _columns(cursor)
    found = [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]
    for row in found:
        row.pop(ROW_NUMBER, None)
    rows.tables[table] += found
    for row in found:
        for digest in _blobs(connection, row):
            rows.uses.add((session_id, digest))
            if digest not in rows.blobs:
                try:
                    rows.blobs[digest] = blob_text(connection, digest)
                except MissingBlob as error:
                    raise HermesError(f"session {session_id}: {error} from the journal") from None


def _blobs(connection: JournalConnection, row: Row) -> list[str]:
    try:
        found = blobs_of(connection, row["body"]) if "body" in row else []
    except MissingBlob as error:
        raise HermesError(f"session {row['session_id']}: {error} from the journal") from None
    return [*found, *([row["content"]] if row.get("content") else [])]


def _columns(cursor: Cursor) -> list[str]:
    return [column[0] for column in cursor.description]


def write_rows(connection: JournalConnection, rows: SessionRows) -> None:
    """Write rows into another journal. Columns that it does not have are left out."""
    for table in TABLES:
        known = set(_columns(connection.execute(f"SELECT * FROM {table} WHERE 1 = 0")))
        for row in rows.tables[table]:
            fields = {name: value for name, value in row.items() if name in known}
            if table == "sessions":
                fields["runner"] = None
            elif table == "messages":
                fields.pop("id", None)  # it belongs to the other journal
            names = ", ".join(fields)
            marks = ", ".join("?" * len(fields))
            connection.execute(f"INSERT INTO {table} ({names}) VALUES ({marks})", tuple(fields.values()))
    texts = list(rows.blobs.items())
    connection.executemany("INSERT INTO blobs (sha256, data) VALUES (?, ?) ON CONFLICT DO NOTHING", texts)
    connection.executemany(
        "INSERT INTO blob_uses (session_id, sha256) VALUES (?, ?) ON CONFLICT DO NOTHING", sorted(rows.uses)
    )


def remove_turns(connection: JournalConnection, session_id: str, first: int) -> None:
    """Remove the turns from ``first`` on, with everything that belongs to them and the sessions of their children."""
    values = {"id": session_id, "first": first, "last": 2**62}
    row = connection.execute(
        "SELECT first_seq FROM turns WHERE session_id = ? AND ordinal = ?", (session_id, first)
    ).fetchone()
    connection.execute("DELETE FROM sessions WHERE parent_id = ?", (session_id,))
    for table in ("model_calls", "questions"):
        connection.execute(f"DELETE FROM {table} WHERE session_id = :id AND {_TURN_IDS}", values)
    connection.execute("DELETE FROM messages WHERE session_id = :id AND turn >= :first", values)
    connection.execute("DELETE FROM turns WHERE session_id = :id AND ordinal >= :first", values)
    if row is not None:
        connection.execute("DELETE FROM events WHERE session_id = ? AND seq >= ?", (session_id, row[0]))


def set_head(connection: JournalConnection, session_id: str, runner: str | None = None) -> None:
    """Let the session continue behind its last event, in the hands of that runner."""
    connection.execute(
        "UPDATE sessions SET head_seq = coalesce((SELECT max(seq) FROM events WHERE session_id = :id), 0), "
        "runner = :runner WHERE id = :id",
        {"id": session_id, "runner": runner},
    )


# -- changes to a copy, before its events are chained -----------------------------------------------------------------


def replace_body(connection: JournalConnection, session_id: str, seq: int, body: str) -> None:
    """Give an event another body."""
    connection.execute("UPDATE events SET body = ? WHERE session_id = ? AND seq = ?", (body, session_id, seq))


def replace_message(connection: JournalConnection, session_id: str, place: SessionPlace, body: str) -> None:
    """Put a message of the user at its place."""
    values = (session_id, *place)
    connection.execute("DELETE FROM messages WHERE session_id = ? AND turn = ? AND step = ? AND position = ?", values)
    connection.execute(
        "INSERT INTO messages (session_id, turn, step, position, role, body) VALUES (?, ?, ?, ?, 'user', ?)",
        (*values, body),
    )


def add_step(connection: JournalConnection, session_id: str, turn_id: str, key: str, body: str) -> None:
    """Add a finished step behind the last event."""
    connection.execute(
        "INSERT INTO events (session_id, seq, turn_id, kind, key, effect, body, at, epoch) "
        "SELECT ?, max(seq) + 1, ?, 'step_done', ?, 'pure', ?, ?, 1 FROM events WHERE session_id = ?",
        (session_id, turn_id, key, body, time.time(), session_id),
    )
