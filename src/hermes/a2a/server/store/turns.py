"""The turns of tasks in the journal, as the next server finds them after a crash."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hermes.contract.events import ToolEnded
from hermes.host import Host
from hermes.journal.connection import JournalConnection
from hermes.journal.steps import TurnState


@dataclass(frozen=True, slots=True)
class RecordedTurn:
    """What the journal has of the turn of a task."""

    state: TurnState
    #: What the model said, step by step.
    texts: list[str]
    #: The calls that ended.
    tool_calls: list[ToolEnded]


def recorded_turn(host: Host, session_id: str, task_id: str, *, shows_text: bool) -> RecordedTurn | None:
    """The turn that answers a task; None when its message was never accepted.

    Without ``shows_text`` the texts are left out, because a plugin may replace them.
    """
    turn = host.sessions.turn_of(session_id, task_id)
    if turn is None:
        return None
    done = [
        event
        for event in host.sessions.events(session_id)
        if event["turn_id"] == turn["id"] and event["kind"] == "step_done"
    ]
    said = [event["body"]["reply"]["content"] for event in done if event["key"].startswith("model:")]
    calls = [_ended(session_id, task_id, event) for event in done if event["key"].startswith("tool:")]
    return RecordedTurn(turn["state"], [text for text in said if text] if shows_text else [], calls)


def _ended(session_id: str, task_id: str, event: dict[str, Any]) -> ToolEnded:
    body = event["body"]
    return ToolEnded(
        tool_name=body["name"],
        session_id=session_id,
        task_id=task_id,
        turn_id=event["turn_id"],
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


def left_turns(host: Host, platform: str) -> list[tuple[str, str]]:
    """The session and the request key of every turn that a dead process of this platform left open."""
    query = (
        "SELECT s.id, t.request_key, s.runner FROM turns t JOIN sessions s ON s.id = t.session_id "
        "WHERE t.state = 'running' AND s.platform = ? AND s.parent_id IS NULL"
    )

    def read(connection: JournalConnection) -> list[tuple[str, str, str | None]]:
        return connection.execute(query, (platform,)).fetchall()

    rows = host.store.read(read)
    return [(session_id, key) for session_id, key, owner in rows if owner is None or not host.runner.is_alive(owner)]
