"""The report on a child agent, read from the journal, so that a resumed call gives the same one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import msgspec

from hermes.agent.children.child import TIMED_OUT, Child
from hermes.errors import Interrupted, JournalError
from hermes.journal.bodies import message_text
from hermes.journal.history.rows import child_ids
from hermes.journal.sessions import Sessions
from hermes.journal.store.port import Store
from hermes.journal.turns.steps import is_aside
from hermes.sanitize import Redactor
from hermes.scope import Scope
from hermes.tools.results import is_marked

ChildStatus = Literal["completed", "failed", "interrupted", "timeout", "error"]
Record = dict[str, Any]

#: About what one line of a tool trace takes.
_TRACE_LINE = 90


@dataclass(frozen=True, slots=True)
class ChildReport:
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


def report_on(child: Child, store: Store, redactor: Redactor, *, room: int, longest: int) -> ChildReport:
    """The report on a child that ended or was abandoned. ``room`` is what the whole entry may take, roughly."""
    records: list[Record] = []
    failure = child.failure
    try:
        if child.state() is not None:
            records = Sessions(store).export(child.session_id)
    except JournalError as error:
        failure = failure or error
    turn = next((record for record in records if record["record"] == "turn"), None)
    status = _status(child, turn, failure)
    error = _error(child, turn, failure)
    exit_reason = "max_iterations" if status == "completed" and _ran_out_of_steps(records) else status
    if status == "completed" and error is not None:  # there is an answer, but it is not whole
        exit_reason = "incomplete"
    fields: Record = {
        "task_index": child.assignment.index,
        "status": status,
        "summary": _bounded(_text(records, turn), min(longest, room * 3 // 4), child.session_id),
        **_figures(records, turn),
        "exit_reason": exit_reason,
        **_trace(records, room // 4),
        "session_id": child.session_id if records else "",
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


def _status(child: Child, turn: Record | None, failure: BaseException | None) -> ChildStatus:
    if failure is not None:
        return "interrupted" if isinstance(failure, Interrupted) else "error"
    match turn and turn["state"]:
        case "completed":
            return "completed"
        case "failed":
            return "failed"
        case _:
            return "timeout" if _reason(child, turn).startswith(TIMED_OUT) else "interrupted"


def _error(child: Child, turn: Record | None, failure: BaseException | None) -> str | None:
    if failure is not None:
        return str(failure) or type(failure).__name__
    if turn is None:
        return f"not started ({child.interrupt.reason or 'interrupted'})"
    if turn["state"] == "running" and child.stopping:
        return f"{_reason(child, turn)}; it did not stop in time and was abandoned"
    return turn["error"] if turn["state"] == "completed" else _reason(child, turn)


def _reason(child: Child, turn: Record | None) -> str:
    recorded: str | None = turn["error"] if turn is not None else None
    return recorded or child.interrupt.reason or "interrupted"


def _text(records: list[Record], turn: Record | None) -> str:
    """The answer, or what there is of one, or what was said last on the way there."""
    answer: str | None = turn["answer"] if turn is not None else None
    if answer:
        return answer
    messages = [record["message"] for record in records if record["record"] == "message"]
    said = [message["content"] for message in messages if message.get("tool_calls") and message.get("content")]
    return said[-1] if said else ""


def _figures(records: list[Record], turn: Record | None) -> Record:
    calls = [record for record in records if record["record"] == "model_call"]
    answered = [call["model"] for call in calls if call["status"] == "ok" and not is_aside(call["key"])]
    session = records[0] if records else {"model": ""}
    seconds = 0.0
    if turn is not None:
        last = turn["ended_at"] or max((r["at"] for r in records if r["record"] == "event"), default=0.0)
        seconds = max(last - turn["started_at"], 0.0)
    return {
        "api_calls": sum(not is_aside(call["key"]) for call in calls),
        "duration_seconds": round(seconds, 3),
        "model": answered[-1] if answered else session["model"],
        "tokens": {
            "input": sum(_total(call, "input_tokens", "cache_read_tokens", "cache_write_tokens") for call in calls),
            "output": sum(_total(call, "output_tokens") for call in calls),
        },
    }


def _total(call: Record, *names: str) -> int:
    return sum(call[name] or 0 for name in names)


def _ran_out_of_steps(records: list[Record]) -> bool:
    steps = {r["key"]: r["body"] for r in records if r["record"] == "event" and r["kind"] == "step_done"}
    return "setup" in steps and f"model:{steps['setup']['max_steps'] + 1}" in steps


def _trace(records: list[Record], room: int) -> Record:
    """The tool calls of the child in the order in which it made them; of very many, the last ones and their number."""
    calls: dict[tuple[int, int], Record] = {}
    for record in records:
        if record["record"] == "event" and record["kind"] == "step_done" and record["key"].startswith("tool:"):
            step, index = record["key"].removeprefix("tool:").split(".")
            calls[int(step), int(index)] = record["body"]
    lines = [
        {
            "tool": body["name"],
            "args_bytes": len(msgspec.json.encode(body["args"])),
            "result_bytes": len(body["result"].encode("utf-8", "replace")),
            "status": body["status"],
        }
        for _, body in sorted(calls.items())
    ]
    shown = lines[-max(room // _TRACE_LINE, 1) :]
    return {"tool_trace": shown} if len(shown) == len(lines) else {"tool_trace": shown, "tool_calls": len(lines)}


def _bounded(text: str, longest: int, session_id: str) -> str:
    if len(text) <= longest:
        return text
    left_out = len(text) - longest
    return f"{text[:longest]}\n[{left_out} characters left out; the whole text is in session {session_id}]"
