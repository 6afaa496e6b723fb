"""Copying a whole journal from one store to another: a file to PostgreSQL, and back.

It is one transaction, which is only committed when every table has as many rows as before and every chain of events
holds: the copy is there whole, or not at all.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

from hermes.base.errors import JournalError
from hermes.journal.bodies import body_digest
from hermes.journal.events import first_link, next_link
from hermes.journal.store.connection import JournalConnection
from hermes.journal.store.port import Store
from hermes.journal.store.sqlite.database import empty_journal

#: The order in which the rows of a table are copied, where that has a meaning.
_ORDERED = {"sessions": "rowid", "events": "rowid", "questions": "rowid", "messages": "id"}
#: Many rows per statement save most of the time; this many values are within the limits of both databases.
_MOST_VALUES = 2_000
_EVENTS = (
    "SELECT session_id, seq, turn_id, kind, key, effect, body, at, epoch, chain FROM events ORDER BY session_id, seq"
)


def tables() -> dict[str, list[str]]:
    """The tables of a journal with their columns, each after those that it refers to."""
    with contextlib.closing(empty_journal()) as connection:
        query = "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%' ORDER BY name"
        names = [name for (name,) in connection.execute(query).fetchall()]
        refers = {
            name: {row[2] for row in connection.execute(f"PRAGMA foreign_key_list({name})").fetchall()} - {name}
            for name in names
        }
        ordered: list[str] = []
        while len(ordered) < len(names):
            ordered += [name for name in names if name not in ordered and refers[name] <= set(ordered)]
        return {
            name: [row[1] for row in connection.execute(f"PRAGMA table_info({name})").fetchall()] for name in ordered
        }


def copy_journal(source: Store, target: Store, progress: Callable[[str, int], object]) -> dict[str, int]:
    """Copy everything; returns the number of rows by table. ``progress`` hears of each table when it is done.

    Raises ``JournalError`` when the target holds anything, when a process uses the source, or when the copy differs.
    """
    found = tables()
    _refuse_while_in_use(source)

    def copy(reader: JournalConnection, writer: JournalConnection) -> dict[str, int]:
        for table in found:
            if writer.execute(f"SELECT 1 FROM {table} LIMIT 1").fetchone() is not None:
                used = f"{target.location} holds records already ({table})"
                raise JournalError(f"{used}; a journal is only copied to an empty one")
        copied: dict[str, int] = {}
        for table, columns in found.items():
            copied[table] = _copy_table(reader, writer, table, columns)
            progress(table, copied[table])
        counts = {table: writer.execute(f"SELECT count(*) FROM {table}").fetchone()[0] for table in found}
        if counts != copied:
            raise JournalError(f"{target.location} has other numbers of rows than the source; nothing was copied")
        if new := _broken_chains(writer) - _broken_chains(reader):
            raise JournalError(f"the events of session {min(new)} do not fit their chain; nothing was copied")
        target.number_on(writer)
        return copied

    return source.read(lambda reader: target.write(lambda writer: copy(reader, writer)))


def _refuse_while_in_use(source: Store) -> None:
    query = "SELECT id, runner FROM sessions WHERE runner IS NOT NULL"
    held = source.read(lambda connection: connection.execute(query).fetchall())
    with contextlib.closing(source.new_runner()) as runner:
        for session_id, owner in held:
            if runner.is_alive(owner):
                raise JournalError(
                    f"session {session_id} is in use by {runner.describe(owner)}; stop it before you copy the journal"
                )


def _copy_table(reader: JournalConnection, writer: JournalConnection, table: str, columns: list[str]) -> int:
    names = ", ".join(columns)
    order = f" ORDER BY {_ORDERED[table]}" if table in _ORDERED else ""
    rows: Iterator[Any] = iter(reader.execute(f"SELECT {names} FROM {table}{order}"))
    # A process that is gone holds nothing.
    released = columns.index("runner") if "runner" in columns else -1
    mark, count = f"({', '.join('?' * len(columns))})", 0
    while batch := list(islice(rows, max(_MOST_VALUES // len(columns), 1))):
        if released >= 0:
            batch = [(*row[:released], None, *row[released + 1 :]) for row in batch]
        marks = ", ".join([mark] * len(batch))
        writer.execute(f"INSERT INTO {table} ({names}) VALUES {marks}", [value for row in batch for value in row])
        count += len(batch)
    return count


def _broken_chains(connection: JournalConnection) -> set[str]:
    """The sessions with an event that does not follow from the one before it. Events of old versions have no chain."""
    broken: set[str] = set()
    session, link = "", b""
    for session_id, seq, turn_id, kind, key, effect, body, at, epoch, chain in connection.execute(_EVENTS):
        if session_id != session:
            session, link = session_id, first_link(session_id)
        if chain is not None:
            if next_link(link, seq, turn_id, kind, key, effect, body_digest(body), at, epoch) != chain:
                broken.add(session_id)
            link = chain
    return broken
