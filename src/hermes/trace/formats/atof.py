"""A run as ATOF 0.1: one JSON event per line, a start and an end for every scope, in order of time."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any

import msgspec

from hermes.trace.formats.atif_parts import iso, no_nulls
from hermes.trace.records import AttemptRecord, ModelStep, SessionRecord, SideCall, ToolStep, TurnRecord, UsageRecord

VERSION = "0.1"

Event = dict[str, Any]

CANNOT_HOLD = (
    "A turn as a scope: its start and end are marks.",
    "Whole requests: the start of a model call has what is new in it, so that a stream grows with the run and not "
    "with its square.",
    "What has no end yet: it is ended where the record stops, with the status 'unfinished'.",
    "Turns that a branch took over: they belong to the session where they happened.",
    "The system prompt and the tools: they are on the start of the session's scope.",
)


def events(session: SessionRecord) -> list[Event]:
    """Every event of a session and its descendants, ordered by time."""
    stream = _Stream()
    stream.add_session(session, None)
    return stream.sorted()


def lines(session: SessionRecord) -> Iterator[bytes]:
    """The same as lines of JSON, without line ends."""
    encode = msgspec.json.Encoder().encode
    for event in events(session):
        yield encode(event)


class _Stream:
    """Events in the making, each with its moment in microseconds and its place among those of the same moment."""

    def __init__(self) -> None:
        self._events: list[tuple[int, int, Event]] = []

    def sorted(self) -> list[Event]:
        self._events.sort(key=lambda entry: entry[:2])
        return [event for _, _, event in self._events]

    # -- sessions and turns -------------------------------------------------------------------------------------

    def add_session(self, session: SessionRecord, parent: str | None) -> int:
        """Add a session with everything in it; when it ended."""
        ids = {"session_id": session.id, "trajectory_id": session.id, "platform": session.platform or None}
        scope = _Scope(_uuid(f"session:{session.id}"), parent, "hermes", "agent", None, no_nulls(ids))
        start = _micros(_began(session))
        data = no_nulls(
            {
                "session_id": session.id,
                "system_prompt": session.system_prompt or None,
                "tools": list(session.tools) or None,
            }
        )
        self._scope_event(scope, "start", start, data, {"model": session.model, "provider": session.provider})
        end = start
        children = session.children_by_call()
        for turn in session.turns:
            if not turn.copied:
                end = max(end, self._add_turn(turn, scope, children))
        for left in children.values():
            for child in left:
                end = max(end, self._add_child(child, scope, {}))
        for call in session.side_calls:
            end = max(end, self._add_side_call(call, scope, {}))
        if session.ended_at is not None:
            end = max(end, _micros(session.ended_at))
        for mark in session.marks:
            self._mark(f"hermes.{mark.name}", _micros(mark.at), scope, mark.data, {})
        self._mark("hermes.session.end", end + 1, scope, None, {"status": session.status})
        self._scope_event(scope, "end", end + 2, {"status": session.status}, {"status": session.status})
        return end + 2

    def _add_turn(self, turn: TurnRecord, scope: _Scope, children: dict[tuple[str, str], list[SessionRecord]]) -> int:
        ids = no_nulls({"turn_id": turn.id, "task_id": turn.task_id or None, "undone": turn.undone or None})
        start = end = _micros(turn.started_at)
        self._mark("hermes.turn.start", start, scope, {"user_message": turn.user_message}, ids)
        for step in turn.steps:
            answered = self._add_attempts(step, scope, ids)
            for tool in step.tools:
                end = max(end, self._add_tool(tool, scope, ids, f"{step.number}", answered))
            end = max(end, answered)
        for tool in turn.other_tools:
            end = max(end, self._add_tool(tool, scope, ids, "", start))
        for tool in turn.tools():
            for child in children.pop((turn.id, tool.tool_call_id), ()):
                end = max(end, self._add_child(child, scope, ids))
        for call in turn.side_calls:
            end = max(end, self._add_side_call(call, scope, ids))
        for mark in turn.marks:
            self._mark(f"hermes.turn.{mark.name}", _micros(mark.at), scope, mark.data or None, ids)
        if turn.ended_at is not None:
            end = max(end, _micros(turn.ended_at)) + 1
            data = no_nulls({"answer": turn.answer or None, "error": turn.error or None})
            self._mark("hermes.turn.end", end, scope, data, {**ids, "status": turn.status})
        return end

    def _add_child(self, child: SessionRecord, scope: _Scope, ids: Event) -> int:
        family = no_nulls(
            {
                **ids,
                "session_id": child.id,
                "parent_session_id": child.parent_id,
                "child_session_id": child.id,
                "parent_trajectory_id": child.parent_id,
                "child_trajectory_id": child.id,
                "tool_call_id": child.parent_tool_call_id or None,
                "subagent_id": child.subagent_id or None,
                "child_role": child.role or None,
            }
        )
        start = _micros(child.started_at)
        self._mark("hermes.subagent.start", start, scope, {"goal": child.goal} if child.goal else None, family)
        end = self.add_session(child, scope.uuid) + 1
        self._mark("hermes.subagent.stop", end, scope, None, {**family, "status": child.status})
        return end

    # -- model and tool calls -----------------------------------------------------------------------------------

    def _add_attempts(self, step: ModelStep, session: _Scope, ids: Event) -> int:
        end = 0
        for attempt in step.attempts:
            asked = {"messages": list(step.messages)}
            end = self._add_attempt(attempt, session, ids, asked, _outcome(step, attempt))
        return end

    def _add_side_call(self, call: SideCall, session: _Scope, ids: Event) -> int:
        """A question beside the conversation: what was said in it is not recorded."""
        attempt = call.attempt
        data = _spent(call.usage) if attempt.status == "ok" else {"error": attempt.error}
        return self._add_attempt(attempt, session, {**ids, "purpose": call.purpose}, None, data)

    def _add_attempt(
        self, attempt: AttemptRecord, session: _Scope, ids: Event, asked: Event | None, data: Event
    ) -> int:
        about = {**ids, "api_request_id": attempt.api_request_id}
        about |= {"provider": attempt.provider, "model": attempt.model}
        key = f"session:{session.metadata['session_id']}:{attempt.api_request_id}"
        scope = session.inside(_uuid(key), attempt.provider or "unknown", "llm", {"model_name": attempt.model}, about)
        start = _micros(attempt.started_at)
        end = _end(start, attempt.ended_at)
        self._scope_event(scope, "start", start, asked, {})
        self._scope_event(scope, "end", end, data, {"status": _status(attempt.status)})
        return end

    def _add_tool(self, tool: ToolStep, session: _Scope, ids: Event, step: str, after: int) -> int:
        """A call begins after the answer that asked for it, however coarsely its start was measured."""
        about = {**ids, "tool_call_id": tool.tool_call_id}
        key = f"session:{session.metadata['session_id']}:{ids['turn_id']}:{step}:{tool.tool_call_id}"
        profile = {"tool_call_id": tool.tool_call_id}
        scope = session.inside(_uuid(key), tool.name, "tool", profile, about)
        start = max(_micros(tool.started_at), after + 1)
        end = _end(start, tool.ended_at)
        status = no_nulls({"status": _status(tool.status), "error_type": tool.error_type or None})
        self._scope_event(scope, "start", start, tool.args, {})
        for one in tool.approvals:
            asked = max(_micros(one.asked_at), start)
            question = {"command": one.command, "description": one.description, "rules": list(one.rules)}
            metadata = {**about, "surface": one.surface}
            self._mark("hermes.approval.request", asked, session, question, metadata)
            if one.answered_at is not None:
                at = max(_micros(one.answered_at), asked)
                self._mark("hermes.approval.response", at, session, None, {**metadata, "choice": one.choice})
        self._scope_event(scope, "end", end, tool.result, status)
        return end

    # -- events -------------------------------------------------------------------------------------------------

    def _scope_event(self, scope: _Scope, phase: str, at: int, data: Any, metadata: Event) -> None:
        self._put(
            at,
            {
                "kind": "scope",
                "atof_version": VERSION,
                "category": scope.category,
                "category_profile": scope.profile,
                "name": scope.name,
                "scope_category": phase,
                "attributes": [],
                "uuid": scope.uuid,
                "timestamp": iso(at / 1_000_000),
                "data": data,
                "metadata": {**scope.metadata, **metadata},
            },
            scope.parent,
        )

    def _mark(self, name: str, at: int, scope: _Scope, data: Any, metadata: Event) -> None:
        event = {
            "kind": "mark",
            "atof_version": VERSION,
            "name": name,
            "uuid": _uuid(f"mark:{len(self._events)}:{scope.uuid}:{name}"),
            "timestamp": iso(at / 1_000_000),
            "data": data,
            "metadata": {**scope.metadata, **metadata},
        }
        self._put(at, event, scope.uuid)

    def _put(self, at: int, event: Event, parent: str | None) -> None:
        event["parent_uuid"] = parent
        self._events.append((at, len(self._events), event))


class _Scope(msgspec.Struct, frozen=True):
    """What the start and the end of a scope have in common."""

    uuid: str
    parent: str | None
    name: str
    category: str
    profile: Event | None
    metadata: Event

    def inside(self, uuid: str, name: str, category: str, profile: Event, metadata: Event) -> _Scope:
        """A scope within this one."""
        return _Scope(uuid, self.uuid, name, category, profile, {**self.metadata, **metadata})


def _uuid(name: str) -> str:
    """The same run gives the same ids, however often it is exported."""
    return str(uuid.uuid5(uuid.NAMESPACE_OID, f"hermes:{name}"))


def _micros(at: float) -> int:
    return round(at * 1_000_000)


def _began(session: SessionRecord) -> float:
    """When a session began: a request may have been seen before its start."""
    firsts = [turn.steps[0].started_at for turn in session.turns[:1] if turn.steps]
    return min([session.started_at, *(turn.started_at for turn in session.turns[:1]), *firsts])


def _end(start: int, ended_at: float | None) -> int:
    """An end is later than its start, by whatever little."""
    return start + 1 if ended_at is None else max(_micros(ended_at), start + 1)


def _status(status: str) -> str:
    return "unfinished" if status == "running" else status


def _outcome(step: ModelStep, attempt: AttemptRecord) -> Event:
    if attempt.status != "ok":
        return {"error": attempt.error}
    encode = msgspec.json.encode
    calls = [{"id": one.id, "name": one.name, "arguments": encode(one.arguments).decode()} for one in step.tool_calls]
    message = no_nulls(
        {
            "role": "assistant",
            "content": step.text,
            "reasoning_content": step.reasoning or None,
            "tool_calls": calls or None,
        }
    )
    return {"assistant_message": message, "finish_reason": step.finish_reason, **_spent(step.usage)}


def _spent(usage: UsageRecord | None) -> Event:
    if usage is None:
        return {}
    counts = {
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.output_tokens,
        "total_tokens": usage.total_tokens,
        "cached_tokens": usage.cache_read_tokens,
        "reasoning_tokens": usage.reasoning_tokens,
        "cost_usd": usage.cost_usd,
    }
    return {"usage": no_nulls(counts)}
