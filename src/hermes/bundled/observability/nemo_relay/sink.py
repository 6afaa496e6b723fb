"""Relay sink: tracked events as scopes, spans and marks of the NeMo Relay runtime."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from msgspec import UNSET
from msgspec.structs import asdict

from hermes.base.sanitize import sanitise
from hermes.contract import events
from hermes.contract.response import to_plain
from hermes.trace.clean import Cleaner
from hermes.trace.tracker import WAITS, ApprovalEvent, OpenAttempt, OpenChild, OpenTool, OpenTurn, TraceSink, Tracker

from .relay import Kind, Relay
from .runtime_exporters import RuntimeExporters
from .sessions import Clock, RelaySpan, SessionScope

Fields = dict[str, Any]

#: What every event carries, as far as it has it.
_IDS = tuple("session_id task_id turn_id api_request_id tool_call_id provider model platform status reason".split())
#: What an end may have beside its status.
_ENDINGS = ("error_type", "reason", "status_code")
_FAILURES = frozenset({"error", "timeout"})


class RelaySink(TraceSink):
    """The sessions of one host in the runtime."""

    def __init__(self, relay: Relay, exporters: RuntimeExporters, clock: Clock, clean: Cleaner) -> None:
        self._relay = relay
        self._exporters = exporters
        self._clock = clock
        self.clean = clean
        self._lock = threading.RLock()
        self.forget()

    def forget(self) -> None:
        """Drop everything without a word, in a process that was forked."""
        self.tracker = Tracker(self, clock=self._clock.event_seconds)
        self._scopes: dict[str, SessionScope] = {}
        #: Children that were announced.
        self._children: dict[str, events.ChildStarted] = {}

    def take(self, event: events.Event) -> None:
        """Take in an event; its time is the clock's."""
        if isinstance(event, events.SessionReset):
            if event.old_session_id and event.old_session_id != event.new_session_id:
                self.close(event.old_session_id, reason=event.reason)
        else:
            self.tracker.take(event)

    # -- sessions -----------------------------------------------------------------------------------------------

    def find(self, session_id: str) -> SessionScope | None:
        return self._scopes.get(session_id)

    def _scope(self, session_id: str, event: events.Event | None = None) -> SessionScope:
        """The scope of a session; it begins with the first thing that is heard of it."""
        with self._lock:
            known = self._scopes.get(session_id)
            if known is not None:
                return known
            child = self._children.get(session_id)
            parent = self._scopes.get(child.parent_session_id) if child is not None else None
            about = about_of({name: getattr(event, name, "") for name in ("model", "platform")}, session_id)
            if child is not None and parent is not None:
                # The runtime knows by these which call a child belongs to.
                about["nemo_relay_scope_role"] = "subagent"
                about["parent_session_id"] = parent.id
                about["parent_tool_call_id"] = child.tool_call_id
            made = SessionScope(self._relay, self._clock, session_id, parent=parent, about=about)
            self._scopes[session_id] = made
        self._exporters.count()
        return made

    def session_started(self, event: events.SessionStarted, at: float) -> None:
        self._scope(event.session_id, event)

    def session_ended(self, event: events.SessionFinalized, at: float, *, is_child: bool) -> None:
        self.close(event.session_id, reason=event.reason)

    def close(self, session_id: str, **more: Any) -> None:
        """End a session's scope, after those of children it left behind and what is open in it."""
        with self._lock:
            scope = self._scopes.get(session_id)
            if scope is None:
                return
            for child in [one for one in self._scopes.values() if one.parent is scope]:
                self.close(child.id, status="cancelled")
            self.tracker.abandon("the session ended first", session_id=session_id)
            del self._scopes[session_id]
        about = {**scope.about, **about_of(more, session_id)}
        self._mark(scope, "hermes.session.end", about)
        scope.close(about)
        self._exporters.count()

    def close_all(self) -> None:
        """End whatever is open, because the process ends."""
        for session_id in list(self._scopes):
            self.close(session_id, status="cancelled", reason="exit")

    # -- turns --------------------------------------------------------------------------------------------------

    def turn_started(self, turn: OpenTurn, event: events.TurnStarted | None, at: float) -> None:
        if event is not None:
            data = {"user_message": self.clean.value(event.user_message)}
            self._mark(self._scope(event.session_id, event), "hermes.turn.start", about_event(event), data)

    def turn_ended(self, turn: OpenTurn, event: events.TurnEnded | None, at: float, why: str = "") -> None:
        if event is None:
            return
        status = "completed" if event.completed else "interrupted" if event.interrupted else "failed"
        data = {"completed": event.completed, "interrupted": event.interrupted, "reason": self.clean.text(event.reason)}
        about = about_event(event, status=status, reason="")
        self._mark(self._scope(event.session_id, event), "hermes.turn.end", about, data)

    # -- attempts -----------------------------------------------------------------------------------------------

    def attempt_started(self, attempt: OpenAttempt, at: float) -> None:
        event = attempt.event
        scope = self._scope(event.session_id, event)
        request, about = self._request(scope, event), about_event(event)
        attempt.span = self._begin(scope, "llm", event.provider or "model", request, about, model_name=event.model)

    def _request(self, scope: SessionScope, event: events.AttemptStarted) -> dict[str, Any]:
        """The request as its span shows it: what the session's last one had is not shown again."""
        messages = event.request_messages
        before = 0 if self._exporters.shows_full_requests else len(scope.messages)
        if scope.messages != messages[:before]:
            before = 0
        scope.messages = messages
        around = {"tools": event.tools, "max_tokens": event.max_tokens}
        around = {name: value for name, value in around.items() if value}
        is_new = not before or around != scope.request
        scope.request = around
        shown: dict[str, Any] = self.clean.value(around) if is_new else {}
        shown["model"] = event.model
        shown["messages"] = self.clean.value(messages[before:])
        if before:
            shown["messages_before"] = before
        return shown

    def attempt_answered(self, attempt: OpenAttempt | None, event: events.AttemptAnswered, at: float) -> None:
        message: Fields = {} if event.assistant_message is UNSET else to_plain(event.assistant_message) or {}
        data = {
            "assistant_message": self._reply(message),
            "finish_reason": event.finish_reason,
            "model": event.response_model,
            "usage": event.usage,
        }
        self._end(attempt, event, data, "ok", "hermes.api.response.unmatched")

    def _reply(self, message: dict[str, Any]) -> dict[str, Any]:
        """A reply in the form of the observer contract: its calls have names and arguments of their own."""
        reply: dict[str, Any] = {"role": "assistant", "content": self.clean.text(message.get("content") or "")}
        if message.get("reasoning"):
            reply["reasoning_content"] = self.clean.text(message["reasoning"])
        calls: list[dict[str, Any]] = message.get("tool_calls") or []
        reply["tool_calls"] = [{"id": call.get("id"), **self._function(call.get("function") or {})} for call in calls]
        return reply

    def _function(self, function: dict[str, Any]) -> dict[str, Any]:
        return {"name": function.get("name"), "arguments": self.clean.text(function.get("arguments") or "")}

    def attempt_failed(self, attempt: OpenAttempt | None, event: events.AttemptFailed, at: float) -> None:
        status = "cancelled" if event.reason == "interrupted" else "error"
        data = {name: getattr(event, name) for name in ("error", "reason", "retryable", "retry_count")}
        self._end(attempt, event, self.clean.value(data), status, "hermes.api.error")

    def attempt_abandoned(self, attempt: OpenAttempt, at: float, why: str) -> None:
        self._abandon(attempt)

    # -- tool calls and approvals -------------------------------------------------------------------------------

    def tool_started(self, tool: OpenTool, at: float) -> None:
        event = tool.event
        if isinstance(event, events.ToolEnded):
            return  # its start was never heard of
        scope, args = self._scope(event.session_id, event), self.clean.value(event.args)
        about, call_id = about_event(event), event.tool_call_id
        tool.span = self._begin(scope, "tool", event.tool_name, args, about, tool_call_id=call_id)

    def tool_ended(self, tool: OpenTool, event: events.ToolEnded | None, at: float, why: str = "") -> None:
        if event is None:
            self._abandon(tool, "waiting" if why == WAITS else "cancelled")
        else:
            result = self.clean.text(event.result)
            self._end(tool, event, result, event.status, "hermes.tool.response.unmatched")

    def approval(self, subject: OpenTool | OpenTurn | None, event: ApprovalEvent, at: float) -> None:
        answered = isinstance(event, events.ApprovalAnswered)
        about = about_event(event, **({"status": event.choice} if answered else {}))
        data = {name: value for name, value in asdict(event).items() if name not in _IDS and value is not UNSET}
        name = "hermes.approval.response" if answered else "hermes.approval.request"
        self._mark(self._scope(event.session_id, event), name, about, self.clean.value(data))

    # -- child agents -------------------------------------------------------------------------------------------

    def child_started(self, child: OpenChild, at: float) -> None:
        event = child.event
        self._children[event.child_session_id] = event
        data = {"goal": self.clean.text(event.child_goal)}
        self._mark(self._scope(event.parent_session_id), "hermes.subagent.start", _family(event), data)

    def child_ended(self, parent: OpenTool | OpenTurn | None, event: events.ChildEnded, at: float) -> None:
        self.close(event.child_session_id, status=event.child_status)  # no more is heard of a child that is over
        self._children.pop(event.child_session_id, None)
        data = {"summary": self.clean.text(event.child_summary), "duration_ms": event.duration_ms}
        about = {**_family(event), "status": event.child_status}
        self._mark(self._scope(event.parent_session_id), "hermes.subagent.stop", about, data)

    # -- spans and marks ----------------------------------------------------------------------------------------

    def _begin(self, scope: SessionScope, kind: Kind, name: str, content: Any, about: Fields, **more: Any) -> RelaySpan:
        """Begin a span. One that may turn out to be managed is begun when it is known not to be."""
        fields = {"handle": scope.handle, "metadata": about, "timestamp": self._clock.now(), **more}
        span = RelaySpan(
            kind, lambda: _as_data(lambda data: scope.run(self._relay.begin, kind, name, data, **fields), content)
        )
        if not self._exporters.managed_mode:
            span.open()
        self._exporters.count()
        return span

    def _end(
        self,
        item: OpenAttempt | OpenTool | None,
        event: events.AttemptAnswered | events.AttemptFailed | events.ToolEnded,
        result: Any,
        status: str,
        unmatched: str,
    ) -> None:
        scope = self._scope(event.session_id, event)
        if item is None or item.span is None:
            data = {"tool_name": getattr(event, "tool_name", None), "result": result}
            self._mark(scope, unmatched, about_event(event, status=status), data)
            return
        # The runtime adds what the start said.
        about = {name: value for name in _ENDINGS if (value := getattr(event, name, None)) not in (None, "")}
        about["status"] = status
        if status in _FAILURES:
            about["otel.status_code"] = "ERROR"  # else it takes every end for a good one
        if item.span.is_managed:
            # The runtime ends the span itself, and a tool that reports an error is a good end to it.
            name = "hermes.tool.outcome" if item.span.kind == "tool" else "hermes.api.outcome"
            self._mark(scope, name, {**about_event(event), **about})
            return
        _as_data(lambda data: scope.end(item.span, data, about), result)
        self._exporters.count()

    def _abandon(self, item: OpenAttempt | OpenTool, status: str = "cancelled") -> None:
        scope = self._scopes.get(item.session_id)
        if scope is not None and item.span is not None:
            scope.end(item.span, None, {**scope.about, "status": status})

    def _mark(self, scope: SessionScope, name: str, about: Fields, data: Any = None) -> None:
        fields = {"metadata": about, "timestamp": self._clock.now()}
        _as_data(lambda given: scope.run(self._relay.mark, name, scope.handle, data=given, **fields), data)
        self._exporters.count()


