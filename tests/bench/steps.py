"""The host's time per step in a turn of 200 steps, and whether late steps cost more than early ones."""

from __future__ import annotations

from dataclasses import replace
from statistics import median

from .gaps import measure_gaps
from .measure import sync_cost
from .server import Plan
from .table import TIMES, Row, against_floor
from .workspace import Workspace

BUDGET = 2.5
GROWTH_BUDGET = 1.2
#: Every step is committed before the next request, so the budget is for disks on which that takes at most so long.
FAST_SYNC_SECONDS = 0.0002
STEPS = 200
PART = 50
REPEAT = 5


def measure(workspace: Workspace) -> list[Row]:
    """The rows for the time per step and for its growth."""
    sync_before = sync_cost(workspace.folder)
    ours, floor = measure_gaps(workspace, Plan(rounds=STEPS), workspace.repeat or REPEAT)
    # Like the steps themselves, the better figure counts: others may be using the disk.
    sync = min(sync_before, sync_cost(workspace.folder))
    return [_time(ours, floor, sync), _growth(ours, floor)]


def _time(ours: list[float], floor: list[float], sync: float) -> Row:
    row = against_floor(
        f"host time between one answer and the next request, {STEPS} tool steps",
        median(ours) * 1e3,
        median(floor) * 1e3,
        "ms",
        BUDGET,
        condition=f"where a sync costs ≤ {FAST_SYNC_SECONDS * 1e3:g} ms",
        applies=sync <= FAST_SYNC_SECONDS,
    )
    note = f"a sync costs {sync * 1e3:.2f} ms in the temporary folder"
    if row.met is None:
        note += "; set TMPDIR to a folder on a faster disk, or in memory, to see the budget applied"
    return replace(row, note=note)


def _growth(ours: list[float], floor: list[float]) -> Row:
    what = f"the same, last {PART} steps against the first {PART}"
    return against_floor(
        what, _late_to_early(ours), _late_to_early(floor), TIMES, GROWTH_BUDGET, condition="the floor's own"
    )


def _late_to_early(gaps: list[float]) -> float:
    # The first step is left out: it pays for what is loaded on first use.
    return median(gaps[-PART:]) / median(gaps[1 : PART + 1])
