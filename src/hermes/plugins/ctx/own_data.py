"""Own data of a plugin, as ``ctx`` gives it: settings, what the configuration grants, and a place for values."""

from __future__ import annotations

import re
from threading import Lock
from typing import TYPE_CHECKING, Any, cast

from hermes.contract.plugin import CAPABILITIES
from hermes.hooks.copies import isolate
from hermes.hooks.threads.timed_call import refuse_late_calls
from hermes.plugins.loading.manifest import PluginManifest
from hermes.plugins.services import PluginHost

if TYPE_CHECKING:
    from hermes.plugins.ctx.state import PluginState

#: One part of the name of a setting that a plugin may write.
_SETTING = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,127}")
#: One setting is written at a time.
_writing = Lock()


class OwnData:
    """The part of ``ctx`` that is about the plugin itself."""

    manifest: PluginManifest
    _host: PluginHost
    _state: PluginState | None = None

    @property
    def plugin_id(self) -> str:
        """The plugin's key in the configuration."""
        return self.manifest.key

    def has_plugin(self, plugin_id: str) -> bool:
        """Whether another plugin is loaded, by its key or name."""
        return any(plugin.manifest.answers_to(plugin_id) for plugin in self._host.plugins.loaded)

    def has_capability(self, capability: str) -> bool:
        """Whether the configuration grants something beyond the usual, such as ``tools.override``."""
        setting = CAPABILITIES.get(capability)
        if setting is None:
            return False
        if self.manifest.source == "bundled" and capability == "tools.override":
            return True
        found: Any = self._host.entries.get(self.manifest.key)
        for part in setting.split("."):
            found = cast("dict[str, Any]", found).get(part) if isinstance(found, dict) else None
        return found is True

    @property
    def settings(self) -> dict[str, Any]:
        """The plugin's own settings, a copy of what ``plugins.entries.<key>`` has."""
        found = self._host.entries.get(self.manifest.key)
        return isolate(cast("dict[str, Any]", found)) if isinstance(found, dict) else {}

    def get_config(self, key: str, default: Any = None) -> Any:
        """One of the plugin's settings, a part of one with dots: what is configured, or the manifest's default."""
        from hermes.plugins.loading.settings_schema import own_settings

        found: Any = own_settings(self.manifest.config_schema, self._host.entries.get(self.manifest.key))
        for part in key.split("."):
            if not isinstance(found, dict) or part not in found:
                return default
            found = cast("dict[str, Any]", found)[part]
        return isolate(found)

    def set_config(self, key: str, value: Any) -> None:
        """Write one of the plugin's settings into ``config.yaml``, a part of one with dots; it counts at once.

        ``ValueError`` when the name is none or the manifest's schema does not allow the value.
        """
        from hermes.plugins.ctx.state import write_setting
        from hermes.plugins.loading.settings_schema import settings_problem

        refuse_late_calls()
        parts = key.split(".")
        if not all(_SETTING.fullmatch(part) for part in parts):
            raise ValueError(f"set_config({key!r}): a name of a setting is expected, or several joined by dots")
        with _writing:
            changed = {**self.settings, "settings": _with(self.settings.get("settings"), parts, isolate(value))}
            if problem := settings_problem(self.manifest.key, self.manifest.config_schema, changed):
                raise ValueError(f"set_config: {problem}")
            write_setting(self._host, self.manifest.key, parts, value)
            self._host.entries[self.manifest.key] = changed

    @property
    def state(self) -> PluginState:
        """What the plugin stores: ``get(key, default)`` and ``set(key, value)`` of JSON, and a folder ``data_dir``."""
        if self._state is None:
            from hermes.plugins.ctx.state import PluginState  # few plugins store anything

            self._state = PluginState(self._host, self.manifest)
        return self._state


def _with(settings: object, parts: list[str], value: Any) -> dict[str, Any]:
    """A copy of the settings with one of them changed."""
    known = dict(cast("dict[str, Any]", settings)) if isinstance(settings, dict) else {}
    first, *rest = parts
    known[first] = _with(known.get(first), rest, value) if rest else value
    return known
