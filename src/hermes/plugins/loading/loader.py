"""Plugin loader: which plugins a host loads, from the configuration, the command line and settings that name one."""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Generator, Mapping, Sequence
from pathlib import Path
from typing import Literal

from hermes.base.config.schema.sections import PluginsConfig
from hermes.base.errors import PluginError
from hermes.hooks.table import Hooks
from hermes.plugins.loading.discovery import discover, discover_automatic, find_plugin, is_set, suggestion
from hermes.plugins.loading.manifest import PluginManifest
from hermes.plugins.registry import LoadedPlugin, PluginSet
from hermes.plugins.services import HostServices, PluginHost
from hermes.tools.registry import ToolRegistry

log = logging.getLogger("hermes.plugins")

Decision = Literal["load", "disabled", "not enabled", "waiting"]


def load_plugins(
    *,
    home: Path,
    plugins_config: PluginsConfig,
    tools: ToolRegistry,
    hooks: Hooks,
    services: HostServices,
    extra: Sequence[str] = (),
    objects: Sequence[object] = (),
    use_enabled: bool = True,
    selected: Sequence[str] = (),
    is_gateway: bool = False,
    cwd: Path,
    reserved_commands: frozenset[str] | None = None,
) -> PluginSet:
    """Load what the configuration enables, what loads by itself, what a setting such as ``memory.provider`` selects by
    name, ``extra``, and the ``objects`` of the program that embeds the host.

    A plugin that fails is recorded and the host continues, except one asked for in ``extra`` or given as an object:
    that is an error.
    """
    plugins = PluginSet(hooks)
    if is_set("HERMES_SAFE_MODE"):
        if asked_for := [*extra, *objects]:
            raise PluginError(f"HERMES_SAFE_MODE is set, so plugin {asked_for[0]!r} cannot be loaded; unset it first")
        return plugins
    enabled = set(plugins_config.enabled) if use_enabled else set[str]()
    selected = [name for name in selected if name]
    with _debug_output():
        # With nothing to look for, manifests that cannot matter are not even parsed.
        manifests = discover(home, cwd) if enabled or extra or selected else discover_automatic()
        asked = [find_plugin(name, manifests).key for name in extra]
        _report_unknown(enabled, manifests)
        if not manifests and not objects:
            return plugins
        from hermes.contract.commands import RESERVED_COMMANDS
        from hermes.plugins.context import load_object, load_one  # what runs without plugins stays quick

        reserved = RESERVED_COMMANDS if reserved_commands is None else reserved_commands
        host = PluginHost(tools, hooks, services, plugins, plugins_config.entries, reserved)
        try:
            for key, manifest in manifests.items():
                chosen = key in asked or _is_selected(manifest, selected)
                decision = decide(manifest, enabled, plugins_config.disabled, explicit=chosen)
                record = LoadedPlugin(manifest, missing_env=manifest.missing_env(os.environ))
                plugins.plugins[key] = record
                if decision == "load" and manifest.events and not (is_gateway or chosen):
                    record.status = "waiting"  # for the gateway, which is another process
                elif decision == "load":
                    _make_home(home, manifest)
                    load_one(record, host)
                else:
                    record.status = decision
                    record.error = manifest.problem
                    _explain_waiting(record, enabled)
            asked += [load_object(plugin, host) for plugin in objects]
            _check_asked(asked, plugins)
        except BaseException:
            plugins.close()  # those that were loaded before the one that cannot do without
            raise
    return plugins


def decide(manifest: PluginManifest, enabled: set[str], disabled: Sequence[str], *, explicit: bool = False) -> Decision:
    """Whether a plugin is loaded. Being disabled always wins."""
    if any(manifest.answers_to(name) for name in disabled):
        return "disabled"
    if explicit:
        return "load"
    bundled = manifest.source == "bundled"
    if manifest.kind == "exclusive" or (bundled and manifest.kind == "platform"):
        return "waiting"
    if (bundled and manifest.kind == "backend") or any(manifest.answers_to(name) for name in enabled):
        return "load"
    return "waiting" if manifest.kind == "model-provider" else "not enabled"


def _make_home(home: Path, manifest: PluginManifest) -> None:
    """Published plugins open files in the home without making it."""
    if manifest.source != "bundled":
        with contextlib.suppress(OSError):
            home.mkdir(mode=0o700, parents=True, exist_ok=True)


def _is_selected(manifest: PluginManifest, names: Sequence[str]) -> bool:
    """Whether a setting names this one of several plugins of a kind that is loaded for what it offers alone."""
    if manifest.kind not in ("exclusive", "model-provider", "platform"):
        return False
    return any(manifest.answers_to(name) or manifest.key.rpartition("/")[2] == name for name in names)


def _explain_waiting(record: LoadedPlugin, enabled: set[str]) -> None:
    """Warn that enabling such a plugin does not make it run."""
    manifest = record.manifest
    if record.status == "waiting" and any(manifest.answers_to(name) for name in enabled):
        text = f"kind {manifest.kind!r} is loaded by the part of the runtime it belongs to, when that selects it"
        record.problems.append(text)
        log.warning("plugin %r: %s", manifest.key, text)


def _report_unknown(enabled: set[str], manifests: Mapping[str, PluginManifest]) -> None:
    for name in sorted(enabled):
        if not any(manifest.answers_to(name) for manifest in manifests.values()):
            log.warning("plugins.enabled: there is no plugin %r%s", name, suggestion(name, manifests))


def _check_asked(asked: Sequence[str], plugins: PluginSet) -> None:
    """A plugin that was asked for by name may be a guard, so the host must not run without it."""
    for key in asked:
        record = plugins.plugins[key]
        if record.status == "disabled":
            raise PluginError(f"plugin {key!r} is in plugins.disabled; take it out of there to load it")
        if record.status == "failed":
            raise PluginError(f"plugin {key!r} cannot be loaded: {record.error}")


@contextlib.contextmanager
def _debug_output() -> Generator[None]:
    """With HERMES_PLUGINS_DEBUG set, everything about finding and loading plugins goes to stderr too."""
    if not is_set("HERMES_PLUGINS_DEBUG"):
        yield
        return
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("plugins: %(message)s"))
    level = log.level
    log.addHandler(handler)
    log.setLevel(logging.DEBUG)
    try:
        yield
    finally:
        log.removeHandler(handler)
        log.setLevel(level)
