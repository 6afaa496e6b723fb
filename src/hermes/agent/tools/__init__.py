"""Tools that need the conversation they are called from: what a model is told about them, and where their code is."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from hermes.agent.approvals.responder import Responders
from hermes.agent.images.generate import ImageMaker
from hermes.agent.llm.source import ModelSource
from hermes.agent.memory.memory import Memory
from hermes.agent.open_sessions import OpenSessions
from hermes.agent.tools.a2a import a2a_tools
from hermes.agent.tools.catalogue import catalogue
from hermes.agent.tools.delegate_task import delegate_task
from hermes.journal.history.search import SearchIndex
from hermes.journal.store import Store
from hermes.tools.registry import Tool


@dataclass(frozen=True, slots=True)
class AgentParts:
    """What these tools need of their host."""

    open: OpenSessions
    responders: Responders
    store: Store
    models: ModelSource
    search: SearchIndex
    memory: Memory
    images: ImageMaker
    #: The task lists in use, by conversation; the journal has them all.
    todo_lists: dict[str, Any] = field(default_factory=dict[str, Any])


def agent_tools(parts: AgentParts) -> list[Tool]:
    """The tools of this kind. Their code is imported at the first call."""
    return [delegate_task(parts), *catalogue(parts), *a2a_tools(parts)]
