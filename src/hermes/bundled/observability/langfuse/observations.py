"""Langfuse vocabulary: spans as traces, agents, generations, tools and events, in the attributes its server reads."""

from __future__ import annotations

import os
from typing import Any, Literal

from hermes.contract import events
from hermes.trace.formats.genai import Attributes, json_text
from hermes.trace.otel.conventions import turn_status
from hermes.trace.otel.metrics import tool_error_type
from hermes.trace.otel.spans import SpanEnd, SpanMoment, SpanStart
from hermes.trace.records import UsageRecord
from hermes.trace.tracker import MomentEvent, OpenAttempt, OpenItem, OpenTool, OpenTurn

from .content import ObservationContent, parameters
from .settings import LangfuseSettings

Level = Literal["DEFAULT", "WARNING", "ERROR"]

TURN = "hermes turn"
SUBAGENT = "hermes sub-agent"
_MAX_MESSAGE_CHARS = 500
#: What was stopped or not allowed is worth a look, and no error.
_NO_ERRORS = ("interrupted", "blocked", "cancelled")
_REFUSALS = ("deny", "timeout", "smart_deny")


class LangfuseSpans:
    """Observations and what is in them. Used by one thread alone."""

    def __init__(self, settings: LangfuseSettings, content: ObservationContent) -> None:
        self._tags = settings.tags
        self._content = content
        #: What every observation has in addition to what its trace says.
        everywhere = {"environment": settings.environment, "release": os.environ.get("LANGFUSE_RELEASE", "")}
        self._everywhere: Attributes = {f"langfuse.{name}": text for name, text in everywhere.items() if text}

    def abandoned(self, why: str) -> SpanEnd:
        return _end({}, "WARNING", why)

    # -- turns --------------------------------------------------------------------------------------------------

    def turn(self, turn: OpenTurn) -> SpanStart:
        about = {"session_id": turn.session_id, "turn_id": turn.id, "platform": turn.platform, "model": turn.model}
        child = turn.child.event if turn.child is not None else None
        if child is None:
            attributes = {**self._trace(turn), "langfuse.internal.is_app_root": True}
            return SpanStart(TURN, {**attributes, **_observation("agent", about)})
        about |= {"subagent_id": child.child_subagent_id, "role": child.child_role}
        about["parent_session_id"] = child.session_id
        return SpanStart(SUBAGENT, {**self._trace(turn), **_observation("agent", about)})

    def turn_content(self, turn: OpenTurn, event: events.TurnStarted | events.TurnAnswered) -> Attributes:
        if isinstance(event, events.TurnStarted):
            return _filled(input=self._content.data(event.user_message))
        return _filled(output=self._content.text(event.assistant_response))

    def turn_end(self, turn: OpenTurn, event: events.TurnEnded | None, why: str) -> SpanEnd:
        if event is None:
            return _end(_metadata({"status": "abandoned"}), "ERROR", why)
        status = turn_status(event)
        about = {"status": status, "model_calls": turn.model_calls, "tool_calls": turn.tool_calls}
        level = "DEFAULT" if event.completed else _level(status)
        return _end(_metadata(about), level, self._content.redact(event.reason) or status)

    # -- attempts -----------------------------------------------------------------------------------------------

    def attempt(self, attempt: OpenAttempt) -> SpanStart:
        event = attempt.event
        about = {
            "api_request_id": event.api_request_id,
            "provider": event.provider,
            "base_url": event.base_url,
            "api_mode": event.api_mode,
            "attempt": event.api_call_count,
        }
        settings = parameters(event.request, event.max_tokens)
        attributes = {
            **self._trace(attempt),
            **_observation("generation", about),
            "langfuse.observation.model.name": event.model,
            **({"langfuse.observation.model.parameters": json_text(settings)} if settings else {}),
        }
        return SpanStart(f"chat {event.model}".strip(), attributes)

    def attempt_content(self, attempt: OpenAttempt) -> Attributes:
        messages = attempt.event.conversation_history
        return _filled(input=self._content.conversation(attempt.session_id, messages))

    def answer(self, event: events.AttemptAnswered) -> Attributes:
        attributes = _filled(output=self._content.answer(event.assistant_message))
        attributes.update(_metadata({"finish_reason": event.finish_reason}))
        if event.response_model:
            attributes["langfuse.observation.model.name"] = event.response_model
        if event.usage is not None:
            attributes["langfuse.observation.usage_details"] = json_text(usage_details(event.usage))
        if event.cost_usd is not None:
            attributes["langfuse.observation.cost_details"] = json_text({"total": event.cost_usd})
        return attributes

    def failure(self, event: events.AttemptFailed) -> SpanEnd:
        about = {
            "error_type": event.reason,
            "status_code": event.status_code,
            "retry_count": event.retry_count,
            "retryable": event.retryable,
        }
        text = self._content.redact(f"{event.reason}: {event.error.get('message', '')}")
        return _end(_metadata(about), _level(event.reason), text)

    # -- tool calls, approvals and child agents -----------------------------------------------------------------

    def tool(self, tool: OpenTool) -> SpanStart:
        event = tool.event
        about = {"tool_call_id": event.tool_call_id, "api_request_id": event.api_request_id}
        return SpanStart(event.tool_name or "tool", {**self._trace(tool), **_observation("tool", about)})

    def tool_end(self, event: events.ToolEnded) -> SpanEnd:
        about: dict[str, Any] = {"status": event.status, "duration_ms": event.duration_ms}
        content = _filled(input=self._content.data(event.args), output=self._content.text(event.result))
        error_type = tool_error_type(event)
        if not error_type:
            return SpanEnd({**content, **_metadata(about)})
        attributes = {**content, **_metadata({**about, "error_type": error_type})}
        return _end(attributes, _level(event.status), self._content.text(event.error_message) or error_type)

    def moment(self, subject: OpenItem, event: MomentEvent) -> SpanMoment | None:
        if isinstance(event, events.ChildStarted | events.ChildEnded):
            return None
        about = {"rule": event.pattern_key, "surface": event.surface, "tool_call_id": event.tool_call_id}
        level: Level = "DEFAULT"
        if isinstance(event, events.ApprovalRequested):
            name, about["description"] = "approval request", event.description
            content = _filled(input=self._content.text(event.command))
        else:
            name, about["choice"], about["decided_by"] = "approval response", event.choice, event.decided_by or ""
            content = _filled(output=event.choice)
            level = "WARNING" if event.choice in _REFUSALS else level
        attributes = {**self._trace(subject), **_observation("event", about), **content}
        return SpanMoment(name, {**attributes, "langfuse.observation.level": level}, is_span=True)

    # -- inside -------------------------------------------------------------------------------------------------

    def _trace(self, item: OpenItem) -> Attributes:
        """What every observation says about its trace: a child agent belongs to the trace of who delegated."""
        root = _root(item)
        platform = root.platform if isinstance(root, OpenTurn) else ""
        attributes: Attributes = {
            "langfuse.trace.name": TURN,
            "session.id": root.session_id,
            "langfuse.trace.tags": [tag for tag in ("hermes", platform, *self._tags) if tag],
            **self._everywhere,
        }
        if isinstance(root, OpenTurn) and root.user_id:
            attributes["user.id"] = root.user_id
        return attributes


