"""Loads one plugin as a transaction: either all of it joins the host, or nothing."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from hermes.errors import PluginError
from hermes.hooks.callback import describe, is_awaitable
from hermes.plugins.context import Parts, PluginContext
from hermes.plugins.manifest import PluginManifest
from hermes.plugins.modules import forget_plugin, import_plugin
from hermes.plugins.registry import LoadedPlugin

log = logging.getLogger("hermes.plugins")


def load_one(record: LoadedPlugin, parts: Parts, register: Callable[[Any], Any] | None = None) -> None:
    """Import a plugin, unless its ``register`` is at hand, and let it register. When anything fails, nothing stays."""
    manifest = record.manifest
    context = parts.contexts[manifest.key] = PluginContext(manifest, record, parts)
    try:
        result = (register or _import_register(manifest, parts))(context)
        if is_awaitable(result):
            parts.hooks.loop.run(result, f"register of plugin {manifest.key!r}")
    except (Exception, SystemExit) as error:
        context.roll_back()
        forget_plugin(manifest)
        record.status = "failed"
        record.error = str(error) if isinstance(error, PluginError) else describe(error)
        log.warning("plugin %r is not loaded: %s", manifest.key, record.error)
        log.debug("how plugin %r failed", manifest.key, exc_info=error)
        return
    except BaseException:
        context.roll_back()
        forget_plugin(manifest)
        raise
    context.commit()
    record.status = "loaded"
    for remark in (*manifest.remarks, *(f"{name} is not set" for name in record.missing_env)):
        log.warning("plugin %r: %s", manifest.key, remark)
    log.debug("plugin %r %s is loaded from %s", manifest.key, manifest.version, manifest.source)


def _import_register(manifest: PluginManifest, parts: Parts) -> Callable[[Any], Any]:
    if manifest.problem:
        raise PluginError(manifest.problem)
    register = getattr(import_plugin(manifest, parts), "register", None)
    if register is None and manifest.kind == "model-provider":
        return _registered_already
    if not callable(register):
        raise PluginError("it has no register(ctx) function")
    return register


def _registered_already(_context: PluginContext) -> None:
    """For model providers that register while they are imported."""


def load_object(plugin: object, parts: Parts) -> str:
    """Load a plugin that the embedding program gives as an object, a module or a ``register`` function; its key."""
    register = getattr(plugin, "register", None) or plugin
    if not callable(register) or isinstance(register, type):
        raise PluginError(f"{plugin!r} is not a plugin: it has no register(ctx) function")
    name = str(getattr(plugin, "name", "") or getattr(plugin, "__name__", "") or type(plugin).__name__)
    known = parts.plugins.plugins
    if name in known:
        raise PluginError(f"there are two plugins called {name!r}; give one of them another name")
    version = str(getattr(plugin, "version", "") or getattr(plugin, "__version__", ""))
    summary = (plugin.__doc__ or "").strip().partition("\n")[0]
    known[name] = LoadedPlugin(PluginManifest(name, name, version, summary, source="program"))
    load_one(known[name], parts, register)
    return name
