"""``hermes trace verify``: a whole session passes, and everything that is taken out of one is named."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from hermes.base.errors import TurnSuspended
from hermes.journal.questions import Questions
from hermes.testing import ScriptedProvider, ScriptedResponder, by_step, failure, text, tool_call, tool_calls
from hermes.trace.verify.session import verify
from support import HostFactory, run_hermes, write_config
from support.approval_rig import RISKY, approving_host

Record = dict[str, Any]


@pytest.fixture
def records(make_host: HostFactory, workdir: Path) -> list[Record]:
    """A session with a retry, parallel reads and a command."""
    (workdir / "a").write_text("a")
    script = [
        failure(503, "busy", headers={"retry-after": "0"}),
        tool_calls([("read_file", {"path": "a"}), ("read_file", {"path": "a"})]),
        tool_call("terminal", {"command": "true"}),
        text("done"),
    ]
    with ScriptedProvider(script) as provider:
        host = make_host(provider, retries=1)
        session = host.new_session()
        session.run("go")
        return host.sessions.export(session.id)


def test_a_finished_session_is_whole(records: list[Record]) -> None:
    assert verify(records) == []


@pytest.mark.parametrize(
    ("left_out", "complaint"),
    [
        ({"kind": "step_done", "key": "tool:1.1"}, "tool:1.1: read_file was asked for and never closed"),
        ({"kind": "step_done", "key": "tool:2.0"}, "tool:2.0: was started and has no result"),
        ({"kind": "turn_ended"}, "has no end"),
        ({"kind": "turn_started"}, "does not begin with its one start"),
        ({"kind": "attempt_failed"}, "1 attempts failed, 0 of them"),
        ({"kind": "step_done", "key": "final"}, "final: the answer was never recorded"),
        ({"record": "model_call", "key": "model:2"}, "model:2: has 0 answered attempts"),
        ({"record": "message", "step": 1, "position": 2}, "never reached"),
        ({"record": "event", "seq": 3}, "event 3 is missing"),
    ],
)
def test_what_is_missing_is_named(records: list[Record], left_out: Record, complaint: str) -> None:
    rest = [record for record in records if not all(record.get(name) == value for name, value in left_out.items())]
    found = [str(problem) for problem in verify(rest)]
    assert any(complaint in line for line in found), found


def test_a_call_that_waited_and_never_went_on_is_named(home: Path, workdir: Path) -> None:
    """While it waits there is nothing wrong with it but that its turn is not finished."""
    with (
        ScriptedProvider(by_step(tool_call("terminal", {"command": RISKY}), text("done"))) as provider,
        approving_host(home, workdir, provider) as host,
    ):
        session = host.new_session()
        host.responders.attach(session.id, ScriptedResponder(TurnSuspended()))
        with pytest.raises(TurnSuspended):
            session.run("go")
        waits = [str(problem) for problem in verify(host.sessions.export(session.id))]
        [row] = Questions(host.store).pending()
        Questions(host.store).answer(row.id, "deny")
        session.finish_open_turn()
        whole = host.sessions.export(session.id)
    assert waits == ["turn 1: is not finished; 'hermes chat --resume' finishes it"]
    assert verify(whole) == []
    lost = [record for record in whole if (record.get("kind"), record.get("key")) != ("step_done", "tool:1.0")]
    found = [str(problem) for problem in verify(lost)]
    told = "plugins were told of its question, and not of an answer"
    assert f"turn 1, tool:1.0: waited for an answer and never went on; {told}" in found


@pytest.mark.parametrize(("kind", "complaint"), [("step_done", "was done 2 times"), ("turn_ended", "ended twice")])
def test_what_is_doubled_is_named(records: list[Record], kind: str, complaint: str) -> None:
    doubled: list[Record] = []
    for record in records:
        doubled.append(record)
        if record.get("kind") == kind:
            doubled.append(copy.deepcopy(record))
    assert any(complaint in str(problem) for problem in verify(doubled))


def test_the_command_checks_one_session_or_all(home: Path, workdir: Path) -> None:
    with ScriptedProvider([text("hi")]) as provider:
        write_config(home, provider.base_url)
        session_id = run_hermes("chat", "-q", "hi", "-Q", home=home, cwd=workdir).stderr.split()[1]
        one = run_hermes("trace", "verify", session_id, home=home, cwd=workdir)
        everything = run_hermes("trace", "verify", "--all", "--json", home=home, cwd=workdir)
        nothing = run_hermes("trace", "verify", home=home, cwd=workdir)
    assert (one.returncode, one.stdout) == (0, f"{session_id}: valid\n")
    assert json.loads(everything.stdout) == {session_id: []}
    assert nothing.returncode == 1 and "--all" in nothing.stderr


def test_an_unfinished_session_is_reported_with_exit_1(home: Path, workdir: Path) -> None:
    with ScriptedProvider([text("hi")]) as provider:
        write_config(home, provider.base_url)
        run_hermes("chat", "-q", "hi", "-Q", home=home, cwd=workdir, env={"HERMES_CRASH_AT": "5"})
        done = run_hermes("trace", "verify", "--all", home=home, cwd=workdir)
    assert done.returncode == 1
    assert "not finished" in done.stdout


def test_a_side_job_that_failed_is_no_problem_of_the_turn(records: list[Record]) -> None:
    answered = next(record for record in records if record["record"] == "model_call" and record["status"] == "ok")
    side = {**answered, "api_request_id": "x", "key": "side:compression", "status": "error"}
    assert verify([*records, side]) == []
    assert verify([*records, {**side, "key": "model:1"}]) != []


def test_a_turn_that_was_taken_back_may_have_been_cut_off(records: list[Record]) -> None:
    cut = [record for record in records if (record.get("kind"), record.get("key")) != ("step_done", "tool:1.1")]
    assert verify(cut) != []
    cut = [{**record, "undone": True} if record["record"] == "turn" else record for record in cut]
    renumbered = iter(range(1, 1_000))
    cut = [
        {**record, "seq": next(renumbered), "chain": ""} if record["record"] == "event" else record for record in cut
    ]
    assert verify(cut) == []
