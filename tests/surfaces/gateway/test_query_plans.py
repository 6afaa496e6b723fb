"""What every message costs does not grow with the messages there ever were: its queries use the indexes."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, TypeVar, cast

import pytest

from hermes.journal.leases import SessionInfo
from hermes.journal.store.connection import JournalConnection
from hermes.journal.store.port import Store, home_store
from hermes.journal.turns.lifecycle import QueueLimits, Submission, accept_turn
from hermes.surfaces.gateway.adapter import MessageEvent, Platform, SessionSource
from hermes.surfaces.gateway.store.inbox import ChatRow, Inbox
from hermes.surfaces.gateway.store.outbox import Outbox, OutgoingMessage

T = TypeVar("T")


class Recorded:
    """A connection that keeps what it is asked."""

    def __init__(self, connection: JournalConnection, asked: list[tuple[str, Sequence[Any]]]) -> None:
        self._connection, self._asked = connection, asked

    def execute(self, query: str, values: Sequence[Any] = ()) -> Any:
        self._asked.append((query, values))
        return self._connection.execute(query, values)

    def executemany(self, query: str, values: Sequence[Sequence[Any]]) -> Any:
        self._asked += [(query, one) for one in values]
        return self._connection.executemany(query, values)


class RecordedStore:
    """A store whose connections are recorded."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.asked: list[tuple[str, Sequence[Any]]] = []

    def write(self, work: Callable[[JournalConnection], T]) -> T:
        return self.store.write(lambda connection: work(cast("JournalConnection", Recorded(connection, self.asked))))

    write_soon = read = write

    def scans(self) -> list[str]:
        """The queries that read a whole table."""
        found: list[str] = []
        for query, values in self.asked:
            plan = self.store.read(lambda c, q=query, v=values: c.execute(f"EXPLAIN QUERY PLAN {q}", v).fetchall())
            details = [str(row[3]) for row in plan]
            scans = [one for one in details if one.startswith("SCAN ") and one != "SCAN CONSTANT ROW"]
            found += [query for one in scans if "USING" not in one]
        return found


@pytest.fixture
def recorded(home: Path) -> Generator[RecordedStore]:
    with closing(home_store(home)) as store:
        yield RecordedStore(store)


def test_a_message_its_turn_and_its_answer_read_no_whole_table(recorded: RecordedStore) -> None:
    source = SessionSource(Platform("line"), "alice", user_id="alice", user_name="alice")
    row = ChatRow("agent:main:line:dm:alice", "line", "", "s1", "{}", 1.0)
    inbox = Inbox(cast("Store", recorded))
    arrived = inbox.accept(row, "d1", MessageEvent("hello", source=source), is_new=True)
    turn = Submission("t1", "s1", "t1", "gateway:1", "line", "queued", "turns", 0, "", 0.0)
    session = SessionInfo("s1", "/", "line")
    message = {"role": "user", "content": "hello"}
    limits = QueueLimits(1_000, 1)
    recorded.write(lambda connection: accept_turn(connection, session, turn, message, limits))
    assert arrived is not None
    answer = OutgoingMessage("a", "line", "alice", "Answer.")
    inbox.finish(arrived.number, [answer])
    outbox = Outbox(cast("Store", recorded))
    outbox.add(OutgoingMessage("b", "line", "bob", "Another."))
    claimed, _ = outbox.claim(["line"])
    outbox.settle([(claimed.number, "sent", "", "", 0.0)])
    outbox.make_due("line", "alice")
    outbox.settle_claims()
    assert len(recorded.asked) > 15
    assert recorded.scans() == []
