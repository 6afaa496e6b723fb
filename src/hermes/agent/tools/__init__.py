"""Tools that need the session they are called from: their descriptions for the model, and their code."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hermes.agent.tools.a2a import a2a_tools
from hermes.agent.tools.catalogue import catalogue
from hermes.agent.tools.delegate_task import delegate_task
from hermes.tools.registry import Tool

if TYPE_CHECKING:
    from hermes.agent.runtime import Runtime


def agent_tools(runtime: Runtime) -> list[Tool]:
    """The tools of this kind. Their code is imported at the first call."""
    return [delegate_task(runtime), *catalogue(runtime), *a2a_tools(runtime)]
