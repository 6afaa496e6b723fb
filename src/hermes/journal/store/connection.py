"""The database connection that the journal's statements run on, as a protocol.

Everything but ``database.py``, ``store.py`` and the search index depends on this alone, and keeps to the SQL that
SQLite and PostgreSQL have in common. Placeholders are ``?`` or ``:name``.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol

#: The order in which rows were added. SQLite has it without a column, PostgreSQL in one of its own.
ROW_NUMBER = "rowid"

Parameters = Sequence[Any] | Mapping[str, Any]


def now(connection: JournalConnection) -> float:
    """The time for what is put in order by it: where several machines write, that of their database."""
    clock: Callable[[], float] = getattr(connection, "clock", time.time)
    return clock()


def answers_at_once(connection: JournalConnection) -> bool:
    """Whether the outcome of a statement costs nothing. Elsewhere it is a round trip away, and a statement that may
    be needless is cheaper than asking."""
    return getattr(connection, "answers_at_once", True)


def placeholders(values: Sequence[Any]) -> str:
    """A placeholder for each of the values, for ``IN (…)``."""
    return ", ".join("?" * len(values))


class Cursor(Protocol):
    """The rows that a statement found, or the number of rows that it changed."""

    @property
    def description(self) -> Any:
        """A sequence for each column; its first item is the name."""
        ...

    @property
    def rowcount(self) -> int:
        """How many rows the statement changed."""
        ...

    def fetchone(self) -> Any:
        """The next row, or None."""
        ...

    def fetchall(self) -> list[Any]:
        """All rows that are left."""
        ...

    def __iter__(self) -> Iterator[Any]: ...


class JournalConnection(Protocol):
    """Runs statements inside the transaction that the store has begun."""

    def execute(self, sql: str, parameters: Parameters = ..., /) -> Cursor:
        """Run one statement."""
        ...

    def executemany(self, sql: str, parameters: Iterable[Parameters], /) -> Cursor:
        """Run one statement for each set of values."""
        ...
