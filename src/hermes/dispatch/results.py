"""Results of turns as the journal has them, for surfaces whose turns another process ran."""

from __future__ import annotations

from typing import NamedTuple

from msgspec.structs import replace

from hermes.agent.events import TurnResult
from hermes.contract.events import ToolEnded
from hermes.journal.events import read_turn
from hermes.journal.records import CallRecord, DispatchRecord, ReplyRecord
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


class RecordedSteps(NamedTuple):
    """The finished steps of a turn."""

    #: What the model said, one text for each reply that has one.
    texts: list[str]
    tool_calls: list[ToolEnded]
    #: How often the model was asked.
    replies: int


def recorded_steps(store: Store, turn_id: str, session_id: str, task_id: str = "") -> RecordedSteps:
    """The steps of a turn that are recorded by now."""

    replies, calls = list[str](), list[ToolEnded]()
    for event in store.read(lambda connection: list(read_turn(connection, session_id, turn_id))):
        match event.record:
            case ReplyRecord(reply=reply):
                replies.append(reply.content)
            case DispatchRecord():
                pass  # a plugin made the call, not the model
            case CallRecord() as call:
                calls.append(_ended(session_id, turn_id, task_id, call))
            case _:
                pass
    return RecordedSteps([text for text in replies if text], calls, len(replies))


def _ended(session_id: str, turn_id: str, task_id: str, call: CallRecord) -> ToolEnded:
    return ToolEnded(
        tool_name=call.name,
        session_id=session_id,
        task_id=task_id,
        turn_id=turn_id,
        api_request_id="",
        tool_call_id=call.id,
        args=call.args,
        result=call.result,
        duration_ms=call.duration_ms,
        status=call.status,
        error_type=call.error_type,
        error_message=call.error_message,
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
