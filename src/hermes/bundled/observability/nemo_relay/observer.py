"""Turns what the observer hooks tell into scopes, spans and marks of the runtime."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from hermes.contract.response import to_plain
from hermes.sanitize import sanitise
from hermes.trace.clean import Cleaner

from .exporters import Exporters
from .relay import Relay
from .sessions import Clock, Key, SessionScope, Span

Fields = dict[str, Any]

#: What every event carries, as far as the hook has it.
_IDS = (
    *("session_id", "task_id", "turn_id", "api_request_id", "tool_call_id"),
    *("provider", "model", "platform", "status", "reason"),
)
#: What an end may have beside its status.
_ENDINGS = ("error_type", "reason", "status_code")
_FAILURES = frozenset({"error", "timeout"})
#: What a mark needs to repeat of neither.
_NO_DATA = frozenset({*_IDS, "telemetry_schema_version"})


class Observer:
    """The sessions of one host. Methods named after a hook take that hook's fields."""

    def __init__(self, relay: Relay, exporters: Exporters, clock: Clock, clean: Cleaner) -> None:
        self._relay = relay
        self._exporters = exporters
        self._clock = clock
        self._clean = clean
        self._sessions: dict[str, SessionScope] = {}
        #: Of children that were announced: who delegated, and by which call.
        self._families: dict[str, tuple[str, str]] = {}
        self._lock = threading.RLock()

    # -- sessions -----------------------------------------------------------------------------------------------

    def session(self, fields: Fields) -> SessionScope:
        """The scope of a session; it begins with the first thing that is heard of it."""
        session_id: str = fields["session_id"]
        with self._lock:
            known = self._sessions.get(session_id)
            if known is not None:
                return known
            parent_id, call_id = self._families.get(session_id, ("", ""))
            parent = self._sessions.get(parent_id)
            about = about_of({name: fields.get(name) for name in ("session_id", "model", "platform")})
            if parent is not None:
                # The runtime knows by these which call a child belongs to.
                about["nemo_relay_scope_role"] = "subagent"
                about["parent_session_id"] = parent_id
                about["parent_tool_call_id"] = call_id
            made = SessionScope(self._relay, self._clock, session_id, parent=parent, about=about)
            self._sessions[session_id] = made
        self._exporters.count()
        return made

    def find(self, session_id: str) -> SessionScope | None:
        return self._sessions.get(session_id)

    def close(self, session_id: str, **more: Any) -> None:
        """End a session's scope, after those of children it left behind."""
        with self._lock:
            session = self._sessions.get(session_id)
            if session is None:
                return
            for child in [one for one in self._sessions.values() if one.parent is session]:
                self.close(child.id, status="cancelled")
            del self._sessions[session_id]
        about = {**session.about, **about_of({"session_id": session_id, **more})}
        self._mark(session, "hermes.session.end", about)
        session.close(about)
        self._exporters.count()

    def close_all(self) -> None:
        """End whatever is open, because the process ends."""
        for session_id in list(self._sessions):
            self.close(session_id, status="cancelled", reason="exit")

    def forget(self) -> None:
        """Drop everything without a word, in a process that was forked."""
        self._sessions.clear()
        self._families.clear()

    def on_session_start(self, fields: Fields) -> None:
        self.session(fields)

    def on_session_finalize(self, fields: Fields) -> None:
        self.close(fields["session_id"], reason=fields.get("reason"))

    def on_session_reset(self, fields: Fields) -> None:
        old = fields.get("old_session_id")
        if old and old != fields.get("new_session_id"):
            self.close(old, reason=fields.get("reason"))

    # -- turns --------------------------------------------------------------------------------------------------

    def pre_llm_call(self, fields: Fields) -> None:
        told = {"user_message": self._clean.value(fields.get("user_message"))}
        self._mark(self.session(fields), "hermes.turn.start", about_of(fields), told)

    def on_session_end(self, fields: Fields) -> None:
        completed, interrupted = bool(fields.get("completed")), bool(fields.get("interrupted"))
        reason = self._clean.text(fields.get("reason") or "")
        status = "completed" if completed else "interrupted" if interrupted else "failed"
        told = {"completed": completed, "interrupted": interrupted, "reason": reason}
        about = about_of({**fields, "status": status, "reason": ""})
        self._mark(self.session(fields), "hermes.turn.end", about, told)

    def post_llm_call(self, fields: Fields) -> None:
        """The answer is in the model's own; nothing more is told of it."""

    # -- model calls --------------------------------------------------------------------------------------------

    def pre_api_request(self, fields: Fields) -> None:
        session = self.session(fields)
        model: str = fields.get("model") or ""
        name: str = fields.get("provider") or "model"
        self._begin(session, _llm(fields), name, self._request(session, fields), about_of(fields), model_name=model)

    def _request(self, session: SessionScope, fields: Fields) -> dict[str, Any]:
        """The request as its span shows it: what the session's last one had is not shown again."""
        messages: list[Any] = fields.get("request_messages") or []
        before = 0 if self._exporters.shows_full_requests else len(session.messages)
        if session.messages != messages[:before]:
            before = 0
        session.messages = messages
        around = {name: fields[name] for name in ("tools", "max_tokens") if fields.get(name)}
        is_new = not before or around != session.request
        session.request = around
        shown: dict[str, Any] = self._clean.value(around) if is_new else {}
        shown["model"] = fields.get("model")
        shown["messages"] = self._clean.value(messages[before:])
        if before:
            shown["messages_before"] = before
        return shown

    def post_api_request(self, fields: Fields) -> None:
        told = {
            "assistant_message": self._reply(to_plain(fields.get("assistant_message")) or {}),
            "finish_reason": fields.get("finish_reason"),
            "model": fields.get("response_model"),
            "usage": fields.get("usage"),
        }
        self._end(fields, _llm(fields), told, "ok", "hermes.api.response.unmatched")

    def _reply(self, message: dict[str, Any]) -> dict[str, Any]:
        """A reply in the words of the observer contract: its calls have names and arguments of their own."""
        told: dict[str, Any] = {"role": "assistant", "content": self._clean.text(message.get("content") or "")}
        if message.get("reasoning"):
            told["reasoning_content"] = self._clean.text(message["reasoning"])
        calls: list[dict[str, Any]] = message.get("tool_calls") or []
        told["tool_calls"] = [{"id": call.get("id"), **self._function(call.get("function") or {})} for call in calls]
        return told

    def _function(self, function: dict[str, Any]) -> dict[str, Any]:
        return {"name": function.get("name"), "arguments": self._clean.text(function.get("arguments") or "")}

    def api_request_error(self, fields: Fields) -> None:
        status = "cancelled" if fields.get("reason") == "interrupted" else "error"
        told = {name: fields.get(name) for name in ("error", "reason", "retryable", "retry_count")}
        self._end(fields, _llm(fields), self._clean.value(told), status, "hermes.api.error")

    # -- tool calls ---------------------------------------------------------------------------------------------

    def pre_tool_call(self, fields: Fields) -> None:
        args = self._clean.value(fields.get("args") or {})
        call_id: str = fields["tool_call_id"]
        session = self.session(fields)
        self._begin(session, _tool(fields), fields["tool_name"], args, about_of(fields), tool_call_id=call_id)

    def post_tool_call(self, fields: Fields) -> None:
        told = self._clean.text(fields.get("result") or "")
        self._end(fields, _tool(fields), told, fields.get("status") or "ok", "hermes.tool.response.unmatched")

    # -- approvals and children ---------------------------------------------------------------------------------

    def pre_approval_request(self, fields: Fields) -> None:
        self._approval("hermes.approval.request", fields)

    def post_approval_response(self, fields: Fields) -> None:
        self._approval("hermes.approval.response", {**fields, "status": fields.get("choice")})

    def _approval(self, name: str, fields: Fields) -> None:
        told = {key: value for key, value in fields.items() if key not in _NO_DATA}
        self._mark(self.session(fields), name, about_of(fields), self._clean.value(told))

    def subagent_start(self, fields: Fields) -> None:
        parent_id, child_id = fields["parent_session_id"], fields["child_session_id"]
        self._families[child_id] = (parent_id, fields.get("tool_call_id") or "")
        told = {"goal": self._clean.text(fields.get("child_goal") or "")}
        self._mark(self.session({"session_id": parent_id}), "hermes.subagent.start", _family(fields), told)

    def subagent_stop(self, fields: Fields) -> None:
        status = fields.get("child_status")
        self.close(fields["child_session_id"], status=status)  # no more is heard of a child that is over
        self._families.pop(fields["child_session_id"], None)
        told = {
            "summary": self._clean.text(fields.get("child_summary") or ""),
            "duration_ms": fields.get("duration_ms"),
        }
        parent = self.session({"session_id": fields["parent_session_id"]})
        self._mark(parent, "hermes.subagent.stop", {**_family(fields), "status": status}, told)

    # -- events -------------------------------------------------------------------------------------------------

    def _begin(self, session: SessionScope, key: Key, name: str, content: Any, about: Fields, **more: Any) -> None:
        """Begin a span. One that may turn out to be managed is begun when it is known not to be."""
        emit = self._relay.begin_llm if key[0] == "llm" else self._relay.begin_tool
        fields = {"handle": session.handle, "metadata": about, "timestamp": self._clock.now(), **more}
        span = Span(key[0], lambda: _as_data(lambda data: session.run(emit, name, data, **fields), content))
        session.put(key, span)
        if not self._exporters.managed_mode:
            span.open()
        self._exporters.count()

    def _end(self, fields: Fields, key: Key, result: Any, status: str, unmatched: str) -> None:
        session = self.session(fields)
        span = session.take(key)
        if span is None:
            about = {**about_of(fields), "status": status}
            self._mark(session, unmatched, about, {"tool_name": fields.get("tool_name"), "result": result})
            return
        # The runtime adds what the start said.
        about = {name: fields[name] for name in _ENDINGS if fields.get(name) not in (None, "")}
        about["status"] = status
        if status in _FAILURES:
            about["otel.status_code"] = "ERROR"  # else it takes every end for a good one
        _as_data(lambda data: session.end(span, data, about), result)
        self._exporters.count()

    def _mark(self, session: SessionScope, name: str, about: Fields, data: Any = None) -> None:
        fields = {"metadata": about, "timestamp": self._clock.now()}
        _as_data(lambda told: session.run(self._relay.mark, name, session.handle, data=told, **fields), data)
        self._exporters.count()


