"""Hermes: a plugin-first agent runtime. Names are loaded on first use, so importing the package costs nothing.

Everything that a program which embeds Hermes needs is here; see docs/embedding.md. ``hermes.contract``,
``hermes.sanitize``, ``hermes.trace`` and ``hermes.testing`` are for authors of plugins. All other modules are private.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from importlib.machinery import ModuleSpec
    from types import ModuleType

    from hermes.agent.approvals.responder import ApprovalAnswer, ApprovalRequest
    from hermes.agent.events import TurnFailed, TurnResult
    from hermes.base.config.schema.sections import Config
    from hermes.base.errors import (
        ConfigError,
        HermesError,
        Interrupted,
        JournalError,
        PluginError,
        ProviderError,
        SessionBusy,
        SessionNotFound,
    )
    from hermes.base.scope import Interrupt
    from hermes.base.version import __version__
    from hermes.contract import events as events
    from hermes.contract.events import TurnEvent
    from hermes.models.costs.usage import Usage
    from hermes.surfaces.embedding.agent import Agent, AgentSession
    from hermes.surfaces.embedding.function_tool import tool
    from hermes.surfaces.embedding.output import OutputError
    from hermes.surfaces.embedding.stream import AsyncTurnStream, TextRestarted, TurnStream

__all__ = [
    "Agent",
    "AgentSession",
    "ApprovalAnswer",
    "ApprovalRequest",
    "AsyncTurnStream",
    "Config",
    "ConfigError",
    "HermesError",
    "Interrupt",
    "Interrupted",
    "JournalError",
    "OutputError",
    "PluginError",
    "ProviderError",
    "SessionBusy",
    "SessionNotFound",
    "TextRestarted",
    "TurnEvent",
    "TurnFailed",
    "TurnResult",
    "TurnStream",
    "Usage",
    "__version__",
    "events",
    "tool",
]

#: Public name -> the module that defines it.
_HOMES = {
    "Agent": "hermes.surfaces.embedding.agent",
    "AgentSession": "hermes.surfaces.embedding.agent",
    "ApprovalAnswer": "hermes.agent.approvals.responder",
    "ApprovalRequest": "hermes.agent.approvals.responder",
    "AsyncTurnStream": "hermes.surfaces.embedding.stream",
    "Config": "hermes.base.config.schema.sections",
    "Interrupt": "hermes.base.scope",
    "OutputError": "hermes.surfaces.embedding.output",
    "TextRestarted": "hermes.surfaces.embedding.stream",
    "TurnEvent": "hermes.contract.events",
    "TurnFailed": "hermes.agent.events",
    "TurnResult": "hermes.agent.events",
    "TurnStream": "hermes.surfaces.embedding.stream",
    "Usage": "hermes.models.costs.usage",
    "__version__": "hermes.base.version",
    "events": "hermes.contract",
    "tool": "hermes.surfaces.embedding.function_tool",
}


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    home = _HOMES.get(name, "hermes.base.errors")
    module = import_module(home)
    value: object = import_module(f"{home}.{name}") if name == "events" else getattr(module, name)
    globals()[name] = value
    return value


#: Packages by the paths that pages, programs and published plugins use, and where each is.
_FORMER_PATHS = {
    "hermes.a2a": "hermes.surfaces.a2a",
    "hermes.cli": "hermes.surfaces.cli",
    "hermes.config": "hermes.base.config",
    "hermes.errors": "hermes.base.errors",
    "hermes.gateway": "hermes.surfaces.gateway",
    "hermes.sanitize": "hermes.base.sanitize",
    "hermes.scope": "hermes.base.scope",
    "hermes.version": "hermes.base.version",
}


class _FormerPathFinder:
    """Finds a module by its former path: it is the same module, never a second copy of it."""

    @classmethod
    def find_spec(cls, name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        """The spec of a former path, for the import system."""
        package = ".".join(name.split(".", 2)[:2])
        if package not in _FORMER_PATHS:
            return None
        from importlib.machinery import ModuleSpec

        return ModuleSpec(name, cls)  # pyright: ignore[reportArgumentType]  # a class that has a loader's methods

    @classmethod
    def create_module(cls, spec: ModuleSpec) -> ModuleType:
        """The module at its present path."""
        from importlib import import_module

        package = ".".join(spec.name.split(".", 2)[:2])
        module = import_module(_FORMER_PATHS[package] + spec.name.removeprefix(package))
        spec.loader_state = module.__spec__
        return module

    @classmethod
    def exec_module(cls, module: ModuleType) -> None:
        """Give the module its own spec back; it was executed when it was imported by its present path."""
        assert module.__spec__ is not None
        module.__spec__ = module.__spec__.loader_state


sys.meta_path.insert(0, _FormerPathFinder)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
