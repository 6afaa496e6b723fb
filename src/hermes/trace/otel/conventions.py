"""GenAI conventions and OpenInference on live spans: the vocabulary of the OpenTelemetry exporter."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec import UNSET
from opentelemetry.trace import SpanKind

from hermes.base.sanitize import Redactor
from hermes.contract import events
from hermes.contract.response import to_plain
from hermes.trace.clean import Cleaner
from hermes.trace.conversation import tool_request
from hermes.trace.formats.genai import (
    AGENT_SPAN,
    AgentSubject,
    Attributes,
    InferenceSubject,
    ToolSubject,
    inference_span,
    tool_span,
)
from hermes.trace.formats.spans import Vocabulary
from hermes.trace.otel.metrics import INTERRUPTED, tool_error_type, turn_error
from hermes.trace.otel.spans import SpanEnd, SpanMoment, SpanStart
from hermes.trace.records import UsageRecord
from hermes.trace.tracker import MomentEvent, OpenAttempt, OpenItem, OpenTool, OpenTurn

#: Fields that only content is made from.
CONTENT_FIELDS = frozenset(
    {"user_message", "assistant_response", "conversation_history", "assistant_message", "args", "result"}
    | {"error_message", "command", "child_goal", "child_summary"}
)
_MAX_ERROR_CHARS = 500


class ConventionSpans:
    """Spans with the attributes of every vocabulary given; the last one has the last word.

    With ``content`` they say what was said too: prompts, answers, arguments and results, redacted.
    """

    def __init__(self, vocabularies: Sequence[Vocabulary], redactor: Redactor, *, content: bool) -> None:
        self._vocabularies = vocabularies
        self._content = content
        self._clean = Cleaner(redactor)

    def _described(self, what: str, *subject: Any, **about: Any) -> Attributes:
        attributes: Attributes = {}
        for vocabulary in self._vocabularies:
            attributes.update(getattr(vocabulary, what)(*subject, **about))
        return attributes

    def _failed(self, attributes: Attributes, error_type: str, text: str = "", *, is_error: bool = True) -> SpanEnd:
        """What was stopped or not allowed has a class, and is no error."""
        if not error_type:
            return SpanEnd(attributes)
        message = self._clean.text(text)[:_MAX_ERROR_CHARS]
        return SpanEnd({**attributes, **self._described("failure", error_type)}, is_error, message)

    def abandoned(self, why: str) -> SpanEnd:
        return self._failed({}, "abandoned", why)

    # -- turns --------------------------------------------------------------------------------------------------

    def turn(self, turn: OpenTurn) -> SpanStart:
        child = turn.child.event if turn.child is not None else None
        subagent = (child.child_subagent_id, child.child_role) if child else ("", "")
        subject = AgentSubject(turn.session_id, turn.id, turn.model, turn.platform, *subagent, turn.user_id)
        return SpanStart(AGENT_SPAN, self._described("agent", subject))

    def turn_content(self, turn: OpenTurn, event: events.TurnStarted | events.TurnAnswered) -> Attributes:
        if not self._content:
            return {}
        if isinstance(event, events.TurnStarted):
            return self._described("turn_content", user_message=self._clean.value(event.user_message))
        return self._described("turn_content", answer_text=self._clean.text(event.assistant_response))

    def turn_end(self, turn: OpenTurn, event: events.TurnEnded | None, why: str) -> SpanEnd:
        if event is None:
            return self.abandoned(why)
        status = turn_status(event)
        totals = {"model_calls": turn.model_calls, "tool_calls": turn.tool_calls, "usage": turn.usage}
        about = self._described("turn_end", status=status, **totals)
        return self._failed(about, turn_error(turn, event), event.reason, is_error=status == "failed")

    # -- attempts -----------------------------------------------------------------------------------------------

    def attempt(self, attempt: OpenAttempt) -> SpanStart:
        event = attempt.event
        ids, model = (event.session_id, event.turn_id, event.api_request_id), (event.provider, event.model)
        subject = InferenceSubject(*ids, *model, event.base_url, event.max_tokens, event.api_call_count)
        return SpanStart(inference_span(event.model), self._described("inference", subject), SpanKind.CLIENT)

    def attempt_content(self, attempt: OpenAttempt) -> Attributes:
        messages = attempt.event.conversation_history
        return self._described("asked", messages=self._clean.value(messages)) if self._content else {}

    def answer(self, event: events.AttemptAnswered) -> Attributes:
        usage = UsageRecord.from_counts(event.usage, event.cost_usd)
        known = self._described("answer", model=event.response_model, finish_reason=event.finish_reason, usage=usage)
        if self._content:
            message: dict[str, Any] = to_plain(event.assistant_message) if event.assistant_message is not UNSET else {}
            text, reasoning = (self._clean.text(message.get(name) or "") for name in ("content", "reasoning"))
            calls = [tool_request(call, self._clean) for call in message.get("tool_calls") or ()]
            about = {"text": text, "reasoning": reasoning, "calls": calls, "finish_reason": event.finish_reason}
            known.update(self._described("answered", **about))
        return known

    def failure(self, event: events.AttemptFailed) -> SpanEnd:
        about: Attributes = {"hermes.retry_count": event.retry_count, "hermes.retryable": event.retryable}
        if event.status_code is not None:
            about["http.response.status_code"] = event.status_code
        text = str(event.error.get("message", ""))
        return self._failed(about, event.reason, text, is_error=event.reason != INTERRUPTED)

    # -- tool calls ---------------------------------------------------------------------------------------------

    def tool(self, tool: OpenTool) -> SpanStart:
        event = tool.event
        ids = (event.session_id, event.turn_id, event.tool_call_id)
        subject = ToolSubject(*ids, event.tool_name, event.api_request_id)
        return SpanStart(tool_span(event.tool_name), self._described("tool", subject))

    def tool_end(self, event: events.ToolEnded) -> SpanEnd:
        about: Attributes = {"hermes.tool.status": event.status, "hermes.tool.duration_ms": event.duration_ms}
        if self._content:
            args, result = self._clean.value(event.args), self._clean.text(event.result)
            about.update(self._described("called", args=args, result=result))
            if event.error_message:
                about["hermes.tool.error"] = self._clean.text(event.error_message)
        return self._failed(about, tool_error_type(event), is_error=event.status in ("error", "timeout"))

    def moment(self, subject: OpenItem, event: MomentEvent) -> SpanMoment:
        match event:
            case events.ApprovalRequested():
                if self._content:
                    subject.span.set_attribute("hermes.approval.command", self._clean.text(event.command))
                about = {"rule": event.pattern_key, "description": event.description, "surface": event.surface}
                return _moment("approval", "request", about)
            case events.ApprovalAnswered():
                about = {"rule": event.pattern_key, "surface": event.surface, "choice": event.choice}
                return _moment("approval", "response", {**about, "decided_by": event.decided_by or ""})
            case events.ChildStarted():
                about = {"session_id": event.child_session_id, "role": event.child_role}
                return _moment("subagent", "start", about, "child")
            case events.ChildEnded():
                about = {"session_id": event.child_session_id, "status": event.child_status}
                return _moment("subagent", "stop", about, "child")


def _moment(noun: str, what: str, about: dict[str, str], prefix: str = "") -> SpanMoment:
    attributes: Attributes = {f"hermes.{prefix or noun}.{name}": text for name, text in about.items() if text}
    return SpanMoment(f"hermes.{noun}.{what}", attributes)


def turn_status(event: events.TurnEnded) -> str:
    """How a turn ended, in one word."""
    return "completed" if event.completed else INTERRUPTED if event.interrupted else "failed"
