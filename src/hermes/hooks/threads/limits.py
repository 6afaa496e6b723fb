"""Time limits of plugins: how long a callback, an import and a ``register`` may take."""

from __future__ import annotations

import logging
from typing import Any, cast

from hermes.base.config.schema.sections import PluginsConfig

log = logging.getLogger("hermes.hooks")


class PluginLimits:
    """The limits of ``plugins`` and, for single plugins, of ``plugins.entries.<key>``. 0 means no limit."""

    def __init__(self, config: PluginsConfig | None = None) -> None:
        self._config = config or PluginsConfig()

    def hook_seconds(self, plugin: str) -> float:
        """How long one call of a callback may take."""
        return self._seconds(plugin, "hook_timeout", self._config.hook_timeout)

    def load_seconds(self, plugin: str) -> float:
        """How long the import of a plugin, and its ``register``, may take."""
        return self._seconds(plugin, "load_timeout", self._config.load_timeout)

    def _seconds(self, plugin: str, name: str, default: float) -> float:
        entry: Any = self._config.entries.get(plugin)
        found: Any = cast("dict[str, Any]", entry).get(name) if isinstance(entry, dict) else None
        if found is not None and (isinstance(found, bool) or not isinstance(found, int | float) or found < 0):
            log.warning(
                "plugins.entries.%s.%s is %r; it must be seconds, or 0 for no limit. Using %g",
                plugin,
                name,
                found,
                default,
            )
            found = None
        return float(default if found is None else found) or float("inf")
