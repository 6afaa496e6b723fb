"""Exporters that count what they send, a flush with a deadline, and a handler for what the SDK logs."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from textwrap import shorten
from typing import Any

from opentelemetry.sdk.metrics.export import MetricExporter, MetricExportResult, MetricsData
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

from hermes.base.sanitize import redact_text
from hermes.hooks.queue import BackgroundQueue
from hermes.trace.health import ExporterHealth

log = logging.getLogger(__name__)

#: Room for a whole remark about a collector that is away; it names the address, and says when it is tried again.
_MAX_REMARK_CHARS = 600


class SdkLogHandler(logging.Handler):
    """Takes what the SDK logs: without it, a collector that is away would write to the user's terminal.

    The first remark of each kind is a warning in the agent's log, the others are for those who look closely. So are
    all of a thread whose exporter warns by itself.
    """

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.last = ""
        #: The last remark by thread: each exporter has one of its own.
        self.last_of: dict[int, str] = {}
        self.quiet_threads: set[int] = set()
        self._seen: set[str] = set()

    def emit(self, record: logging.LogRecord) -> None:
        try:
            text = shorten(redact_text(record.getMessage()), _MAX_REMARK_CHARS, placeholder=" …")
        except Exception:
            text = "a remark that cannot be read"
        thread = record.thread or 0
        self.last = self.last_of[thread] = text
        kind = f"{record.name} {record.msg}"
        level = logging.DEBUG if kind in self._seen or thread in self.quiet_threads else logging.WARNING
        if level == logging.WARNING:
            self._seen.add(kind)
        log.log(level, "%s: %s", record.name.partition(".")[0], text)


def sdk_log() -> SdkLogHandler:
    """The one handler for what the SDKs log, installed by the first call."""
    sdk = logging.getLogger("opentelemetry")
    found = next((handler for handler in sdk.handlers if isinstance(handler, SdkLogHandler)), None) or SdkLogHandler()
    for name in ("opentelemetry", "langfuse"):
        logging.getLogger(name).addHandler(found)  # adding it again changes nothing
    return found


class CountingIntake(SpanProcessor):
    """Counts the spans that are to be sent."""

    def __init__(self, health: ExporterHealth) -> None:
        self._health = health

    def on_end(self, span: ReadableSpan) -> None:
        if span.context and span.context.trace_flags.sampled:
            self._health.received()


def count_lost(health: ExporterHealth, seconds: float) -> None:
    """What is not out by now counts as lost."""
    lost = health.events_in - health.events_out - health.events_failed
    if lost > 0:
        health.failed(f"not sent within {seconds:g} s; {sdk_log().last}".rstrip("; "), lost)


class TimedFlush:
    """Runs ``flush``, which itself has no deadline, on a background queue and waits for it until one.

    The thread is started at once: none can be started while a process exits.
    """

    def __init__(self, flush: Callable[[], object]) -> None:
        self._flush = flush
        self._queue = BackgroundQueue("otel flush")
        self._queue.start()

    def run(self, seconds: float) -> bool:
        """Whether everything was sent in time. While a flush is late there is no second wait for it."""
        return not self._queue.is_late and self._queue.put(self._flush) and self._queue.flush(seconds)

    def close(self) -> None:
        """End the thread."""
        self._queue.close()


class CountingSpans(SpanExporter):
    """Counts what became of the spans that another exporter was given.

    With ``explain``, which makes a reason of what the SDK said, the first failure is a warning until something goes
    well again.
    """

    def __init__(
        self, exporter: SpanExporter, health: ExporterHealth, explain: Callable[[str], str] | None = None
    ) -> None:
        self._exporter = exporter
        self._health = health
        self._explain = explain
        self._log = sdk_log()
        self._is_failing = False

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        thread = threading.get_ident()
        if self._explain is not None:
            self._log.quiet_threads.add(thread)
        try:
            result = self._exporter.export(spans)
        finally:
            self._log.quiet_threads.discard(thread)
            remark = self._log.last_of.pop(thread, "")
        if result is SpanExportResult.SUCCESS:
            self._is_failing = False
            self._health.sent(len(spans))
        else:
            self._failed(len(spans), remark)
        return result

    def _failed(self, count: int, remark: str) -> None:
        if self._explain is None:
            self._health.failed(remark or "the collector did not take them", count)
            return
        why = self._explain(remark)
        self._health.failed(why, count)
        level = logging.DEBUG if self._is_failing else logging.WARNING
        self._is_failing = True
        log.log(level, "%s did not take %d spans: %s", self._health.target, count, why)

    def shutdown(self) -> None:
        self._exporter.shutdown()

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        return self._exporter.force_flush(timeout_millis)


class CountingMetrics(MetricExporter):
    """The same for metrics; each report of all of them counts as one event."""

    def __init__(self, exporter: MetricExporter, health: ExporterHealth) -> None:
        # The reader takes these two from the exporter it was given.
        super().__init__(exporter._preferred_temporality, exporter._preferred_aggregation)  # pyright: ignore[reportPrivateUsage]
        self._exporter = exporter
        self._health = health
        self._log = sdk_log()

    def export(self, metrics_data: MetricsData, timeout_millis: float = 10_000, **kwargs: Any) -> MetricExportResult:
        self._health.received()
        result = self._exporter.export(metrics_data, timeout_millis, **kwargs)  # pyright: ignore[reportUnknownMemberType]
        if result is MetricExportResult.SUCCESS:
            self._health.sent()
        else:
            self._health.failed(self._log.last or "the collector did not take them")
        return result

    def shutdown(self, timeout_millis: float = 30_000, **kwargs: Any) -> None:
        self._exporter.shutdown(timeout_millis, **kwargs)  # pyright: ignore[reportUnknownMemberType]

    def force_flush(self, timeout_millis: float = 10_000) -> bool:
        return self._exporter.force_flush(timeout_millis)
