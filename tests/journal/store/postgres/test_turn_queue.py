"""The queue of a cluster: sessions, priorities, fairness, limits, and what becomes of turns that a worker has taken."""

from __future__ import annotations

import threading
from collections.abc import Generator
from contextlib import closing
from typing import Any

import pytest

from hermes.base.config.schema.sections import JournalConfig
from hermes.journal.leases import SessionInfo
from hermes.journal.store.connection import JournalConnection
from hermes.journal.store.postgres import turn_queue
from hermes.journal.store.postgres.store import PostgresStore
from hermes.journal.store.postgres.turn_queue import CONTROL, TakeSettings
from hermes.journal.turns.lifecycle import Submission, accept_turn, cancel_queued
from journal.kit import user
from support.waiting import HANG, finish


class Queue:
    """A journal with turns that are left to workers, unless ``offered`` is false."""

    def __init__(self, store: PostgresStore) -> None:
        self.store = store

    def submit(self, name: str, session: str = "", *, workspace: str = "", offered: bool = True, **fields: Any) -> None:
        values: dict[str, Any] = {"queue": "turns", "priority": 0, "principal": "", **fields}
        turn = Submission(
            turn_id=name, session_id=session or name, task_id=name, request_key=name, source="test", state="queued",
            submitted_at=0.0, **values,
        )  # fmt: skip
        info = SessionInfo(turn.session_id, "/", principal=turn.principal)

        def write(connection: JournalConnection) -> None:
            accept_turn(connection, info, turn, user(name))
            if offered:
                turn_queue.offer(connection, name, workspace)

        self.store.write(write)

    def take(
        self, worker: str = "w1", *, queue: str = "turns", most: int = 100, limit: int = 0, **fields: Any
    ) -> list[str]:
        """The turns that a worker takes, by name."""
        settings = TakeSettings(worker, fields.get("workspace", ""), fields.get("loop", 1), limit)
        taken = self.store.write(lambda connection: turn_queue.take_turns(connection, settings, queue, most))
        return sorted(turn.turn_id for turn in taken)

    def set_state(self, name: str, state: str) -> None:
        query = "UPDATE turns SET state = ?, ordinal = abs(ordinal) WHERE id = ?"
        self.store.write(lambda connection: connection.execute(query, (state, name)))

    def end(self, name: str) -> None:
        self.set_state(name, "completed")

    def suspend(self, name: str, worker: str = "w1") -> None:
        self.set_state(name, "running")
        self.store.write(lambda connection: turn_queue.suspend(connection, name, worker))

    def state(self, name: str) -> str | None:
        return self.store.read(lambda connection: turn_queue.state_of(connection, name))


@pytest.fixture
def queue(postgres_url: str) -> Generator[Queue]:
    store = PostgresStore(JournalConfig(url=postgres_url))
    yield Queue(store)
    store.close()


def test_one_turn_of_a_session_at_a_time_in_order(queue: Queue) -> None:
    for name in ("1", "2", "3"):
        queue.submit(name, "s")
    assert queue.take() == ["1"]
    assert queue.take("w2") == []
    queue.set_state("1", "running")
    assert queue.take("w2") == []
    queue.end("1")
    assert cancel_queued(queue.store, "2", "no")
    assert queue.take("w2") == ["3"]


def test_a_higher_priority_comes_first_and_principals_share(queue: Queue) -> None:
    for number in range(3):
        queue.submit(f"ann{number}", principal="ann")
    queue.submit("bob", principal="bob")
    queue.submit("urgent", principal="ann", priority=1)
    order = [queue.take(most=1)[0] for _ in range(5)]
    # When ann has one turn with a worker, the first of bob comes before her next.
    assert order == ["urgent", "bob", "ann0", "ann1", "ann2"]


def test_what_is_taken_at_once_is_shared_too(queue: Queue) -> None:
    for number in range(3):
        queue.submit(f"ann{number}", principal="ann")
    for number in range(3):
        queue.submit(f"bob{number}", principal="bob")
    assert queue.take(most=4) == ["ann0", "ann1", "bob0", "bob1"]


def test_a_principal_has_no_more_than_its_limit_with_workers(queue: Queue) -> None:
    for name in ("a", "b", "c"):
        queue.submit(name, principal="ann")
    assert queue.take(limit=2) == ["a", "b"]
    assert queue.take("w2", limit=2) == []
    queue.end("a")
    assert queue.take("w2", limit=2) == ["c"]


