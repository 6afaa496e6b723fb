"""Finding, reading, renaming, exporting and deleting sessions."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes.base.errors import SessionNotFound
from hermes.journal import sessions as sessions_module
from hermes.journal.leases import SessionInfo
from hermes.journal.runner import Runner
from hermes.journal.sessions import Sessions
from hermes.journal.store.port import Store
from hermes.journal.store.sqlite.store import SqliteStore
from hermes.journal.turns import lifecycle as turns_module
from hermes.journal.turns.steps import ModelCallRow
from journal.kit import StoreFactory, assistant, finish_turn, rows, start_turn, user

pytestmark = pytest.mark.both_stores


@pytest.fixture
def sessions(store: Store) -> Sessions:
    return Sessions(store)


def converse(
    store: Store, runner: Runner, session_id: str, *, cwd: str = "/home/you/desk", parent: str | None = None
) -> None:
    info = SessionInfo(session_id, cwd, parent_id=parent, parent_call="call-1" if parent else None)
    finish_turn(start_turn(store, runner, info, message=user(f"about {session_id}")))


# -- finding -----------------------------------------------------------------------------------------------------------


def test_an_empty_journal_has_no_sessions(sessions: Sessions) -> None:
    assert sessions.list() == [] and sessions.latest() is None


def test_the_list_starts_with_the_session_used_last(store: Store, runner: Runner, sessions: Sessions) -> None:
    for name in ("a", "b", "c"):
        converse(store, runner, name)
    assert [row.id for row in sessions.list()] == ["c", "b", "a"]
    finish_turn(start_turn(store, runner, "a"))
    assert [row.id for row in sessions.list()] == ["a", "c", "b"]
    assert [row.id for row in sessions.list(limit=2)] == ["a", "c"]
    row = sessions.list()[0]
    assert (row.title, row.turns, row.state, row.cost_usd) == ("about a", 2, "completed", None)


def test_children_are_listed_only_when_asked_for(store: Store, runner: Runner, sessions: Sessions) -> None:
    converse(store, runner, "parent")
    converse(store, runner, "child", parent="parent")
    assert [row.id for row in sessions.list()] == ["parent"]
    assert {row.id for row in sessions.list(children=True)} == {"parent", "child"}
    child = sessions.get("child")
    assert (child.parent_id, child.parent_call) == ("parent", "call-1")


def test_the_latest_session_is_one_of_this_folder_when_there_is_one(
    store: Store, runner: Runner, sessions: Sessions
) -> None:
    converse(store, runner, "here", cwd="/here")
    converse(store, runner, "there", cwd="/there")
    converse(store, runner, "child", cwd="/here", parent="here")
    latest = [sessions.latest(cwd=cwd) for cwd in ("/here", "/there", "/nowhere", "/odd\udcff", None)]
    assert [row and row.id for row in latest] == ["here", "there", "there", "there", "there"]


def test_a_session_is_found_by_the_beginning_of_its_id(store: Store, runner: Runner, sessions: Sessions) -> None:
    for name in ("20250101_a1", "20250101_a2", "20250102_b", "20250102_b2", "2025%", "X_"):
        converse(store, runner, name)
    assert sessions.get("20250101_a1").id == "20250101_a1"
    assert sessions.get("X").id == "X_"
    assert sessions.get("2025%").id == "2025%"
    assert sessions.get("20250102_b").id == "20250102_b", "a whole id is never ambiguous"
    with pytest.raises(SessionNotFound) as caught:
        sessions.get("20250101")
    assert str(caught.value) == (
        "several sessions start with '20250101' (20250101_a1, 20250101_a2); give more of the id"
    )
    with pytest.raises(SessionNotFound, match=r"\(2025%, 20250101_a1, 20250101_a2 …\)"):
        sessions.get("2025")


@pytest.mark.parametrize("name", ["", "nope", "%", "_", "a\0b", "\udcff", "x'; DROP TABLE sessions; --"])
def test_an_id_that_is_not_there(store: Store, runner: Runner, sessions: Sessions, name: str) -> None:
    converse(store, runner, "20250101_a1")
    with pytest.raises(SessionNotFound, match="'hermes sessions list' shows those there are"):
        sessions.get(name)


@given(text=st.text())
def test_any_title_fits_one_line(text: str) -> None:
    title = vars(turns_module)["_title"](user(text))
    assert len(title) <= 60 and "\n" not in title


def test_a_session_is_renamed(store: Store, runner: Runner, sessions: Sessions) -> None:
    converse(store, runner, "s1")
    order = sessions.get("s1").updated_at
    sessions.rename("s", "A better \udcff title")
    assert (sessions.get("s1").title, sessions.get("s1").updated_at) == ("A better ? title", order)
    with pytest.raises(SessionNotFound):
        sessions.rename("nope", "x")


# -- reading -----------------------------------------------------------------------------------------------------------


def test_the_history_before_a_turn(store: Store, runner: Runner, sessions: Sessions) -> None:
    for text in ("one", "two", "three"):
        finish_turn(start_turn(store, runner, message=user(text)), f"answer to {text}")
    assert sessions.messages("s1", before_turn=0) == []
    assert sessions.messages("s1", before_turn=1) == [user("one"), assistant("answer to one")]
    assert len(sessions.messages("s1")) == 6
    assert sessions.turn_count("s1") == 3


def test_events_can_be_followed(store: Store, runner: Runner, sessions: Sessions) -> None:
    turn = start_turn(store, runner)
    last = sessions.events("s1")[-1]["seq"]
    turn.event("note", "k", [1])
    turn.commit()
    fresh = sessions.events("s1", after=last)
    assert [(event["seq"], event["kind"], event["key"], event["body"]) for event in fresh] == [(2, "note", "k", [1])]
    assert sessions.events("s1", after=2) == []


def test_an_export_holds_everything(store: Store, runner: Runner, sessions: Sessions) -> None:
    turn = start_turn(store, runner, turn_id="t1", request_key="k1")
    turn.step("setup", "done", "pure", {"system": "s"})
    turn.model_call(ModelCallRow("t1:api:1", "model:1", "p", "m", "ok", 1.0, 2.0, input_tokens=7))
    finish_turn(turn, "x" * 40_000)
    records = sessions.export("s")
    kinds = [record["record"] for record in records]
    assert kinds == ["session", "turn", "model_call", *["event"] * 3, *["message"] * 2]
    by_kind: dict[str, dict[str, Any]] = {record["record"]: record for record in records}
    assert by_kind["session"]["id"] == "s1" and by_kind["session"]["input_tokens"] == 7
    assert by_kind["turn"]["id"] == "t1" and by_kind["turn"]["request_key"] == "k1"
    assert by_kind["turn"]["answer"] == "x" * 40_000
    assert by_kind["model_call"]["model"] == "m"
    assert by_kind["event"]["kind"] == "turn_ended"
    assert by_kind["message"]["message"] == assistant("x" * 40_000)
    assert (by_kind["message"]["turn"], by_kind["message"]["step"], by_kind["message"]["position"]) == (0, 1, 0)


@pytest.mark.sqlite_only
def test_the_newest_sessions_are_found_without_looking_at_every_other_one(store: Store, runner: Runner) -> None:
    converse(store, runner, "s1")
    query = f"EXPLAIN QUERY PLAN {vars(sessions_module)['_SESSION_QUERY']} ORDER BY s.updated_at DESC LIMIT 20"
    plan = store.read(lambda connection: [row[3] for row in connection.execute(query)])
    assert "SCAN s USING INDEX sessions_recent" in plan
    assert not [step for step in plan if step.startswith("SCAN") and "sessions_recent" not in step], plan


# -- deleting ----------------------------------------------------------------------------------------------------------


TABLES = ("sessions", "turns", "events", "messages", "model_calls", "blobs", "blob_uses")


def counts(store: Store) -> dict[str, int]:
    return {table: rows(store, f"SELECT count(*) FROM {table}")[0][0] for table in TABLES}


def fill(store: Store, runner: Runner, session_id: str, *, parent: str | None = None, shared: str = "") -> None:
    info = SessionInfo(session_id, "/home/you/desk", parent_id=parent)
    turn = start_turn(store, runner, info, turn_id=f"turn of {session_id}")
    turn.event("note", "", shared)
    turn.event("note", "", f"only {session_id} " * 5_000)
    turn.model_call(ModelCallRow(f"{session_id}:api:1", "model:1", "p", "m", "ok", 1.0, 2.0))
    finish_turn(turn)


def test_a_session_goes_with_all_it_had_and_all_it_delegated(store: Store, runner: Runner, sessions: Sessions) -> None:
    shared = "shared " * 10_000
    fill(store, runner, "keep", shared=shared)
    alone = counts(store)
    fill(store, runner, "parent", shared=shared)
    fill(store, runner, "child", parent="parent", shared=shared)
    fill(store, runner, "grandchild", parent="child", shared=shared)
    assert counts(store)["blobs"] == 5
    assert sessions.delete("par", runner) == ["parent", "child", "grandchild"]
    assert counts(store) == alone
    assert next(event["body"] for event in sessions.events("keep") if event["kind"] == "note") == shared
    assert sessions.delete("keep", runner) == ["keep"]
    assert counts(store) == dict.fromkeys(TABLES, 0)
    if isinstance(store, SqliteStore):
        assert rows(store, "PRAGMA integrity_check") == [("ok",)]


def test_a_child_can_be_deleted_alone(store: Store, runner: Runner, sessions: Sessions) -> None:
    fill(store, runner, "parent")
    fill(store, runner, "child", parent="parent")
    assert sessions.delete("child", runner) == ["child"]
    assert [row.id for row in sessions.list(children=True)] == ["parent"]


@pytest.mark.sqlite_only
def test_deleting_gives_the_space_back(open_store: StoreFactory, runner: Runner, journal_path: Path) -> None:
    store = open_store()
    finish_turn(start_turn(store, runner, "small"))
    for _ in range(5):
        # Noise, because equal bodies would be stored once.
        finish_turn(start_turn(store, runner, "large"), os.urandom(200_000).hex())
    store.close()
    before = journal_path.stat().st_size
    assert before > 2_000_000
    again = open_store()
    Sessions(again).delete("large", runner)
    again.close()
    assert journal_path.stat().st_size < before / 10


def test_a_session_with_a_parent_of_its_own_is_no_endless_loop(
    store: Store, runner: Runner, sessions: Sessions
) -> None:
    fill(store, runner, "a", parent="b")
    fill(store, runner, "b", parent="a")
    assert sorted(sessions.delete("a", runner)) == ["a", "b"]
