"""The ``import`` of plugins' code, which finds the compatibility names of one host.

Modules get ``__builtins__`` of their own, whose ``__import__`` does that: those of a plugin all, and those of another
package that a plugin imports when they speak of such a name. What the host imports for itself never sees one.
"""

from __future__ import annotations

import builtins
import importlib
import importlib.util
import sys
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any, cast

from hermes.plugins.compat.names import COMMON, ROOTS, find_module
from hermes.plugins.services import PluginHost

#: The host for whose plugin this thread imports something now.
importing_for: ContextVar[PluginHost | None] = ContextVar("hermes_importing_for", default=None)

Import = Callable[..., ModuleType]


def plugin_builtins(host: PluginHost, own: str, *, is_guest: bool = False) -> dict[str, Any]:
    """A copy of the builtins for the modules of one package; whatever they do to it stays with them.

    ``own`` is the top-level package that they live in: a plugin that is itself called ``tools``, say, keeps importing
    itself under that name. A guest is a package that a plugin has imported: when it says ``utils``, and there is such a
    module, it means that one.
    """
    return {**vars(builtins), "__import__": _import_for(host, own, is_guest)}


class PluginLoader:
    """Runs a module's code with builtins of its own; in everything else it is the loader it wraps."""

    def __init__(self, loader: Any, host: PluginHost, names: dict[str, Any]) -> None:
        self._loader = loader
        #: The host whose names the module sees.
        self.host = host
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


def loader_of(module: object) -> PluginLoader | None:
    """The loader of a module that sees the names of a host."""
    loader: object = getattr(getattr(module, "__spec__", None), "loader", None)
    return loader if isinstance(loader, PluginLoader) else None


def drop_modules(root: str, *, only_ours: bool = False) -> None:
    """Forget the modules of a package, all or those that see the names of a host."""
    for name in _modules_of(root):
        if not only_ours or loader_of(sys.modules[name]) is not None:
            del sys.modules[name]


def _modules_of(root: str) -> list[str]:
    return [known for known in sys.modules if known == root or known.startswith(f"{root}.")]


# -- the import statement --------------------------------------------------------------------------------------------


def _import_for(host: PluginHost, own: str, is_guest: bool) -> Import:
    def plugin_import(
        name: str,
        globals: Mapping[str, object] | None = None,  # noqa: A002  (the names callers may use)
        locals: Mapping[str, object] | None = None,  # noqa: A002
        fromlist: Sequence[str] | None = (),
        level: int = 0,
    ) -> ModuleType:
        root, fromlist = name.partition(".")[0], fromlist or ()
        if root == "importlib" and not level and (name in ("importlib", "importlib.util") or not fromlist):
            builtins.__import__(name, globals, locals, fromlist, level)
            return importing.util if fromlist and name == "importlib.util" else importing
        if root == "sqlite3" and not level:
            return _sqlite_of(host)
        if level or root not in ROOTS or root == own:
            with _following(host, "" if level else root):
                return builtins.__import__(name, globals, locals, fromlist, level)
        installed = _installed(name, fromlist) if is_guest and root in COMMON else None
        return installed or _host_module(host, name, str((globals or {}).get("__name__", "")), fromlist)

    importing = PluginImportlib(host, own, plugin_import)
    return plugin_import


def _sqlite_of(host: PluginHost) -> ModuleType:
    from hermes.plugins.compat.sessions import PluginSqlite  # few plugins have a database

    return host.compat_modules.get("sqlite3") or host.compat_modules.setdefault("sqlite3", PluginSqlite(host))


def _host_module(host: PluginHost, name: str, caller: str, fromlist: Sequence[str]) -> ModuleType:
    """What an import statement of one of the host's names binds."""
    root = name.partition(".")[0]
    found = find_module(host, name) or (_module_in_folder(name, caller) if fromlist else None)
    if found is not None:
        # Like the real one: `import a.b` binds `a`, `from a.b import c` needs `a.b`.
        return found if fromlist else find_module(host, root) or found
    # A module the table does not have, from a package that is really installed under that name.
    try:
        return builtins.__import__(name, None, None, fromlist, 0)
    except ModuleNotFoundError as error:
        if error.name != root:
            raise
        from hermes.plugins.compat.table import why_not

        raise ModuleNotFoundError(f"No module named {name!r}{why_not(name)}", name=name) from None


@contextmanager
def _following(host: PluginHost, root: str) -> Generator[None]:
    """What is imported here is imported for a plugin of this host."""
    if root and root not in host.followed:
        host.followed.add(root)
        # Another host's copy reaches that host's names.
        loaders = (loader_of(sys.modules[name]) for name in _modules_of(root))
        if any(loader is not None and loader.host is not host for loader in loaders):
            drop_modules(root)
    token = importing_for.set(host)
    try:
        yield
    finally:
        importing_for.reset(token)


def _installed(name: str, fromlist: Sequence[str]) -> ModuleType | None:
    """An installed module of one of the common names. A folder that is no package, such as ``./plugins``, is none."""
    try:
        found = builtins.__import__(name, None, None, fromlist, 0)
    except ModuleNotFoundError:
        return None
    return found if getattr(found, "__file__", None) else None


class PluginImportlib(ModuleType):
    """``importlib`` for a plugin: the real one, whose functions find these names too."""

    def __init__(self, host: PluginHost, own: str, plugin_import: Import) -> None:
        super().__init__("importlib")
        self._host = host
        self._own = own
        self.util = PluginImportUtil(host, plugin_import)

    def import_module(self, name: str, package: str | None = None) -> ModuleType:
        """The module of that name, as an import statement of the plugin finds it."""
        root = name.partition(".")[0]
        if root not in ROOTS or root == self._own:
            with _following(self._host, root):
                return importlib.import_module(name, package)
        found = find_module(self._host, name) or _module_in_folder(name)
        return found or importlib.import_module(name, package)

    def __getattr__(self, name: str) -> Any:
        return getattr(importlib, name)


class PluginImportUtil(ModuleType):
    """``importlib.util`` for a plugin: the real one, whose modules find these names too."""

    def __init__(self, host: PluginHost, plugin_import: Import) -> None:
        super().__init__("importlib.util")
        self._host = host
        self._import = plugin_import

    def spec_from_file_location(self, *given: Any, **options: Any) -> ModuleSpec | None:
        """As the real one does it; the code of the module is then the plugin's."""
        spec = importlib.util.spec_from_file_location(*given, **options)
        if spec is not None and spec.loader is not None:
            names = {**vars(builtins), "__import__": self._import}
            spec.loader = cast("Any", PluginLoader(spec.loader, self._host, names))
        return spec

    def __getattr__(self, name: str) -> Any:
        return getattr(importlib.util, name)


def _module_in_folder(name: str, caller: str = "") -> ModuleType | None:
    """A module of a loaded plugin by its place in the folder of plugins: ``from plugins.web.mine.client import X``.

    A plugin that was moved to another place still finds its own modules under the old one.
    """
    from hermes.plugins.loading.modules import PARENT, module_name

    root, *parts = name.split(".")
    own = ".".join(caller.split(".")[:2])
    for length in range(len(parts) if root == "plugins" else 0, 0, -1):
        moved = f"{PARENT}.{parts[length - 1]}"
        for package in (module_name("/".join(parts[:length])), *([moved] if moved == own else ())):
            if package in sys.modules:
                return importlib.import_module(".".join([package, *parts[length:]]))
    return None
