"""Langfuse exporter: turns as traces, model calls as generations, tools and child agents in them."""

from __future__ import annotations

import importlib.util
import logging
import os
from typing import Any

from .settings import read_settings

log = logging.getLogger(__name__)


def register(ctx: Any) -> None:
    """Trace every turn, when there are keys and OpenTelemetry is installed. It is imported by the first turn."""
    settings = read_settings(os.environ, ctx.settings)
    if settings.is_disabled:
        log.info("tracing is switched off by the environment: nothing is sent to Langfuse")
    elif settings.problem:
        log.warning("nothing is sent to Langfuse: %s", settings.problem)
    elif importlib.util.find_spec("opentelemetry") is None:
        log.warning("nothing is sent to Langfuse: OpenTelemetry is not installed; 'hermes install langfuse' gets it")
    else:
        from .tracing import LangfuseTracing

        LangfuseTracing(settings, ctx.manifest.key, ctx.redactor).join(ctx)
