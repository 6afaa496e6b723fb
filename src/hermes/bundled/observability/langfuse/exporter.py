"""Span exporter for the ingestion endpoint of Langfuse: counts what was sent and logs the first failure."""

from __future__ import annotations

import base64
import logging
import threading
from collections.abc import Sequence
from typing import Any

import requests
from opentelemetry.exporter.otlp.proto.http import Compression
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
from requests.auth import AuthBase

from hermes.sanitize import redact_text
from hermes.trace.health import ExporterHealth

from .settings import LangfuseSettings

log = logging.getLogger(__name__)

_PATH = "/api/public/otel/v1/traces"
_SDK_LOGGER = "opentelemetry"
#: The SDK whose attributes the spans have: the server reads metadata by it.
SDK_VERSION = "5.0.4"
#: What a request may carry besides the headers of Langfuse.
_HEADERS = frozenset(
    {"accept", "accept-encoding", "connection", "content-encoding", "content-length", "content-type", "host"}
    | {"authorization", "user-agent"}
)
_MAX_REMARK_CHARS = 300


class ExportLogHandler(logging.Handler):
    """Takes what OpenTelemetry logs: without it, a server that is away would write to the user's terminal."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.last = ""
        #: The thread that sends for us. Another exporter of the process has log_handler of its own.
        self.thread = 0
        logging.getLogger(_SDK_LOGGER).addHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        if record.thread != self.thread:
            return
        try:
            self.last = redact_text(" ".join(record.getMessage().split()))[:_MAX_REMARK_CHARS]
        except Exception:
            self.last = "a remark that cannot be read"
        log.debug("OpenTelemetry: %s", self.last)

    def close(self) -> None:
        logging.getLogger(_SDK_LOGGER).removeHandler(self)
        super().close()


class CountingExporter(SpanExporter):
    """Counts what became of the spans. The first failure is a warning, until something goes well again."""

    def __init__(self, exporter: SpanExporter, health: ExporterHealth, log_handler: ExportLogHandler) -> None:
        self._exporter = exporter
        self._health = health
        self._log = log_handler
        self._is_failing = False

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        self._log.thread, self._log.last = threading.get_ident(), ""
        result = self._exporter.export(spans)
        if result is SpanExportResult.SUCCESS:
            self._is_failing = False
            self._health.sent(len(spans))
            return result
        why = _explained(self._log.last)
        self._health.failed(why, len(spans))
        level = logging.DEBUG if self._is_failing else logging.WARNING
        self._is_failing = True
        log.log(level, "Langfuse at %s did not take %d observations: %s", self._health.target, len(spans), why)
        return result

    def shutdown(self) -> None:
        self._exporter.shutdown()

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        return self._exporter.force_flush(timeout_millis)


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


def _explained(remark: str) -> str:
    if "code: 401" in remark or "code: 403" in remark:
        check = "check LANGFUSE_PUBLIC_KEY, LANGFUSE_SECRET_KEY and LANGFUSE_BASE_URL"
        return f"the keys are not accepted; {check} ({remark})"
    return remark or "no reason was given"
