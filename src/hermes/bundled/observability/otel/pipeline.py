"""Live tracing over an OTLP pipeline: the SDK's providers, ours or those of the application that Hermes is part of."""

from __future__ import annotations

import atexit
import os
import sys
import threading
from collections.abc import Callable
from typing import Any, TypeVar

from opentelemetry import metrics, trace
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import ConsoleMetricExporter, PeriodicExportingMetricReader
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import SpanLimits, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, ConsoleSpanExporter

from hermes.base.sanitize import Redactor
from hermes.contract.events import Event, SessionFinalized, SessionStarted
from hermes.trace.formats import genai, openinference
from hermes.trace.formats.genai import AGENT_NAME, SCHEMA_URL
from hermes.trace.health import ExporterHealth
from hermes.trace.otel.conventions import CONTENT_FIELDS, ConventionSpans
from hermes.trace.otel.exporters import CountingIntake, CountingMetrics, CountingSpans, TimedFlush, count_lost, sdk_log
from hermes.trace.otel.ids import ContractIds
from hermes.trace.otel.metrics import MetricsSink
from hermes.trace.otel.spans import FlushSink, SpanMiddleware, SpanSink, surrounding_context
from hermes.trace.tracker import TRACKED, Tracker

from .settings import OtelSettings, check_protocol

T = TypeVar("T")

_SCOPE = "hermes.observability.otel"
#: A conversation in the words of OpenInference has an attribute for each field of each message.
_MAX_ATTRIBUTES = 8_192
_LIMITS = ("OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT", "OTEL_ATTRIBUTE_COUNT_LIMIT")
#: How a provider of ours is known, also to a copy of this module that was loaded for another host.
_MARK = "hermes_pipeline"
#: Fields that nothing is made from: a whole conversation is long, and is not copied in vain.
_UNUSED = frozenset({"request", "request_messages", "response", "tools", "middleware_trace"})


class OtelPipeline:
    """A tracer and a meter, and what it takes to empty them in time."""

    def __init__(self, tracer_provider: Any, meter_provider: Any, version: str) -> None:
        self.tracer: trace.Tracer = tracer_provider.get_tracer(_SCOPE, version, schema_url=SCHEMA_URL)
        self.meter: metrics.Meter = meter_provider.get_meter(_SCOPE, version, schema_url=SCHEMA_URL)

    def flush(self, seconds: float) -> None:
        """Send what is waiting. An application looks after its own providers."""
        del seconds


class OwnPipeline(OtelPipeline):
    """Providers of our own, set up by the standard variables."""

    def __init__(self, settings: OtelSettings, plugin: str, version: str) -> None:
        check_protocol(os.environ)
        sdk_log()
        #: The health of the exporters of traces and of metrics, as far as there are such.
        self.health: list[ExporterHealth] = []
        service = {} if settings.has_service_name else {"service.name": AGENT_NAME}
        resource = Resource.create(service)
        self._traces = self._tracer_provider(settings, plugin, resource)
        self._meters = self._meter_provider(settings, plugin, resource)
        super().__init__(self._traces, self._meters, version)
        self._timed_flush = TimedFlush(self._flush)
        self._at_exit = atexit.register(self.flush, settings.flush_seconds)

    def become_global(self) -> None:
        """Let other code of the process join: its spans go where ours go."""
        setattr(self._traces, _MARK, self)
        trace.set_tracer_provider(self._traces)
        if not isinstance(metrics.get_meter_provider(), MeterProvider):
            metrics.set_meter_provider(self._meters)

    def flush(self, seconds: float) -> None:
        """Wait for the collector, but not longer than that; what is not out by then counts as lost."""
        if self._timed_flush.run(seconds):
            return
        for health in self.health:
            count_lost(health, seconds)

    def close(self) -> None:
        """End the threads. Only for those who made the pipeline themselves; a global one lives with the process."""
        atexit.unregister(self._at_exit)
        self._timed_flush.close()
        self._traces.shutdown()
        self._meters.shutdown()
        for health in self.health:
            health.close()

    def _flush(self) -> None:
        self._traces.force_flush()
        self._meters.force_flush()

    def _tracer_provider(self, settings: OtelSettings, plugin: str, resource: Resource) -> TracerProvider:
        limits = (
            None if any(os.environ.get(name) for name in _LIMITS) else SpanLimits(max_span_attributes=_MAX_ATTRIBUTES)
        )
        # The SDK would wait up to half a minute for the collector when the process exits.
        provider = TracerProvider(
            resource=resource, span_limits=limits, id_generator=ContractIds("otel"), shutdown_on_exit=False
        )
        exporter = _exporter("traces", settings, OTLPSpanExporter, ConsoleSpanExporter)
        if exporter is not None:
            health = ExporterHealth(plugin, settings.traces_target)
            self.health.append(health)
            provider.add_span_processor(CountingIntake(health))
            provider.add_span_processor(BatchSpanProcessor(CountingSpans(exporter, health)))
        return provider

    def _meter_provider(self, settings: OtelSettings, plugin: str, resource: Resource) -> MeterProvider:
        readers: list[PeriodicExportingMetricReader] = []
        exporter = _exporter("metrics", settings, OTLPMetricExporter, ConsoleMetricExporter)
        if exporter is not None:
            health = ExporterHealth(plugin, settings.metrics_target)
            self.health.append(health)
            readers.append(PeriodicExportingMetricReader(CountingMetrics(exporter, health)))
        return MeterProvider(readers, resource=resource, shutdown_on_exit=False)


def current_pipeline(settings: OtelSettings, plugin: str, version: str) -> OtelPipeline:
    """The pipeline of this process: the application's, or what an earlier host set up, or else one of our own."""
    provider = trace.get_tracer_provider()
    if isinstance(provider, trace.ProxyTracerProvider):
        own = OwnPipeline(settings, plugin, version)
        own.become_global()
        return own
    earlier: OtelPipeline | None = getattr(provider, _MARK, None)
    return earlier or OtelPipeline(provider, metrics.get_meter_provider(), version)


def _exporter(signal: str, settings: OtelSettings, otlp: Callable[..., T], console: Callable[..., T]) -> T | None:
    """The exporter of ``traces`` or ``metrics`` that the settings name."""
    chosen: str = getattr(settings, f"{signal}_exporter")
    if chosen == "console":
        return console(out=sys.stderr)  # stdout is for answers
    if chosen == "none":
        return None
    if os.environ.get(f"OTEL_EXPORTER_OTLP_{signal.upper()}_ENDPOINT") or not settings.endpoint:
        return otlp()
    return otlp(endpoint=f"{settings.endpoint.rstrip('/')}/v1/{signal}")


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
