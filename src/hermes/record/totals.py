"""Totals of a recorded run: turns, steps, tokens, cost and time."""

from __future__ import annotations

import msgspec

from hermes.record.recording import Recording


class Totals(msgspec.Struct, frozen=True):
    """What a run took, with its children."""

    turns: int
    model_steps: int
    tool_calls: int
    input_tokens: int
    output_tokens: int
    #: None when no price was known for any of its calls.
    cost_usd: float | None
    seconds: float


def totals_of(recording: Recording) -> Totals:
    """The totals of a session and those it delegated to. Time is that of the session itself."""
    family = list(recording.family())
    turns = [turn for session in family for turn in session.turns if not turn.undone]
    calls = [call for turn in turns for call in turn.calls]
    costs = [call.cost_usd for call in calls if call.cost_usd is not None]
    own = [turn for turn in recording.turns if not turn.undone]
    return Totals(
        turns=len(own),
        model_steps=sum(key.startswith("model:") for turn in turns for key in turn.steps),
        tool_calls=sum(len(turn.tool_calls()) for turn in turns),
        input_tokens=sum(call.input_tokens or 0 for call in calls),
        output_tokens=sum(call.output_tokens or 0 for call in calls),
        cost_usd=sum(costs) if costs else None,
        seconds=sum(max((turn.ended_at or turn.started_at) - turn.started_at, 0.0) for turn in own),
    )
