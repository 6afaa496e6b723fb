"""What it costs to make a large request safe to hand out, for the first time and again."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter
from typing import Any

from hermes.base.sanitize import Memo, sanitise

from .table import Row
from .workspace import Workspace

COLD_BUDGET_MS = 3.0
WARM_BUDGET_MS = 0.3
REPEAT = 40


def measure(workspace: Workspace) -> list[Row]:
    """A request of 100 kB: 200 messages of prose."""
    count = workspace.repeat or REPEAT
    request = _request()
    memo = Memo()
    sanitise(request, memo=memo)
    cold = _best(lambda: sanitise(request, memo=Memo()), count)
    warm = _best(lambda: sanitise(request, memo=memo), count)
    return [
        Row("sanitising a request of 100 kB", cold, None, "ms", f"≤ {COLD_BUDGET_MS:g} ms", cold <= COLD_BUDGET_MS),
        Row("the same, seen before", warm, None, "ms", f"≤ {WARM_BUDGET_MS:g} ms", warm <= WARM_BUDGET_MS),
    ]


def _request() -> dict[str, Any]:
    words = "The quick brown fox jumps over the lazy dog, and nobody minds. " * 8
    messages = [{"role": ("user", "assistant")[number % 2], "content": f"{number}: {words}"} for number in range(190)]
    return {"model": "bench", "messages": messages, "stream": True}


def _best(work: Callable[[], Any], count: int) -> float:
    best = float("inf")
    for _ in range(count):
        started = perf_counter()
        work()
        best = min(best, perf_counter() - started)
    return best * 1e3
