"""An approval outlives the process that asked for it, and is used once."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import support.approving_run
from hermes.base.errors import TurnSuspended
from hermes.host import Host
from hermes.journal.questions import Questions
from hermes.journal.store.connection import JournalConnection
from hermes.testing import EventRecorder, ScriptedProvider, ScriptedResponder, by_step, text, tool_call
from support import SOURCES, write_config
from support.approval_rig import RISKY, approving_host, says
from support.hook_callbacks import note

EFFECT = "echo ran >> effects.log && rm -rf ./no-such-folder"
SCRIPT = by_step(tool_call("terminal", {"command": EFFECT}), text("done"))
#: More points than the turn has; a run that is not killed ends the search.
LAST_POINT = 40
MINIMUM_POINTS = 16


def run(home: Path, workdir: Path, asked: Path, crash_at: int = 0) -> subprocess.CompletedProcess[str]:
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join((str(SOURCES), str(Path(__file__).parents[2]))),
        "HERMES_CRASH_AT": str(crash_at),
    }
    command = [sys.executable, "-W", "error", str(support.approving_run.__file__), str(home), str(workdir), str(asked)]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)


def query(home: Path, sql: str) -> list[Any]:
    if not (home / "state.db").exists():
        return []
    with closing(sqlite3.connect(home / "state.db")) as connection:
        try:
            return connection.execute(sql).fetchall()
        except sqlite3.OperationalError:  # killed before there were tables
            return []


@pytest.mark.slow
@pytest.mark.parametrize("offset", range(4))
def test_a_turn_killed_at_any_point_never_runs_on_one_answer_twice(home: Path, workdir: Path, offset: int) -> None:
    """Every point once; the four parameter sets take every fourth point each, so that they run side by side."""
    killed = 0
    with ScriptedProvider(SCRIPT) as provider:
        for point in range(1 + offset, LAST_POINT, 4):
            own, asked, effects = home / str(point), workdir / f"asked{point}", workdir / "effects.log"
            write_config(own, provider.base_url)
            effects.unlink(missing_ok=True)
            first = run(own, workdir, asked, crash_at=point)
            if first.returncode == 0:
                break
            assert first.returncode == -signal.SIGKILL, first.stderr
            killed += 1
            if not query(own, "SELECT 1 FROM turns"):
                continue  # killed before the message was on record: nothing to resume
            before = query(own, "SELECT id, state FROM questions")
            second = run(own, workdir, asked)
            assert (second.returncode, second.stdout) == (0, "done\n"), (point, second.stderr)
            _check(own, point, before, asked, effects)
        else:
            pytest.fail("the turn has more crash points than expected")
    assert killed * 4 >= MINIMUM_POINTS


def _check(home: Path, point: int, before: list[Any], asked: Path, effects: Path) -> None:
    questions = asked.read_text().split() if asked.exists() else []
    rows = query(home, "SELECT id, state FROM questions")
    assert len(rows) == 1, (point, rows)
    assert set(questions) <= {rows[0][0]}, f"point {point}: asked again under another id"
    state = before[0][1] if before else "none"
    assert len(questions) <= (2 if state == "pending" else 1), (point, state)
    assert effects.read_text() == "ran\n" if effects.exists() else True, point
    [(claimed,)] = query(home, "SELECT count(*) FROM events WHERE kind = 'step_claimed'")
    assert claimed == 1, point
    # A process that died between the claim and the start leaves an answer that nothing can use any more.
    assert rows[0][1] in ("consumed", "granted") and (rows[0][1] == "consumed" or not effects.exists()), point


def take_back(host: Host, state: str) -> None:
    """Bring the journal to where a process stood that died before its first tool call started."""

    def write(connection: JournalConnection) -> None:
        after = "SELECT seq FROM events WHERE kind = 'step_done' AND key = 'model:1'"
        connection.execute(f"DELETE FROM events WHERE seq > ({after})")
        connection.execute("DELETE FROM messages WHERE step > 1 OR (step = 1 AND position > 0)")
        connection.execute("UPDATE turns SET state = 'running', answer = NULL, ended_at = NULL")
        connection.execute("UPDATE questions SET state = ?", (state,))

    host.store.write(write)


@pytest.mark.parametrize(
    ("choice", "state", "asked", "ran"),
    [
        ("once", "granted", 0, True),
        ("once", "consumed", 1, False),
        ("once", "revoked", 1, False),
        ("always", "granted", 0, True),
        ("session", "granted", 0, True),
        ("deny", "denied", 0, False),
        ("timeout", "denied", 1, False),
        ("deny", "pending", 1, False),
    ],
)
def test_what_was_answered_before_the_end_counts_after_it(
    home: Path, workdir: Path, choice: str, state: str, asked: int, ran: bool
) -> None:
    with ScriptedProvider(by_step(tool_call("terminal", {"command": RISKY}), text("done"))) as provider:
        with approving_host(home, workdir, provider) as host:
            session = host.new_session()
            first = ScriptedResponder(says(choice, "as I said"))
            host.responders.attach(session.id, first)
            session.run("go")
            take_back(host, state)
        (workdir / "ran").unlink(missing_ok=True)
        second = ScriptedResponder(says("deny"))
        with approving_host(home, workdir, provider) as host:
            recorder = EventRecorder().attach(host.hooks)
            resumed = host.resume_session(session.id)
            host.responders.attach(session.id, second)
            resumed.finish_open_turn()
    assert len(second.requests) == asked
    assert len(recorder.of("pre_approval_request")) == len(recorder.of("post_approval_response")) == asked
    assert (workdir / "ran").exists() is ran
    if state == "pending":
        assert second.requests[0].id == first.requests[0].id
    if choice == "deny" and state == "denied":
        assert "as I said" in recorder.of("post_tool_call")[0]["error_message"]


def test_a_grant_of_another_call_is_not_used(home: Path, workdir: Path) -> None:
    """The model is asked again after a crash and comes back with something else at the same step."""
    with (
        ScriptedProvider([tool_call("terminal", {"command": RISKY}), text("done")]) as provider,
        approving_host(home, workdir, provider) as host,
    ):
        session = host.new_session()
        host.responders.attach(session.id, ScriptedResponder(says("once")))
        session.run("go")
        take_back(host, "granted")
        change = "UPDATE events SET body = replace(body, 'no-such', 'not-such')"
        host.store.write(lambda connection: connection.execute(change))
    person = ScriptedResponder(says("deny"))
    with ScriptedProvider([text("done")]) as provider, approving_host(home, workdir, provider) as host:
        host.responders.attach(session.id, person)
        host.resume_session(session.id).finish_open_turn()
    assert [request.subject for request in person.requests] == [RISKY.replace("no-such", "not-such")]


def test_an_open_question_nobody_can_answer_any_more_is_closed(home: Path, workdir: Path) -> None:
    with ScriptedProvider(by_step(tool_call("terminal", {"command": RISKY}), text("done"))) as provider:
        with approving_host(home, workdir, provider) as host:
            session = host.new_session()
            host.responders.attach(session.id, ScriptedResponder(says("deny")))
            session.run("go")
            take_back(host, "pending")
        with approving_host(home, workdir, provider) as host:
            seen: list[Any] = []
            host.hooks.subscribe("post_tool_call", "watch", note(seen, "error_type"))
            host.resume_session(session.id).finish_open_turn()
            assert host.store.read(lambda c: c.execute("SELECT state FROM questions").fetchall()) == [("revoked",)]
    assert seen == ["headless_denied"]


def test_an_approval_taken_back_before_the_start_stops_the_call(home: Path, workdir: Path) -> None:
    with (
        ScriptedProvider([tool_call("terminal", {"command": RISKY}), text("done")]) as provider,
        approving_host(home, workdir, provider) as host,
    ):
        seen: list[Any] = []
        host.hooks.subscribe("post_tool_call", "watch", note(seen, "status", "error_type", "error_message"))

        def revoke(next_call: Any, **_: Any) -> Any:
            Questions(host.store).revoke()
            return next_call()

        host.hooks.add_middleware("tool_execution", "late", revoke)
        session = host.new_session()
        host.responders.attach(session.id, ScriptedResponder(says("once")))
        session.run("go")
    [(status, error_type, message)] = seen
    assert (status, error_type) == ("blocked", "approval_denied") and "revoked" in message
    assert not (workdir / "ran").exists()


def test_an_answer_cannot_come_later_for_a_call_that_is_under_way(home: Path, workdir: Path) -> None:
    def change(next_call: Any, **_: Any) -> Any:
        return next_call({"command": RISKY})

    with (
        ScriptedProvider([tool_call("terminal", {"command": "true"}), text("done")]) as provider,
        approving_host(home, workdir, provider) as host,
    ):
        host.hooks.add_middleware("tool_execution", "changer", change)
        recorder = EventRecorder().attach(host.hooks)
        session = host.new_session()
        host.responders.attach(session.id, ScriptedResponder(TurnSuspended()))
        result = session.run("go")
        assert Questions(host.store).pending() == []
    assert recorder.pairs_unbalanced() == []
    assert [call.status for call in result.tool_calls] == ["blocked"] and not (workdir / "ran").exists()
