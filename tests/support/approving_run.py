"""A process of its own whose person says yes once to everything: start or finish one turn.

Run as ``python approving_run.py HOME WORKDIR BASE_URL ASKED``; every question is noted in the file ASKED before it is
answered. With ``HERMES_CRASH_AT`` it dies on the way, with ``KILL=thinking`` before the answer.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

from hermes.agent.approvals.responder import ApprovalAnswer, ApprovalRequest
from hermes.base.config import load_config
from hermes.base.scope import Interrupt
from hermes.host import Host
from hermes.testing import ScriptedResponder
from support.approval_rig import says


def main(home: Path, workdir: Path, asked: Path) -> None:
    """Go on with the session there is, or start one."""

    def approve(request: ApprovalRequest, _interrupt: Interrupt) -> ApprovalAnswer:
        with asked.open("a") as file:
            file.write(f"{request.id}\n")
        if os.environ.get("KILL") == "thinking":
            os.kill(os.getpid(), signal.SIGKILL)
        return says("once")

    with Host(home, load_config(home).config, cwd=workdir, env={}) as host:
        known = host.sessions.list()
        session = host.resume_session(known[0].id) if known else host.new_session()
        host.responders.attach(session.id, ScriptedResponder(*[approve] * 5))
        result = session.finish_open_turn() if known else session.run("go")
        print(result.answer if result is not None else session.last_result().answer)


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
