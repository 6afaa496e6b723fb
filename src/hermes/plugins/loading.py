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
            parts.hooks.background.run(result, f"register of plugin {manifest.key!r}")
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
