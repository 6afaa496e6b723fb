"""The host's time for 20 file reads asked for in one message, over 20 such messages."""

from __future__ import annotations

import time
from dataclasses import replace
from statistics import median

from .gaps import measure_gaps
from .server import Plan, note_name
from .table import Row, against_floor
from .workspace import Workspace

BUDGET = 10.0
READS = 20
ROUNDS = 20
REPEAT = 5


def measure(workspace: Workspace) -> list[Row]:
    """One row."""
    gaps = measure_gaps(workspace, Plan(rounds=ROUNDS, calls=READS), workspace.repeat or REPEAT)
    what = f"{READS} reads in one message, journaled, over {ROUNDS} rounds"
    row = against_floor(what, median(gaps.ours) * 1e3, median(gaps.floor) * 1e3, "ms", BUDGET)
    note = f"reading {READS} files and nothing else takes {_read_files(workspace) * 1e3:.2f} ms"
    return [replace(row, note=note)]


def _read_files(workspace: Workspace) -> float:
    """Seconds to read as many files and do nothing else with them."""
    paths = [workspace.notes / note_name(number) for number in range(READS)]
    seconds: list[float] = []
    for _ in range(ROUNDS):
        started = time.perf_counter()
        for path in paths:
            with path.open(encoding="utf-8") as file:
                file.read()
        seconds.append(time.perf_counter() - started)
    return median(seconds)
