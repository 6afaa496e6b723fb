"""Adds to the spans what was said: prompts, answers, arguments and results, without the secrets in them."""

from __future__ import annotations

import os
from typing import Any, TypeGuard

from opentelemetry.trace import Span

from hermes.contract.response import to_plain
from hermes.trace.clean import Cleaner, knowing
from hermes.trace.otel.watcher import Watcher
from hermes.trace.records import ToolRequest


class Content:
    """Hook callbacks that go with a watcher's: after its own where a span begins, before them where it ends."""

    BEGINNINGS = ("pre_llm_call", "pre_api_request", "pre_approval_request")
    ENDINGS = ("post_llm_call", "post_api_request", "post_tool_call")

    def __init__(self, watcher: Watcher) -> None:
        self._watcher = watcher
        self._clean = Cleaner(knowing(os.environ))

    def pre_llm_call(self, *, turn_id: str, user_message: Any = None) -> None:
        """What the user said."""
        span = self._watcher.spans.turn_span(turn_id)
        if _is_seen(span):
            self._watcher.spans.tell(span, "turn_content", user_message=self._clean.value(user_message))

    def post_llm_call(self, *, turn_id: str, assistant_response: str = "") -> None:
        """What the turn came to."""
        span = self._watcher.spans.turn_span(turn_id)
        if _is_seen(span):
            self._watcher.spans.tell(span, "turn_content", answer_text=self._clean.text(assistant_response))

    def pre_api_request(self, *, api_request_id: str, conversation_history: list[Any] | None = None) -> None:
        """The conversation so far."""
        span = self._watcher.spans.requests.get(api_request_id)
        if _is_seen(span):
            self._watcher.spans.tell(span, "asked", messages=self._clean.value(conversation_history or []))

    def post_api_request(self, *, api_request_id: str, finish_reason: str = "", assistant_message: Any = None) -> None:
        """What the model said, thought and asked for."""
        span = self._watcher.spans.requests.get(api_request_id)
        if not _is_seen(span):
            return
        message: dict[str, Any] = to_plain(assistant_message) or {}
        text, reasoning = (self._clean.text(message.get(name) or "") for name in ("content", "reasoning"))
        self._watcher.spans.tell(
            span,
            "answered",
            text=text,
            reasoning=reasoning,
            calls=[self._call(call) for call in message.get("tool_calls") or ()],
            finish_reason=finish_reason,
        )

    def post_tool_call(
        self,
        *,
        session_id: str,
        turn_id: str,
        tool_call_id: str,
        args: dict[str, Any] | None = None,
        result: str = "",
        error_message: str | None = None,
    ) -> None:
        """What a tool ran with and returned."""
        span = self._watcher.spans.tools.get((session_id, turn_id, tool_call_id))
        if not _is_seen(span):
            return
        self._watcher.spans.tell(span, "called", args=self._clean.value(args or {}), result=self._clean.text(result))
        if error_message:
            span.set_attribute("hermes.tool.error", self._clean.text(error_message))

    def pre_approval_request(self, *, session_id: str, turn_id: str, tool_call_id: str, command: str = "") -> None:
        """What somebody is asked about."""
        span = self._watcher.spans.tools.get((session_id, turn_id, tool_call_id))
        if _is_seen(span):
            span.set_attribute("hermes.approval.command", self._clean.text(command))

    def _call(self, call: dict[str, Any]) -> ToolRequest:
        function: dict[str, Any] = call.get("function") or {}
        arguments = self._clean.arguments(function.get("arguments") or "")
        return ToolRequest(call.get("id") or "", function.get("name") or "", arguments)


def _is_seen(span: Span | None) -> TypeGuard[Span]:
    """Whether anybody will look at the span: cleaning content for a turn that is sampled out would be in vain."""
    return span is not None and span.is_recording()
