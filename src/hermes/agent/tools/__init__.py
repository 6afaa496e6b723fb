"""Tools that need the conversation they are called from: what a model is told about them, and where their code is."""

from __future__ import annotations

from dataclasses import dataclass

from hermes.agent.open_sessions import OpenSessions
from hermes.agent.person import People
from hermes.journal.store import Store
from hermes.tools.registry import Tool


@dataclass(frozen=True, slots=True)
class AgentParts:
    """What these tools need of their host."""

    open: OpenSessions
    people: People
    store: Store


def agent_tools(_parts: AgentParts) -> list[Tool]:
    """The tools of this kind. Their code is imported at the first call."""
    return []
