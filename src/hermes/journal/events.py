"""Events: appended under a lease, numbered without gaps, hash-chained, and never changed afterwards.

The chain of an event is the SHA-256 of the chain before it and of its own row, with the digest of the body in place of
the body. So a changed, missing, added or moved event is found, while a body that was redacted on purpose, and left its
digest behind, breaks nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

import msgspec

from hermes.base.errors import JournalError
from hermes.journal.bodies import MissingBlob, blob_in, body_digest, is_plain, is_redacted, pack, pack_shared, unpack
from hermes.journal.leases import Lease
from hermes.journal.records import Record, RedactedRecord, UnreadableRecord, convert_record, decode_record, tag_of
from hermes.journal.store.connection import JournalConnection

RecordT = TypeVar("RecordT", bound=msgspec.Struct)

_INSERT = (
    "INSERT INTO events (session_id, seq, turn_id, kind, key, effect, body, at, epoch, chain) "
    "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
)
_READ = (
    "SELECT e.seq, e.turn_id, e.kind, e.key, e.effect, e.at, e.body, b.data FROM events e "
    f"LEFT JOIN blobs b ON {blob_in('e.body')} WHERE e.session_id = :session"
)
NOT_JSON = "it is not JSON; the journal was changed by hand"
_encode = msgspec.json.Encoder().encode


class NewEvent(NamedTuple):
    """An event before it has a number. ``text`` is its body as JSON."""

    kind: str
    key: str
    effect: str | None
    text: str
    at: float
    #: Further fields of the body as JSON, by name, which are the same in many events and are stored once.
    shared: Mapping[str, str] = {}


class StoredEvent(NamedTuple):
    """The row of an event, with its body as it is stored."""

    seq: int
    turn_id: str
    kind: str
    key: str
    effect: str | None
    body: str
    at: float
    epoch: int | None
    chain: bytes | None


_STORED = ", ".join(StoredEvent._fields)


class ReadEvent(NamedTuple):
    """An event as it was recorded."""

    seq: int
    turn_id: str
    kind: str
    key: str
    #: What may happen when the step runs again; None for an event that is no step.
    effect: str | None
    at: float
    record: Record

    def __str__(self) -> str:
        return f"event {self.seq} ({f'{self.kind} {self.key}'.strip()})"


def read_events(
    connection: JournalConnection, session_id: str, *, after: int = 0, turn_id: str = "", key: str = "", but: str = ""
) -> Iterator[ReadEvent]:
    """The events of a session in order: those with a number above ``after``, of one turn, of one key, but for a key.

    A body that cannot be read becomes an ``UnreadableRecord``.
    """
    conditions = {
        "e.seq > :after": after,
        "e.turn_id = :turn": turn_id,
        "e.key = :key": key,
        "e.key <> :but": but,
    }
    query = " AND ".join([_READ, *(text for text, value in conditions.items() if value)])
    values = {"session": session_id, "after": after, "turn": turn_id, "key": key, "but": but}
    shared: dict[str, dict[str, Any]] = {}
    for row in connection.execute(f"{query} ORDER BY e.seq", values).fetchall():
        yield _event(connection, row, shared)


def read_turn(connection: JournalConnection, session_id: str, turn_id: str) -> Iterator[ReadEvent]:
    """The events of one turn in order."""
    row = connection.execute("SELECT first_seq FROM turns WHERE id = ?", (turn_id,)).fetchone()
    return read_events(connection, session_id, after=row[0] - 1 if row else 0, turn_id=turn_id)


def first_event(connection: JournalConnection, session_id: str, key: str) -> ReadEvent | None:
    """The first event of a session with that key."""
    query = f"{_READ} AND e.key = :key ORDER BY e.seq LIMIT 1"
    row = connection.execute(query, {"session": session_id, "key": key}).fetchone()
    return None if row is None else _event(connection, row, {})


def compactions_in(connection: JournalConnection, session_id: str) -> Iterator[ReadEvent]:
    """The compactions of a session, in turns and between them, newest first."""
    is_one = "(e.kind = 'compacted' OR (e.kind = 'step_done' AND e.key LIKE 'compact:%'))"
    for row in connection.execute(f"{_READ} AND {is_one} ORDER BY e.seq DESC", {"session": session_id}):
        yield _event(connection, row, {})


def last_record(connection: JournalConnection, kind: type[RecordT], session_id: str, turn_id: str) -> RecordT | None:
    """The last record of a type in a turn; None when there is none. Raises ``JournalError`` when it cannot be read."""
    event, key = tag_of(kind)
    query = f"{_READ} AND e.turn_id = :turn AND e.kind = :kind AND e.key = :key ORDER BY e.seq DESC LIMIT 1"
    values = {"session": session_id, "turn": turn_id, "kind": event, "key": key}
    row = connection.execute(query, values).fetchone()
    return None if row is None else readable(_event(connection, row, {}))


def readable(event: ReadEvent) -> Any:
    """The record of an event. Raises ``JournalError`` when it cannot be read."""
    record = event.record
    if isinstance(record, UnreadableRecord | RedactedRecord):
        why = record.reason if isinstance(record, UnreadableRecord) else "it was redacted"
        raise JournalError(f"{event} of turn {event.turn_id} cannot be read: {why}; 'hermes trace verify' lists all")
    return record


def _event(connection: JournalConnection, row: tuple[Any, ...], shared: dict[str, dict[str, Any]]) -> ReadEvent:
    seq, turn_id, kind, key, effect, at, body, blob = row
    return ReadEvent(seq, turn_id, kind, key, effect, at, _record(connection, kind, key, body, blob, shared))


def _record(
    connection: JournalConnection, kind: str, key: str, body: str, blob: str | None, shared: dict[str, dict[str, Any]]
) -> Record:
    try:
        if is_redacted(body):
            return RedactedRecord()
        if blob is None and not is_plain(body):
            return convert_record(kind, key, unpack(connection, body, shared))
        return decode_record(kind, key, blob or body)
    except MissingBlob as error:
        return UnreadableRecord(str(error))
    except msgspec.ValidationError as error:
        is_json = _is_json(blob or body)  # of a text that is no object, only the beginning was read
        return UnreadableRecord(str(error), is_incomplete=True) if is_json else UnreadableRecord(NOT_JSON)
    except (ValueError, RecursionError):
        return UnreadableRecord(NOT_JSON)


def _is_json(text: str) -> bool:
    try:
        msgspec.json.decode(text)
    except msgspec.DecodeError:
        return False
    return True


def append_events(connection: JournalConnection, lease: Lease, turn_id: str, events: Sequence[NewEvent]) -> None:
    """Append events to a session. Raises ``LeaseLost`` when the lease has ended."""
    session_id, epoch = lease.session_id, lease.epoch
    seq, chain = lease.advance(connection, len(events))
    link = chain or first_link(session_id)
    rows: list[tuple[object, ...]] = []
    for kind, key, effect, text, at, shared in events:
        seq += 1
        body = pack_shared(connection, session_id, text, shared) if shared else pack(connection, session_id, text)
        link = next_link(link, seq, turn_id, kind, key, effect, body_digest(body), at, epoch)
        rows.append((session_id, seq, turn_id, kind, key, effect, body, at, epoch, link))
    connection.executemany(_INSERT, rows)


def last_link(connection: JournalConnection, session_id: str) -> tuple[int, bytes | None] | None:
    """The number and the chain of the last event of a session."""
    query = "SELECT seq, chain FROM events WHERE session_id = ? ORDER BY seq DESC LIMIT 1"
    return connection.execute(query, (session_id,)).fetchone()


def stored_events(connection: JournalConnection, session_id: str, after: int = 0) -> list[StoredEvent]:
    """The rows of the events with a number above ``after``."""
    query = f"SELECT {_STORED} FROM events WHERE session_id = ? AND seq > ? ORDER BY seq"
    return [StoredEvent(*row) for row in connection.execute(query, (session_id, after)).fetchall()]


def stored_event(connection: JournalConnection, session_id: str, seq: int) -> StoredEvent | None:
    """The row of one event."""
    query = f"SELECT {_STORED} FROM events WHERE session_id = ? AND seq = ?"
    row = connection.execute(query, (session_id, seq)).fetchone()
    return None if row is None else StoredEvent(*row)


def last_before(connection: JournalConnection, session_id: str, moment: float) -> int:
    """The number of the last event that was recorded before that time; 0 when there is none."""
    query = "SELECT coalesce(max(seq), 0) FROM events WHERE session_id = ? AND at < ?"
    return connection.execute(query, (session_id, moment)).fetchone()[0]


def first_link(session_id: str) -> bytes:
    """What the chain of a session begins with, so that events of another session do not fit into it."""
    from hashlib import sha256  # loads OpenSSL, which only a turn needs

    return sha256(b"hermes events 1\0" + session_id.encode()).digest()


def next_link(previous: bytes, *event: str | float | None) -> bytes:
    """The chain of an event, given that of the event before it.

    ``event`` is its number, turn, kind, key, effect, the digest of its body, its time and its epoch.
    """
    import hashlib  # not ``from hashlib``, which costs more than the digest when it is repeated

    return hashlib.sha256(previous + _encode(event)).digest()


def chain_events(connection: JournalConnection, session_id: str) -> None:
    """Chain the events of a session that was copied as a whole: the copies have ids of their own."""
    link, links = first_link(session_id), list[tuple[bytes, str, int]]()
    for seq, turn_id, kind, key, effect, body, at, epoch, _ in stored_events(connection, session_id):
        link = next_link(link, seq, turn_id, kind, key, effect, body_digest(body), at, epoch)
        links.append((link, session_id, seq))
    connection.executemany("UPDATE events SET chain = ? WHERE session_id = ? AND seq = ?", links)
