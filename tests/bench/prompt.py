"""CPU that ``hermes`` takes until its prompt is drawn, against loading prompt_toolkit alone and without postponing."""

from __future__ import annotations

import os
import pty
import select
import signal
import subprocess
import sys
import time

from .measure import BenchFailed, alternate
from .server import Plan
from .table import Row, against_floor
from .workspace import Workspace, hermes_command

BUDGET_MS = 250.0
REPEAT = 15
_SECONDS = 60
#: The end of a frame: lines may wrap again.
_DRAWN = b"\x1b[?7h"
_CTRL_D = b"\x04"


#: The same command, whose imports are not postponed.
_EAGER = (
    "import sys, hermes.surfaces.cli.repl.prompt.postponed as postponed; postponed.postpone_unused = lambda: None; "
    "from hermes.surfaces.cli.main import main; sys.exit(main())"
)


def measure(workspace: Workspace) -> list[Row]:
    """Two rows; none where the CPU clock of another process cannot be read."""
    if sys.platform != "linux":
        return []
    workspace.chat(Plan())  # a home that was used before

    def floor() -> float:
        return workspace.python("-c", "import asyncio, prompt_toolkit").cpu

    def eager() -> float:
        return _until_drawn(workspace, [sys.executable, "-c", _EAGER])

    def drawn() -> float:
        return _until_drawn(workspace, hermes_command())

    repeat = workspace.repeat or REPEAT
    ours, bare = map(min, alternate(repeat, drawn, floor))
    postponed, unpostponed = map(min, alternate(repeat, drawn, eager))
    budget = f"≤ {BUDGET_MS:g} ms"
    return [
        Row("`hermes`: the prompt is ready, CPU", ours * 1e3, bare * 1e3, "ms", budget, ours * 1e3 <= BUDGET_MS),
        against_floor(
            "the same with postponed imports, against without", postponed * 1e3, unpostponed * 1e3, "ms", 0.95
        ),
    ]


def _until_drawn(workspace: Workspace, command: list[str]) -> float:
    ours, terminal = pty.openpty()
    environment = {**workspace.environment(), "TERM": "xterm-256color", "LC_ALL": "C.UTF-8"}
    hermes = subprocess.Popen(
        command,
        stdin=terminal,
        stdout=terminal,
        stderr=terminal,
        cwd=workspace.notes,
        env=environment,
        start_new_session=True,
    )
    os.close(terminal)
    try:
        shown = b""
        while _DRAWN not in shown:
            shown += _read(ours, shown)
        hermes.send_signal(signal.SIGSTOP)  # what it does beyond that is not counted
        # The identifier of a process's CPU clock, as clock_getcpuclockid makes it.
        used = time.clock_gettime((~hermes.pid << 3) | 2)
        hermes.send_signal(signal.SIGCONT)
        os.write(ours, _CTRL_D)
        while hermes.poll() is None:
            _read(ours, shown)
        return used
    finally:
        hermes.kill()
        hermes.wait()
        os.close(ours)


def _read(terminal: int, shown: bytes) -> bytes:
    if not select.select([terminal], [], [], _SECONDS)[0]:
        raise BenchFailed(f"hermes draws no prompt, or does not leave it: {shown!r}")
    try:
        return os.read(terminal, 65_536)
    except OSError as error:  # it has ended
        if _DRAWN in shown:
            return b""
        raise BenchFailed(f"hermes ended before its prompt: {shown!r}") from error
