"""Settings of the OpenTelemetry exporter, from the environment and the configuration."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from hermes.trace.otel.variables import ExporterVariables, public_address

log = logging.getLogger(__name__)

DEFAULT_ENDPOINT = "http://localhost:4318"
DEFAULT_FLUSH_SECONDS = 2.0

#: How the standard variable says that content may be part of spans; ``true`` is its older form.
_CONTENT_IN_SPANS = frozenset({"1", "true", "yes", "on", "span_only", "span_and_event"})
_PROTOCOL = "http/protobuf"
_EXPORTERS = ("otlp", "console", "none")


@dataclass(frozen=True, slots=True)
class OtelSettings:
    """How to trace. What is not here the OpenTelemetry SDK reads from its own ``OTEL_*`` variables."""

    is_disabled: bool = False
    #: An address from the configuration; the environment's own variables come first.
    endpoint: str = ""
    traces_exporter: str = "otlp"
    metrics_exporter: str = "otlp"
    capture_content: bool = False
    #: Whether requests to models carry ``traceparent``.
    propagate: bool = False
    #: How long the end of a session may wait for the collector.
    flush_seconds: float = DEFAULT_FLUSH_SECONDS
    #: The trace that the process was started in, as ``TRACEPARENT`` and ``TRACESTATE``.
    parent: Mapping[str, str] | None = None
    #: Where traces and metrics go, without credentials, for people to read.
    traces_target: str = DEFAULT_ENDPOINT
    metrics_target: str = DEFAULT_ENDPOINT
    has_service_name: bool = False


def read_settings(env: Mapping[str, str], entries: Mapping[str, Any]) -> OtelSettings:
    """OtelSettings from the environment first, then from ``plugins.entries`` of the configuration."""
    own, standard = ExporterVariables(env, ("HERMES_OTEL_",), entries), ExporterVariables(env, ("OTEL_",))
    endpoint = "" if standard.text("exporter_otlp_endpoint") else str(entries.get("endpoint") or "").strip()
    in_spans = standard.text("instrumentation_genai_capture_message_content").lower()
    is_named = bool(standard.text("service_name")) or "service.name=" in standard.text("resource_attributes")
    return OtelSettings(
        is_disabled=standard.switch("sdk_disabled"),
        endpoint=endpoint,
        traces_exporter=standard.choice("traces_exporter", *_EXPORTERS),
        metrics_exporter=standard.choice("metrics_exporter", *_EXPORTERS),
        capture_content=_captures_content(env, in_spans, own),
        propagate=own.switch("propagate"),
        flush_seconds=own.number("flush_seconds", DEFAULT_FLUSH_SECONDS),
        parent=_parent(env),
        traces_target=_target(standard, "traces", endpoint),
        metrics_target=f"{_target(standard, 'metrics', endpoint)} (metrics)",
        has_service_name=is_named,
    )


def check_protocol(env: Mapping[str, str]) -> None:
    """Say so when a protocol is asked for that this plugin does not speak."""
    for name in ("OTEL_EXPORTER_OTLP_PROTOCOL", "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL"):
        if env.get(name, _PROTOCOL).strip() not in ("", _PROTOCOL):
            log.warning("%s is %r; only %s is spoken here, and used", name, env[name], _PROTOCOL)


def _captures_content(env: Mapping[str, str], in_spans: str, own: ExporterVariables) -> bool:
    """Our own variable decides, then the standard one, then the configuration."""
    if in_spans and not env.get("HERMES_OTEL_CAPTURE_CONTENT", "").strip():
        return in_spans in _CONTENT_IN_SPANS
    return own.switch("capture_content")


def _parent(env: Mapping[str, str]) -> Mapping[str, str] | None:
    traceparent = env.get("TRACEPARENT", "").strip()
    if not traceparent:
        return None
    carrier = {"traceparent": traceparent, "tracestate": env.get("TRACESTATE", "").strip()}
    return {name: value for name, value in carrier.items() if value}


def _target(standard: ExporterVariables, signal: str, configured: str) -> str:
    named = standard.text(f"exporter_otlp_{signal}_endpoint", "exporter_otlp_endpoint") or configured
    return public_address(named or DEFAULT_ENDPOINT) or "an address that cannot be read"