def _as_data(emit: Callable[[Any], Any], data: Any) -> Any:
    """Hand data to the runtime; what it cannot take, such as enormous numbers, in a form that every reader can."""
    try:
        return emit(data)
    except (ValueError, OverflowError):
        return emit(sanitise(data))


def about_event(event: events.Event, **more: Any) -> Fields:
    """The ids that an event carries."""
    fields = {name: getattr(event, name, None) for name in _IDS}
    return about_of({**fields, **more}, fields["session_id"] or "")


def about_of(fields: Fields, session_id: str) -> Fields:
    """The same, of fields."""
    known = {name: fields[name] for name in _IDS if fields.get(name) not in (None, "")}
    return {**known, "session_id": session_id, "trajectory_id": session_id}


def _family(event: events.ChildStarted | events.ChildEnded) -> Fields:
    """What marks about a child carry: the session they are about is the child's."""
    parent, child = event.parent_session_id, event.child_session_id
    ids = {"task_id": event.task_id, "turn_id": event.turn_id, "tool_call_id": event.tool_call_id}
    return {
        **{name: value for name, value in ids.items() if value},
        "session_id": child,
        "parent_session_id": parent,
        "child_session_id": child,
        "subagent_id": event.child_subagent_id,
        "child_role": event.child_role,
        "parent_trajectory_id": parent,
        "child_trajectory_id": child,
    }
