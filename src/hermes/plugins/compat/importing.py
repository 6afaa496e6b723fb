"""The ``__builtins__`` of plugin modules: an ``import`` statement there also finds the compatibility names."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Mapping, Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any

from hermes.plugins.compat.names import NAMES, ROOTS, find_module

if TYPE_CHECKING:
    from hermes.plugins.context import Parts


def plugin_builtins(parts: Parts, own: str) -> dict[str, Any]:
    """A copy of the builtins for one plugin; whatever it does to it stays with it.

    ``own`` is the top-level package the plugin lives in: a plugin that is itself called ``tools``, say, keeps
    importing itself under that name.
    """
    return {**vars(builtins), "__import__": _import_for(parts, own)}


def _import_for(parts: Parts, own: str) -> Callable[..., ModuleType]:
    def plugin_import(
        name: str,
        globals: Mapping[str, object] | None = None,  # noqa: A002  (the names callers may use)
        locals: Mapping[str, object] | None = None,  # noqa: A002
        fromlist: Sequence[str] | None = (),
        level: int = 0,
    ) -> ModuleType:
        root = name.partition(".")[0]
        if level or root not in ROOTS or root == own:
            return builtins.__import__(name, globals, locals, fromlist or (), level)
        found = find_module(parts, name)
        if found is None:
            return _installed(name, globals, locals, fromlist)
        # Like the real one: `import a.b` binds `a`, `from a.b import c` needs `a.b`.
        return found if fromlist else find_module(parts, root) or found

    return plugin_import


def _installed(
    name: str,
    globals: Mapping[str, object] | None,  # noqa: A002
    locals: Mapping[str, object] | None,  # noqa: A002
    fromlist: Sequence[str] | None,
) -> ModuleType:
    """A module the table does not have, from a package that is really installed under that name."""
    root = name.partition(".")[0]
    try:
        return builtins.__import__(name, globals, locals, fromlist or (), 0)
    except ModuleNotFoundError as error:
        if error.name != root:
            raise
        offered = ", ".join(known for known in NAMES if known.partition(".")[0] == root)
        raise ModuleNotFoundError(f"No module named {name!r}; this host offers {offered}", name=name) from None
