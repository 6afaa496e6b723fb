"""``hermes chat --on-workers``: a one-shot run that a worker runs, and one without the option, which none does."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
from pathlib import Path
from typing import Any

import pytest

from hermes.agent.events import ignore_events
from hermes.base.errors import HermesError
from hermes.base.scope import Interrupt
from hermes.surfaces.cli.chat.on_workers import WorkerRun
from hermes.testing import RecordedRequest, ScriptedProvider, ScriptedResponder, by_step, text, tool_call
from support import hermes_command, hermes_environment, run_hermes, start_hermes, write_config
from support.approval_rig import says
from support.cluster_rig import ClusterRig, answer_of
from support.settled_turns import wait_turn
from support.waiting import HANG, wait_until

LISTENERS = "SELECT jsonb_array_length(options::jsonb -> 'listeners') FROM submissions WHERE session_id = %s"


class Model:
    """Answers with its name. ``hold`` waits; ``risky`` does what needs an approval."""

    def __init__(self) -> None:
        self.gate, self.held = threading.Event(), threading.Event()

    def __call__(self, request: RecordedRequest) -> Any:
        said = request.last_user_text
        if said == "risky":
            command = "echo ran >> ran && rm -rf ./no-such-folder"
            return by_step(tool_call("terminal", {"command": command}), text("done"))(request)
        if said == "hold":
            self.held.set()
            return text("never", hold=self.gate)
        return text(f"{request.body['model']} answers {said}", chunks=3)


@pytest.mark.slow
def test_a_one_shot_run_on_a_worker(postgres_url: str, tmp_path: Path) -> None:
    model = Model()
    with ScriptedProvider(model) as provider:
        rig = ClusterRig(tmp_path, postgres_url, provider, slots=2)

        def chat(*arguments: str) -> subprocess.CompletedProcess[str]:
            return run_hermes("chat", *arguments, home=rig.home, cwd=rig.cwd)

        try:
            # Without a worker it says so, instead of waiting.
            refused = chat("-q", "hello", "--on-workers")
            assert refused.returncode == 1 and "no worker runs" in refused.stderr
            rig.start_workers(1)
            # The rule: without the option a run is run by its own process.
            here = json.loads(chat("-q", "hello", "--json").stdout)
            assert here["answer"] == "scripted answers hello"
            assert rig.query("SELECT count(*) FROM submissions") == [(0,)]
            there = json.loads(chat("-q", "hello", "--json", "--on-workers", "-m", "other").stdout)
            assert there["answer"] == "other answers hello" and there["model"] == here["model"]
            assert there["usage"] == here["usage"]
            assert rig.query("SELECT source FROM submissions u JOIN turns t ON t.id = u.turn_id") == [("cli",)]
            # The conversation continues, here or there; text is streamed.
            again = chat("-q", "more", "--on-workers", "--resume", there["session_id"])
            assert again.returncode == 0 and again.stdout == "scripted answers more\n", again.stderr
            # Questions are asked where the person is, also those of a turn that was left waiting.
            responder = ScriptedResponder(says("once"))
            with WorkerRun(rig.host(), responder) as run:
                run.submit("risky", "", ignore_events)
                result = run.result(Interrupt())
            assert (result.answer, result.steps, len(result.tool_calls)) == ("done", 2, 1)
            assert (rig.cwd / "ran").read_text() == "ran\n"
            # Without a person a call that needs approval is refused.
            assert json.loads(chat("-q", "risky", "--json", "--on-workers").stdout)["answer"] == "done"
            assert (rig.cwd / "ran").read_text() == "ran\n"
            # A server that was started with another model has its turns answered by that one.
            server = rig.dispatcher(rig.host(platform="a2a", model="chosen"))
            ticket = server.submit(rig.request("served", platform="a2a"))
            assert answer_of(wait_turn(server, ticket.turn_id, timeout=HANG)) == "chosen answers served"
            # Ctrl-C stops the turn on its worker.
            process = start_hermes(
                *("chat", "-q", "hold", "--on-workers"), home=rig.home, cwd=rig.cwd, stdout=subprocess.PIPE
            )
            assert model.held.wait(HANG)
            process.send_signal(signal.SIGINT)
            process.communicate(timeout=HANG)
            assert process.returncode == 130
            states = rig.query("SELECT state, count(*) FROM turns GROUP BY state ORDER BY state")
            assert states == [("completed", 6), ("interrupted", 1)]
            check_a_turn_that_was_left_is_followed(rig, model)
        finally:
            model.gate.set()
            rig.close()


def check_a_turn_that_was_left_is_followed(rig: ClusterRig, model: Model) -> None:
    """A command that was killed leaves its turn to the worker; another one follows it, also at a terminal."""
    model.held.clear()
    process = start_hermes("chat", "-q", "hold", "--on-workers", home=rig.home, cwd=rig.cwd)
    assert model.held.wait(HANG)
    process.kill()
    process.wait(HANG)
    ((session_id,),) = rig.query("SELECT session_id FROM turns WHERE state = 'running'")
    terminal, ours = os.openpty()
    following = subprocess.Popen(
        hermes_command("chat", "--on-workers", "--resume", session_id),
        cwd=rig.cwd,
        env=hermes_environment(rig.home),
        stdin=ours,
        stdout=ours,
        stderr=ours,
    )
    os.close(ours)
    try:
        wait_until(lambda: rig.query(LISTENERS, session_id) == [(2,)], "the second listener")
        model.gate.set()
        assert following.wait(HANG) == 0
        assert b"never" in os.read(terminal, 65_536)
    finally:
        os.close(terminal)
    # There is nothing to follow any more, and a message is asked for.
    done = run_hermes("chat", "--on-workers", "--resume", session_id, home=rig.home, cwd=rig.cwd)
    assert done.returncode == 1 and "no turn that a worker could continue; give a message" in done.stderr


def test_a_run_that_workers_cannot_run_as_asked_is_refused(home: Path, workdir: Path) -> None:
    def refused(*arguments: str) -> str:
        done = run_hermes("chat", "--on-workers", *arguments, home=home, cwd=workdir)
        assert done.returncode == 1 and done.stdout == ""
        return done.stderr

    write_config(home, "http://127.0.0.1:9/v1")
    assert "journal.url is not set" in refused("-q", "hello")
    write_config(home, "http://127.0.0.1:9/v1", "journal: {url: 'postgresql://127.0.0.1:9/x', wait_seconds: 1}\n")
    assert "slash commands run in this process" in refused("-q", "/help")
    assert "not --toolsets, --yolo" in refused("-q", "hello", "--yolo", "-t", "file")
    with pytest.raises(HermesError, match="without --on-workers"):
        raise HermesError(refused("-q", "hello"))
