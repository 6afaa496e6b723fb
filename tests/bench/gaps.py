"""The time a host takes between the end of one answer and its next request, step by step, as the server sees it."""

from __future__ import annotations

from .measure import BenchFailed, alternate
from .server import Plan
from .workspace import Workspace


def measure_gaps(workspace: Workspace, plan: Plan, repeat: int) -> tuple[list[float], list[float]]:
    """For each step of the conversation its best time in so many runs, in seconds: ours and the floor's.

    The best of several runs, because on a busy machine a single one tells more about the others' work. The work of a
    step is the same in every run, so nothing that belongs to a step is lost.
    """

    def ours() -> list[float]:
        workspace.report()
        workspace.chat(plan, "--toolsets", "file")
        return _gaps(workspace, plan)

    def floor() -> list[float]:
        workspace.report()
        workspace.floor(plan)
        return _gaps(workspace, plan)

    measured, bare = alternate(repeat, ours, floor)
    return [min(step) for step in zip(*measured, strict=True)], [min(step) for step in zip(*bare, strict=True)]


def _gaps(workspace: Workspace, plan: Plan) -> list[float]:
    gaps = workspace.report().gaps()
    if len(gaps) != plan.rounds:
        raise BenchFailed(f"{plan.rounds} steps were expected, the server saw {len(gaps)}")
    return gaps
