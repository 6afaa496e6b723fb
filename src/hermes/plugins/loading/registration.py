"""The ``register`` of a plugin: its own function, or one for the class of provider that a module consists of."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import TYPE_CHECKING, Any

from hermes.base.errors import PluginError
from hermes.hooks.callback import describe
from hermes.plugins.loading.modules import import_plugin

if TYPE_CHECKING:
    from hermes.plugins.context import PluginContext
    from hermes.plugins.loading.manifest import PluginManifest
    from hermes.plugins.services import PluginHost

Register = Callable[[Any], Any]

#: Base classes of which a module may have one instead of a ``register``, and how it is then offered.
OFFERED_CLASSES = {"MemoryProvider": "register_memory_provider", "ContextEngine": "register_context_engine"}


def import_register(manifest: PluginManifest, host: PluginHost) -> Register:
    """Import a plugin and return what registers it."""
    if problem := manifest.problem or _unmet(manifest, host):
        raise PluginError(problem)
    if manifest.is_portable:
        from hermes.plugins.loading.portable import portable_register

        return portable_register(manifest, host)
    try:
        found = import_plugin(manifest, host)
    except ImportError as error:
        if missing := missing_of(manifest):
            raise PluginError(f"{describe(error)}; {missing}") from error
        raise
    if manifest.events:
        from hermes.plugins.loading.gateway_hook import gateway_hook_register

        return gateway_hook_register(found, manifest, host)
    register = getattr(found, "register", None)
    if register is None and (manifest.kind == "model-provider" or _has_offered(manifest, host)):
        return _registered_already
    if register is None:
        register = _of_class(found, is_memory=manifest.key.startswith("memory/"))
    if register is None and manifest.entry_point and callable(found):
        return found  # the entry point names the function itself
    if not callable(register):
        raise PluginError("it has no register(ctx) function")
    return register


def missing_of(manifest: PluginManifest) -> str:
    """Which Python packages a plugin needs that are not installed, and how they are; empty when all are there."""
    if not manifest.python_dependencies:
        return ""
    from hermes.plugins.loading.requirements import missing_packages

    missing = missing_packages(manifest.python_dependencies)
    names = ", ".join(missing)
    how = f"'hermes plugins enable {manifest.key}' offers to install what is missing"
    return f"it needs {names} (python_dependencies); {how}" if missing else ""


def remarks_on(manifest: PluginManifest, entry: object) -> list[str]:
    """What a person should know about a plugin that was loaded, with its settings ``entry``."""
    remarks = [*manifest.remarks, *filter(None, [missing_of(manifest)])]
    if manifest.config_schema:
        from hermes.plugins.loading.settings_schema import unknown_settings

        remarks += unknown_settings(manifest.key, manifest.config_schema, entry)
    return remarks


def _unmet(manifest: PluginManifest, host: PluginHost) -> str:
    """Why the plugin cannot run here with these settings; empty when it can."""
    if manifest.requires_hermes:
        from hermes.plugins.loading.requirements import unmet_contract

        if problem := unmet_contract(manifest.requires_hermes):
            return problem
    if manifest.config_schema:
        from hermes.plugins.loading.settings_schema import settings_problem

        return settings_problem(manifest.key, manifest.config_schema, host.entries.get(manifest.key))
    return ""


def _of_class(found: Any, *, is_memory: bool) -> Register | None:
    """For a plugin that is a class of provider, or a module with one; the last one, when it has several."""
    values = [found] if isinstance(found, type) else vars(found).values() if isinstance(found, ModuleType) else ()
    classes = [one for one in values if isinstance(one, type)]
    for base, method in OFFERED_CLASSES.items():
        own = [one for one in classes if any(above.__name__ == base for above in one.__mro__[1:])]
        if own:
            return _offering(method, own[-1])
    # An entry point of a memory may be any class that behaves like one.
    return _offering(OFFERED_CLASSES["MemoryProvider"], found) if is_memory and isinstance(found, type) else None


def _offering(method: str, made: Callable[[], Any]) -> Register:
    def register(context: PluginContext) -> None:
        getattr(context, method)(made())

    return register


def _has_offered(manifest: PluginManifest, host: PluginHost) -> bool:
    record = host.plugins.plugins.get(manifest.key)
    return record is not None and bool(record.waiting)


def _registered_already(_context: PluginContext) -> None:
    """For model providers that register while they are imported."""
