"""Events: one statement fences and numbers them, each is chained to the one before, repeated parts are stored once."""

from __future__ import annotations

import hashlib
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pytest

from hermes.base.errors import LeaseLost
from hermes.journal.bodies import unpack
from hermes.journal.events import NewEvent, append_events, first_link, next_link
from hermes.journal.leases import take_lease
from hermes.journal.records import SetupRecord
from hermes.journal.runner import Runner
from hermes.journal.sessions import Sessions
from hermes.journal.store.connection import JournalConnection
from hermes.journal.store.port import Store
from journal.kit import RunnerFactory, finish_turn, rows, start_turn

pytestmark = pytest.mark.both_stores


class _Counted:
    """A connection that notes the statements."""

    def __init__(self, connection: JournalConnection) -> None:
        self._connection = connection
        self.statements: list[str] = []

    def execute(self, sql: str, parameters: Any = ()) -> Any:
        self.statements.append(sql.split()[0])
        return self._connection.execute(sql, parameters)

    def executemany(self, sql: str, parameters: Any) -> Any:
        self.statements.append(sql.split()[0])
        return self._connection.executemany(sql, parameters)


def test_fence_and_number_are_one_statement(store: Store, runner: Runner) -> None:
    turn = start_turn(store, runner)

    def write(connection: JournalConnection) -> list[str]:
        counted = _Counted(connection)
        events = [NewEvent("note", "", None, "{}", 1.0) for _ in range(3)]
        append_events(counted, turn.lease, turn.id, events)
        return counted.statements

    assert store.write(write) == ["UPDATE", "INSERT"]
    assert [event["seq"] for event in Sessions(store).events("s1")] == [1, 2, 3, 4]


def test_a_lost_lease_advances_nothing(store: Store, runner: Runner, new_runner: RunnerFactory) -> None:
    turn = start_turn(store, runner)
    other = new_runner()
    runner.close()
    store.write(lambda connection: take_lease(connection, other, "s1"))
    turn.event("note", "", {})
    with pytest.raises(LeaseLost, match="taken over"):
        turn.commit()
    assert rows(store, "SELECT head_seq FROM sessions") == [(1,)]


def test_every_event_is_chained_to_the_one_before(store: Store, runner: Runner) -> None:
    turn = start_turn(store, runner, turn_id="t1")
    turn.step("tool:1.0", "claimed", "unsafe", {"args": {"text": "x" * 40_000}})
    turn.step("setup", "done", "pure", SetupRecord(max_steps=1), {"system": "Be brief."})
    turn.commit()
    finish_turn(turn)
    link = first_link("s1")
    stored = rows(store, "SELECT seq, turn_id, kind, key, effect, body, at, epoch, chain FROM events ORDER BY seq")
    for seq, turn_id, kind, key, effect, body, at, epoch, chain in stored:
        reference = msgspec.json.decode(body).get("$blob")
        digest = reference or hashlib.sha256(body.encode()).hexdigest()
        link = next_link(link, seq, turn_id, kind, key, effect, digest, at, epoch)
        assert chain == link, seq
    assert len(stored) == 4


def test_what_is_shared_is_stored_once_and_read_as_one_body(store: Store, runner: Runner) -> None:
    tools = [{"name": f"tool_{number}"} for number in range(5)]
    for session in ("s1", "s2"):
        turn = start_turn(store, runner, session)
        turn.step("setup", "done", "pure", SetupRecord(max_steps=9), {"system": "Be brief.", "tools": tools})
        assert turn.steps["setup"].body == SetupRecord(max_steps=9, system="Be brief.", tools=tools)
        finish_turn(turn)
        body = Sessions(store).events(session)[1]["body"]
        assert body == {"max_steps": 9, "system": "Be brief.", "tools": tools}
    assert rows(store, "SELECT count(*) FROM blobs") == [(3,)], "the two fields, and which they are"
    Sessions(store).delete("s1", runner)
    assert Sessions(store).events("s2")[1]["body"]["system"] == "Be brief."
    Sessions(store).delete("s2", runner)
    assert rows(store, "SELECT count(*) FROM blobs") == [(0,)]


@pytest.mark.parametrize("body", [{"$shared": "0" * 64}, {"$redacted": "0" * 64}, {"$blob": "0" * 64}])
def test_a_body_that_looks_like_a_reference_is_only_data(store: Store, runner: Runner, body: dict[str, Any]) -> None:
    turn = start_turn(store, runner)
    turn.step("tool:1.0", "done", "pure", body)
    turn.commit()
    assert Sessions(store).events("s1")[-1]["body"] == body


@pytest.mark.sqlite_only
def test_a_blob_that_is_gone_is_named(store: Store, runner: Runner, journal_path: Path) -> None:
    turn = start_turn(store, runner)
    turn.step("setup", "done", "pure", SetupRecord(), {"system": "Be brief."})
    turn.commit()
    with closing(sqlite3.connect(journal_path)) as connection, connection:
        connection.execute("DELETE FROM blobs WHERE data = '\"Be brief.\"'")
    digest = hashlib.sha256(b'"Be brief."').hexdigest()
    with pytest.raises(ValueError, match=f"{digest} is missing"):
        Sessions(store).events("s1")
    with closing(sqlite3.connect(":memory:")) as connection:
        assert unpack(connection, '{"a":1}') == {"a": 1}
