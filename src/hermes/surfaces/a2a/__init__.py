"""Hermes as an agent that other agents call (A2A). Names are loaded on first use: only they need the A2A SDK."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hermes.surfaces.a2a.executor.executor import HermesA2AExecutor

__all__ = ["HermesA2AExecutor"]


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from hermes.surfaces.a2a import executor

    value: object = getattr(executor, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
