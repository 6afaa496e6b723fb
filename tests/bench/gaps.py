"""The time a host takes between the end of one answer and its next request, step by step, as the server sees it."""

from __future__ import annotations

from typing import NamedTuple

from .measure import BenchFailed, alternate, sync_cost
from .server import Plan
from .workspace import Workspace


class Gaps(NamedTuple):
    """For each step of a conversation its best time in several runs, in seconds.

    The best of several, because on a busy machine a single run tells more about the others' work. The work of a step
    is the same in every run, so nothing that belongs to a step is lost.
    """

    ours: list[float]
    floor: list[float]
    #: What a sync cost around that run of ours in which the disk was calmest, in seconds.
    sync: float


def measure_gaps(workspace: Workspace, plan: Plan, repeat: int) -> Gaps:
    """Run the conversation so many times through the runtime and through the floor."""
    syncs: list[float] = []

    def ours() -> list[float]:
        before = sync_cost(workspace.folder)
        workspace.report()
        workspace.chat(plan, "--toolsets", "file")
        gaps = _gaps(workspace, plan)
        syncs.append(max(before, sync_cost(workspace.folder)))
        return gaps

    def floor() -> list[float]:
        workspace.report()
        workspace.floor(plan)
        return _gaps(workspace, plan)

    measured, bare = alternate(repeat, ours, floor)
    return Gaps(
        [min(step) for step in zip(*measured, strict=True)], [min(step) for step in zip(*bare, strict=True)], min(syncs)
    )


def _gaps(workspace: Workspace, plan: Plan) -> list[float]:
    gaps = workspace.report().gaps()
    if len(gaps) != plan.rounds:
        raise BenchFailed(f"{plan.rounds} steps were expected, the server saw {len(gaps)}")
    return gaps
