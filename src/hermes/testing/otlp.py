"""OTLP receiver: a collector on loopback that takes traces and metrics over HTTP and shows what arrived.

It reads the protobuf messages of OpenTelemetry, which come with the ``otel`` extra.
"""

from __future__ import annotations

import gzip
import threading
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler
from typing import Any

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from hermes.testing.webhook import PostReceiver


@dataclass(frozen=True)
class ReceivedSpan:
    """A span as the collector sees it, in plain values."""

    name: str
    trace_id: str
    span_id: str
    parent_id: str
    kind: int
    started: int
    ended: int
    attributes: dict[str, Any]
    events: list[tuple[str, dict[str, Any]]]
    status: int
    message: str
    resource: dict[str, Any]


@dataclass(frozen=True)
class ReceivedPoint:
    """One data point of a metric: a histogram's sum and count, or a counter's sum."""

    name: str
    attributes: dict[str, Any]
    sum: float
    count: int


class OtlpReceiver(PostReceiver):
    """Takes exports at ``url``. Use it as a context manager.

    ``statuses`` are its answers in order, the last one for all further requests; 0 means not to answer at all.
    """

    def __init__(self, *statuses: int) -> None:
        super().__init__()
        self._statuses = list(statuses or (200,))
        self._closing = threading.Event()
        self._spans: list[ReceivedSpan] = []
        self._points: list[ReceivedPoint] = []
        #: Path and headers of every request.
        self.requests: list[tuple[str, dict[str, str]]] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    def __exit__(self, *_: object) -> None:
        self._closing.set()
        super().__exit__()

    def release(self) -> None:
        """End the requests that were not answered, and answer with 200 from now on."""
        with self._changed:
            self._statuses = [200]
        self._closing.set()

    @property
    def spans(self) -> list[ReceivedSpan]:
        with self._changed:
            return sorted(self._spans, key=lambda span: span.started)

    @property
    def points(self) -> list[ReceivedPoint]:
        with self._changed:
            return list(self._points)

    def wait_for_request(self, timeout: float = 30.0) -> None:
        """Wait until something was sent; ``TimeoutError`` when nothing is."""
        with self._changed:
            if not self._changed.wait_for(lambda: bool(self.requests), timeout):
                raise TimeoutError(f"nothing was sent within {timeout:g} s")

    def wait_for_spans(self, count: int, timeout: float = 30.0) -> list[ReceivedSpan]:
        """Wait until so many spans have arrived; ``TimeoutError`` when they do not."""
        with self._changed:
            if not self._changed.wait_for(lambda: len(self._spans) >= count, timeout):
                raise TimeoutError(f"{len(self._spans)} spans arrived within {timeout:g} s, not {count}")
        return self.spans

    def span(self, name: str) -> ReceivedSpan:
        """The only span of that name."""
        (found,) = [span for span in self.spans if span.name == name]
        return found

    def _take(self, handler: BaseHTTPRequestHandler) -> None:
        body = handler.rfile.read(int(handler.headers["content-length"]))
        if handler.headers.get("content-encoding") == "gzip":
            body = gzip.decompress(body)
        with self._changed:
            self.requests.append((handler.path, {name.lower(): text for name, text in handler.headers.items()}))
            status = self._statuses.pop(0) if len(self._statuses) > 1 else self._statuses[0]
            if status == 200:
                self._decode(handler.path, body)
            self._changed.notify_all()
        if status == 0:
            self._closing.wait()
            return
        with suppress(OSError):
            handler.send_response(status)
            handler.send_header("content-length", "0")
            handler.end_headers()

    def _decode(self, path: str, body: bytes) -> None:
        if path.endswith("/v1/metrics"):
            self._points += _points(ExportMetricsServiceRequest.FromString(body))
        else:
            self._spans += received_spans(ExportTraceServiceRequest.FromString(body))


def received_spans(request: Any) -> Iterable[ReceivedSpan]:
    """The spans of a decoded export request."""
    for group in request.resource_spans:
        resource = _plain(group.resource.attributes)
        for scope in group.scope_spans:
            for span in scope.spans:
                yield ReceivedSpan(
                    name=span.name,
                    trace_id=span.trace_id.hex(),
                    span_id=span.span_id.hex(),
                    parent_id=span.parent_span_id.hex(),
                    kind=span.kind,
                    started=span.start_time_unix_nano,
                    ended=span.end_time_unix_nano,
                    attributes=_plain(span.attributes),
                    events=[(event.name, _plain(event.attributes)) for event in span.events],
                    status=span.status.code,
                    message=span.status.message,
                    resource=resource,
                )


def _points(request: ExportMetricsServiceRequest) -> Iterable[ReceivedPoint]:
    for group in request.resource_metrics:
        for scope in group.scope_metrics:
            for metric in scope.metrics:
                for point in metric.histogram.data_points:
                    yield ReceivedPoint(metric.name, _plain(point.attributes), point.sum, point.count)
                for point in metric.sum.data_points:
                    yield ReceivedPoint(metric.name, _plain(point.attributes), point.as_int or point.as_double, 1)


def _plain(attributes: Iterable[Any]) -> dict[str, Any]:
    return {attribute.key: _value(attribute.value) for attribute in attributes}


def _value(value: Any) -> Any:
    kind = value.WhichOneof("value")
    if kind == "array_value":
        return [_value(item) for item in value.array_value.values]
    return getattr(value, kind) if kind else None
