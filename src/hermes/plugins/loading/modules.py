"""Imports a plugin's code under a module name of its own, with the compatibility names available to it."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any, cast

from hermes.base.errors import PluginError
from hermes.plugins.compat.names import plugin_builtins
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
        _drop(module_name(manifest.key))


def _import_folder(manifest: PluginManifest, host: PluginHost) -> ModuleType:
    from importlib import util

    assert manifest.path is not None
    start = manifest.path / "__init__.py"
    if not start.is_file():
        raise PluginError(f"{manifest.path} has no __init__.py, so there is nothing to load")
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
    loader = PluginLoader(spec.loader, names)
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
            _drop(root, only_ours=True)
        _finder.serve(root, host, own=root)
    found: Any = import_module(module)
    for attribute in filter(None, attributes.split(".")):
        found = getattr(found, attribute)
    return found


def _entry_point_parts(value: str) -> tuple[str, str]:
    # Extras, as in "module:object [extra]", say what to install; they are not part of the path.
    module, _, attributes = value.partition("[")[0].strip().partition(":")
    return module.strip(), attributes.strip()


def _drop(root: str, *, only_ours: bool = False) -> None:
    for name in [known for known in sys.modules if known == root or known.startswith(f"{root}.")]:
        spec = getattr(sys.modules[name], "__spec__", None)
        if not only_ours or isinstance(getattr(spec, "loader", None), PluginLoader):
            del sys.modules[name]


class PluginLoader:
    """Runs a module's code with the plugin's own builtins; in everything else it is the loader it wraps."""

    def __init__(self, loader: Any, names: dict[str, Any]) -> None:
        self._loader = loader
        self._names = names

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        """As the real loader does."""
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        """Run the code. The functions it defines keep these builtins, wherever and whenever they run."""
        vars(module)["__builtins__"] = self._names
        self._loader.exec_module(module)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)


class PluginFinder:
    """Finds the modules inside plugins' packages as usual and has them loaded with the plugin's builtins."""

    def __init__(self) -> None:
        #: By package: the host that loaded the plugin last, and the builtins its modules get.
        self.plugins: dict[str, tuple[PluginHost, dict[str, Any]]] = {}

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
        """What the other finders find, when it belongs to a plugin."""
        first, _, rest = fullname.partition(".")
        known = self.plugins.get(f"{first}.{rest.partition('.')[0]}" if first == PARENT else first)
        if known is None:
            return None
        for finder in sys.meta_path:
            find = None if finder is self else getattr(finder, "find_spec", None)
            spec: ModuleSpec | None = None if find is None else find(fullname, path, target)
            if spec is not None:
                # A folder without __init__.py has no code and no loader.
                if spec.loader is not None:
                    spec.loader = cast("Any", PluginLoader(spec.loader, known[1]))
                return spec
        return None


_finder = PluginFinder()
