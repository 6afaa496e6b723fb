"""Taking turns: at once when woken, no more than there are slots, and none when it was stopped."""

from __future__ import annotations

import contextlib
from collections.abc import Generator

import pytest

from hermes.base.config.schema.sections import JournalConfig
from hermes.journal.leases import SessionInfo
from hermes.journal.store.connection import JournalConnection
from hermes.journal.store.postgres import turn_queue
from hermes.journal.store.postgres.store import PostgresStore
from hermes.journal.store.postgres.turn_queue import TakenTurn, TakeSettings
from hermes.journal.turns.lifecycle import Submission, accept_turn
from hermes.service.dispatch.cluster.taking import TurnTaking
from journal.kit import user
from support.waiting import wait_until

_NEVER = 3_600.0


@pytest.fixture
def store(postgres_url: str) -> Generator[PostgresStore]:
    store = PostgresStore(JournalConfig(url=postgres_url))
    yield store
    store.close()


def submit(store: PostgresStore, *names: str, queue: str = "turns", principal: str = "") -> None:
    def write(connection: JournalConnection) -> None:
        for name in names:
            turn = Submission(
                turn_id=name,
                session_id=name,
                task_id=name,
                request_key=name,
                source="test",
                state="queued",
                queue=queue,
                priority=0,
                principal=principal,
                submitted_at=0.0,
            )
            accept_turn(connection, SessionInfo(name, "/", principal=principal), turn, user(name))
            turn_queue.offer(connection, name, "")

    store.write(write)


@contextlib.contextmanager
def taking(
    store: PostgresStore, taken: list[TakenTurn], *, poll: float = _NEVER, slots: int = 2, limit: int = 0
) -> Generator[TurnTaking]:
    settings = TakeSettings("w1", "", 1, limit)
    made = TurnTaking(store, settings, {"turns": slots, "children": 1}, taken.append, poll_seconds=poll)
    made.start()
    try:
        yield made
    finally:
        made.close()


def names(taken: list[TakenTurn]) -> list[str]:
    return sorted(turn.turn_id for turn in taken)


def test_turns_are_taken_when_it_is_woken(store: PostgresStore) -> None:
    taken: list[TakenTurn] = []
    submit(store, "a")
    with taking(store, taken) as worker:
        worker.wake()
        wait_until(lambda: names(taken) == ["a"])


def test_turns_are_found_without_a_notification(store: PostgresStore) -> None:
    taken: list[TakenTurn] = []
    with taking(store, taken, poll=0.01):
        submit(store, "a")
        wait_until(lambda: names(taken) == ["a"])


def test_no_more_turns_are_taken_than_there_are_slots(store: PostgresStore) -> None:
    taken: list[TakenTurn] = []
    submit(store, "a", "b", "c", "d")
    submit(store, "child", queue="children")
    with taking(store, taken, poll=0.01) as worker:
        # A turn that others wait for has slots of its own.
        wait_until(lambda: names(taken) == ["a", "b", "child"])
        worker.ended("turns")
        wait_until(lambda: names(taken) == ["a", "b", "c", "child"])
        worker.ended("turns")
        wait_until(lambda: len(taken) == 5)


def test_a_limit_of_the_turns_of_a_principal_holds(store: PostgresStore) -> None:
    taken: list[TakenTurn] = []
    submit(store, "a", "b", principal="ann")
    submit(store, "c", principal="bob")
    with taking(store, taken, poll=0.01, slots=8, limit=1) as worker:
        wait_until(lambda: names(taken) == ["a", "c"])
        store.write(lambda connection: connection.execute("UPDATE turns SET state = 'completed' WHERE id = 'a'"))
        worker.ended("turns")
        wait_until(lambda: names(taken) == ["a", "b", "c"])


def test_nothing_is_taken_after_the_stop(store: PostgresStore) -> None:
    taken: list[TakenTurn] = []
    with taking(store, taken, poll=0.01) as worker:
        worker.close()
        submit(store, "a")
        worker.wake()
    assert taken == []
    assert store.read(lambda connection: turn_queue.state_of(connection, "a")) == "queued"


def test_it_connects_again_when_its_connection_breaks(store: PostgresStore) -> None:
    taken: list[TakenTurn] = []
    submit(store, "a")
    with taking(store, taken, poll=0.01):
        wait_until(lambda: names(taken) == ["a"])
        store.write(
            lambda connection: connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                "WHERE datname = current_database() AND pid <> pg_backend_pid()"
            )
        )
        submit(store, "b")
        wait_until(lambda: names(taken) == ["a", "b"])