def _root(item: OpenItem) -> OpenItem:
    """The turn that a trace begins with."""
    while True:
        if isinstance(item, OpenAttempt):
            parent: OpenItem | None = item.turn
        elif isinstance(item, OpenTool):
            parent = item.parent
        else:
            parent = item.child.parent if isinstance(item, OpenTurn) and item.child is not None else None
        if parent is None:
            return item
        item = parent


def usage_details(usage: dict[str, int]) -> dict[str, int]:
    """Tokens by kind, none of them counted twice: the server adds up the kinds by whether they are input or output."""
    spent = UsageRecord.from_counts(usage) or UsageRecord()
    reasoning = min(spent.reasoning_tokens, spent.output_tokens)
    details = {
        "input_cached_tokens": spent.cache_read_tokens,
        "input_cache_creation": spent.cache_write_tokens,
        "output_reasoning_tokens": reasoning,
    }
    return {
        "input": spent.input_tokens,
        "output": spent.output_tokens - reasoning,
        "total": spent.total_tokens,
        **{name: count for name, count in details.items() if count},
    }


def _observation(kind: str, about: dict[str, Any]) -> Attributes:
    known = {name: value for name, value in about.items() if value != ""}
    return {"langfuse.observation.type": kind, **_metadata(known)}


def _metadata(about: dict[str, Any]) -> Attributes:
    """Each value as JSON, texts too: the server decodes them."""
    return {
        f"langfuse.observation.metadata.{name}": json_text(value) for name, value in about.items() if value is not None
    }


def _filled(**content: str | None) -> Attributes:
    return {f"langfuse.observation.{name}": text for name, text in content.items() if text is not None}


def _end(attributes: Attributes, level: Level, message: str) -> SpanEnd:
    if level == "DEFAULT":
        return SpanEnd(attributes)
    text = message[:_MAX_MESSAGE_CHARS]
    about: Attributes = {"langfuse.observation.level": level, "langfuse.observation.status_message": text}
    return SpanEnd({**attributes, **about}, level == "ERROR", text)


def _level(status: str) -> Level:
    return "WARNING" if status in _NO_ERRORS else "ERROR"
