"""Turns that are taken back stay on record, and nothing that goes on sees them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from typing import Any

import pytest

from hermes.base.errors import SessionBusy
from hermes.journal.history.branching import undo_turns
from hermes.journal.runner import Runner
from hermes.journal.sessions import Sessions
from hermes.journal.store.port import Store
from hermes.journal.turns.lifecycle import reopen_turn
from hermes.journal.turns.steps import ModelCallRow
from hermes.trace.verify.session import verify
from journal.kit import PYTHON_PATH, RunnerFactory, finish_turn, rows, start_turn, user

pytestmark = pytest.mark.both_stores


def talk(store: Store, runner: Runner, *messages: str, session: str = "s1") -> None:
    for message in messages:
        finish_turn(start_turn(store, runner, session, message=user(message)), f"answer to {message}")


def said(store: Store, session: str = "s1") -> list[Any]:
    return [message["content"] for message in Sessions(store).messages(session)]


def test_the_last_turns_leave_the_conversation_and_stay_on_record(store: Store, runner: Runner) -> None:
    talk(store, runner, "one", "two", "three")
    undone = undo_turns(store, runner, "s1", 2)
    assert [(turn.ordinal, turn.message["content"]) for turn in undone] == [(1, "two"), (2, "three")]
    sessions = Sessions(store)
    assert said(store) == ["one", "answer to one"]
    assert sessions.get("s1").turns == 1
    records = sessions.export("s1")
    assert [turn["undone"] for turn in records if turn["record"] == "turn"] == [False, True, True]
    assert sum(record["record"] == "message" for record in records) == 6
    events = [event["kind"] for event in sessions.events("s1")]
    assert events[-2:] == ["turn_undone", "turn_undone"]
    assert [event["seq"] for event in sessions.events("s1")] == list(range(1, len(events) + 1))


def test_a_conversation_goes_on_behind_what_was_taken_back(store: Store, runner: Runner) -> None:
    talk(store, runner, "one", "two")
    undo_turns(store, runner, "s1", 1)
    talk(store, runner, "another two")
    assert said(store) == ["one", "answer to one", "another two", "answer to another two"]
    assert said(store) == [m["content"] for m in Sessions(store).messages("s1", before_turn=3)]
    # A second time takes back the next one, not the same again.
    assert [turn.ordinal for turn in undo_turns(store, runner, "s1", 1)] == [2]
    assert [turn.ordinal for turn in undo_turns(store, runner, "s1", 5)] == [0]
    assert undo_turns(store, runner, "s1", 1) == []
    assert Sessions(store).get("s1").state == "empty"


def test_nothing_to_take_back_writes_nothing(store: Store, runner: Runner) -> None:
    assert undo_turns(store, runner, "nowhere", 1) == []


def test_a_failed_turn_that_was_taken_back_is_not_finished_later(store: Store, runner: Runner) -> None:
    talk(store, runner, "one")
    turn = start_turn(store, runner, message=user("two"))
    turn.end("failed", error="no")
    turn.commit()
    undo_turns(store, runner, "s1", 1)
    assert reopen_turn(store, runner, "s1", states=("running", "failed", "interrupted")) is None
    last = Sessions(store).last_turn("s1")
    assert last is not None and last.answer == "answer to one"


def test_a_turn_that_a_living_process_runs_is_refused(store: Store, new_runner: RunnerFactory) -> None:
    talk(store, other := new_runner(), "one")
    start_turn(store, other, message=user("two"))
    with pytest.raises(SessionBusy, match="in use by process"):
        undo_turns(store, new_runner(), "s1", 1)
    assert said(store) == ["one", "answer to one", "two"]


def test_a_turn_that_was_cut_off_is_closed_and_taken_back(store: Store, new_runner: RunnerFactory) -> None:
    dead = new_runner()
    talk(store, dead, "one")
    turn = start_turn(store, dead, message=user("two"))
    turn.step("setup", "done", "pure", {})
    reply = {"content": "", "tool_calls": [{"id": "c", "name": "terminal", "arguments": "{}"}]}
    turn.step("model:1", "done", "model", {"reply": reply})
    call = ModelCallRow("a", "model:1", "p", "m", "ok", 0.0, 0.0)
    turn.model_call(call)
    turn.step("tool:1.0", "claimed", "unsafe", {})
    turn.commit()
    dead.close()
    living = new_runner()
    assert [one.ordinal for one in undo_turns(store, living, "s1", 1)] == [1]
    talk(store, living, "three")
    assert said(store) == ["one", "answer to one", "three", "answer to three"]
    [state] = rows(store, "SELECT state, error FROM turns WHERE ordinal = 1")
    assert state == ("interrupted", "undone before it was finished")
    # The answers of the test turns have no "final" step; what was cut off adds no complaint of its own.
    assert {problem.turn for problem in verify(Sessions(store).export("s1"))} == {0, 2}


def test_what_was_taken_back_is_not_found_by_its_words(store: Store, runner: Runner) -> None:
    index = store.search_index()
    talk(store, runner, "about giraffes", "about zebras")
    assert len(index.search("zebras")) == 2
    undo_turns(store, runner, "s1", 1)
    assert index.search("zebras") == []
    assert len(index.search("giraffes")) == 2


def test_the_same_delivery_again_is_still_the_same_turn(store: Store, runner: Runner) -> None:
    finish_turn(start_turn(store, runner, message=user("hello"), request_key="key"))
    undo_turns(store, runner, "s1", 1)
    again = start_turn(store, runner, message=user("hello"), request_key="key")
    assert (again.state, again.answer) == ("completed", "done")


UNDO = """
import sys
from journal.kit import journal_at
from hermes.journal.history.branching import undo_turns
from hermes.journal.history.branching import branch_session

