"""Stored questions: bound to a step and a digest, answered once, used once, gone when revoked."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from hermes.base.errors import JournalError
from hermes.journal.leases import SessionInfo
from hermes.journal.questions import QuestionRow, Questions
from hermes.journal.runner import Runner
from hermes.journal.store import schema
from hermes.journal.store.port import Store
from hermes.journal.store.sqlite.store import SqliteStore
from hermes.journal.turns.lifecycle import reopen_turn
from journal.kit import StoreFactory, finish_turn, start_turn

pytestmark = pytest.mark.both_stores

ROW = QuestionRow("appr_1", "s1", "t1", "tool:1.0", "terminal", "digest", "rm -rf x", ("a", "b"), "why", "cli")
STEP = {"session_id": "s1", "turn_id": "t1", "key": "tool:1.0", "digest": "digest"}


@pytest.fixture
def rows(store: Store, runner: Runner) -> Questions:
    start_turn(store, runner, "s1", turn_id="t1")
    return Questions(store)


def test_a_question_is_found_by_its_step_and_exact_call_in_another_process(
    rows: Questions, open_store: StoreFactory
) -> None:
    assert rows.ask(ROW)
    found = Questions(open_store()).find(**STEP)
    assert found is not None
    assert found == replace(ROW, created_at=found.created_at)
    for name in STEP:
        assert rows.find(**{**STEP, name: "another"}) is None, name


def test_a_question_of_a_session_that_is_not_on_record_binds_to_nothing(rows: Questions) -> None:
    assert not rows.ask(replace(ROW, session_id="unknown"))
    assert rows.find(**{**STEP, "session_id": "unknown"}) is None


@pytest.mark.parametrize(
    ("choice", "state"),
    [
        *(("once", "granted"), ("session", "granted"), ("always", "granted"), ("smart_approve", "granted")),
        *(("deny", "denied"), ("timeout", "denied"), ("smart_deny", "denied"), ("nonsense", "denied")),
    ],
)
def test_only_a_yes_grants(rows: Questions, choice: str, state: str) -> None:
    rows.ask(ROW)
    row = rows.answer("appr_1", choice, "because")
    assert (row.state, row.answer, row.reason) == (state, choice, "because")
    assert row.answered_at is not None


def test_the_first_answer_counts(rows: Questions) -> None:
    rows.ask(ROW)
    rows.answer("appr_1", "deny", "no")
    assert rows.answer("appr_1", "once").answer == "deny"
    assert not rows.consume("appr_1")


def test_an_answer_to_nothing_says_so(rows: Questions) -> None:
    with pytest.raises(JournalError, match="no approval 'appr_9'; 'hermes approvals list'"):
        rows.answer("appr_9", "once")


def test_a_grant_is_used_once_whoever_tries(rows: Questions, open_store: StoreFactory) -> None:
    rows.ask(ROW)
    assert not rows.consume("appr_1"), "a question is no grant"
    rows.answer("appr_1", "once")
    other = Questions(open_store())
    assert [rows.consume("appr_1"), other.consume("appr_1"), rows.consume("appr_1")] == [True, False, False]
    assert other.find(**STEP) is None


def test_a_no_is_found_again_and_silence_is_not(rows: Questions) -> None:
    rows.ask(ROW)
    rows.answer("appr_1", "timeout")
    assert rows.find(**STEP) is None
    rows.ask(replace(ROW, id="appr_2"))
    rows.answer("appr_2", "deny")
    found = rows.find(**STEP)
    assert found is not None and (found.id, found.answer) == ("appr_2", "deny")


def test_a_withdrawn_question_leaves_nothing(rows: Questions) -> None:
    rows.ask(ROW)
    rows.withdraw("appr_1", "cut off")
    assert rows.find(**STEP) is None and rows.pending() == []
    assert rows.answer("appr_1", "once").state == "revoked"
    [row] = rows.recent(5)
    assert (row.answer, row.reason) == (None, "cut off")


def test_rules_of_a_session_are_its_own(rows: Questions, store: Store, runner: Runner) -> None:
    start_turn(store, runner, "s2", turn_id="t2")
    rows.ask(ROW)
    rows.ask(replace(ROW, id="appr_2", session_id="s2", turn_id="t2", rules=("c",)))
    rows.answer("appr_1", "session")
    rows.answer("appr_2", "once")
    assert rows.session_rules("s1") == {"a", "b"}
    assert rows.session_rules("s2") == frozenset()
    assert [row.id for row in rows.grants()] == ["appr_1"]


@pytest.mark.parametrize(
    ("which", "left"),
    [
        ({"rule": "a"}, {"appr_2"}),
        ({"approval_id": "appr_2"}, {"appr_1"}),
        ({"session_id": "s1"}, {"appr_2"}),
        ({"rule": "nothing"}, {"appr_1", "appr_2"}),
        ({}, {}),
    ],
)
def test_what_is_revoked_no_longer_counts(
    rows: Questions, store: Store, runner: Runner, which: dict[str, str], left: Any
) -> None:
    start_turn(store, runner, "s2", turn_id="t2")
    for row in (ROW, replace(ROW, id="appr_2", session_id="s2", turn_id="t2", rules=("c",))):
        rows.ask(row)
        rows.answer(row.id, "session")
    gone = rows.revoke(**which)
    assert {row.id for row in rows.grants()} == set(left)
    assert {row.id for row in gone} == {"appr_1", "appr_2"} - set(left)


def test_a_question_waits_only_while_its_turn_does(rows: Questions, store: Store, runner: Runner) -> None:
    turn = start_turn(store, runner, "s2", turn_id="t2")
    rows.ask(replace(ROW, session_id="s2", turn_id="t2"))
    assert [row.id for row in rows.pending()] == ["appr_1"]
    finish_turn(turn)
    assert rows.pending() == []


def test_an_answer_may_come_after_the_process_that_asked(
    rows: Questions, open_store: StoreFactory, new_runner: Any, runner: Runner
) -> None:
    rows.ask(ROW)
    runner.close()
    server = Questions(open_store())
    assert server.answer("appr_1", "once").state == "granted"
    resumed = open_store()
    turn = reopen_turn(resumed, new_runner(), "s1", states=("running",))
    assert turn is not None and turn.id == "t1"
    found = Questions(resumed).find(**STEP)
    assert found is not None and (found.state, found.answer) == ("granted", "once")


def test_who_delegated_to_a_session(rows: Questions, store: Store, runner: Runner) -> None:
    start_turn(store, runner, SessionInfo("child", "/home/you/desk", parent_id="s1"))
    start_turn(store, runner, SessionInfo("grandchild", "/home/you/desk", parent_id="child"))
    assert rows.ancestors("grandchild") == ["child", "s1"]
    assert rows.ancestors("s1") == rows.ancestors("unknown") == []


def test_odd_characters_are_kept_as_far_as_they_can_be(rows: Questions) -> None:
    rows.ask(replace(ROW, subject="\udcff" * 70_000 + "the end", rules=("\udcff",), description="\udcff"))
    rows.answer("appr_1", "session", "\udcff")
    assert rows.session_rules("s1") == {"?"}
    subject = rows.grants()[0].subject
    assert len(subject) < 66_000 and "[4,471 characters left out]" in subject and subject.endswith("?the end")


ASKED = QuestionRow("ask_1", "s1", "t1", "tool:1.0", "clarify", "digest", "Which?", kind="clarify", choices=("a", "b"))


def test_a_question_of_the_model_is_answered_with_text(rows: Questions, open_store: StoreFactory) -> None:
    assert rows.ask(ASKED)
    assert rows.get("ask_1") == rows.find(**STEP) != ASKED
    answered = Questions(open_store()).answer("ask_1", "once")
    assert (answered.state, answered.answer, answered.choices) == ("answered", "once", ("a", "b"))
    assert rows.answer("ask_1", "another").answer == "once"
    assert rows.find(**STEP) == answered
    assert not rows.consume("ask_1") and rows.recent(9) == rows.grants() == rows.revoke() == []


def test_a_deferred_question_is_overdue_after_its_deadline(rows: Questions, store: Store, runner: Runner) -> None:
    turn = start_turn(store, runner, "s2", turn_id="t2")
    rows.ask(ASKED)
    rows.ask(replace(ROW, session_id="s2", turn_id="t2"))
    assert rows.overdue(1e12) == []
    rows.defer("ask_1", 100.0)
    rows.defer("appr_1", 200.0)
    assert [row.id for row in rows.overdue(99)] == []
    assert [row.id for row in rows.overdue(100)] == ["ask_1"]
    assert {row.id for row in rows.overdue(200)} == {"ask_1", "appr_1"}
    assert [row.id for row in rows.pending(session_id="s2")] == ["appr_1"]
    assert [row.id for row in rows.pending(kind="clarify")] == ["ask_1"]
    finish_turn(turn)
    rows.answer("ask_1", "")
    assert rows.overdue(200) == []


@pytest.mark.sqlite_only
def test_approvals_of_an_older_file_are_questions_of_a_newer_one(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    with closing(sqlite3.connect(path)) as connection:
        for script in schema.MIGRATIONS[:3]:
            connection.executescript(script)
        connection.executescript(
            "PRAGMA user_version = 3;"
            "INSERT INTO sessions (id, platform, cwd, created_at, updated_at) VALUES ('s1', 'cli', '/', 1, 1);"
            "INSERT INTO approvals VALUES ('appr_1', 's1', 't1', 'tool:1.0', 'terminal', 'digest', 'rm -rf x',"
            "'[\"a\",\"b\"]', 'why', 'cli', 'granted', 'session', 'fine', 1.0, 2.0, NULL);"
        )
    with closing(SqliteStore(path)) as store:
        assert Questions(store).grants() == [
            replace(ROW, state="granted", answer="session", reason="fine", created_at=1.0, answered_at=2.0)
        ]
