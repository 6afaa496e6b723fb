"""Hermes as an agent that other agents call (A2A). Names are loaded on first use: only they need the A2A SDK."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hermes.surfaces.a2a.executor.executor import HermesA2AExecutor

__all__ = ["HermesA2AExecutor"]

#: Public name -> the module that defines it.
_HOMES = {"HermesA2AExecutor": "hermes.surfaces.a2a.executor.executor"}


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    try:
        value: object = getattr(import_module(home), name)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] != "a2a":
            raise
        raise ImportError(f"{name} needs the A2A SDK; install it with: hermes install a2a") from error
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
