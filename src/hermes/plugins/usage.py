"""Usage of plugins: counters of their calls and failures, as rows for the journal."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable

from msgspec.structs import replace

from hermes.base.errors import JournalError
from hermes.hooks.callback import CallbackStats
from hermes.journal.store.port import Store
from hermes.journal.usage.plugins import (
    REFUSED_SITE,
    REGISTER_SITE,
    TOOL_SITE,
    WAITING_SITE,
    PluginCalls,
    record_plugin_counters,
)
from hermes.plugins.registry import LoadedPlugin
from hermes.trace.health import take as taken_from_exporters

log = logging.getLogger("hermes.plugins")


def record_usage(
    store: Store,
    session_id: str,
    plugins: Iterable[LoadedPlugin],
    stats: Iterable[CallbackStats],
    redact: Callable[[str], str],
) -> None:
    """Store the counters of every plugin that was loaded or should have been. A failure to do so is a warning.

    Errors of plugins may quote secrets, which ``redact`` masks.
    """
    counters: dict[tuple[str, str], PluginCalls] = {}
    for plugin in plugins:
        key = plugin.manifest.key
        if plugin.status in ("loaded", "failed"):
            failed = plugin.status == "failed"
            counters[key, REGISTER_SITE] = PluginCalls(key, REGISTER_SITE, 1, int(failed), 0.0, redact(plugin.error))
            if plugin.refusals:
                counters[key, REFUSED_SITE] = PluginCalls(key, REFUSED_SITE, last_error=redact(plugin.refusals))
            offers = [TOOL_SITE + tool for tool in plugin.tools]
            offers += [f"{WAITING_SITE}{one.kind} {one.name}" for one in plugin.waiting]
            for site in offers:
                counters[key, site] = PluginCalls(key, site)
    for one in stats:
        # A plugin may have several callbacks at one hook.
        before = counters.get((one.plugin, one.site), PluginCalls(one.plugin, one.site))
        counters[one.plugin, one.site] = PluginCalls(
            one.plugin,
            one.site,
            before.calls + one.calls,
            before.failures + one.failures,
            before.seconds + one.seconds,
            redact(one.last_error) or before.last_error,
        )
    for one in taken_from_exporters():
        counters[one.plugin, one.site] = replace(one, last_error=redact(one.last_error))
    try:
        record_plugin_counters(store, session_id, list(counters.values()))
    except JournalError as error:
        log.warning("the counters of the plugins are not stored: %s", error)