store = journal_at(sys.argv[1])
runner = store.new_runner()
eval(sys.argv[2])
"""


def killed_at_each_point(address: str, work: str) -> int:
    """Run ``work`` in processes that die at their first, second, … crash point; how many died."""
    for point in range(1, 20):
        done = subprocess.run(
            [sys.executable, "-c", UNDO, address, work],
            env={**os.environ, "PYTHONPATH": PYTHON_PATH, "HERMES_CRASH_AT": str(point)},
            capture_output=True,
            timeout=60,
            check=False,
        )
        if done.returncode == 0:
            return point - 1
        assert done.returncode == -signal.SIGKILL, done.stderr
    raise AssertionError("more crash points than expected")


@pytest.mark.slow_on_postgres
def test_killed_while_undoing_all_or_nothing_is_taken_back(store: Store, runner: Runner, journal_address: str) -> None:
    talk(store, runner, "one", "two", "three")
    runner.close()
    died = killed_at_each_point(
        journal_address,
        "undo_turns(store, runner, 's1', 2) if not done() else None".replace(
            "done()", "store.read(lambda c: c.execute('SELECT sum(undone) FROM turns').fetchone()[0])"
        ),
    )
    assert died == 2  # before the commit, which changed nothing, and after it, which changed both
    assert [row[0] for row in rows(store, "SELECT undone FROM turns ORDER BY ordinal")] == [0, 1, 1]
    assert rows(store, "SELECT count(*) FROM events WHERE kind = 'turn_undone'") == [(2,)]


@pytest.mark.slow_on_postgres
def test_killed_while_branching_the_copy_is_there_whole_or_not_at_all(
    store: Store, runner: Runner, journal_address: str
) -> None:
    talk(store, runner, "one", "two")
    runner.close()
    died = killed_at_each_point(
        journal_address, "branch_session(store, runner, 's1', 'copy' + __import__('os').environ['HERMES_CRASH_AT'])"
    )
    assert died == 2
    copies = [row[0] for row in rows(store, "SELECT id FROM sessions WHERE id <> 's1' ORDER BY id")]
    assert copies == ["copy2", "copy3"]  # the first was killed before its commit
    for copy in copies:
        assert said(store, copy) == said(store)
    for table in ("turns", "events", "messages"):
        assert rows(store, f"SELECT count(*) FROM {table} WHERE session_id = 'copy1'") == [(0,)]


def test_begin_turn_numbers_on_after_an_undo(store: Store, runner: Runner) -> None:
    talk(store, runner, "one")
    undo_turns(store, runner, "s1", 1)
    turn = start_turn(store, runner, message=user("two"))
    assert turn.ordinal == 1
