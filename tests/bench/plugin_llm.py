"""What ``ctx.llm`` costs a plugin, against posting the same request with the bare client."""

from __future__ import annotations

from dataclasses import replace

import msgspec

from .measure import BenchFailed
from .plugin_llm_run import Figures
from .table import Row, against_floor
from .workspace import PROJECT, Workspace

BUDGET = 1.5
CALLS = 100
AT_ONCE = 200
REPEAT = 7

_PROGRAM = f"import sys; sys.path.insert(0, {str(PROJECT)!r}); from tests.bench.plugin_llm_run import main; main()"


def measure(workspace: Workspace) -> list[Row]:
    """Two rows: one call after the other, and many at once on one event loop."""
    numbers = (workspace.repeat or REPEAT, CALLS, AT_ONCE)
    output = workspace.python("-c", _PROGRAM, *map(str, numbers)).stdout
    try:
        figures = msgspec.json.decode(output, type=Figures)
    except msgspec.DecodeError as error:
        raise BenchFailed(f"plugin_llm_run printed {output!r}") from error
    what = f"{AT_ONCE} `ctx.llm.acomplete` at once, CPU per call"
    crowd = against_floor(what, figures.ours_async * 1e3, figures.bare_async * 1e3, "ms", BUDGET)
    return [
        against_floor("`ctx.llm.complete`, CPU", figures.ours * 1e3, figures.bare * 1e3, "ms", BUDGET),
        replace(crowd, note=f"at most {figures.threads} worker threads at the same time"),
    ]
