"""CPU of ``hermes --version`` and of ``import hermes``, against an interpreter that does nothing."""

from __future__ import annotations

from .measure import BenchFailed, alternate
from .table import Row, against_floor
from .workspace import Workspace

BUDGET = 2.0
IMPORT_BUDGET_MS = 5.0
REPEAT = 25


def measure(workspace: Workspace) -> list[Row]:
    """Two rows."""

    def ours() -> float:
        child = workspace.hermes("--version")
        if not child.stdout.startswith("hermes "):
            raise BenchFailed(f"hermes --version printed {child.stdout!r}")
        return child.cpu * 1e3

    def floor() -> float:
        return workspace.python("-c", "pass").cpu * 1e3

    def importing() -> float:
        return workspace.python("-c", "import hermes").cpu * 1e3

    repeat = workspace.repeat or REPEAT
    measured, bare = map(min, alternate(repeat, ours, floor))
    imported, nothing = map(min, alternate(repeat, importing, floor))
    budget = f"≤ {IMPORT_BUDGET_MS:g} ms more than `python -c pass`"
    return [
        against_floor("`hermes --version`, CPU", measured, bare, "ms", BUDGET, condition="`python -c pass`"),
        Row("`import hermes`, CPU", imported, nothing, "ms", budget, imported - nothing <= IMPORT_BUDGET_MS),
    ]
