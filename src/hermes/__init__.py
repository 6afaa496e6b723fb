"""Hermes: a plugin-first agent runtime. Names are loaded on first use, so importing the package costs nothing."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hermes.version import __version__

__all__ = ["__version__"]

#: Public name -> the module that defines it.
_HOMES = {"__version__": "hermes.version"}


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value: object = getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
