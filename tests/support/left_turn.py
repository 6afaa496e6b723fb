"""A turn that a killed process left in the middle of a command, for the surfaces that take it up."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

from hermes.testing import ScriptedProvider, tool_call
from support import hermes_environment
from support.waiting import HANG, wait_until

#: The first reply of the model, for the turn that is left: its command never ends by itself.
COMMAND = tool_call("terminal", {"command": "echo ran >> effects; exec sleep 300"})

_PROGRAM = """\
import sys, hermes
agent = hermes.Agent(model='scripted', base_url=sys.argv[1], api_key='test-key-1234')
agent.session().run('Go.')
"""
#: The same turn, submitted to a dispatcher.
_DISPATCHING = """\
import sys
from pathlib import Path
from hermes.base.config import Config
from hermes.base.config.schema.sections import ModelConfig
from hermes.service.dispatch.local import LocalDispatcher
from hermes.service.dispatch.port import TurnRequest
from hermes.service.dispatch.following import follow
from hermes.base.scope import Interrupt
from hermes.host import Host, HostOptions
model = ModelConfig(provider='custom', default='scripted', base_url=sys.argv[1], api_key='test-key-1234')
host = Host(Path(sys.argv[2]), Config(model=model), HostOptions(), cwd=Path.cwd(), env={})
dispatcher = LocalDispatcher(host)
dispatcher.start()
request = TurnRequest(session_id='s1', message='Go.', request_key='go', platform='test', cwd=str(Path.cwd()))
follow(dispatcher, dispatcher.submit(request).turn_id, Interrupt())
"""


def leave_turn(home: Path, workdir: Path, provider: ScriptedProvider, *, is_dispatched: bool = False) -> str:
    """Kill a process while its command runs. The id of the session, whose conversation begins with ``Go.``."""
    program = _DISPATCHING if is_dispatched else _PROGRAM
    arguments = [sys.executable, "-c", program, provider.base_url, str(home)]
    process = subprocess.Popen(arguments, cwd=workdir, env=hermes_environment(home))
    try:
        wait_until((workdir / "effects").exists, "the command")
    finally:
        process.kill()
        process.wait(HANG)
    with closing(sqlite3.connect(home / "state.db")) as connection:
        return connection.execute("SELECT id FROM sessions").fetchone()[0]


def check_taken_up_once(workdir: Path, messages: list[dict[str, Any]]) -> None:
    """The command ran once, and the model was told that its outcome is unknown."""
    told = [message["content"] for message in messages if message["role"] == "tool"]
    assert len(told) == 1 and '"outcome":"unknown"' in told[0]
    assert (workdir / "effects").read_text() == "ran\n"
