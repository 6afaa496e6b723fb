"""Hermes: a plugin-first agent runtime. Names are loaded on first use, so importing the package costs nothing.

Everything that a program which embeds Hermes needs is here; see docs/embedding.md. ``hermes.contract``,
``hermes.sanitize``, ``hermes.trace`` and ``hermes.testing`` are for authors of plugins. All other modules are private.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
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


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
