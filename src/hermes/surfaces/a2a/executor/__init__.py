"""A Hermes model as an A2A agent, for a server built with the A2A SDK. Names are loaded on first use: they need it."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hermes.surfaces.a2a.executor.executor import HermesA2AExecutor, ProviderConfig

__all__ = ["HermesA2AExecutor", "ProviderConfig"]

#: Tests of programs that use the executor name these two, too.
_NAMES = (*__all__, "_reasoning_supported", "_validate_response_format")


def __getattr__(name: str) -> object:
    if name not in _NAMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    try:
        module = import_module("hermes.surfaces.a2a.executor.executor")
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] != "a2a":
            raise
        raise ImportError(f"{name} needs the A2A SDK; install it with: hermes install a2a") from error
    value: object = getattr(module, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_NAMES})
