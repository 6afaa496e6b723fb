"""Hermes: a plugin-first agent runtime. Names are loaded on first use, so importing the package costs nothing.

Everything that a program which embeds Hermes needs is here; see docs/embedding.md. ``hermes.contract``,
``hermes.sanitize``, ``hermes.trace`` and ``hermes.testing`` are for authors of plugins. All other modules are private.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hermes.agent.approvals.responder import ApprovalAnswer, ApprovalRequest
    from hermes.agent.events import TurnFailed, TurnResult
    from hermes.api.agent import Agent, AgentSession
    from hermes.api.function_tool import tool
    from hermes.api.output import OutputError
    from hermes.api.stream import AsyncTurnStream, TextRestarted, TurnStream
    from hermes.config.schema.sections import Config
    from hermes.contract import events as events
    from hermes.contract.events import TurnEvent
    from hermes.errors import (
        ConfigError,
        HermesError,
        Interrupted,
        JournalError,
        PluginError,
        ProviderError,
        SessionBusy,
        SessionNotFound,
    )
    from hermes.models.costs.usage import Usage
    from hermes.scope import Interrupt
    from hermes.version import __version__

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
    "Agent": "hermes.api.agent",
    "AgentSession": "hermes.api.agent",
    "ApprovalAnswer": "hermes.agent.approvals.responder",
    "ApprovalRequest": "hermes.agent.approvals.responder",
    "AsyncTurnStream": "hermes.api.stream",
    "Config": "hermes.config.schema.sections",
    "Interrupt": "hermes.scope",
    "OutputError": "hermes.api.output",
    "TextRestarted": "hermes.api.stream",
    "TurnEvent": "hermes.contract.events",
    "TurnFailed": "hermes.agent.events",
    "TurnResult": "hermes.agent.events",
    "TurnStream": "hermes.api.stream",
    "Usage": "hermes.models.costs.usage",
    "__version__": "hermes.version",
    "events": "hermes.contract",
    "tool": "hermes.api.function_tool",
}


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    home = _HOMES.get(name, "hermes.errors")
    module = import_module(home)
    value: object = import_module(f"{home}.{name}") if name == "events" else getattr(module, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
