"""Results of turns as the journal has them, for surfaces whose turns another process ran."""

from __future__ import annotations

from typing import NamedTuple

from msgspec.structs import replace

from hermes.agent.events import TurnResult
from hermes.contract.events import ToolEnded
from hermes.journal.events import read_turn
from hermes.journal.history.rows import find_turn
from hermes.journal.records import CallRecord, DispatchRecord, ReplyRecord
from hermes.journal.store.port import Store
from hermes.journal.usage.sums import turn_endpoint, turn_sums
from hermes.models.costs.usage import Usage


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
    return Usage(*store.read(lambda connection: turn_sums(connection, session_id, turn_id)))


def completed_result(store: Store, result: TurnResult) -> TurnResult:
    """A result with what the process that ran its turn knew: usage, model, steps and calls."""
    if result.model:
        return result  # it was run here
    values = (result.session_id, result.turn_id)
    provider, model = store.read(lambda connection: turn_endpoint(connection, *values))
    turn = store.read(lambda connection: find_turn(connection, result.turn_id))
    duration = 0.0 if turn is None or turn.ended_at is None else turn.ended_at - turn.started_at
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
