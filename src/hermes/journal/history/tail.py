"""Recorded events as they land, whichever process records them."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from hermes.journal.bodies import unpack
from hermes.journal.store.connection import JournalConnection
from hermes.journal.store.port import Store

_COLUMNS = "SELECT rowid, session_id, seq, turn_id, kind, key, at, body FROM events"

#: Where transactions end in another order than their rows are numbered, so many numbers are looked at again.
_OVERLAP = 500


class StreamedEvent(Struct, frozen=True):
    """One recorded event."""

    session_id: str
    seq: int
    turn_id: str
    kind: str
    key: str
    at: float
    body: Any


class EventStream:
    """The events of one session, or of all, in the order in which they were committed."""

    def __init__(self, store: Store, session_id: str | None = None) -> None:
        self._store = store
        self._where = "" if session_id is None else " AND session_id = :id"
        self._values = {"id": session_id}
        #: The last row that was given out, or passed over.
        self._row = 0
        #: The last rows that were given out, where earlier ones may still appear.
        self._given: set[int] = set()

    def last(self, count: int) -> list[StreamedEvent]:
        """The last events so far, at most so many; ``new`` continues from there."""
        query = f"{_COLUMNS} WHERE 1 = 1{self._where} ORDER BY rowid DESC LIMIT :count"
        # One at least, so that the place to continue from is known even when no row is wanted.
        found = self._store.read(lambda connection: self._events(connection, query, max(count, 1)))
        return found[::-1][-count:] if count else []

    def new(self) -> list[StreamedEvent]:
        """What was recorded since."""
        query = f"{_COLUMNS} WHERE rowid > :row{self._where} ORDER BY rowid LIMIT :count"
        return self._store.read(lambda connection: self._events(connection, query, 2**62))

    def _events(self, connection: JournalConnection, query: str, count: int) -> list[StreamedEvent]:
        overlap = 0 if self._store.numbers_in_order else _OVERLAP
        rows = connection.execute(query, {**self._values, "row": self._row - overlap, "count": count}).fetchall()
        self._row = max((self._row, *(row[0] for row in rows)))
        if overlap:
            rows = [row for row in rows if row[0] not in self._given]
            self._given = {number for number in self._given if number > self._row - overlap} | {row[0] for row in rows}
        return [StreamedEvent(*row[1:-1], body=unpack(connection, row[-1])) for row in rows]
