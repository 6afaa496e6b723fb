"""The host's time per step in a turn of many steps, and whether late steps cost more than early ones."""

from __future__ import annotations

from dataclasses import replace
from statistics import median, quantiles

from .gaps import FAST_SYNC_SECONDS, Gaps, measure_gaps
from .server import Plan
from .table import TIMES, Row, against_floor
from .workspace import Workspace

READ_BUDGET = 1.25
COMMAND_BUDGET = 1.5
GROWTH_BUDGET = 1.2
STEPS = 200
COMMANDS = 60
PART = 50
REPEAT = 6


def measure(workspace: Workspace) -> list[Row]:
    """The rows for the time per step and for its growth."""
    repeat = workspace.repeat or REPEAT
    gaps = measure_gaps(workspace, Plan(rounds=STEPS), repeat)
    commands = measure_gaps(workspace, Plan(rounds=COMMANDS, commands=1), repeat)
    what = "host time between one answer and the next request"
    return [
        _time(f"{what}, {STEPS} file reads", gaps, READ_BUDGET),
        _growth(gaps),
        _time(f"{what}, {COMMANDS} commands of the terminal", commands, COMMAND_BUDGET),
    ]


def _time(what: str, gaps: Gaps, budget: float) -> Row:
    row = against_floor(
        what,
        median(gaps.ours) * 1e3,
        median(gaps.floor) * 1e3,
        "ms",
        budget,
        condition=f"where a sync costs ≤ {FAST_SYNC_SECONDS * 1e3:g} ms",
        applies=gaps.is_fast_disk,
    )
    note = f"a sync costs {gaps.sync * 1e3:.2f} ms in the temporary folder"
    if not gaps.is_fast_disk:
        note += "; set TMPDIR to a folder on a faster disk, or in memory, to see the budget applied"
    return replace(row, note=note)


def _growth(gaps: Gaps) -> Row:
    row = against_floor(
        f"the same, last {PART} steps against the first {PART}",
        _late_to_early(gaps.ours),
        _late_to_early(gaps.floor),
        TIMES,
        GROWTH_BUDGET,
        condition="the floor's own",
        applies=gaps.is_steady_disk,
    )
    return row if gaps.is_steady_disk else replace(row, note="others kept the disk busy; run it again when it is calm")


def _late_to_early(gaps: list[float]) -> float:
    # The first step is left out: it pays for what is loaded on first use.
    return _typical(gaps[-PART:]) / _typical(gaps[1 : PART + 1])


def _typical(gaps: list[float]) -> float:
    """The lower quartile: a burst of others' work must not look like growth."""
    return quantiles(gaps, n=4)[0]
