"""How much CPU ``hermes --version`` takes, against an interpreter that does nothing."""

from __future__ import annotations

from .measure import BenchFailed, alternate
from .table import Row, against_floor
from .workspace import Workspace

BUDGET = 2.0
REPEAT = 25


def measure(workspace: Workspace) -> list[Row]:
    """One row."""

    def ours() -> float:
        child = workspace.hermes("--version")
        if not child.stdout.startswith("hermes "):
            raise BenchFailed(f"hermes --version printed {child.stdout!r}")
        return child.cpu * 1e3

    def floor() -> float:
        return workspace.python("-c", "pass").cpu * 1e3

    measured, bare = map(min, alternate(workspace.repeat or REPEAT, ours, floor))
    return [against_floor("`hermes --version`, CPU", measured, bare, "ms", BUDGET, condition="`python -c pass`")]
