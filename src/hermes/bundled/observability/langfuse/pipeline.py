"""OTLP pipeline to Langfuse, on a tracer provider that no other code uses."""

from __future__ import annotations

# A forked process must renew the locks of this module before the providers made here use it, which they do at once;
# it does so in the order of loading.
import concurrent.futures.thread  # noqa: F401  # pyright: ignore[reportUnusedImport]
import os

from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import SpanLimits, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.sampling import TraceIdRatioBased

from hermes.trace.formats.genai import AGENT_NAME
from hermes.trace.health import ExporterHealth
from hermes.trace.otel.exporters import CountingIntake, CountingSpans, count_lost

from .exporter import SDK_VERSION, explain, ingestion
from .settings import LangfuseSettings

#: The scope by which the server recognises spans with attributes of its own.
_SDK_SCOPE = "langfuse-sdk"


class LangfusePipeline:
    """A tracer, and what it takes to empty it."""

    def __init__(self, settings: LangfuseSettings, plugin: str) -> None:
        self.health = ExporterHealth(plugin, settings.target)
        self._provider = _provider(settings)
        self._provider.add_span_processor(CountingIntake(self.health))
        exporter = CountingSpans(ingestion(settings), self.health, explain)
        self._provider.add_span_processor(BatchSpanProcessor(exporter, schedule_delay_millis=_flush_interval()))
        self.tracer = self._provider.get_tracer(_SDK_SCOPE, SDK_VERSION, attributes={"public_key": settings.public_key})

    def flush(self) -> None:
        """Send what is waiting. Takes as long as the server takes."""
        self._provider.force_flush()

    def give_up(self, seconds: float) -> None:
        """What is not sent by now counts as lost."""
        count_lost(self.health, seconds)

    def close(self) -> None:
        """End the threads."""
        self._provider.shutdown()
        self.health.close()


def _provider(settings: LangfuseSettings) -> TracerProvider:
    """Set up by our settings alone: what ``OTEL_*`` says is meant for another collector."""
    about = {"service.name": AGENT_NAME}
    if settings.environment:
        about["langfuse.environment"] = settings.environment
    limits = SpanLimits(max_attribute_length=SpanLimits.UNSET, max_span_attribute_length=SpanLimits.UNSET)
    return TracerProvider(
        resource=Resource(about),
        sampler=TraceIdRatioBased(settings.sample_rate),
        span_limits=limits,
        shutdown_on_exit=False,
    )


def _flush_interval() -> float | None:
    """Milliseconds between two batches, as the variable of Langfuse's SDK has it in seconds."""
    try:
        return float(os.environ["LANGFUSE_FLUSH_INTERVAL"]) * 1000
    except (KeyError, ValueError):
        return None
