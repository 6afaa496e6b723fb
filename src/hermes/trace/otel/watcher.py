"""Turns what the hooks tell into spans and metrics."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from opentelemetry import context as otel_context
from opentelemetry import trace
from opentelemetry.metrics import Meter

from hermes.trace.formats.spans import Vocabulary
from hermes.trace.otel.instruments import INTERRUPTED, Instruments
from hermes.trace.otel.open_spans import CallKey, OpenSpans, w3c
from hermes.trace.records import Usage

HOOKS = (
    *("pre_llm_call", "on_session_end", "on_session_finalize"),
    *("pre_api_request", "post_api_request", "api_request_error"),
    *("pre_tool_call", "post_tool_call"),
    *("pre_approval_request", "post_approval_response"),
    *("subagent_start", "subagent_stop"),
)


class Pipeline(Protocol):
    """Where spans and metrics go."""

    @property
    def tracer(self) -> trace.Tracer: ...
    @property
    def meter(self) -> Meter: ...
    def flush(self, seconds: float) -> None:
        """Send what is waiting, and wait for that no longer than so."""
        ...


@dataclass(frozen=True, slots=True)
class Watching:
    """How to watch."""

    words: tuple[Vocabulary, ...]
    #: The trace that the process was started in, as headers.
    outermost: Mapping[str, str] | None = None
    #: How long the end of the program may wait for the pipeline.
    flush_seconds: float = 2.0


class _Trace(NamedTuple):
    """What there is once something is traced."""

    pipeline: Pipeline
    spans: OpenSpans
    instruments: Instruments


class Watcher:
    """Hook callbacks, each under the hook's name and with just the fields it needs: no other is copied for it."""

    def __init__(self, open_pipeline: Callable[[], Pipeline], how: Watching) -> None:
        self._open_pipeline = open_pipeline
        self._how = how
        self._opening = threading.Lock()
        self._trace: _Trace | None = None

    @property
    def spans(self) -> OpenSpans:
        """The spans under way."""
        return self._traced().spans

    def _traced(self) -> _Trace:
        """Opened by the first turn: until then the application can set up providers of its own."""
        if self._trace is None:
            with self._opening:
                if self._trace is None:
                    pipeline, how = self._open_pipeline(), self._how
                    spans = OpenSpans(pipeline.tracer, how.words, how.outermost)
                    self._trace = _Trace(pipeline, spans, Instruments(pipeline.meter))
        return self._trace

    # -- turns --------------------------------------------------------------------------------------------------

    def pre_llm_call(
        self, *, session_id: str, turn_id: str, model: str = "", platform: str = "", sender_id: str = ""
    ) -> None:
        """A turn begins."""
        self.spans.begin_turn(session_id, turn_id, model, platform, sender_id)

    def on_session_end(
        self, *, turn_id: str, completed: bool = False, interrupted: bool = False, reason: str = "", model: str = ""
    ) -> None:
        """A turn ends, one way or another."""
        turn = self.spans.turns.pop(turn_id, None)
        if turn is None:
            return
        status = "completed" if completed else INTERRUPTED if interrupted else "failed"
        error = "" if completed else INTERRUPTED if interrupted else turn.failure or "turn_failed"
        self.spans.tell(
            turn.span,
            "turn_end",
            status=status,
            model_calls=turn.model_calls,
            tool_calls=turn.tool_calls,
            usage=turn.usage,
        )
        self.spans.end(turn.span, error, reason, is_error=status == "failed")
        self._traced().instruments.turn(turn.model or model, time.perf_counter() - turn.started, error)

    def on_session_finalize(self, *, session_id: str, reason: str = "") -> None:
        """A session is over. When the program ends, the collector gets what is left."""
        if self._trace is None:
            return
        self.spans.abandon(session_id)
        # A child is over in the middle of its parent's turn, which must not wait for a collector.
        is_child = session_id in self.spans.children
        if reason == "shutdown" and not is_child and self.spans.has_news:
            self.spans.has_news = False
            self._trace.pipeline.flush(self._how.flush_seconds)

    # -- requests to models -------------------------------------------------------------------------------------

    def pre_api_request(
        self,
        *,
        session_id: str,
        turn_id: str,
        api_request_id: str,
        platform: str = "",
        model: str = "",
        provider: str = "",
        base_url: str = "",
        api_call_count: int = 0,
        max_tokens: int | None = None,
        started_at: float = 0.0,
    ) -> None:
        """A request goes out."""
        about = {
            "session_id": session_id,
            "turn_id": turn_id,
            "api_request_id": api_request_id,
            "provider": provider,
            "model": model,
            "base_url": base_url,
            "max_tokens": max_tokens,
            "attempt": api_call_count,
        }
        self.spans.begin_request(about, platform, started_at)

    def post_api_request(
        self,
        *,
        turn_id: str,
        api_request_id: str,
        provider: str = "",
        model: str = "",
        base_url: str = "",
        ended_at: float = 0.0,
        api_duration: float = 0.0,
        finish_reason: str = "",
        response_model: str = "",
        usage: dict[str, Any] | None = None,
        cost_usd: float | None = None,
    ) -> None:
        """The model has answered."""
        spent = Usage.told(usage, cost_usd)
        turn, span = self.spans.turns.get(turn_id), self.spans.requests.pop(api_request_id, None)
        if turn is not None:
            turn.failure = ""
            turn.usage = turn.usage + (spent or Usage())
        if span is not None:
            self.spans.tell(span, "answer", model=response_model, finish_reason=finish_reason, usage=spent)
            self.spans.end(span, at=ended_at)
        self._traced().instruments.answered(
            provider=provider,
            model=model,
            base_url=base_url,
            response_model=response_model,
            seconds=api_duration,
            usage=spent,
        )

    def api_request_error(
        self,
        *,
        turn_id: str,
        api_request_id: str,
        provider: str = "",
        model: str = "",
        base_url: str = "",
        ended_at: float = 0.0,
        api_duration: float = 0.0,
        status_code: int | None = None,
        retry_count: int = 0,
        retryable: bool = False,
        reason: str = "",
        error: dict[str, Any] | None = None,
    ) -> None:
        """A request failed; another one may follow, as a span of its own."""
        turn, span = self.spans.turns.get(turn_id), self.spans.requests.pop(api_request_id, None)
        if turn is not None:
            turn.failure = reason
        if span is not None:
            span.set_attributes({"hermes.retry_count": retry_count, "hermes.retryable": retryable})
            if status_code is not None:
                span.set_attribute("http.response.status_code", status_code)
            words = str((error or {}).get("message", ""))
            self.spans.end(span, reason, words, is_error=reason != INTERRUPTED, at=ended_at)
        self._traced().instruments.failed(
            provider=provider, model=model, base_url=base_url, seconds=api_duration, error_type=reason
        )

    def send_request(self, *, next_call: Callable[..., Any], api_request_id: str, request: dict[str, Any]) -> Any:
        """Tell the provider which trace the request belongs to."""
        span = self.spans.requests.get(api_request_id)
        if span is None:
            return next_call()
        headers: dict[str, str] = dict(request.get("extra_headers") or {})
        w3c.inject(headers, trace.set_span_in_context(span))
        return next_call({**request, "extra_headers": headers})

    # -- tool calls ---------------------------------------------------------------------------------------------

    def pre_tool_call(
        self, *, session_id: str, turn_id: str, tool_call_id: str, tool_name: str, api_request_id: str = ""
    ) -> None:
        """A tool call begins. Its span covers the gates too; how long the tool ran is an attribute."""
        self.spans.begin_tool((session_id, turn_id, tool_call_id), tool_name, api_request_id)

    def post_tool_call(
        self,
        *,
        session_id: str,
        turn_id: str,
        tool_call_id: str,
        tool_name: str = "",
        status: str = "ok",
        error_type: str | None = None,
        duration_ms: int = 0,
    ) -> None:
        """A tool call is over."""
        key, seconds = (session_id, turn_id, tool_call_id), duration_ms / 1000
        # The end of a call that another process began: nobody here saw its start.
        span = self.spans.tools.get(key) or self.spans.begin_tool(key, tool_name, seconds_ago=seconds)
        self.spans.tools.pop(key, None)
        is_error = status in ("error", "timeout")
        error = "" if status == "ok" else error_type or status
        span.set_attributes({"hermes.tool.status": status, "hermes.tool.duration_ms": duration_ms})
        self.spans.end(span, error, is_error=is_error)
        self._traced().instruments.tool(tool_name, seconds, error, is_error=is_error)

    def run_tool(self, *, next_call: Callable[..., Any], session_id: str, turn_id: str, tool_call_id: str) -> Any:
        """Spans that the tool's own code makes become children of the call's."""
        span = self.spans.tools.get((session_id, turn_id, tool_call_id))
        if span is None:
            return next_call()
        token = otel_context.attach(trace.set_span_in_context(span))
        try:
            return next_call()
        finally:
            otel_context.detach(token)

    # -- approvals ----------------------------------------------------------------------------------------------

    def pre_approval_request(
        self,
        *,
        session_id: str,
        turn_id: str,
        tool_call_id: str,
        pattern_key: str = "",
        description: str = "",
        surface: str = "",
    ) -> None:
        """Somebody is asked about a call."""
        asked = {"rule": pattern_key, "description": description, "surface": surface}
        self._approval((session_id, turn_id, tool_call_id), "request", asked)

    def post_approval_response(
        self,
        *,
        session_id: str,
        turn_id: str,
        tool_call_id: str,
        pattern_key: str = "",
        surface: str = "",
        choice: str = "",
        decided_by: str = "",
    ) -> None:
        """There is an answer, or there was none in time."""
        answer = {"rule": pattern_key, "surface": surface, "choice": choice, "decided_by": decided_by}
        self._approval((session_id, turn_id, tool_call_id), "response", answer)

    def _approval(self, key: CallKey, what: str, about: dict[str, str]) -> None:
        named = {f"hermes.approval.{name}": text for name, text in about.items()}
        self.spans.event(key, f"hermes.approval.{what}", named)

    # -- children -----------------------------------------------------------------------------------------------

    def subagent_start(
        self,
        *,
        session_id: str,
        turn_id: str,
        tool_call_id: str,
        child_session_id: str,
        child_subagent_id: str = "",
        child_role: str = "",
    ) -> None:
        """A child is about to work: its turn belongs to the call that delegated."""
        key = (session_id, turn_id, tool_call_id)
        self.spans.begin_child(child_session_id, key, child_subagent_id, child_role)
        about = {"hermes.child.session_id": child_session_id, "hermes.child.role": child_role}
        self.spans.event(key, "hermes.subagent.start", about)

    def subagent_stop(
        self, *, session_id: str, turn_id: str, tool_call_id: str, child_session_id: str, child_status: str = ""
    ) -> None:
        """A child has reported, or was given up on."""
        self.spans.children.pop(child_session_id, None)
        about = {"hermes.child.session_id": child_session_id, "hermes.child.status": child_status}
        self.spans.event((session_id, turn_id, tool_call_id), "hermes.subagent.stop", about)
