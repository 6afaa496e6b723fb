"""The report on a child agent, read from the journal, so that a resumed call gives the same one."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from hermes.agent.children.child import TIMED_OUT, Child
from hermes.base.errors import Interrupted, JournalError
from hermes.base.sanitize import Redactor
from hermes.base.scope import Scope
from hermes.journal.bodies import message_text
from hermes.journal.events import read_events, readable
from hermes.journal.history.rows import (
    SessionFacts,
    StoredCallRow,
    TurnFacts,
    calls_of,
    child_ids,
    session_facts,
    turns_of,
)
from hermes.journal.records import STEP_DONE, CallRecord, ReplyRecord, step_place
from hermes.journal.sessions import Sessions
from hermes.journal.store.connection import JournalConnection
from hermes.journal.store.port import Store
from hermes.journal.turns.steps import is_aside
from hermes.tools.results import is_marked

ChildStatus = Literal["completed", "failed", "interrupted", "timeout", "error"]
Record = dict[str, Any]

#: About what one line of a tool trace takes.
_TRACE_LINE = 90


class ChildReport(msgspec.Struct, frozen=True):
    """How a child ended, as its entry in the result."""

    status: ChildStatus
    fields: Record

    @property
    def summary(self) -> str:
        return self.fields["summary"]

    @property
    def error(self) -> str | None:
        return self.fields.get("error")

    @property
    def duration_ms(self) -> int:
        return int(self.fields["duration_seconds"] * 1000)


class _RecordedChild(msgspec.Struct, frozen=True):
    """What the journal has of a child: its one turn, with the records and model calls of that."""

    session: SessionFacts
    turn: TurnFacts
    last_at: float
    steps: dict[str, Any]
    calls: list[StoredCallRow]

    def ran_out_of_steps(self) -> bool:
        return "setup" in self.steps and f"model:{self.steps['setup'].max_steps + 1}" in self.steps


def _read(connection: JournalConnection, session_id: str) -> _RecordedChild | None:
    sessions, turns = session_facts(connection, [session_id]), turns_of(connection, session_id)
    if not sessions or not turns:
        return None
    events = list(read_events(connection, session_id))
    steps = {event.key: readable(event) for event in events if event.kind == STEP_DONE}
    return _RecordedChild(sessions[0], turns[0], events[-1].at, steps, calls_of(connection, session_id))


def report_on(child: Child, store: Store, redactor: Redactor, *, room: int, longest: int) -> ChildReport:
    """The report on a child that ended or was abandoned. ``room`` is what the whole entry may take, roughly."""
    recorded: _RecordedChild | None = None
    failure = child.failure
    try:
        recorded = store.read(lambda connection: _read(connection, child.session_id))
    except JournalError as error:
        failure = failure or error
    turn = None if recorded is None else recorded.turn
    status = _status(child, turn, failure)
    error = _error(child, turn, failure)
    ran_out = recorded is not None and recorded.ran_out_of_steps()
    exit_reason = "max_iterations" if status == "completed" and ran_out else status
    if status == "completed" and error is not None:  # there is an answer, but it is not whole
        exit_reason = "incomplete"
    fields: Record = {
        "task_index": child.assignment.index,
        "status": status,
        "summary": _bounded(_text(recorded), min(longest, room * 3 // 4), child.session_id),
        **_figures(recorded),
        "exit_reason": exit_reason,
        **_trace(recorded, room // 4),
        "session_id": child.session_id if recorded is not None else "",
    }
    if error is not None:
        fields["error"] = redactor.redact(error)
    if child.assignment.note:
        fields["note"] = child.assignment.note
    return ChildReport(status, fields)


def saw_untrusted(store: Store, scope: Scope) -> bool:
    """Whether a child of a call had untrusted text before it: its answer may repeat what that text asks for."""
    sessions, call = Sessions(store), scope.tool_call_id
    children = store.read(lambda connection: child_ids(connection, scope.session_id, call)) if call else []
    return any(
        is_marked(message_text(message))
        for child in children
        for message in sessions.messages(child)
        if message["role"] == "tool"
    )


def _status(child: Child, turn: TurnFacts | None, failure: BaseException | None) -> ChildStatus:
    if failure is not None:
        return "interrupted" if isinstance(failure, Interrupted) else "error"
    match turn and turn.state:
        case "completed":
            return "completed"
        case "failed":
            return "failed"
        case _:
            return "timeout" if _reason(child, turn).startswith(TIMED_OUT) else "interrupted"


def _error(child: Child, turn: TurnFacts | None, failure: BaseException | None) -> str | None:
    if failure is not None:
        return str(failure) or type(failure).__name__
    if turn is None:
        return f"not started ({child.interrupt.reason or 'interrupted'})"
    if turn.state == "running" and child.stopping:
        return f"{_reason(child, turn)}; it did not stop in time and was abandoned"
    return turn.error if turn.state == "completed" else _reason(child, turn)


def _reason(child: Child, turn: TurnFacts | None) -> str:
    recorded = turn.error if turn is not None else None
    return recorded or child.interrupt.reason or "interrupted"


def _text(recorded: _RecordedChild | None) -> str:
    """The answer, or what there is of one, or what was said last on the way there."""
    if recorded is None or recorded.turn.answer:
        return "" if recorded is None else recorded.turn.answer or ""
    replies = [step.reply for step in recorded.steps.values() if isinstance(step, ReplyRecord)]
    said = [reply.content for reply in replies if reply.tool_calls and reply.content]
    return said[-1] if said else ""


def _figures(recorded: _RecordedChild | None) -> Record:
    if recorded is None:
        return {"api_calls": 0, "duration_seconds": 0.0, "model": "", "tokens": {"input": 0, "output": 0}}
    turn, calls = recorded.turn, recorded.calls
    answered = [call.model for call in calls if call.status == "ok" and not is_aside(call.key)]
    seconds = max((turn.ended_at or recorded.last_at) - turn.started_at, 0.0)
    return {
        "api_calls": sum(not is_aside(call.key) for call in calls),
        "duration_seconds": round(seconds, 3),
        "model": answered[-1] if answered else recorded.session.model,
        "tokens": {
            "input": sum(call.read_tokens or 0 for call in calls),
            "output": sum(call.output_tokens or 0 for call in calls),
        },
    }


def _trace(recorded: _RecordedChild | None, room: int) -> Record:
    """The tool calls of the child in the order in which it made them; of very many, the last ones and their number."""
    steps = {} if recorded is None else recorded.steps
    calls: list[CallRecord] = [steps[key] for key in sorted(steps, key=step_place) if key.startswith("tool:")]
    lines = [
        {
            "tool": call.name,
            "args_bytes": len(msgspec.json.encode(call.args)),
            "result_bytes": len(call.result.encode("utf-8", "replace")),
            "status": call.status,
        }
        for call in calls
    ]
    shown = lines[-max(room // _TRACE_LINE, 1) :]
    return {"tool_trace": shown} if len(shown) == len(lines) else {"tool_trace": shown, "tool_calls": len(lines)}


def _bounded(text: str, longest: int, session_id: str) -> str:
    if len(text) <= longest:
        return text
    left_out = len(text) - longest
    return f"{text[:longest]}\n[{left_out} characters left out; the whole text is in session {session_id}]"
