"""Record sink: makes the records of sessions while they run, from tracked events."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

from msgspec import UNSET
from msgspec.structs import replace

from hermes.base.sanitize import Redactor
from hermes.contract import events
from hermes.contract.response import to_plain
from hermes.trace.clean import Cleaner
from hermes.trace.conversation import LastRequest, context_of, tool_request, turns_from
from hermes.trace.records import (
    ApprovalRecord,
    AttemptRecord,
    Mark,
    RunStatus,
    SessionRecord,
    ToolStep,
    TurnRecord,
    UsageRecord,
    put_ended,
    running_tool,
)
from hermes.trace.tracker import WAITS, ApprovalEvent, OpenAttempt, OpenChild, OpenTool, OpenTurn, TraceSink, Tracker

_CHILD_STATUS: dict[str, RunStatus] = {"completed": "completed", "interrupted": "interrupted", "timeout": "interrupted"}


class Collector(TraceSink):
    """Collects the sessions of a host. Thread-safe.

    A plugin registers ``take`` as an event sink. ``session`` gives the record of a session as it is now, its children
    in it; ``forget`` drops it. What is kept grows with what is new in a run, never with the length of its requests.

    Nothing is exported from here without being redacted first; ``redactor`` may know more secrets than shapes do.
    """

    def __init__(self, redactor: Redactor | None = None, clock: Callable[[], float] = time.time) -> None:
        self._clean = Cleaner(redactor) if redactor is not None else Cleaner()
        self._clock = clock
        self._lock = threading.RLock()
        self._tracker = Tracker(self, clock=clock)
        self._sessions: dict[str, SessionRecord] = {}
        self._requests: dict[str, LastRequest] = {}

    def take(self, event: events.Event, at: float | None = None) -> None:
        """Take in an event, of ``at`` or of now."""
        with self._lock:
            self._tracker.take(event, at)

    # -- asking it ----------------------------------------------------------------------------------------------

    def session(self, session_id: str) -> SessionRecord | None:
        """The record of a session as it is now, or None when nothing was heard of it."""
        with self._lock:
            found = self._sessions.get(session_id)
            return None if found is None else found.as_of_now()

    def root_of(self, session_id: str) -> str:
        """The session that a user talks to, of which this one is a descendant, or it itself."""
        sessions = self._sessions
        with self._lock:
            while (found := sessions.get(session_id)) is not None and found.parent_id in sessions:
                session_id = found.parent_id
            return session_id

    def roots(self) -> list[str]:
        """The sessions that are no one's children, oldest first."""
        with self._lock:
            return [one.id for one in self._sessions.values() if one.parent_id not in self._sessions]

    def forget(self, session_id: str) -> None:
        """Drop a session with its descendants."""
        with self._lock:
            dropped = self._sessions.pop(session_id, None)
            self._requests.pop(session_id, None)
            for child in dropped.children if dropped is not None else ():
                self.forget(child.id)

    # -- sessions and turns -------------------------------------------------------------------------------------

    def session_started(self, event: events.SessionStarted, at: float) -> None:
        session = self._session(event.session_id, at)
        session.model, session.platform = event.model, event.platform

    def session_ended(self, event: events.SessionFinalized, at: float, *, is_child: bool) -> None:
        if (session := self._sessions.get(event.session_id)) is not None:
            session.ended_at = at

    def turn_started(self, turn: OpenTurn, event: events.TurnStarted | None, at: float) -> None:
        if event is None:
            return  # it continues here, and begins with its first request
        is_known = event.session_id in self._sessions
        session = self._session(event.session_id, at)
        if not is_known:
            session.turns += turns_from(event.conversation_history, session.started_at, self._clean)
        session.model, session.platform = session.model or event.model, session.platform or event.platform
        self._begin_turn(session, event, at)

    def turn_answered(self, turn: OpenTurn, event: events.TurnAnswered) -> None:
        if (record := self._turn(event.session_id, event.turn_id)) is not None:
            record.answer = self._clean.text(event.assistant_response)

    def turn_ended(self, turn: OpenTurn, event: events.TurnEnded | None, at: float, why: str = "") -> None:
        record = self._turn(turn.session_id, turn.id)
        if record is None or why == WAITS:
            return
        is_interrupted = event is None or event.interrupted
        record.error = self._clean.text(event.reason if event is not None else why)
        completed = event is not None and event.completed
        record.close("completed" if completed else "interrupted" if is_interrupted else "failed", at)

    def _session(self, session_id: str, at: float) -> SessionRecord:
        """The record of a session, a new one when nothing was heard of it before."""
        if session_id not in self._sessions:
            self._sessions[session_id] = SessionRecord(session_id, started_at=at)
        return self._sessions[session_id]

    def _turn(self, session_id: str, turn_id: str = "") -> TurnRecord | None:
        """The open turn, when it is that one: a call may end after its turn, and is then too late."""
        session = self._sessions.get(session_id)
        turn = session.open_turn() if session is not None else None
        return turn if turn is not None and turn_id in ("", turn.id) else None

    def _begin_turn(
        self, session: SessionRecord, event: events.TurnStarted | events.AttemptStarted, at: float
    ) -> TurnRecord:
        unended = session.open_turn()
        if unended is not None:  # its end was never heard of
            unended.close("interrupted", at)
        session.ended_at = None
        turn = TurnRecord(event.turn_id, event.task_id, self._clean.value(event.user_message), at)
        session.turns.append(turn)
        return turn

    # -- attempts -----------------------------------------------------------------------------------------------

    def attempt_started(self, attempt: OpenAttempt, at: float) -> None:
        event = attempt.event
        messages = event.conversation_history
        session = self._session(event.session_id, attempt.turn.started_at)
        session.platform, session.provider = session.platform or event.platform, session.provider or event.provider
        session.model = session.model or event.model
        turn = self._turn(event.session_id, event.turn_id)
        if turn is None:
            turn = self._begin_turn(session, event, attempt.turn.started_at)
            self._take_over(session, turn, messages)
        if not session.system_prompt and messages and messages[0].get("role") == "system":
            session.system_prompt = self._clean.text(str(messages[0].get("content") or ""))
        if not session.tools:
            session.tools = list(map(self._clean.value, event.tools))
        self._add_messages(session, turn, event)
        turn.step().add_attempt(AttemptRecord(event.api_request_id, event.provider, event.model, at, None, "running"))

    def _take_over(self, session: SessionRecord, turn: TurnRecord, messages: list[dict[str, Any]]) -> None:
        """A turn that another process left unfinished continues here: what came before is in its first request."""
        turns = turns_from([one for one in messages if one.get("role") != "system"], turn.started_at, self._clean)
        if not turns:
            return
        if len(session.turns) == 1:
            session.turns[:0] = turns[:-1]
        turn.steps = turns[-1].steps
        self._requests.setdefault(session.id, LastRequest()).advance(messages, is_new_turn=True)

    def _add_messages(self, session: SessionRecord, turn: TurnRecord, event: events.AttemptStarted) -> None:
        """Keep what this request has that the one before it had not."""
        known = self._requests.setdefault(session.id, LastRequest())
        new, compaction = known.advance(event.conversation_history, is_new_turn=not turn.steps)
        step = turn.step()
        step.messages += [self._clean.value(message) for message in new]
        if compaction:
            turn.marks.append(Mark("compacted", self._clock(), self._clean.value(compaction)))
        if len(turn.steps) == 1 and not turn.context:
            turn.context = self._clean.text(context_of(event.conversation_history, event.user_message))

    def attempt_answered(self, attempt: OpenAttempt | None, event: events.AttemptAnswered, at: float) -> None:
        turn = self._turn(event.session_id)
        if turn is None:
            return
        message: dict[str, Any] = {} if event.assistant_message is UNSET else to_plain(event.assistant_message) or {}
        step, model = turn.step(), event.response_model or event.model
        step.add_attempt(AttemptRecord(event.api_request_id, event.provider, model, event.started_at, at, "ok"))
        step.text, step.reasoning = (self._clean.text(message.get(name) or "") for name in ("content", "reasoning"))
        step.finish_reason = event.finish_reason
        step.usage = UsageRecord.from_counts(event.usage, event.cost_usd) or step.usage
        step.tool_calls = tuple(tool_request(call, self._clean) for call in message.get("tool_calls") or ())

    def attempt_failed(self, attempt: OpenAttempt | None, event: events.AttemptFailed, at: float) -> None:
        turn = self._turn(event.session_id)
        if turn is not None:
            text = self._clean.text(f"{event.error.get('type', 'error')}: {event.error.get('message', '')}")
            status = "interrupted" if event.reason == "interrupted" else "error"
            ids = (event.api_request_id, event.provider, event.model)
            turn.step().add_attempt(AttemptRecord(*ids, event.started_at, at, status, text))

    # -- tool calls and approvals -------------------------------------------------------------------------------

    def tool_started(self, tool: OpenTool, at: float) -> None:
        # The arguments may still change; those that count come with the end.
        event = tool.event
        turn = self._turn(event.session_id, event.turn_id)
        if turn is not None:
            tools = turn.tools_of(event.tool_call_id)
            earlier = running_tool(tools, event.tool_call_id)  # of two that run under one id, the later one is kept
            tools[:] = [one for one in tools if one is not earlier]
            tools.append(ToolStep(event.tool_call_id, event.tool_name, {}, at))

    def tool_ended(self, tool: OpenTool, event: events.ToolEnded | None, at: float, why: str = "") -> None:
        turn = self._turn(event.session_id, event.turn_id) if event is not None else None
        if event is None or turn is None:
            return
        tools = turn.tools_of(event.tool_call_id)
        record = running_tool(tools, event.tool_call_id)
        if record is None:  # it began before its turn was known here
            record = ToolStep(event.tool_call_id, event.tool_name, {}, tool.started_at)
        record.args, record.result = self._clean.value(event.args), self._clean.text(event.result)
        record.status, record.ended_at = event.status, at
        record.error_type, record.error_message = event.error_type or "", self._clean.text(event.error_message or "")
        put_ended(tools, record)

    def approval(self, subject: OpenTool | OpenTurn | None, event: ApprovalEvent, at: float) -> None:
        turn = self._turn(event.session_id, event.turn_id)
        tool = running_tool(turn.tools_of(event.tool_call_id), event.tool_call_id) if turn is not None else None
        if tool is None:
            return
        if isinstance(event, events.ApprovalRequested):
            rules = tuple(dict.fromkeys([event.pattern_key, *event.pattern_keys]))
            command = self._clean.text(event.command)
            asked = ApprovalRecord(event.tool_call_id, command, event.description, rules, event.surface, at)
            tool.approvals.append(asked)
            return
        for index, one in enumerate(tool.approvals):
            if not one.choice and one.rules[:1] == (event.pattern_key,):
                tool.approvals[index] = replace(one, answered_at=at, choice=event.choice)

    # -- child agents -------------------------------------------------------------------------------------------

    def child_started(self, child: OpenChild, at: float) -> None:
        event = child.event
        parent, record = self._session(event.parent_session_id, at), self._session(event.child_session_id, at)
        if not any(one is record for one in parent.children):
            parent.children.append(record)
        record.parent_id, record.parent_turn_id = parent.id, event.parent_turn_id
        record.parent_tool_call_id, record.subagent_id = event.tool_call_id, event.child_subagent_id
        record.role, record.goal = event.child_role, self._clean.text(event.child_goal)
        record.platform = record.platform or parent.platform

    def child_ended(self, parent: OpenTool | OpenTurn | None, event: events.ChildEnded, at: float) -> None:
        record = self._sessions.get(event.child_session_id)
        if record is not None:
            record.status = _CHILD_STATUS.get(event.child_status, "failed")
            record.ended_at = record.ended_at or at
