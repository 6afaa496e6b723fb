"""The order in which a cluster's turns are given to the engine: sessions, priorities, fairness, limits."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from hermes.config.schema.sections import JournalConfig
from hermes.dispatch.cluster.handover import CONTROL, hand_over, has_engine, resume_now, take_back
from hermes.journal.leases import SessionInfo
from hermes.journal.store.connection import JournalConnection
from hermes.journal.store.postgres.store import PostgresStore
from hermes.journal.turns.lifecycle import Submission, accept_turn, cancel_queued
from journal.kit import user
from support.waiting import HANG

_ENGINE = """
    CREATE SCHEMA dbos;
    CREATE TABLE dbos.calls (name text, queue text, id text PRIMARY KEY, version text, priority int);
    CREATE FUNCTION dbos.enqueue_workflow(workflow_name text, queue_name text, positional_args json[], workflow_id text,
        app_version text, priority int, application_name text) RETURNS text LANGUAGE sql AS $$
        INSERT INTO dbos.calls VALUES ($1, $2, $4, $5, $6); SELECT $4 $$;
"""


class Queue:
    """A journal and a stand-in for the engine that writes down what it is given."""

    def __init__(self, store: PostgresStore) -> None:
        self.store = store
        with closing(store.connect()) as connection:
            connection.raw.execute(_ENGINE.encode())

    def submit(self, name: str, session: str = "", **fields: Any) -> None:
        values: dict[str, Any] = {"queue": "turns", "priority": 0, "principal": "", **fields}
        turn = Submission(
            turn_id=name, session_id=session or name, task_id=name, request_key=name, source="test", state="queued",
            submitted_at=0.0, **values,
        )  # fmt: skip
        info = SessionInfo(turn.session_id, "/", principal=turn.principal)
        self.store.write(lambda connection: accept_turn(connection, info, turn, user(name)))

    def hand_over(self, **options: Any) -> list[str]:
        return self.store.write(lambda connection: hand_over(connection, **options))

    def end(self, name: str, state: str = "completed") -> None:
        def write(connection: JournalConnection) -> None:
            connection.execute("UPDATE turns SET state = ?, ordinal = abs(ordinal) WHERE id = ?", (state, name))
            take_back(connection, name)

        self.store.write(write)

    def engine(self) -> list[str]:
        """The turns that the engine would start, in that order."""
        query = "SELECT id FROM dbos.calls ORDER BY priority, id"
        return [row[0] for row in self.store.read(lambda connection: connection.execute(query).fetchall())]


@pytest.fixture
def queue(postgres_url: str, tmp_path: Path) -> Generator[Queue]:
    store = PostgresStore(JournalConfig(url=postgres_url))
    yield Queue(store)
    store.close()


def test_one_turn_of_a_session_at_a_time_in_order(queue: Queue) -> None:
    for name in ("1", "2", "3"):
        queue.submit(name, "s")
    assert queue.hand_over() == ["1"]
    assert queue.hand_over() == []
    queue.end("1")
    assert queue.hand_over(session_id="other") == []
    assert cancel_queued(queue.store, "2", "no")
    assert queue.hand_over(session_id="s") == ["3"]


def test_a_higher_priority_comes_first_and_principals_share(queue: Queue) -> None:
    for number in range(3):
        queue.submit(f"ann{number}", principal="ann")
    queue.submit("bob", principal="bob")
    queue.submit("urgent", principal="ann", priority=1)
    queue.hand_over()
    assert queue.engine()[0] == "urgent#1"
    # ann has four turns with the engine, so that the first of bob comes before her third.
    assert queue.engine().index("bob#1") < queue.engine().index("ann1#1")


def test_a_principal_has_no_more_than_its_limit_with_the_engine(queue: Queue) -> None:
    for name in ("a", "b", "c"):
        queue.submit(name, principal="ann")
    assert queue.hand_over(max_of_principal=2) == ["a", "b"]
    queue.end("a")
    assert queue.hand_over(max_of_principal=2) == ["c"]


def test_a_suspended_turn_holds_its_session_until_it_is_resumed(queue: Queue) -> None:
    queue.submit("asks", "s")
    queue.submit("behind", "s")
    queue.hand_over()
    queue.end("asks", "running")
    assert queue.hand_over() == []
    assert queue.store.write(lambda connection: resume_now(connection, "asks"))
    assert not queue.store.write(lambda connection: resume_now(connection, "asks"))
    assert queue.engine() == ["asks#1", "asks#2"]
    queue.end("asks")
    assert queue.hand_over() == ["behind"]


def test_children_and_workspaces_have_queues_of_their_own(queue: Queue) -> None:
    queue.submit("child", queue="children")
    queue.submit("pinned")
    queue.store.write(
        lambda connection: connection.execute("UPDATE submissions SET workspace = 'gpu' WHERE turn_id = 'pinned'")
    )
    queue.hand_over()
    query = "SELECT id, queue, version FROM dbos.calls ORDER BY id"
    rows = queue.store.read(lambda connection: connection.execute(query).fetchall())
    assert rows == [("child#1", "children", "loop-1"), ("pinned#1", "turns@gpu", "loop-1")]


def test_a_turn_that_is_postponed_is_not_handed_over_before_its_time(queue: Queue) -> None:
    queue.submit("busy")
    queue.hand_over()
    queue.store.write(lambda connection: take_back(connection, "busy", seconds=60))
    assert queue.hand_over() == []
    queue.store.write(lambda connection: take_back(connection, "busy"))
    assert queue.hand_over() == ["busy"]


def test_the_engine_is_found_once_a_worker_made_its_tables(queue: Queue) -> None:
    assert queue.store.read(has_engine)
    queue.store.write(lambda connection: connection.execute("DROP FUNCTION dbos.enqueue_workflow"))
    assert not queue.store.read(has_engine)


def test_workers_are_told_of_the_queue_of_a_turn(queue: Queue) -> None:
    with closing(queue.store.connect()) as connection:
        connection.execute(f'LISTEN "{CONTROL}"')
        queue.submit("first")
        queue.submit("child", queue="children")
        queue.hand_over()
        told = [note.payload for note in connection.raw.notifies(timeout=HANG, stop_after=2)]
    assert sorted(told) == ['{"queue":"children"}', '{"queue":"turns"}']
