"""The host's time per step in a turn of 200 steps, and whether late steps cost more than early ones."""

from __future__ import annotations

from dataclasses import replace
from statistics import median

from .gaps import Gaps, measure_gaps
from .server import Plan
from .table import TIMES, Row, against_floor
from .workspace import Workspace

BUDGET = 2.5
GROWTH_BUDGET = 1.2
#: Every step is committed before the next request, so the budget is for disks on which that takes at most so long.
FAST_SYNC_SECONDS = 0.0002
STEPS = 200
PART = 50
REPEAT = 8


def measure(workspace: Workspace) -> list[Row]:
    """The rows for the time per step and for its growth."""
    gaps = measure_gaps(workspace, Plan(rounds=STEPS), workspace.repeat or REPEAT)
    return [_time(gaps), _growth(gaps)]


def _time(gaps: Gaps) -> Row:
    row = against_floor(
        f"host time between one answer and the next request, {STEPS} tool steps",
        median(gaps.ours) * 1e3,
        median(gaps.floor) * 1e3,
        "ms",
        BUDGET,
        condition=f"where a sync costs ≤ {FAST_SYNC_SECONDS * 1e3:g} ms",
        applies=gaps.sync <= FAST_SYNC_SECONDS,
    )
    note = f"a sync costs {gaps.sync * 1e3:.2f} ms in the temporary folder"
    if row.met is None:
        note += "; set TMPDIR to a folder on a faster disk, or in memory, to see the budget applied"
    return replace(row, note=note)


def _growth(gaps: Gaps) -> Row:
    what = f"the same, last {PART} steps against the first {PART}"
    ours, floor = _late_to_early(gaps.ours), _late_to_early(gaps.floor)
    return against_floor(what, ours, floor, TIMES, GROWTH_BUDGET, condition="the floor's own")


def _late_to_early(gaps: list[float]) -> float:
    # The first step is left out: it pays for what is loaded on first use.
    return median(gaps[-PART:]) / median(gaps[1 : PART + 1])
