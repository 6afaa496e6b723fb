"""Lazy imports of library modules: the prompt can be drawn without them, and each runs when it is first used."""

from __future__ import annotations

import sys
import threading
from importlib import import_module
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import find_spec, module_from_spec
from types import ModuleType
from typing import Any

#: Per module, the modules that have the names which the prompt uses, so that its own code need not run. Those that the
#: installed release does not have are passed over. A package comes before what is in it.
_POSTPONED: dict[str, tuple[str, ...]] = {
    "ssl": (),  # asyncio imports it for connections, of which the prompt has none
    "asyncio.sslproto": (),
    "xml.dom.minidom": (),  # parses formatted text, which the prompt does not use
    "wcwidth": ("wcwidth._wcwidth_c", "wcwidth._wcwidth"),  # imports a terminal's whole grammar
    "prompt_toolkit": (),  # imports dialogs and progress bars
    "prompt_toolkit.formatted_text": (
        "prompt_toolkit.formatted_text.base",
        "prompt_toolkit.formatted_text.utils",
        "prompt_toolkit.formatted_text.html",
    ),
    "prompt_toolkit.completion": ("prompt_toolkit.completion.base",),
    "prompt_toolkit.lexers": ("prompt_toolkit.lexers.base",),
    "prompt_toolkit.widgets": ("prompt_toolkit.widgets.toolbars",),
}


class PostponedModule(ModuleType):
    """A module that was found and not run yet. Any name it does not have runs it; its submodules can be imported."""

    def __getattr__(self, name: str) -> Any:  # the module decides what a name means
        known = self.__name__
        if _run_by.get(known) == threading.get_ident():  # it imports itself
            raise AttributeError(f"module {known!r} has no attribute {name!r} yet")
        found = _found_elsewhere(self, name)  # without the lock: it may import what waits for this module
        if found is not None:
            return found
        with _locks[known]:
            _run(self)
        return getattr(self, name)

    def __setattr__(self, name: str, value: Any) -> None:
        """Keep a submodule that was imported from taking the place of a function of the same name."""
        sources = (sys.modules.get(source) for source in _POSTPONED[self.__name__])
        if not isinstance(value, ModuleType) or not any(hasattr(source, name) for source in sources):
            super().__setattr__(name, value)


_locks = {name: threading.Lock() for name in _POSTPONED}
#: Per module that runs at the moment, the thread that runs it.
_run_by: dict[str, int] = {}


def postpone_unused() -> None:
    """Enter the modules that are not imported yet, without running them. It comes before whatever imports them."""
    for name in _POSTPONED:
        spec = None if name in sys.modules else _spec(name)
        if spec is None:
            continue
        sys.modules[name] = module = module_from_spec(spec)
        module.__class__ = PostponedModule
        package, _, last = name.rpartition(".")
        if package:  # has its modules as attributes
            setattr(import_module(package), last, module)


def _spec(name: str) -> ModuleSpec | None:
    """Where the module is. None: to import it the usual way."""
    if name == "ssl" and find_spec("_ssl") is None:  # asyncio expects the failure when it imports it
        return None
    if name != "asyncio.sslproto":
        return find_spec(name)  # imports the package around it, if there is one
    asyncio = find_spec("asyncio")  # would import the module itself
    return None if asyncio is None else PathFinder.find_spec(name, asyncio.submodule_search_locations)


def _found_elsewhere(module: ModuleType, name: str) -> Any:
    """The name's value, when one of the submodules has it or is it."""
    if "__path__" not in vars(module) or name.startswith("__"):
        return None
    for source in _POSTPONED[module.__name__]:
        try:
            return getattr(import_module(source), name)
        except (ImportError, AttributeError):
            continue
    submodule = f"{module.__name__}.{name}"
    return import_module(submodule) if find_spec(submodule) is not None else None


def _run(module: ModuleType) -> None:
    if type(module) is not PostponedModule:  # another thread was first
        return
    spec = module.__spec__
    assert spec is not None and spec.loader is not None
    _run_by[module.__name__] = threading.get_ident()
    try:
        spec.loader.exec_module(module)
        module.__class__ = ModuleType  # pyright: ignore[reportAttributeAccessIssue]  (it was one before)
    finally:
        del _run_by[module.__name__]
