"""Statements that are sent together: how often the server is waited for, and what becomes of errors among them."""

from __future__ import annotations

import select
from collections.abc import Callable, Generator
from contextlib import closing
from typing import Any

import psycopg
import pytest

from hermes.base.config.schema.sections import JournalConfig
from hermes.base.errors import JournalError
from hermes.journal.store.connection import JournalConnection
from hermes.journal.store.postgres.pipeline import PipelinedConnection
from hermes.journal.store.postgres.store import PostgresStore
from journal.kit import insert_session, rows, session_ids, start_turn

pytestmark = pytest.mark.postgres_only

_NOTE = "INSERT INTO notes (number, text) VALUES (?, ?)"


@pytest.fixture
def store(journal_settings: JournalConfig) -> Generator[PostgresStore]:
    with closing(PostgresStore(JournalConfig(url=journal_settings.url, pool_size=1))) as store:
        store.write(lambda connection: connection.execute("CREATE TABLE notes (number bigint PRIMARY KEY, text text)"))
        yield store
        store.write(lambda connection: connection.execute("DROP TABLE notes"))


def _notes(store: PostgresStore) -> list[int]:
    return [number for (number,) in rows(store, "SELECT number FROM notes ORDER BY number")]


def _sends(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The number of statements of each round trip from now on."""
    sent: list[int] = []
    send: Callable[[PipelinedConnection], None] = getattr(PipelinedConnection, "_send")  # noqa: B009

    def counted(self: PipelinedConnection) -> None:
        waiting: list[Any] = getattr(self, "_waiting")  # noqa: B009
        sent.append(len(waiting))
        send(self)

    monkeypatch.setattr(PipelinedConnection, "_send", counted)
    return sent


def test_a_fenced_commit_is_two_round_trips(store: PostgresStore, monkeypatch: pytest.MonkeyPatch) -> None:
    with closing(store.new_runner()) as runner:
        turn = start_turn(store, runner, "s1")
        sent = _sends(monkeypatch)
        for number in range(3):
            turn.event("note", "", number)
        turn.message(1, 0, {"role": "assistant", "content": "hello"})
        turn.commit()
        # The beginning, the number of the transaction and the fence; then the events, the message and the commit.
        assert sent == [3, 5]
        sent.clear()
        assert store.read(lambda connection: connection.execute("SELECT 1").fetchone()) == (1,)
        assert sent == [2, 1]  # nothing waits for the answer of the second
        sent.clear()
        assert store.read(lambda _connection: 7) == 7
        assert sent == []


def test_an_error_of_a_statement_that_waited_is_that_of_the_commit(store: PostgresStore) -> None:
    def work(connection: JournalConnection) -> str:
        insert_session(connection, "s1")
        connection.execute("INSERT INTO notes (number) VALUES ('nonsense')")
        insert_session(connection, "s2")
        return "done"

    with pytest.raises(JournalError, match="nonsense"):
        store.write(work)
    assert session_ids(store) == []
    # The same connection goes on, with the statements that it has prepared and those that it could not prepare.
    for number in range(6):
        store.write(lambda connection, number=number: connection.execute(_NOTE, (number, "text")))
        with pytest.raises(JournalError, match="nonsense"):
            store.write(work)
    assert _notes(store) == [0, 1, 2, 3, 4, 5]


def test_rows_of_a_statement_that_was_skipped_cannot_be_read(store: PostgresStore) -> None:
    def work(connection: JournalConnection) -> None:
        connection.execute("SELECT 1 / 0")
        skipped = connection.execute("SELECT 1")
        with pytest.raises(psycopg.errors.DivisionByZero):
            skipped.fetchall()
        with pytest.raises(psycopg.InterfaceError, match="earlier statement"):
            skipped.fetchall()

    with pytest.raises(JournalError, match="nothing was recorded"):
        store.write(work)


def test_rows_are_read_once_and_in_order(store: PostgresStore) -> None:
    def work(connection: JournalConnection) -> None:
        found = connection.execute("SELECT n, CASE WHEN n > 1 THEN 'x' END FROM generate_series(1, 4) n")
        changed = connection.execute(_NOTE, (1, None))
        assert found.fetchone() == (1, None)
        assert next(iter(found)) == (2, "x")
        assert found.fetchall() == [(3, "x"), (4, "x")]
        assert (found.fetchone(), found.fetchall()) == (None, [])
        assert (changed.rowcount, changed.fetchall()) == (1, [])
        assert [column[0] for column in found.description] == ["n", "case"]

    store.write(work)


def test_much_in_both_directions_at_the_same_time(store: PostgresStore) -> None:
    large = "x" * 3_000_000

    def work(connection: JournalConnection) -> list[Any]:
        found = [connection.execute("SELECT CAST(? AS text)", (large,)) for _ in range(10)]
        connection.executemany(_NOTE, [(number, "text") for number in range(1_000)])
        return [rows.fetchone() for rows in found]

    assert store.write(work) == [(large,)] * 10
    assert len(_notes(store)) == 1_000


def test_prepared_statements_are_dropped_when_there_are_many(store: PostgresStore) -> None:
    def work(connection: JournalConnection) -> list[Any]:
        found = [connection.execute(f"SELECT {number} + ?", (1,)) for number in range(400) for _ in range(3)]
        return [rows.fetchone()[0] for rows in found]

    expected = [number + 1 for number in range(400) for _ in range(3)]
    assert store.read(work) == expected
    assert store.read(work) == expected
    count = "SELECT count(*) FROM pg_prepared_statements"
    assert store.read(lambda connection: connection.execute(count).fetchone()[0]) < 600


class _Interrupted:
    """A poll object, at which a signal arrives once."""

    def __init__(self, poll: select.poll) -> None:
        self._poll = poll
        self._is_due = True

    def poll(self) -> list[tuple[int, int]]:
        if self._is_due:
            self._is_due = False
            raise KeyboardInterrupt
        return self._poll.poll()


def test_a_signal_waits_for_the_answer(store: PostgresStore) -> None:
    opened: list[PipelinedConnection] = []

    def note(connection: JournalConnection) -> None:
        assert isinstance(connection, PipelinedConnection)
        opened.append(connection)
        connection.execute(_NOTE, (1, "text"))
        connection.transaction()
        poll: select.poll = getattr(connection, "_poll")  # noqa: B009
        setattr(connection, "_poll", _Interrupted(poll))  # noqa: B010

    with pytest.raises(KeyboardInterrupt):
        store.write(note)
    assert _notes(store) == [1]
    assert opened[0].is_closed  # it is not used again
