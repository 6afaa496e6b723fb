"""Live tracing: a tracker that feeds spans and metrics to a pipeline, opened by the first event."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from hermes.base.sanitize import Redactor
from hermes.contract.events import Event, SessionFinalized, SessionStarted
from hermes.trace.formats import genai, openinference
from hermes.trace.otel.conventions import CONTENT_FIELDS, ConventionSpans
from hermes.trace.otel.metrics import MetricsSink
from hermes.trace.otel.spans import FlushSink, SpanMiddleware, SpanSink, surrounding_context
from hermes.trace.tracker import TRACKED, Tracker

from .pipeline import OtelPipeline
from .settings import OtelSettings

#: Fields that nothing is made from: a whole conversation is long, and is not copied in vain.
_UNUSED = frozenset({"request", "request_messages", "response", "tools", "middleware_trace"})


class OtelTracing:
    """Opened by the first turn: until then the application can set up providers of its own."""

    def __init__(self, open_pipeline: Callable[[], OtelPipeline], settings: OtelSettings, redactor: Redactor) -> None:
        self._open_pipeline = open_pipeline
        self._settings = settings
        self._redactor = redactor
        self._opening = threading.Lock()
        self._tracker: Tracker | None = None

    def join(self, ctx: Any) -> None:
        """Observe every turn, and the running of tools so that spans made there belong to the call."""
        settings = self._settings
        unused = _UNUSED if settings.capture_content else _UNUSED | CONTENT_FIELDS
        ctx.register_event_sink(
            self.take, events=[kind for kind in TRACKED if kind is not SessionStarted], leave_out=unused
        )
        middleware = SpanMiddleware(self.tracker)
        ctx.register_middleware("tool_execution", middleware.run_tool)
        if settings.propagate:
            ctx.register_middleware("llm_execution", middleware.send_request)

    def take(self, event: Event) -> None:
        """Trace an event."""
        if self._tracker is not None or not isinstance(event, SessionFinalized):
            self.tracker().take(event)

    def tracker(self) -> Tracker:
        """The tracker of this host."""
        if self._tracker is None:
            with self._opening:
                if self._tracker is None:
                    self._tracker = self._open()
        return self._tracker

    def _open(self) -> Tracker:
        pipeline, settings = self._open_pipeline(), self._settings
        vocabulary = ConventionSpans((openinference, genai), self._redactor, content=settings.capture_content)
        return Tracker(
            SpanSink(pipeline.tracer, vocabulary, lambda: surrounding_context(settings.parent)),
            MetricsSink(pipeline.meter),
            FlushSink(lambda: pipeline.flush(settings.flush_seconds)),
        )
