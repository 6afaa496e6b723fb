"""Imports a plugin's code under a module name of its own, with the compatibility names available to it."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from functools import cache
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any, cast
from weakref import WeakValueDictionary

from hermes.base.errors import PluginError
from hermes.plugins.compat.names import COMMON, ROOTS
from hermes.plugins.loading.imports import PluginLoader, drop_modules, importing_for, plugin_builtins
from hermes.plugins.loading.manifest import PluginManifest
from hermes.plugins.services import PluginHost

#: The package all folder plugins live in; it exists only while the program runs.
PARENT = "hermes_plugins"
_OURSELVES = __name__.partition(".")[0]


def module_name(key: str) -> str:
    """The module a folder plugin is imported as."""
    return f"{PARENT}.{key.replace('/', '__').replace('-', '_')}"


def root_module(manifest: PluginManifest) -> str:
    """The package that holds all of a plugin's code: the folder's, or the top-level one of an entry point."""
    if not manifest.entry_point:
        return module_name(manifest.key)
    return _entry_point_parts(manifest.entry_point)[0].partition(".")[0]


def import_plugin(manifest: PluginManifest, host: PluginHost) -> Any:
    """The module or object that has the plugin's ``register``."""
    if manifest.entry_point:
        return _import_entry_point(manifest, host)
    return _import_folder(manifest, host)


def forget_plugin(manifest: PluginManifest) -> None:
    """Drop a folder plugin's modules, so that nothing finds the remains of a failed import."""
    # An entry point's package may be in use by others, and the import system drops what failed to import.
    if not manifest.entry_point:
        _finder.plugins.pop(module_name(manifest.key), None)
        drop_modules(module_name(manifest.key))


def _import_folder(manifest: PluginManifest, host: PluginHost) -> ModuleType:
    from importlib import util

    assert manifest.path is not None
    start = manifest.path / manifest.code
    if not start.is_file():
        raise PluginError(f"{manifest.path} has no {manifest.code}, so there is nothing to load")
    if PARENT not in sys.modules:
        parent = ModuleType(PARENT, "The plugins that are loaded.")
        parent.__path__ = []
        sys.modules[PARENT] = parent
    forget_plugin(manifest)
    name = module_name(manifest.key)
    spec = util.spec_from_file_location(name, start, submodule_search_locations=[str(manifest.path)])
    if spec is None or spec.loader is None:
        raise PluginError(f"{start} cannot be imported")
    names = _finder.serve(name, host, own=PARENT)
    loader = PluginLoader(spec.loader, host, names)
    spec.loader = cast("Any", loader)
    module = util.module_from_spec(spec)
    sys.modules[name] = module
    loader.exec_module(module)
    setattr(sys.modules[PARENT], name.rpartition(".")[2], module)
    return module


def _import_entry_point(manifest: PluginManifest, host: PluginHost) -> Any:
    from importlib import import_module

    module, attributes = _entry_point_parts(manifest.entry_point)
    root = root_module(manifest)
    if root != _OURSELVES:
        if not _finder.serves(root, host):
            # Another host's copy reaches that host's names. What the program itself imported stays as it is.
            drop_modules(root, only_ours=True)
        _finder.serve(root, host, own=root)
    found: Any = import_module(module)
    for attribute in filter(None, attributes.split(".")):
        found = getattr(found, attribute)
    return found


def _entry_point_parts(value: str) -> tuple[str, str]:
    # Extras, as in "module:object [extra]", say what to install; they are not part of the path.
    module, _, attributes = value.partition("[")[0].strip().partition(":")
    return module.strip(), attributes.strip()


class PluginFinder:
    """Finds modules as usual and has those of plugins, and guests that speak of the host, loaded with its names."""

    def __init__(self) -> None:
        #: By package: the host that loaded the plugin last, and the builtins its modules get.
        self.plugins: dict[str, tuple[PluginHost, dict[str, Any]]] = {}
        #: By top-level package: the host whose plugin imported it first. Its modules are looked at one by one.
        self._guests: WeakValueDictionary[str, PluginHost] = WeakValueDictionary()

    def serves(self, root: str, host: PluginHost) -> bool:
        """Whether the package's modules are those of this very host."""
        known = self.plugins.get(root)
        return known is not None and known[0] is host

    def serve(self, root: str, host: PluginHost, *, own: str) -> dict[str, Any]:
        """Give the package's modules builtins from now on. Two plugins of one host in one package share them."""
        if self not in sys.meta_path:
            sys.meta_path.insert(0, self)
        if not self.serves(root, host):
            self.plugins[root] = (host, plugin_builtins(host, own))
        return self.plugins[root][1]

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """What the other finders find, when it belongs to a plugin or to a package that a plugin imports."""
        first, _, rest = fullname.partition(".")
        known = self.plugins.get(f"{first}.{rest.partition('.')[0]}" if first == PARENT else first)
        host = importing_for.get() or self._guests.get(first) if known is None else known[0]
        if host is None or (known is None and (first == _OURSELVES or first in sys.stdlib_module_names)):
            return None
        spec = self._elsewhere(fullname, path, target)
        if spec is None or spec.loader is None:  # a folder without __init__.py has no code and no loader
            return spec
        if known is not None:
            spec.loader = cast("Any", PluginLoader(spec.loader, host, known[1]))
            return spec
        # A thread that the plugin starts later may import more of the package, in code that knows no host.
        self._guests[first] = host
        if not _speaks_of_hosts(spec):
            return spec
        spec.loader = cast("Any", PluginLoader(spec.loader, host, plugin_builtins(host, first, is_guest=True)))
        return spec

    def _elsewhere(self, fullname: str, path: Sequence[str] | None, target: ModuleType | None) -> ModuleSpec | None:
        for finder in sys.meta_path:
            find = None if finder is self else getattr(finder, "find_spec", None)
            spec: ModuleSpec | None = None if find is None else find(fullname, path, target)
            if spec is not None:
                return spec
        return None


def _speaks_of_hosts(spec: ModuleSpec) -> bool:
    """Whether a module's source has one of the compatibility names, or loads code from files, which may have some."""
    if not spec.origin or not spec.origin.endswith(".py"):
        return False
    try:
        return _host_names().search(Path(spec.origin).read_bytes()) is not None
    except OSError:
        return False


@cache
def _host_names() -> re.Pattern[bytes]:
    # A name such as `tools` counts where it is imported; one that only a host has counts anywhere.
    unique = "|".join(sorted(ROOTS - COMMON))
    common = "|".join(sorted(COMMON))
    pattern = rf"""\b(?:{unique}|spec_from_file_location)\b|^\s*(?:from|import)\s+(?:{common})\b|["'](?:{common})\."""
    return re.compile(pattern.encode(), re.MULTILINE)


_finder = PluginFinder()
