"""What it costs to decide about a command, over all commands of the corpus."""

from __future__ import annotations

from statistics import median
from time import perf_counter

from tests.policy.corpus import CORPUS, corpus_rates, judge

from .table import Row
from .workspace import Workspace

BUDGET_MICROSECONDS = 300
REPEAT = 5


def measure(workspace: Workspace) -> list[Row]:
    """One row: the median command, each at its best."""
    count = workspace.repeat or REPEAT
    judge("ls")  # the first one loads the parser
    costs = [_best(case.command, count) for case in CORPUS]
    ours = median(costs)
    note = (
        f"{len(CORPUS)} commands, {sum(rate.wrong_side for rate in corpus_rates())} of them on the wrong side; "
        f"the slowest in a hundred takes {sorted(costs)[-len(costs) // 100]:.0f} µs"
    )
    what = "an approval decision, median over the corpus"
    return [Row(what, ours, None, "µs", f"≤ {BUDGET_MICROSECONDS} µs", ours <= BUDGET_MICROSECONDS, note)]


def _best(command: str, count: int) -> float:
    best = float("inf")
    for _ in range(count):
        started = perf_counter()
        judge(command)
        best = min(best, perf_counter() - started)
    return best * 1e6
