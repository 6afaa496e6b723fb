"""The time a host takes between the end of one answer and its next request, step by step, as the server sees it."""

from __future__ import annotations

from typing import NamedTuple

from .measure import BenchFailed, sync_cost
from .server import Plan
from .workspace import Workspace

#: A disk on which a sync takes at most so long. Every step is committed before the next request.
FAST_SYNC_SECONDS = 0.0002
#: How many times more runs than asked for are made while others keep the disk busy.
PATIENCE = 2


class Gaps(NamedTuple):
    """For each step of a conversation its best time in several runs, in seconds.

    The best of several, because on a busy machine a single run tells more about the others' work. The work of a step
    is the same in every run, so nothing that belongs to a step is lost.
    """

    ours: list[float]
    floor: list[float]
    #: What a sync cost around each run of ours, in seconds.
    syncs: list[float]

    @property
    def sync(self) -> float:
        """What a sync costs while nobody else uses the disk, as far as that ever was the case."""
        return min(self.syncs)

    @property
    def is_fast_disk(self) -> bool:
        return self.sync <= FAST_SYNC_SECONDS

    @property
    def is_steady_disk(self) -> bool:
        """Whether steps can be compared with one another: others' use of the disk falls on some and not on others."""
        return self.is_fast_disk or max(self.syncs) <= 2 * self.sync


def measure_gaps(workspace: Workspace, plan: Plan, repeat: int) -> Gaps:
    """Run the conversation by turns through the runtime and through the floor, so many times on a calm disk."""
    _run(workspace, plan)  # compiles modules and makes the journal
    ours: list[list[float]] = []
    floor: list[list[float]] = []
    syncs: list[float] = []
    while len(ours) < repeat * PATIENCE:
        sync_before = sync_cost(workspace.folder)
        ours.append(_run(workspace, plan))
        syncs.append(max(sync_before, sync_cost(workspace.folder)))
        floor.append(_run_floor(workspace, plan))
        calm = sum(sync <= FAST_SYNC_SECONDS for sync in syncs)
        # A disk that was never fast will not become so by waiting.
        if len(ours) >= repeat and (calm >= repeat or not calm):
            break
    return Gaps(_best(ours), _best(floor), syncs)


def _run(workspace: Workspace, plan: Plan) -> list[float]:
    workspace.report()
    workspace.chat(plan, "--toolsets", "terminal" if plan.commands else "file")
    return _gaps(workspace, plan)


def _run_floor(workspace: Workspace, plan: Plan) -> list[float]:
    workspace.report()
    workspace.floor(plan)
    return _gaps(workspace, plan)


def _gaps(workspace: Workspace, plan: Plan) -> list[float]:
    gaps = workspace.report().gaps()
    if len(gaps) != plan.rounds:
        raise BenchFailed(f"{plan.rounds} steps were expected, the server saw {len(gaps)}")
    return gaps


def _best(runs: list[list[float]]) -> list[float]:
    return [min(step) for step in zip(*runs, strict=True)]
