"""Results of turns as the journal has them, for surfaces whose turns another process ran."""

from __future__ import annotations

from typing import Any, NamedTuple

from msgspec.structs import replace

from hermes.agent.events import TurnResult
from hermes.contract.events import ToolEnded
from hermes.journal.bodies import unpack
from hermes.journal.store.connection import JournalConnection
from hermes.journal.store.port import Store
from hermes.journal.turns.steps import NOT_ASIDE
from hermes.models.costs.usage import Usage

_USAGE = (
    "SELECT coalesce(sum(input_tokens), 0), coalesce(sum(output_tokens), 0), coalesce(sum(cache_read_tokens), 0), "
    "coalesce(sum(cache_write_tokens), 0), coalesce(sum(reasoning_tokens), 0), sum(cost_usd), count(*) "
    "FROM model_calls WHERE session_id = ? AND turn_id = ?"
)
_ENDPOINT = (
    f"SELECT provider, model FROM model_calls WHERE session_id = ? AND turn_id = ? AND {NOT_ASIDE} "
    "ORDER BY started_at DESC LIMIT 1"
)
_DURATION = "SELECT coalesce(ended_at - started_at, 0) FROM turns WHERE id = ?"
_STEPS = (
    "SELECT e.key, e.body FROM turns t JOIN events e ON e.session_id = t.session_id AND e.seq >= t.first_seq "
    "AND e.turn_id = t.id WHERE t.id = ? AND e.kind = 'step_done' ORDER BY e.seq"
)


class RecordedSteps(NamedTuple):
    """The finished steps of a turn."""

    #: What the model said, one text for each reply that has one.
    texts: list[str]
    tool_calls: list[ToolEnded]
    #: How often the model was asked.
    replies: int


def recorded_steps(store: Store, turn_id: str, session_id: str, task_id: str = "") -> RecordedSteps:
    """The steps of a turn that are recorded by now."""

    def read(connection: JournalConnection) -> list[tuple[str, Any]]:
        rows = connection.execute(_STEPS, (turn_id,)).fetchall()
        return [(key, unpack(connection, body)) for key, body in rows if key.startswith(("model:", "tool:"))]

    done = store.read(read)
    replies = [body["reply"]["content"] for key, body in done if key.startswith("model:")]
    calls = [_ended(session_id, turn_id, task_id, body) for key, body in done if key.startswith("tool:")]
    return RecordedSteps([text for text in replies if text], calls, len(replies))


def _ended(session_id: str, turn_id: str, task_id: str, body: dict[str, Any]) -> ToolEnded:
    return ToolEnded(
        tool_name=body["name"],
        session_id=session_id,
        task_id=task_id,
        turn_id=turn_id,
        api_request_id="",
        tool_call_id=body["id"],
        args=body["args"],
        result=body["result"],
        duration_ms=body["duration_ms"],
        status=body["status"],
        error_type=body["error_type"],
        error_message=body["error_message"],
        middleware_trace=[],
    )


def turn_usage(store: Store, session_id: str, turn_id: str) -> Usage:
    """The tokens that a turn used."""
    values = (session_id, turn_id)
    return Usage(*store.read(lambda connection: connection.execute(_USAGE, values).fetchone()))


def completed_result(store: Store, result: TurnResult) -> TurnResult:
    """A result with what the process that ran its turn knew: usage, model, steps and calls."""
    if result.model:
        return result  # it was run here
    values = (result.session_id, result.turn_id)

    def read(connection: JournalConnection) -> tuple[tuple[str, str], float]:
        endpoint = connection.execute(_ENDPOINT, values).fetchone()
        return endpoint or ("", ""), connection.execute(_DURATION, (result.turn_id,)).fetchone()[0]

    (provider, model), duration = store.read(read)
    steps = recorded_steps(store, result.turn_id, result.session_id)
    return replace(
        result,
        usage=turn_usage(store, *values),
        provider=provider,
        model=model,
        steps=steps.replies,
        tool_calls=steps.tool_calls,
        duration=max(duration, 0.0),
    )