def _as_data(emit: Callable[[Any], Any], data: Any) -> Any:
    """Hand data to the runtime; what it cannot take, such as enormous numbers, in a form that every reader can."""
    try:
        return emit(data)
    except (ValueError, OverflowError):
        return emit(sanitise(data))


def about_of(fields: Fields) -> Fields:
    """The ids that an event carries."""
    known = {name: fields[name] for name in _IDS if fields.get(name) not in (None, "")}
    known["trajectory_id"] = fields["session_id"]
    return known


def _family(fields: Fields) -> Fields:
    """What marks about a child carry: the session they are about is the child's."""
    parent, child = fields["parent_session_id"], fields["child_session_id"]
    return {
        **{name: fields[name] for name in ("task_id", "turn_id", "tool_call_id") if fields.get(name)},
        "session_id": child,
        "parent_session_id": parent,
        "child_session_id": child,
        "subagent_id": fields.get("child_subagent_id"),
        "child_role": fields.get("child_role"),
        "parent_trajectory_id": parent,
        "child_trajectory_id": child,
    }


def _llm(fields: Fields) -> Key:
    return ("llm", fields["turn_id"], fields["api_request_id"])


def _tool(fields: Fields) -> Key:
    return ("tool", fields["turn_id"], fields["tool_call_id"])
