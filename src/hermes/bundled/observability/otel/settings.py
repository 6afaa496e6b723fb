"""Settings of the OpenTelemetry exporter, from the environment and the configuration."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

log = logging.getLogger(__name__)

DEFAULT_ENDPOINT = "http://localhost:4318"
DEFAULT_FLUSH_SECONDS = 2.0

_TRUE = frozenset({"1", "true", "yes", "on"})
#: How the standard variable says that content may be part of spans; ``true`` is its older form.
_CONTENT_IN_SPANS = _TRUE | {"span_only", "span_and_event"}
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
    endpoint = "" if _any(env, "OTEL_EXPORTER_OTLP_ENDPOINT") else str(entries.get("endpoint") or "").strip()
    return OtelSettings(
        is_disabled=_is_true(env.get("OTEL_SDK_DISABLED")),
        endpoint=endpoint,
        traces_exporter=_exporter(env, "OTEL_TRACES_EXPORTER"),
        metrics_exporter=_exporter(env, "OTEL_METRICS_EXPORTER"),
        capture_content=_captures_content(env, entries),
        propagate=_is_true(env.get("HERMES_OTEL_PROPAGATE", entries.get("propagate"))),
        flush_seconds=_seconds(env.get("HERMES_OTEL_FLUSH_SECONDS", entries.get("flush_seconds"))),
        parent=_parent(env),
        traces_target=_target(env, "TRACES", endpoint),
        metrics_target=_target(env, "METRICS", endpoint),
        has_service_name=_any(env, "OTEL_SERVICE_NAME") or "service.name=" in env.get("OTEL_RESOURCE_ATTRIBUTES", ""),
    )


def check_protocol(env: Mapping[str, str]) -> None:
    """Say so when a protocol is asked for that this plugin does not speak."""
    for name in ("OTEL_EXPORTER_OTLP_PROTOCOL", "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL"):
        if env.get(name, _PROTOCOL).strip() not in ("", _PROTOCOL):
            log.warning("%s is %r; only %s is spoken here, and used", name, env[name], _PROTOCOL)


def _exporter(env: Mapping[str, str], name: str) -> str:
    wanted = env.get(name, "").strip().lower() or "otlp"
    if wanted in _EXPORTERS:
        return wanted
    log.warning("%s is %r; allowed: %s. Using otlp", name, env[name], ", ".join(_EXPORTERS))
    return "otlp"


def _captures_content(env: Mapping[str, str], entries: Mapping[str, Any]) -> bool:
    own = env.get("HERMES_OTEL_CAPTURE_CONTENT")
    if own is not None and own.strip():
        return _is_true(own)
    standard = env.get("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", "").strip().lower()
    if standard:
        return standard in _CONTENT_IN_SPANS
    return _is_true(entries.get("capture_content"))


def _parent(env: Mapping[str, str]) -> Mapping[str, str] | None:
    traceparent = env.get("TRACEPARENT", "").strip()
    if not traceparent:
        return None
    carrier = {"traceparent": traceparent, "tracestate": env.get("TRACESTATE", "").strip()}
    return {name: value for name, value in carrier.items() if value}


def _target(env: Mapping[str, str], signal: str, configured: str) -> str:
    named = env.get(f"OTEL_EXPORTER_OTLP_{signal}_ENDPOINT") or env.get("OTEL_EXPORTER_OTLP_ENDPOINT") or configured
    try:
        parts = urlsplit(named or DEFAULT_ENDPOINT)
        place = parts.hostname or ""
        where = f"{parts.scheme}://{place}:{parts.port}" if parts.port else f"{parts.scheme}://{place}"
    except ValueError:
        where = "an address that cannot be read"
    return where if signal == "TRACES" else f"{where} (metrics)"


def _seconds(value: Any) -> float:
    try:
        return max(float(value), 0.0) if value not in (None, "") else DEFAULT_FLUSH_SECONDS
    except (TypeError, ValueError):
        log.warning("the time to wait for the collector is %r; a number of seconds is expected", value)
        return DEFAULT_FLUSH_SECONDS


def _is_true(value: Any) -> bool:
    return str(value).strip().lower() in _TRUE


def _any(env: Mapping[str, str], name: str) -> bool:
    return bool(env.get(name, "").strip())
