"""What a turn costs when 1,000 sessions run in one process, against 10 of them."""

from __future__ import annotations

from dataclasses import replace

import msgspec

from .crowd import Cost
from .measure import BenchFailed, alternate
from .table import Row, against_floor
from .workspace import PROJECT, Workspace

BUDGET = 1.5
MANY = 1_000
FEW = 10
REPEAT = 3

_PROGRAM = f"import sys; sys.path.insert(0, {str(PROJECT)!r}); from tests.bench.crowd import main; main()"


def measure(workspace: Workspace) -> list[Row]:
    """One row. Both sides run the same number of turns, each in a session of its own."""
    peak = 0

    def many() -> Cost:
        nonlocal peak
        workspace.report()
        cost = _run(workspace, MANY)
        peak = max(peak, workspace.report().peak)
        return cost

    # Both programs warm themselves up, so there is no first pair to leave out.
    crowds, groups = alternate(workspace.repeat or REPEAT, many, lambda: _run(workspace, FEW), warm_up=False)
    crowd, group = (min(cost.cpu_per_turn for cost in costs) * 1e3 for costs in (crowds, groups))
    errors = [error for cost in (*crowds, *groups) for error in cost.errors]
    what = f"{MANY:,} concurrent sessions in one process, CPU per turn"
    row = against_floor(what, crowd, group, "ms", BUDGET, condition=f"that of {FEW} sessions, no error")
    if errors:
        return [replace(row, met=False, note=f"{len(errors)} errors, the first: {errors[0]}")]
    if peak < MANY:
        return [replace(row, met=False, note=f"only {peak} connections were open at the same time")]
    return [replace(row, note=f"every answer right, {peak:,} connections open at the same time")]


def _run(workspace: Workspace, at_once: int) -> Cost:
    output = workspace.python("-c", _PROGRAM, str(at_once), str(MANY)).stdout
    try:
        return msgspec.json.decode(output.rsplit("\n", 2)[-2], type=Cost)
    except (msgspec.DecodeError, IndexError) as error:
        raise BenchFailed(f"{at_once} sessions at once printed {output!r}") from error
