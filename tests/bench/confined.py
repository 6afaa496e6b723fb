"""What the sandbox adds to a command: the time per step in it, against the floor's commands without one."""

from __future__ import annotations

from dataclasses import replace
from statistics import median

from .gaps import FAST_SYNC_SECONDS, measure_gaps
from .server import Plan
from .table import Row, against_floor
from .workspace import Workspace

BUDGET = 2.0
COMMANDS = 60
#: Milliseconds. A quarter of what the quickest models take: time in which the next sandbox is made.
THINKING = 50
REPEAT = 4
#: What makes a look at the workspace expensive.
MANY_FILES = 50_000
_PER_FOLDER = 500

_NETWORKS = {"network on": '"on"', "a list of hosts": "[example.org]"}


def measure(workspace: Workspace) -> list[Row]:
    """The rows for each kind of network, then for a large workspace."""
    rows = [_row(workspace, what, network) for what, network in _NETWORKS.items()]
    _fill(workspace)
    rows.append(_row(workspace, f"network on, {MANY_FILES:,} files in the workspace", _NETWORKS["network on"]))
    workspace.configure()
    return rows


def _row(workspace: Workspace, what: str, network: str) -> Row:
    workspace.configure("workspace", network)
    gaps = measure_gaps(workspace, Plan(rounds=COMMANDS, commands=1, think=THINKING), workspace.repeat or REPEAT)
    row = against_floor(
        f"host time per step, {COMMANDS} commands in the sandbox, {what}",
        median(gaps.ours) * 1e3,
        median(gaps.floor) * 1e3,
        "ms",
        BUDGET,
        condition=f"where a sync costs ≤ {FAST_SYNC_SECONDS * 1e3:g} ms",
        applies=gaps.is_fast_disk,
    )
    return replace(row, note=f"the floor runs the same commands without a sandbox; the model thinks {THINKING} ms")


def _fill(workspace: Workspace) -> None:
    for number in range(MANY_FILES // _PER_FOLDER):
        folder = workspace.notes / "many" / f"{number:03}"
        folder.mkdir(parents=True, exist_ok=True)
        for at in range(_PER_FOLDER):
            (folder / f"{at:03}.txt").touch()
