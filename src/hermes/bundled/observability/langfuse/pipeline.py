"""OTLP pipeline to Langfuse, on a tracer provider that no other code uses: its endpoint, and what refusals mean."""

from __future__ import annotations

import base64

# A forked process must renew the locks of this module before the providers made here use it, which they do at once;
# it does so in the order of loading.
import concurrent.futures.thread  # noqa: F401  # pyright: ignore[reportUnusedImport]
import os
from typing import Any

import requests
from opentelemetry.exporter.otlp.proto.http import Compression
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import SpanLimits, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter
from opentelemetry.sdk.trace.sampling import TraceIdRatioBased
from requests.auth import AuthBase

from hermes.base.sanitize import redact_text
from hermes.trace.formats.genai import AGENT_NAME
from hermes.trace.health import ExporterHealth
from hermes.trace.otel.exporters import CountingIntake, CountingSpans, count_lost
from hermes.trace.otel.ids import ContractIds

from .settings import LangfuseSettings

_PATH = "/api/public/otel/v1/traces"
#: The SDK whose attributes the spans have: the server reads metadata by it.
SDK_VERSION = "5.0.4"
#: What a request may carry besides the headers of Langfuse.
_HEADERS = frozenset(
    {"accept", "accept-encoding", "connection", "content-encoding", "content-length", "content-type", "host"}
    | {"authorization", "user-agent"}
)
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
        id_generator=ContractIds("langfuse"),
        shutdown_on_exit=False,
    )


def _flush_interval() -> float | None:
    """Milliseconds between two batches, as the variable of Langfuse's SDK has it in seconds."""
    try:
        return float(os.environ["LANGFUSE_FLUSH_INTERVAL"]) * 1000
    except (KeyError, ValueError):
        return None


# -- the endpoint -----------------------------------------------------------------------------------------------------


def ingestion(settings: LangfuseSettings) -> SpanExporter:
    """An OTLP exporter with the keys of a project, as Langfuse's own SDK makes it."""
    headers = {
        "x-langfuse-sdk-name": "python",
        "x-langfuse-sdk-version": SDK_VERSION,
        "x-langfuse-public-key": settings.public_key,
        "x-langfuse-ingestion-version": "4",
    }
    session = requests.Session()
    session.auth = _Keys(settings.public_key, settings.secret_key)
    session.hooks["response"].append(_refuse_redirection)
    return OTLPSpanExporter(
        endpoint=settings.base_url + _PATH,
        headers=headers,
        timeout=settings.timeout,
        compression=Compression.Gzip,
        session=session,
    )


class _Keys(AuthBase):
    """Signs requests, and takes off the headers that ``OTEL_EXPORTER_OTLP_HEADERS`` has for another collector."""

    def __init__(self, public_key: str, secret_key: str) -> None:
        self._authorization = "Basic " + base64.b64encode(f"{public_key}:{secret_key}".encode()).decode()

    def __call__(self, r: requests.PreparedRequest) -> requests.PreparedRequest:
        r.headers["authorization"] = self._authorization
        for name in list(r.headers):
            if name.lower() not in _HEADERS and not name.lower().startswith("x-langfuse-"):
                del r.headers[name]
        return r


def _refuse_redirection(response: requests.Response, *_: Any, **__: Any) -> None:
    """The OpenTelemetry exporter would take a redirection for success."""
    if response.is_redirect:
        place = redact_text(response.headers["location"])
        response.close()
        raise requests.RequestException(f"the server redirects to {place}; set LANGFUSE_BASE_URL to where it really is")


def explain(remark: str) -> str:
    """A failure in words, by what the OTLP exporter logged of it."""
    if "code: 401" in remark or "code: 403" in remark:
        check = "check LANGFUSE_PUBLIC_KEY, LANGFUSE_SECRET_KEY and LANGFUSE_BASE_URL"
        return f"the keys are not accepted; {check} ({remark})"
    return remark or "no reason was given"
