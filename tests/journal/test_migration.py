"""A home that an earlier version filled: everything in it is there afterwards, and the conversation continues."""

from __future__ import annotations

import gzip
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from hermes.journal.bodies import unpack
from hermes.journal.questions import Questions
from hermes.journal.runner import Runner
from hermes.journal.sessions import Sessions
from hermes.journal.store.schema import MIGRATIONS
from hermes.journal.store.sqlite.database import empty_journal
from hermes.journal.turns.lifecycle import reopen_turn
from hermes.trace.verify.session import verify
from journal.kit import StoreFactory, finish_turn, rows, start_turn

#: A dump of the database of schema 4, of a home with tool calls, a large message, an undone turn, a branch, an open
#: question, a turn that was cut off in a claimed call, and a clock that went back.
OLD_HOME = Path(__file__).parent / "schema4.sql.gz"


@pytest.fixture
def old_journal(journal_path: Path) -> Path:
    journal_path.parent.mkdir(parents=True)
    with closing(sqlite3.connect(journal_path)) as connection:
        connection.execute("PRAGMA journal_mode=WAL")
        connection.executescript(gzip.decompress(OLD_HOME.read_bytes()).decode())
    return journal_path


def contents(path: Path) -> dict[str, list[Any]]:
    """The columns of schema 4 of every row, with bodies as what they stand for."""
    with closing(sqlite3.connect(path)) as connection:
        columns = {
            "turns": "id, session_id, ordinal, task_id, request_key, state, attempts, first_seq, started_at, answer, "
            "error, undone",
            "events": "session_id, seq, turn_id, kind, key, effect, at",
            "messages": "id, session_id, turn, step, position, role",
            "sessions": "id, parent_id, platform, title, cwd, model, runner, epoch, created_at, branched_from",
            "model_calls": "session_id, api_request_id, turn_id, key, model, status, started_at, output_tokens",
            "questions": "id, session_id, turn_id, key, tool, subject, rules, kind, state, created_at",
            "blobs": "sha256, data",
        }
        found = {
            table: connection.execute(f"SELECT {names} FROM {table} ORDER BY 1, 2").fetchall()
            for table, names in columns.items()
        }
        for table in ("events", "messages"):
            bodies = connection.execute(f"SELECT body FROM {table} ORDER BY 1, rowid").fetchall()
            found[f"{table} bodies"] = [unpack(connection, body) for (body,) in bodies]
        return found


def test_nothing_of_an_old_home_is_lost(old_journal: Path, open_store: StoreFactory) -> None:
    before = contents(old_journal)
    store = open_store()
    sessions = Sessions(store).list()
    assert len(sessions) == 3 and contents(old_journal) == before
    assert rows(old_journal, "PRAGMA user_version") == [(len(MIGRATIONS),)]
    backup = Path(f"{old_journal}.schema4.bak")
    assert contents(backup) == before and rows(backup, "PRAGMA user_version") == [(4,)]


def test_a_migrated_file_has_the_schema_of_a_new_one(old_journal: Path, open_store: StoreFactory) -> None:
    Sessions(open_store()).list()
    query = "SELECT type, name, sql FROM sqlite_master WHERE name NOT LIKE 'sqlite_%' ORDER BY name"
    with closing(empty_journal()) as fresh:
        expected = [row[:2] for row in fresh.execute(query)]
    assert [row[:2] for row in rows(old_journal, query)] == expected


def test_the_new_columns_say_what_can_be_known(old_journal: Path, open_store: StoreFactory) -> None:
    Sessions(open_store()).list()
    heads = rows(
        old_journal,
        "SELECT s.head_seq, (SELECT max(seq) FROM events e WHERE e.session_id = s.id) FROM sessions s",
    )
    assert len(heads) == 3 and all(head == last > 0 for head, last in heads)
    assert rows(old_journal, "SELECT DISTINCT chain, epoch FROM events") == [(None, None)]
    assert rows(old_journal, "SELECT DISTINCT source FROM turns") == [("cli",)]
    assert rows(old_journal, "SELECT count(*) FROM turns WHERE ended_at < started_at") == [(0,)]


def test_an_old_session_goes_on_with_a_chain_from_there(
    old_journal: Path, open_store: StoreFactory, runner: Runner
) -> None:
    store = open_store()
    sessions = Sessions(store)
    branch = next(row for row in sessions.list() if row.branched_from)
    old = len(sessions.events(branch.id))
    finish_turn(start_turn(store, runner, branch.id))
    events = sessions.events(branch.id)
    assert [event["seq"] for event in events] == list(range(1, old + 3))
    assert [bool(event["chain"]) for event in events] == [False] * old + [True] * 2
    assert [str(problem) for problem in verify(sessions.export(branch.id)) if "chain" in str(problem)] == []


def test_a_turn_that_an_old_version_left_open_is_taken_up(
    old_journal: Path, open_store: StoreFactory, runner: Runner
) -> None:
    store = open_store()
    cut_off = next(row for row in Sessions(store).list() if row.state == "running")
    turn = reopen_turn(store, runner, cut_off.id, states=("running",))
    assert turn is not None and turn.steps["tool:1.0"].body.error_type == "unknown_outcome"
    assert turn.steps["setup"].body.system == "Be brief."
    question = Questions(store).get("appr_1")
    assert question is not None and (question.state, question.principal) == ("pending", "")


def test_turns_of_workers_are_found_by_workers_again(tmp_path: Path) -> None:
    number = next(number for number, script in enumerate(MIGRATIONS) if "submissions_waiting" in script)
    with closing(sqlite3.connect(tmp_path / "state.db")) as connection:
        connection.executescript("".join(MIGRATIONS[:number]))
        connection.execute("PRAGMA foreign_keys = OFF")
        follower = '{"follower":"hermes_follow_1"}'
        for turn, state, is_dispatched, options in (
            ("given", "queued", 1, follower),
            ("runs", "running", 1, follower),
            ("asks", "running", 0, follower),
            ("behind", "queued", 0, follower),
            ("own", "queued", 0, "{}"),
        ):
            connection.execute(
                "INSERT INTO turns (id, session_id, ordinal, task_id, request_key, state, loop_version, first_seq, "
                "started_at) VALUES (?, ?, 0, '', '', ?, 1, 0, 0)",
                (turn, turn, state),
            )
            connection.execute(
                "INSERT INTO submissions (turn_id, session_id, queue, priority, principal, submitted_at, options, "
                "message, is_dispatched) VALUES (?, ?, 'turns', 0, '', 0, ?, '', ?)",
                (turn, turn, options, is_dispatched),
            )
        connection.commit()
        connection.executescript(MIGRATIONS[number])
        found = dict(connection.execute("SELECT turn_id, worker FROM submissions").fetchall())
    # What the workers had, or would have got, waits for them; what is suspended, or is for another process, does not.
    assert found == {"given": "", "runs": "", "asks": None, "behind": "", "own": None}
