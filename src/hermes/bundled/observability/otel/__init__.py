"""Sends traces and metrics of what the agent does to an OpenTelemetry collector."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from .settings import Settings, read_settings

if TYPE_CHECKING:
    from hermes.trace.otel.watcher import Pipeline

log = logging.getLogger(__name__)


def register(ctx: Any) -> None:
    """Watch every turn, unless OpenTelemetry is switched off or not installed."""
    settings = read_settings(os.environ, ctx.settings)
    if settings.is_disabled:
        log.info("OTEL_SDK_DISABLED is set: nothing is traced")
        return
    try:
        from .pipeline import current_pipeline
    except ImportError as error:
        missing = error.name or "OpenTelemetry"
        log.warning("nothing is traced: %s is not installed; pip install 'hermes-agent[otel]' gets it", missing)
        return
    subscribe(ctx, lambda: current_pipeline(settings, ctx.manifest.key, ctx.manifest.version), settings)


def subscribe(ctx: Any, open_pipeline: Callable[[], Pipeline], settings: Settings) -> None:
    """Join the hooks, and the running of tools so that spans made there belong to the call."""
    from hermes.trace.formats import genai, openinference
    from hermes.trace.otel.joining import watch
    from hermes.trace.otel.watcher import Watching

    how = Watching((openinference, genai), settings.parent, settings.flush_seconds)
    watcher = watch(ctx, open_pipeline, how, content=settings.capture_content)
    ctx.register_middleware("tool_execution", watcher.run_tool)
    if settings.propagate:
        ctx.register_middleware("llm_execution", watcher.send_request)
