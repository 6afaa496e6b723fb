"""OpenTelemetry exporter: sends traces and metrics of what the agent does to a collector."""

from __future__ import annotations

import logging
import os
from typing import Any

from .settings import read_settings

log = logging.getLogger(__name__)


def register(ctx: Any) -> None:
    """Trace every turn, unless OpenTelemetry is switched off or not installed."""
    settings = read_settings(os.environ, ctx.settings)
    if settings.is_disabled:
        log.info("OTEL_SDK_DISABLED is set: nothing is traced")
        return
    try:
        from .pipeline import OtelTracing, current_pipeline
    except ImportError as error:
        missing = error.name or "OpenTelemetry"
        log.warning("nothing is traced: %s is not installed; 'hermes install otel' gets it", missing)
        return
    manifest = ctx.manifest
    OtelTracing(lambda: current_pipeline(settings, manifest.key, manifest.version), settings, ctx.redactor).join(ctx)
