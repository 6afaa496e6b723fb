"""Rows that were altered, removed or damaged: each is named, and the check goes on."""

from __future__ import annotations

import hashlib
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from hermes.host import Host
from hermes.journal.history.inspection import inspect_session
from hermes.journal.sessions import Sessions
from hermes.testing import ScriptedProvider, text, tool_call
from hermes.trace.verify.session import verify
from support import HostFactory, run_hermes, write_config


@pytest.fixture
def talk(make_host: HostFactory, workdir: Path) -> tuple[Host, str]:
    """A session with a tool call, as it was recorded."""
    (workdir / "a.txt").write_text("alpha\n")
    with ScriptedProvider([tool_call("read_file", {"path": "a.txt"}), text("It says alpha.")]) as provider:
        host = make_host(provider)
        session = host.new_session()
        session.run("Read it.")
    return host, session.id


def change(host: Host, statement: str, *values: object) -> None:
    with closing(sqlite3.connect(host.store.location)) as connection, connection:
        assert connection.execute(statement, values).rowcount > 0


def problems(host: Host, session_id: str) -> list[str]:
    return [str(problem) for problem in verify(inspect_session(host.store, session_id))]


def test_a_whole_session_has_no_problem_in_the_journal_nor_in_an_export(talk: tuple[Host, str]) -> None:
    host, session_id = talk
    assert problems(host, session_id) == []
    assert verify(Sessions(host.store).export(session_id)) == []


@pytest.mark.parametrize(
    "edit",
    [
        "body = replace(body, 'alpha', 'omega')",
        "at = at + 0.001",
        "key = 'tool:1.9'",
        "effect = 'unsafe'",
        "epoch = 9",
        "chain = zeroblob(32)",
    ],
)
def test_the_first_altered_event_is_named(talk: tuple[Host, str], edit: str) -> None:
    host, session_id = talk
    change(host, f"UPDATE events SET {edit} WHERE key = 'tool:1.0'")
    found = [problem for problem in problems(host, session_id) if "not what was recorded" in problem]
    assert len(found) == 1 and found[0].startswith("event 4 (step_done tool:1."), found


def test_every_altered_byte_of_a_body_is_found(talk: tuple[Host, str]) -> None:
    host, session_id = talk
    with closing(sqlite3.connect(host.store.location)) as connection:
        (body,) = connection.execute("SELECT body FROM events WHERE key = 'final'").fetchone()
    for place in range(len(body)):
        other = "x" if body[place] != "x" else "y"
        change(host, "UPDATE events SET body = ? WHERE key = 'final'", body[:place] + other + body[place + 1 :])
        assert any("event 6" in problem for problem in problems(host, session_id)), place


def test_events_that_are_gone_are_named(talk: tuple[Host, str]) -> None:
    host, session_id = talk
    change(host, "DELETE FROM events WHERE kind = 'turn_ended'")
    assert "the last event recorded is number 7, the last one there is 6" in problems(host, session_id)
    change(host, "DELETE FROM events WHERE seq = 2")
    assert any("event 2 is missing" in problem for problem in problems(host, session_id))


def test_a_chain_that_was_removed_is_noticed(talk: tuple[Host, str]) -> None:
    host, session_id = talk
    change(host, "UPDATE events SET chain = NULL WHERE seq > 3")
    assert any(problem.startswith("event 4 ") for problem in problems(host, session_id))


def test_a_body_that_was_removed_on_purpose_leaves_the_chain_valid(talk: tuple[Host, str]) -> None:
    host, session_id = talk
    with closing(sqlite3.connect(host.store.location)) as connection:
        (body,) = connection.execute("SELECT body FROM events WHERE kind = 'turn_started'").fetchone()
    marker = f'{{"$redacted":"{hashlib.sha256(body.encode()).hexdigest()}"}}'
    change(host, "UPDATE events SET body = ? WHERE kind = 'turn_started'", marker)
    assert problems(host, session_id) == []


def test_an_altered_or_missing_shared_text_is_named(talk: tuple[Host, str]) -> None:
    host, session_id = talk
    change(host, "UPDATE blobs SET data = replace(data, 'You are Hermes', 'You are Athena')")
    assert [problem.partition(": ")[0] for problem in problems(host, session_id)] == ["event 2"]
    change(host, "DELETE FROM blobs")
    assert any("event 2: cannot be read (the stored text" in problem for problem in problems(host, session_id))


@pytest.mark.parametrize("body", ["{", "[]", "null", '{"reply": 7}', '{"reply": {"tool_calls": 7}}'])
def test_a_damaged_row_stops_neither_verify_nor_doctor(home: Path, workdir: Path, body: str) -> None:
    with ScriptedProvider([text("one"), text("two")]) as provider:
        write_config(home, provider.base_url)
        for _ in range(2):
            assert run_hermes("chat", "-Q", "-q", "Hi", home=home, cwd=workdir).returncode == 0
    with closing(sqlite3.connect(home / "state.db")) as connection, connection:
        (damaged,) = connection.execute("SELECT id FROM sessions ORDER BY id LIMIT 1").fetchone()
        connection.execute("UPDATE events SET body = ? WHERE session_id = ? AND key = 'model:1'", (body, damaged))
        connection.execute("UPDATE messages SET body = ? WHERE session_id = ? AND step = 1", (body, damaged))
    checked = run_hermes("trace", "verify", "--all", home=home, cwd=workdir)
    assert checked.returncode == 1 and "Error" not in checked.stderr, checked.stderr
    assert checked.stdout.count(": valid") == 1 and f"{damaged}: invalid" in checked.stdout
    assert "event 3" in checked.stdout
    doctor = run_hermes("doctor", home=home, cwd=workdir)
    assert f"{damaged} is incomplete" in doctor.stdout and "fault of hermes" not in doctor.stdout


def test_text_that_is_no_unicode_any_more_is_one_damaged_row(talk: tuple[Host, str]) -> None:
    host, session_id = talk
    change(host, "UPDATE events SET body = CAST(x'7bff7d' AS TEXT) WHERE seq = 3")
    found = problems(host, session_id)
    assert any(problem.startswith("event 3: cannot be read") for problem in found), found


def test_a_spent_budget_is_no_problem(make_host: HostFactory, workdir: Path) -> None:
    again = tool_call("terminal", {"command": "true"})
    with ScriptedProvider([again, again, again]) as provider:
        host = make_host(provider, max_turns=2, allow_everything=True)
        session = host.new_session()
        assert session.run("Go").status == "failed"
    assert problems(host, session.id) == []
