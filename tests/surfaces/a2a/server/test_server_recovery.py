"""``kill -9`` of ``hermes a2a serve``: the next server finishes what was at work, and an answer counts exactly once."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import pytest
from a2a.types import Task, TaskState

from hermes.journal.turns.recovery import MAX_TAKE_UPS
from hermes.testing import RecordedRequest, ScriptedProvider, by_step, hanging, text, tool_call
from support import run_hermes, write_config
from support.a2a_process import LATER
from support.a2a_process import answer_of as _answer
from support.a2a_process import serving_process as serving
from support.a2a_process import state_of as _state
from support.a2a_rig import UNUSED_TLS, VERSION
from support.waiting import HANG, wait_until

pytestmark = pytest.mark.slow

#: The crash points until a message of a server that has just started is stored with its task: two for the commit of the
#: start, and two for that of the message.
STORED = 4
#: Two more for the commit with which a server takes the task that another one has left.
TAKEN = 2

#: Appends, so that a second run would show.
RISKY = "echo ran >> ran && rm -rf ./no-such-folder"
SETTINGS = """\
a2a:
  principals:
    local: {workspace: ".", scopes: [send, read, cancel, approve]}
"""


def _verify(home: Path, workdir: Path) -> None:
    checked = run_hermes("trace", "verify", "--all", home=home, cwd=workdir)
    assert checked.returncode == 0, checked.stdout


def test_tasks_at_work_are_finished_by_the_next_server(home: Path, workdir: Path) -> None:
    """One was in a command, the other in a model call; both in the first turn of their conversation."""
    works = by_step(tool_call("terminal", {"command": "echo s1 >> effects; exec sleep 60"}), text("worked"))
    asked: list[str] = []

    def script(request: RecordedRequest) -> Any:
        words = request.last_user_text
        asked.append(words)
        if words == "work":
            return works(request)
        return hanging() if asked.count("think") == 1 and words == "think" else text(f"answer to {words}")

    with ScriptedProvider(script) as provider:
        write_config(home, provider.base_url, SETTINGS)
        with serving(home, workdir) as server:
            working = server.send("work", configuration=LATER)
            thinking = server.send("think", configuration=LATER)
            wait_until((workdir / "effects").exists, "the command")
            wait_until(lambda: "think" in asked, "the model call")
            server.kill()
        with serving(home, workdir) as server:
            assert (_state(server.ended(working["id"])), _answer(server.task(working["id"]))) == ("COMPLETED", "worked")
            thought = server.ended(thinking["id"])
            assert (_state(thought), _answer(thought)) == ("COMPLETED", "answer to think")
            assert len(thought["artifacts"]) == 1
            after = server.send("and now?", contextId=working["contextId"])
            assert _answer(after) == "answer to and now?"
    told = [message for message in provider.requests[-1].messages if message["role"] == "tool"]
    assert len(told) == 1 and '"outcome":"unknown"' in told[0]["content"]
    assert (workdir / "effects").read_text() == "s1\n"
    _verify(home, workdir)


@pytest.mark.parametrize("point", [0, 1, 2, 3, 4, 5, 7])
def test_a_task_that_was_stored_is_not_lost_however_early_the_kill_comes(home: Path, workdir: Path, point: int) -> None:
    with ScriptedProvider(by_step(text("done"))) as provider:
        write_config(home, provider.base_url, SETTINGS)
        with serving(home, workdir, crash_at=STORED + point) as server:
            with pytest.raises(httpx.HTTPError):
                server.send("go")
            server.process.wait(HANG)
        with serving(home, workdir) as server:
            [task] = server.tasks()
            assert (_state(server.ended(task["id"])), _answer(server.task(task["id"]))) == ("COMPLETED", "done")
            sessions = run_hermes("sessions", "list", home=home, cwd=workdir).stdout
    assert len(sessions.splitlines()) == 2, "one conversation"
    _verify(home, workdir)


@pytest.mark.parametrize("point", range(16))
def test_an_answer_counts_once_whenever_the_kill_comes(home: Path, workdir: Path, point: int) -> None:
    with ScriptedProvider(by_step(tool_call("terminal", {"command": RISKY}), text("done"))) as provider:
        write_config(home, provider.base_url, SETTINGS)
        with serving(home, workdir) as server:
            waiting = server.send("go")
            assert _state(waiting) == "INPUT_REQUIRED"
            server.kill()
        with serving(home, workdir, crash_at=TAKEN + STORED + point) as server:
            assert _state(server.task(waiting["id"])) == "INPUT_REQUIRED"
            with pytest.raises(httpx.HTTPError):
                server.send("approve", taskId=waiting["id"])
            server.process.wait(HANG)
        with serving(home, workdir) as server:
            done = server.ended(waiting["id"])
    assert (_state(done), _answer(done)) == ("COMPLETED", "done")
    [result] = [message["content"] for message in provider.requests[-1].messages if message["role"] == "tool"]
    ran = (workdir / "ran").read_text() if (workdir / "ran").exists() else ""
    assert ran == "ran\n" or (ran == "" and '"outcome":"unknown"' in result), (point, ran, result)
    _verify(home, workdir)


def test_a_waiting_task_still_waits_and_takes_its_answer(home: Path, workdir: Path) -> None:
    with ScriptedProvider(by_step(tool_call("terminal", {"command": RISKY}), text("done"))) as provider:
        write_config(home, provider.base_url, SETTINGS)
        with serving(home, workdir) as server:
            waiting = server.send("go")
            server.kill()
        with serving(home, workdir) as server:
            assert server.task(waiting["id"])["status"] == waiting["status"]
            done = server.send("approve", taskId=waiting["id"])
    assert (_state(done), _answer(done), (workdir / "ran").read_text()) == ("COMPLETED", "done", "ran\n")


def test_a_task_that_ends_every_server_fails_in_the_end(home: Path, workdir: Path) -> None:
    with ScriptedProvider(by_step(text("never"))) as provider:
        write_config(home, provider.base_url, SETTINGS)
        with serving(home, workdir, crash_at=STORED + 5) as server, pytest.raises(httpx.HTTPError):
            server.send("go")
        for _ in range(MAX_TAKE_UPS):
            with serving(home, workdir, crash_at=STORED + 3) as server:
                server.process.wait(HANG)
        with serving(home, workdir) as server:
            [task] = server.tasks()
            failed = server.ended(task["id"])
            assert _state(failed) == "FAILED" and "TakenUpTooOften" in failed["status"]["message"]["parts"][0]["text"]
            assert _answer(server.send("hello", contextId=task["contextId"])) == "never"
    _verify(home, workdir)


def test_a_turn_whose_task_has_ended_is_closed(home: Path, workdir: Path) -> None:
    """The task was canceled, and the server killed before its turn had ended."""
    with ScriptedProvider(by_step(tool_call("terminal", {"command": "echo s1 >> effects; exec sleep 60"}))) as provider:
        write_config(home, provider.base_url, SETTINGS)
        with serving(home, workdir) as server:
            task = server.send("work", configuration=LATER)
            wait_until((workdir / "effects").exists, "the command")
            server.kill()
        _set_canceled(home, task["id"])
        with serving(home, workdir) as server:
            assert _state(server.task(task["id"])) == "CANCELED"
            _verify(home, workdir)
    assert len(provider.requests) == 1


def _set_canceled(home: Path, task_id: str) -> None:
    with closing(sqlite3.connect(home / "state.db")) as connection, connection:
        [body] = connection.execute("SELECT body FROM a2a_tasks WHERE id = ?", (task_id,)).fetchone()
        task = Task.FromString(body)
        task.status.state = TaskState.TASK_STATE_CANCELED
        values = (int(TaskState.TASK_STATE_CANCELED), task.SerializeToString(), task_id)
        connection.execute("UPDATE a2a_tasks SET state = ?, body = ? WHERE id = ?", values)


def test_sigterm_ends_the_stream_of_a_waiting_task_in_order(home: Path, workdir: Path) -> None:
    with ScriptedProvider(by_step(tool_call("terminal", {"command": RISKY}), text("done"))) as provider:
        write_config(home, provider.base_url, SETTINGS)
        with serving(home, workdir) as server:
            waiting = server.send("go")
            address = f"{server.url}/rest/tasks/{waiting['id']}:subscribe"
            with httpx.stream("GET", address, headers=VERSION, timeout=HANG, verify=UNUSED_TLS) as response:
                lines = response.iter_lines()
                assert waiting["id"] in next(lines)
                server.process.terminate()
                rest = list(lines)  # raises when the connection breaks
            assert server.process.wait(HANG) == 0
    assert "error" not in "".join(rest)
    log = (home / "logs" / "agent.log").read_text()
    assert "Traceback" not in log and " ERROR " not in log, log
