"""Imports a plugin's code under a name of its own."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

from hermes.errors import PluginError
from hermes.plugins.manifest import PluginManifest

#: The package all folder plugins live in; it exists only while the program runs.
PARENT = "hermes_plugins"


def module_name(key: str) -> str:
    """The module a folder plugin is imported as."""
    return f"{PARENT}.{key.replace('/', '__').replace('-', '_')}"


def import_plugin(manifest: PluginManifest) -> Any:
    """The module or object that has the plugin's ``register``."""
    return _import_entry_point(manifest.entry_point) if manifest.entry_point else _import_folder(manifest)


def forget_plugin(manifest: PluginManifest) -> None:
    """Drop a folder plugin's modules, so that nothing finds the remains of a failed import."""
    name = module_name(manifest.key)
    for loaded in [known for known in sys.modules if known == name or known.startswith(f"{name}.")]:
        del sys.modules[loaded]


def _import_folder(manifest: PluginManifest) -> ModuleType:
    from importlib import util

    assert manifest.path is not None
    start = manifest.path / "__init__.py"
    if not start.is_file():
        raise PluginError(f"{manifest.path} has no __init__.py, so there is nothing to load")
    _ensure_parent()
    forget_plugin(manifest)
    name = module_name(manifest.key)
    spec = util.spec_from_file_location(name, start, submodule_search_locations=[str(manifest.path)])
    if spec is None or spec.loader is None:
        raise PluginError(f"{start} cannot be imported")
    module = util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    setattr(sys.modules[PARENT], name.rpartition(".")[2], module)
    return module


def _ensure_parent() -> None:
    if PARENT not in sys.modules:
        parent = ModuleType(PARENT, "The plugins that are loaded.")
        parent.__path__ = []
        sys.modules[PARENT] = parent


def _import_entry_point(value: str) -> Any:
    from importlib import import_module

    # Extras, as in "module:object [extra]", say what to install; they are not part of the path.
    module, _, attributes = value.partition("[")[0].strip().partition(":")
    found: Any = import_module(module.strip())
    for attribute in filter(None, attributes.strip().split(".")):
        found = getattr(found, attribute)
    return found
