"""A process dies while its children work: asking again enters the same children, and nothing happens twice."""

from __future__ import annotations

import signal
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pytest

from hermes.host import Host
from hermes.testing import EventRecorder, ScriptedProvider, by_step, failure, hanging, text, tool_call
from support import HostFactory, run_hermes, start_hermes, write_config

Payload = dict[str, Any]

EFFECT = tool_call("terminal", {"command": "echo ran >> effects.log"})
SCRIPT: Payload = {
    "go": by_step(tool_call("delegate_task", {"tasks": [{"goal": "work"}]}, call_id="call_d"), text("All done.")),
    "work": by_step(EFFECT, text("It ran.")),
}
#: More points than the turn has; a run that is not killed ends the search.
LAST_POINT = 60


def _forget_the_result(host: Host) -> None:
    """Bring the parent to where it stood while its children worked."""
    with closing(sqlite3.connect(host.store.location)) as connection, connection:
        connection.execute(
            "DELETE FROM events WHERE session_id NOT LIKE 'child%' AND seq >= "
            "(SELECT seq FROM events WHERE session_id NOT LIKE 'child%' AND kind = 'step_done' AND key = 'tool:1.0')"
        )
        connection.execute(
            "DELETE FROM messages WHERE session_id NOT LIKE 'child%' AND (step > 1 OR (step = 1 AND position > 0))"
        )
        connection.execute(
            "UPDATE turns SET state = 'running', answer = NULL, ended_at = NULL WHERE session_id NOT LIKE 'child%'"
        )


@pytest.mark.parametrize("work", [SCRIPT["work"], failure(400, "broken")])
def test_a_finished_child_reports_the_same_again_and_does_nothing(make_host: HostFactory, work: Any) -> None:
    with ScriptedProvider({**SCRIPT, "work": work}) as provider:
        host = make_host(provider)
        session = host.new_session()
        session.run("go")
        first = msgspec.json.decode(provider.requests[-1].messages[-1]["content"])
        asked = len(provider.requests)
        _forget_the_result(host)
        host.close()
        again = make_host(provider)
        recorder = EventRecorder().attach(again.hooks)
        result = again.resume_session(session.id).finish_open_turn()
        second = msgspec.json.decode(provider.requests[-1].messages[-1]["content"])
    assert result is not None and result.answer == "All done."
    assert second["results"] == first["results"]
    assert len(provider.requests) == asked + 1  # the parent's own last step
    assert "subagent_start" not in recorder.names()
    assert "subagent_stop" not in recorder.names()


def test_a_child_that_was_cut_off_is_entered_again(make_host: HostFactory, workdir: Path) -> None:
    with ScriptedProvider(SCRIPT) as provider:
        host = make_host(provider)
        session = host.new_session()
        session.run("go")
        _forget_the_result(host)
        _forget_the_answer(host)
        host.close()
        again = make_host(provider)
        recorder = EventRecorder().attach(again.hooks)
        result = again.resume_session(session.id).finish_open_turn()
        [child] = msgspec.json.decode(provider.requests[-1].messages[-1]["content"])["results"]
    assert result is not None and result.answer == "All done."
    assert (child["status"], child["summary"]) == ("completed", "It ran.")
    assert (workdir / "effects.log").read_text() == "ran\n"
    for name in ("subagent_start", "subagent_stop"):
        assert [event["child_session_id"] for event in recorder.of(name)] == [child["session_id"]]
    assert "on_session_start" not in recorder.names()


def _forget_the_answer(host: Host) -> None:
    """Bring the child to where it stood when its command had run."""
    with closing(sqlite3.connect(host.store.location)) as connection, connection:
        connection.execute(
            "DELETE FROM events WHERE session_id LIKE 'child%' AND seq > "
            "(SELECT seq FROM events WHERE session_id LIKE 'child%' AND kind = 'step_done' AND key = 'tool:1.0')"
        )
        connection.execute("DELETE FROM messages WHERE session_id LIKE 'child%' AND step > 1")
        connection.execute("UPDATE turns SET state = 'running', answer = NULL WHERE session_id LIKE 'child%'")


def test_kill_9_while_a_child_waits_for_its_model(home: Path, workdir: Path) -> None:
    waited: list[bool] = []

    def work(request: Any) -> Any:
        if request.step == 0:
            return EFFECT
        waited.append(True)
        return hanging() if len(waited) == 1 else text("It ran.")

    script: Payload = {**SCRIPT, "work": work}
    with ScriptedProvider(script) as provider:
        write_config(home, provider.base_url)
        process = start_hermes("chat", "-q", "go", "-Q", home=home, cwd=workdir)
        provider.wait_for_request(3)
        process.kill()
        process.wait(60)
        resumed = run_hermes("chat", "--continue", "-Q", home=home, cwd=workdir)
    assert (resumed.returncode, resumed.stdout) == (0, "All done.\n"), resumed.stderr
    assert (workdir / "effects.log").read_text() == "ran\n"
    assert len(provider.requests) == 5  # one of them asked twice
    assert _states(home) == ["completed", "completed"]


@pytest.mark.slow
@pytest.mark.parametrize("offset", range(4))
def test_a_delegation_killed_at_any_point_resumes_and_ends(home: Path, workdir: Path, offset: int) -> None:
    """Every point once; the four parameter sets take every fourth point each, so that they run side by side."""
    killed = 0
    with ScriptedProvider(SCRIPT) as provider:
        for point in range(1 + offset, LAST_POINT, 4):
            own = home / str(point)
            write_config(own, provider.base_url)
            (workdir / "effects.log").unlink(missing_ok=True)
            run = run_hermes("chat", "-q", "go", "-Q", home=own, cwd=workdir, env={"HERMES_CRASH_AT": str(point)})
            if run.returncode == 0:
                break
            assert run.returncode == -signal.SIGKILL, run.stderr
            killed += 1
            if not _states(own):
                continue  # killed before the message was on record
            resumed = run_hermes("chat", "--continue", "-Q", home=own, cwd=workdir)
            assert (resumed.returncode, resumed.stdout) == (0, "All done.\n"), (point, resumed.stderr)
            assert _states(own) == ["completed", "completed"], point
            effects = (workdir / "effects.log").read_text() if (workdir / "effects.log").exists() else ""
            assert effects in ("", "ran\n"), (point, effects)
            whole = run_hermes("trace", "verify", "--all", home=own, cwd=workdir)
            assert whole.returncode == 0, (point, whole.stdout)
        else:
            pytest.fail("the turn has more crash points than expected")
    assert killed >= 3


def _states(home: Path) -> list[str]:
    if not (home / "state.db").exists():
        return []
    with closing(sqlite3.connect(home / "state.db")) as connection:
        try:
            return [state for (state,) in connection.execute("SELECT state FROM turns")]
        except sqlite3.OperationalError:
            return []
