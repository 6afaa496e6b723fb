"""Unloading: runs what plugins asked for with ``ctx.on_unload`` when their host closes, or when they fail to load."""

from __future__ import annotations

import logging

from hermes.hooks.callback import describe
from hermes.hooks.threads.runner import CallbackRunner
from hermes.plugins.registry import LoadedPlugin

log = logging.getLogger("hermes.plugins")

#: Seconds that one of the functions may take: the program waits for it before it ends.
_SECONDS = 5.0


def unload(plugin: LoadedPlugin, runner: CallbackRunner) -> None:
    """Run a plugin's clean-up functions, the last one first, each once. One that fails does not keep others from it."""
    key = plugin.manifest.key
    while plugin.clean_ups:
        seconds = min(runner.limits.hook_seconds(key), _SECONDS)
        _, error = runner.call(plugin.clean_ups.pop(), {}, key, seconds, "on_unload")
        if error is not None:
            log.warning("plugin %r: its on_unload failed: %s", key, describe(error))
