"""The Langfuse client of this plugin, on a tracer provider that nobody else uses."""

from __future__ import annotations

import atexit

# A forked process must renew the locks of this module before the providers made here use it, which they do at once;
# it does so in the order of loading.
import concurrent.futures.thread  # noqa: F401  # pyright: ignore[reportUnusedImport]
from typing import Any

import langfuse
from langfuse import Langfuse, LangfuseOtelSpanAttributes
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import SpanLimits, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.sampling import TraceIdRatioBased

from hermes.trace.formats.genai import AGENT_NAME
from hermes.trace.health import ExporterHealth
from hermes.trace.otel.exporters import CountingIntake

from .exporter import CountingExporter, Remarks, ingestion
from .settings import Settings

#: How the server recognises spans that speak its own language.
_SDK_SCOPE = "langfuse-sdk"


class Pipeline:
    """A client and a tracer, and what it takes to empty them."""

    def __init__(self, settings: Settings, plugin: str) -> None:
        #: How the exporter fares.
        self.health = ExporterHealth(plugin, settings.target)
        self._remarks = Remarks()
        self._provider = _provider(settings)
        self._provider.add_span_processor(CountingIntake(self.health))
        exporter = CountingExporter(ingestion(settings, langfuse.__version__), self.health, self._remarks)
        self.client = Langfuse(
            public_key=settings.public_key,
            secret_key=settings.secret_key,
            base_url=settings.base_url,
            timeout=max(int(settings.timeout), 1),
            environment=settings.environment or None,
            tracer_provider=self._provider,
            span_exporter=exporter,
        )
        # The SDK has one set of resources for each public key, and no public way to ask whose they are.
        resources: Any = self.client._resources  # pyright: ignore[reportPrivateUsage]
        self._is_own = resources.tracer_provider is self._provider
        if self._is_own:
            # It would wait for the server without a bound when the process exits; the recorder does with one.
            atexit.unregister(resources.shutdown)
        else:
            self._provider.add_span_processor(BatchSpanProcessor(exporter))
        self.tracer = self._provider.get_tracer(
            _SDK_SCOPE, langfuse.__version__, attributes={"public_key": settings.public_key}
        )

    def flush(self) -> None:
        """Send what is waiting. Takes as long as the server takes."""
        self._provider.force_flush()

    def give_up(self, seconds: float) -> None:
        """What is not sent by now counts as lost."""
        lost = self.health.events_in - self.health.events_out - self.health.events_failed
        if lost > 0:
            self.health.failed(f"not sent within {seconds:g} s; {self._remarks.last}".rstrip("; "), lost)

    def close(self) -> None:
        """End the threads."""
        if self._is_own:
            self.client.shutdown()
        self._provider.shutdown()
        self._remarks.close()
        self.health.close()


def _provider(settings: Settings) -> TracerProvider:
    """Set up by our settings alone: what ``OTEL_*`` says is meant for another collector."""
    about = {"service.name": AGENT_NAME}
    if settings.environment:
        about[LangfuseOtelSpanAttributes.ENVIRONMENT] = settings.environment
    limits = SpanLimits(max_attribute_length=SpanLimits.UNSET, max_span_attribute_length=SpanLimits.UNSET)
    return TracerProvider(
        resource=Resource(about),
        sampler=TraceIdRatioBased(settings.sample_rate),
        span_limits=limits,
        shutdown_on_exit=False,
    )
