"""A branch is a whole copy of its own; what was spent stays with the original."""

from __future__ import annotations

from typing import Any

import pytest

from hermes.base.errors import JournalError, SessionNotFound
from hermes.journal.bodies import BLOB_THRESHOLD
from hermes.journal.history.branching import branch_session, undo_turns
from hermes.journal.leases import SessionInfo
from hermes.journal.runner import Runner
from hermes.journal.sessions import Sessions
from hermes.journal.store.port import Store
from hermes.journal.turns.steps import ModelCallRow, TurnJournal, record_model_call
from hermes.journal.usage.spending import session_spending
from journal.kit import RunnerFactory, finish_turn, rows, start_turn, user

pytestmark = pytest.mark.both_stores

LONG = "x" * (BLOB_THRESHOLD + 1)


def call(turn: TurnJournal, number: int, *, key: str = "model:1", cost: float | None = 0.25) -> ModelCallRow:
    return ModelCallRow(
        f"{turn.id}:api:{number}",
        *(key, "custom", "big"),
        status="ok",
        started_at=1.0,
        duration=0.5,
        input_tokens=100,
        output_tokens=10,
        cache_read_tokens=30,
        cost_usd=cost,
    )


def talk(store: Store, runner: Runner, message: str, session: str | SessionInfo = "s1") -> TurnJournal:
    turn = start_turn(store, runner, session, message=user(message))
    turn.step("setup", "done", "pure", {"system": LONG})
    turn.model_call(call(turn, 1))
    finish_turn(turn, f"answer to {message}")
    return turn


def without_ids(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    own = ("id", "turn_id", "session_id", "api_request_id", "epoch", "chain")
    return [{name: value for name, value in record.items() if name not in own} for record in records]


def test_a_branch_has_everything_of_the_original_under_ids_of_its_own(store: Store, runner: Runner) -> None:
    talk(store, runner, "one")
    talk(store, runner, LONG)
    undo_turns(store, runner, "s1", 1)
    talk(store, runner, "three")
    branch_session(store, runner, "s1", "s2")
    sessions = Sessions(store)
    assert sessions.messages("s2") == sessions.messages("s1")
    for kind in ("turn", "event", "message"):
        old, new = (
            [record for record in sessions.export(session) if record["record"] == kind] for session in ("s1", "s2")
        )
        assert without_ids(new) == without_ids(old)
    turn_ids = [turn["id"] for turn in sessions.export("s2") if turn["record"] == "turn"]
    assert all(turn_id.startswith("s2:") for turn_id in turn_ids)
    assert {event["turn_id"] for event in sessions.events("s2")} == set(turn_ids)
    row = sessions.get("s2")
    assert (row.branched_from, row.parent_id, row.cwd, row.title) == ("s1", None, "/home/you/desk", "one (2)")


def test_both_go_on_by_themselves(store: Store, runner: Runner) -> None:
    talk(store, runner, "one")
    branch_session(store, runner, "s1", "s2")
    talk(store, runner, "two", "s1")
    talk(store, runner, "zwei", "s2")
    sessions = Sessions(store)
    assert [message["content"] for message in sessions.messages("s1")][-2:] == ["two", "answer to two"]
    assert [message["content"] for message in sessions.messages("s2")][-2:] == ["zwei", "answer to zwei"]


def test_the_copy_keeps_its_blobs_when_the_original_is_deleted(store: Store, runner: Runner) -> None:
    talk(store, runner, LONG)
    branch_session(store, runner, "s1", "s2")
    Sessions(store).delete("s1", runner)
    assert Sessions(store).messages("s2")[0]["content"] == LONG
    Sessions(store).delete("s2", runner)
    assert rows(store, "SELECT count(*) FROM blobs") == [(0,)]


def test_what_was_spent_is_not_counted_twice(store: Store, runner: Runner) -> None:
    turn = talk(store, runner, "one")
    record_model_call(store, "s1", turn.id, call(turn, 2, key="side:compression"))
    branch_session(store, runner, "s1", "s2")
    assert sum(one.prompt_tokens for one in session_spending(store, "s1")) == 260
    [copied] = session_spending(store, "s2")
    assert (copied.calls, copied.prompt_tokens, copied.output_tokens, copied.cost_usd) == (1, 0, 0, None)


def test_spending_tells_side_jobs_and_children_apart(store: Store, runner: Runner) -> None:
    turn = talk(store, runner, "one")
    record_model_call(store, "s1", turn.id, call(turn, 2, key="side:approval", cost=None))
    talk(store, runner, "do this", SessionInfo("child", "/home/you/desk", parent_id="s1", parent_call="c"))
    talk(store, runner, "do that", SessionInfo("grandchild", "/home/you/desk", parent_id="child", parent_call="c"))
    talk(store, runner, "unrelated", "s9")
    spent = session_spending(store, "s1")
    assert [(one.purpose, one.calls, one.prompt_tokens, one.cost_usd) for one in spent] == [
        ("", 1, 130, 0.25),
        ("approval", 1, 130, None),
        ("children", 2, 260, 0.5),
    ]


def test_titles_are_given_or_counted_on(store: Store, runner: Runner) -> None:
    talk(store, runner, "Plan")
    for new in ("b", "c"):
        branch_session(store, runner, "s1", new)
    branch_session(store, runner, "b", "d")
    branch_session(store, runner, "s1", "e", "Another plan")
    titles = [Sessions(store).get(session).title for session in ("b", "c", "d", "e")]
    assert titles == ["Plan (2)", "Plan (3)", "Plan (4)", "Another plan"]


def test_there_must_be_something_to_copy_and_nothing_unfinished(store: Store, new_runner: RunnerFactory) -> None:
    runner = new_runner()
    with pytest.raises(SessionNotFound, match="no message yet"):
        branch_session(store, runner, "nowhere", "s2")
    start_turn(store, runner, message=user("one"))
    with pytest.raises(JournalError, match="not finished"):
        branch_session(store, runner, "s1", "s2")
    assert rows(store, "SELECT id FROM sessions") == [("s1",)]


def test_a_branch_knows_where_it_left_its_original(store: Store, runner: Runner) -> None:
    talk(store, runner, "one")
    talk(store, runner, "two")
    branch_session(store, runner, "s1", "s2")
    head = rows(store, "SELECT head_seq FROM sessions WHERE id = 's1'")[0][0]
    talk(store, runner, "three")
    query = "SELECT branched_from, branched_turn, branched_step, branched_seq FROM sessions WHERE id = ?"
    assert rows(store, query, "s2") == [("s1", 1, "", head)], "turns are counted from 0"
    assert rows(store, query, "s1") == [(None, None, None, None)]
    assert rows(store, "SELECT max(seq) FROM events WHERE session_id = 's2'") == [(head,)]
