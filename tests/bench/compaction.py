"""How long it takes to decide what of a very long conversation is condensed."""

from __future__ import annotations

from time import perf_counter
from typing import Any

from hermes.agent.context.plan import limits_for, plan_compaction
from hermes.agent.context.tokens import estimate
from hermes.base.config.schema.sections import CompressionConfig

from .table import Row
from .workspace import Workspace

BUDGET_MS = 50.0
MESSAGES = 5_000
REPEAT = 20


def measure(workspace: Workspace) -> list[Row]:
    """5,000 messages: questions, calls with their results, answers."""
    messages = _conversation()
    best = float("inf")
    for _ in range(workspace.repeat or REPEAT):
        started = perf_counter()
        plan = plan_compaction(messages, limits_for(CompressionConfig(), 128_000, estimate(messages), 0))
        best = min(best, perf_counter() - started)
        assert plan.middle
    took = best * 1e3
    return [Row("planning to condense 5,000 messages", took, None, "ms", f"≤ {BUDGET_MS:g} ms", took <= BUDGET_MS)]


def _conversation() -> list[dict[str, Any]]:
    words = "The quick brown fox jumps over the lazy dog, and nobody minds. "
    messages: list[dict[str, Any]] = []
    for number in range(MESSAGES // 4):
        function = {"name": "read_file", "arguments": f'{{"path": "note-{number}.txt"}}'}
        calls = [{"id": f"call_{number}", "type": "function", "function": function}]
        messages += (
            {"role": "user", "content": f"{number}: {words}"},
            {"role": "assistant", "content": None, "tool_calls": calls},
            {"role": "tool", "tool_call_id": f"call_{number}", "content": words * 12},
            {"role": "assistant", "content": words * 3},
        )
    return messages
