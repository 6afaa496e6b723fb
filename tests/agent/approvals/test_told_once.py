"""A process that is killed around an approval: plugins are told of the question and of its answer all the same."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

import support.approving_run
from hermes.base.config import load_config
from hermes.base.errors import TurnSuspended
from hermes.host import Host
from hermes.journal.questions import Questions
from hermes.testing import ScriptedProvider, ScriptedResponder, by_step, text, tool_call
from support import SOURCES, write_config
from support.approval_rig import RISKY

#: Notes what it is told, and kills its process there when it has to: before it has noted that, or after.
PLUGIN = """
import json, os, signal

def register(ctx):
    for name in ("pre_approval_request", "post_approval_response"):
        ctx.register_hook(name, hear(name))

def hear(name):
    def note(**kw):
        if os.environ.get("KILL") == f"before {{name}}":
            os.kill(os.getpid(), signal.SIGKILL)
        with open({path!r}, "a") as file:
            file.write(json.dumps([name, kw.get("choice"), kw.get("redelivered")]) + "\\n")
        if os.environ.get("KILL") == f"after {{name}}":
            os.kill(os.getpid(), signal.SIGKILL)
    return note
"""
ASKED = ["pre_approval_request", None, None]
ASKED_AGAIN = ["pre_approval_request", None, True]
ANSWERED = ["post_approval_response", "once", None]
AGAIN = ["post_approval_response", "once", True]


class Killed:
    """A home with such a plugin, whose processes run one after the other, and are killed on the way."""

    def __init__(self, home: Path, workdir: Path, provider: ScriptedProvider) -> None:
        self.home, self.workdir = home, workdir
        self._told = workdir / "told.jsonl"
        write_config(home, provider.base_url, "plugins:\n  enabled: [writer]\n")
        folder = home / "plugins" / "writer"
        folder.mkdir(parents=True)
        (folder / "plugin.yaml").write_text("name: writer\n")
        (folder / "__init__.py").write_text(PLUGIN.format(path=str(self._told)))

    def suspend(self) -> None:
        """A turn that waits for its answer, which comes when no process is there."""
        with Host(self.home, load_config(self.home).config, cwd=self.workdir, env={}) as host:
            session = host.new_session()
            host.responders.attach(session.id, ScriptedResponder(TurnSuspended()))
            with pytest.raises(TurnSuspended):
                session.run("go")
            questions = Questions(host.store)
            questions.answer(questions.pending()[0].id, "once")

    def run(self, **environment: str) -> int:
        """Begin the turn, or go on with it; someone says yes."""
        paths = os.pathsep.join((str(SOURCES), str(Path(__file__).parents[2])))
        done = subprocess.run(
            [sys.executable, str(support.approving_run.__file__), str(self.home), str(self.workdir), os.devnull],
            env={**os.environ, "PYTHONPATH": paths, **environment},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode < 0 or done.stdout == "done\n", done.stderr
        return done.returncode

    def told(self) -> list[Any]:
        return [json.loads(line) for line in self._told.read_text().splitlines()] if self._told.exists() else []


@pytest.fixture
def killed(home: Path, workdir: Path) -> Generator[Killed]:
    with ScriptedProvider(by_step(tool_call("terminal", {"command": RISKY}), text("done"))) as provider:
        yield Killed(home, workdir, provider)


@pytest.mark.parametrize("is_later", [False, True])
@pytest.mark.parametrize(
    ("kill", "told"),
    [
        # Plugins heard it, and that could not be noted any more.
        ("after post_approval_response", [ASKED, ANSWERED, AGAIN]),
        ("before post_approval_response", [ASKED, AGAIN]),
    ],
)
def test_killed_while_plugins_are_told_of_an_answer(killed: Killed, is_later: bool, kill: str, told: list[Any]) -> None:
    if is_later:
        killed.suspend()
    assert killed.run(KILL=kill) == -signal.SIGKILL
    assert killed.run() == 0
    assert killed.told() == told


@pytest.mark.parametrize(
    ("kill", "told"),
    [
        ("before pre_approval_request", [ASKED_AGAIN, ANSWERED]),
        ("after pre_approval_request", [ASKED, ASKED_AGAIN, ANSWERED]),
        ("thinking", [ASKED, ANSWERED]),
    ],
)
def test_killed_while_a_question_is_asked(killed: Killed, kill: str, told: list[Any]) -> None:
    assert killed.run(KILL=kill) == -signal.SIGKILL
    assert killed.run() == 0
    assert killed.told() == told


@pytest.mark.slow
@pytest.mark.parametrize("offset", range(4))
@pytest.mark.parametrize("is_later", [False, True])
def test_killed_at_any_point(home: Path, workdir: Path, is_later: bool, offset: int) -> None:
    """Every commit and effect of the turn: plugins hear one question and one answer, and the same once more at most.

    The parameter sets take every fourth point each, so that they run side by side.
    """
    with ScriptedProvider(by_step(tool_call("terminal", {"command": RISKY}), text("done"))) as provider:
        for point in range(1 + offset, 60, 4):
            (workdir / str(point)).mkdir()
            killed = Killed(home / str(point), workdir / str(point), provider)
            if is_later:
                killed.suspend()
            if killed.run(HERMES_CRASH_AT=str(point)) == 0:
                break
            killed.run()
            questions, answers = ([one for one in killed.told() if one[0] == name] for name in (ASKED[0], ANSWERED[0]))
            assert questions in ([ASKED], [ASKED_AGAIN], [ASKED, ASKED_AGAIN]), point
            assert answers in ([ANSWERED], [AGAIN], [ANSWERED, AGAIN]), point
        else:
            pytest.fail("the turn has more crash points than expected")
