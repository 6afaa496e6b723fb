"""Exports sessions through NVIDIA's NeMo Relay runtime: events as ATOF, trajectories as ATIF, and its components."""

from __future__ import annotations

import logging
import os
from pathlib import Path
from typing import Any

from .settings import PREFIX, read_settings

log = logging.getLogger("hermes.plugins.nemo_relay")


def register(ctx: Any) -> None:
    """Join the host, when the environment asks for an export and the runtime is installed."""
    settings = read_settings(os.environ, Path.cwd())
    for remark in settings.remarks:
        log.warning("%s", remark)
    if not settings.asks_for_something:
        log.info("nothing to export; set %sATOF_ENABLED=1, for example", PREFIX)
        return
    from .relay import Relay, RelayMissing  # a run that exports nothing does not load the runtime

    try:
        relay = Relay()
    except RelayMissing as missing:
        log.warning("%s", missing)
        return
    if not relay.is_tested:
        log.warning("nemo-relay %s is installed; this plugin is tested with 0.3, 0.8 and 0.10", relay.version)
    from .host_exporter import HostExporter

    HostExporter(relay, settings, Path.cwd(), ctx.manifest.key, ctx.redactor).join(ctx)
