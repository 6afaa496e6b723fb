"""How much CPU and memory one answer takes through ``hermes chat --query``, against the floor."""

from __future__ import annotations

from .measure import alternate
from .server import Plan
from .table import Row, against_floor
from .workspace import Workspace

CPU_BUDGET = 1.15
MEMORY_BUDGET = 1.05
REPEAT = 15


def measure(workspace: Workspace) -> list[Row]:
    """The rows for CPU and for peak memory, from the same runs."""
    plan = Plan()
    runs = alternate(workspace.repeat or REPEAT, lambda: workspace.chat(plan), lambda: workspace.floor(plan))
    ours_cpu, floor_cpu = (min(child.cpu for child in children) * 1e3 for children in runs)
    ours_peak, floor_peak = (min(child.peak for child in children) / 1e6 for children in runs)
    return [
        against_floor("one-shot `hermes chat --query`, CPU", ours_cpu, floor_cpu, "ms", CPU_BUDGET),
        against_floor("peak memory of a one-shot chat", ours_peak, floor_peak, "MB", MEMORY_BUDGET),
    ]