def test_workers_that_take_turns_at_the_same_time_share_them(queue: Queue) -> None:
    for number in range(20):
        queue.submit(f"turn{number:02}")
    taken: dict[str, list[str]] = {}
    together = threading.Barrier(4)

    def take(worker: str) -> None:
        together.wait(HANG)
        taken[worker] = queue.take(worker, most=5)

    threads = [threading.Thread(target=take, args=(f"w{number}",)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        finish(thread.join)
    # A worker passes by what another one is about to take.
    assert sorted(name for found in taken.values() for name in found) == [f"turn{number:02}" for number in range(20)]


def test_a_suspended_turn_holds_its_session_until_it_is_resumed(queue: Queue) -> None:
    queue.submit("asks", "s")
    queue.submit("behind", "s")
    assert queue.take() == ["asks"]
    queue.suspend("asks")
    assert (queue.state("asks"), queue.take()) == ("suspended", [])
    assert queue.store.write(lambda connection: turn_queue.resume(connection, "asks"))
    assert not queue.store.write(lambda connection: turn_queue.resume(connection, "asks"))
    assert (queue.state("asks"), queue.take("w2")) == ("running", ["asks"])
    queue.suspend("asks")  # by the worker that had it before: it has no say any more
    assert queue.state("asks") == "running"
    queue.end("asks")
    assert queue.take() == ["behind"]


def test_children_workspaces_and_versions_have_workers_of_their_own(queue: Queue) -> None:
    queue.submit("child", queue="children")
    queue.submit("pinned", workspace="gpu")
    queue.submit("shared")
    assert queue.take(loop=2) == []
    assert queue.take(workspace="gpu") == ["pinned"]
    assert queue.store.read(lambda connection: turn_queue.waiting_queues(connection, "")) == {"turns", "children"}
    assert queue.take(queue="children") == ["child"]
    assert queue.take() == ["shared"]
    assert queue.store.read(lambda connection: turn_queue.waiting_queues(connection, "")) == set()


def test_a_turn_that_is_postponed_is_not_taken_before_its_time(queue: Queue) -> None:
    queue.submit("busy")
    queue.take()
    queue.store.write(lambda connection: turn_queue.give_back(connection, "busy", "w1", seconds=60))
    assert queue.take() == []
    assert queue.store.read(lambda connection: turn_queue.waiting_queues(connection, "")) == set()
    queue.store.write(lambda connection: connection.execute("UPDATE submissions SET retry_at = 0"))
    assert queue.take() == ["busy"]


def test_the_turns_of_a_worker_that_is_gone_are_taken_by_others(queue: Queue) -> None:
    for name in ("a", "b", "ended"):
        queue.submit(name)
    queue.take()
    queue.set_state("a", "running")
    queue.end("ended")
    mine = queue.store.read(lambda connection: turn_queue.turns_of(connection, "w1"))
    assert mine == {"a": None, "b": None}
    assert queue.store.write(lambda connection: turn_queue.take_from(connection, "w1", mine)) == 2
    assert queue.take("w2") == ["a", "b"]
    # A second one that found the same takes nothing from the new owner.
    assert queue.store.write(lambda connection: turn_queue.take_from(connection, "w1", mine)) == 0
    assert queue.store.read(lambda connection: turn_queue.turns_of(connection, "w2")) == mine


def test_turns_that_their_process_runs_itself_are_left_alone_until_they_are_offered(queue: Queue) -> None:
    queue.submit("own", offered=False)
    queue.submit("started", offered=False)
    queue.set_state("started", "running")
    assert queue.take() == []
    assert queue.store.write(turn_queue.offer_left) == 1
    assert queue.take() == ["own"]


def test_cancelling_finds_who_has_the_turn(queue: Queue) -> None:
    def cancel(name: str) -> bool | None:
        return queue.store.write(lambda connection: turn_queue.mark_cancelled(connection, name, "no"))

    for name in ("queued", "runs", "asks"):
        queue.submit(name)
    queue.take()
    queue.set_state("runs", "running")
    queue.suspend("asks")
    assert [cancel(name) for name in ("queued", "runs", "asks")] == [None, False, True]
    assert queue.store.read(lambda connection: turn_queue.turns_of(connection, "w1")) == {"queued": None, "runs": "no"}


def test_workers_are_told_of_a_turn(queue: Queue) -> None:
    with closing(queue.store.connect()) as connection:
        connection.execute(f'LISTEN "{CONTROL}"')
        queue.submit("first")
        told = [note.payload for note in connection.raw.notifies(timeout=HANG, stop_after=1)]
    assert told == ['{"wake":""}']
