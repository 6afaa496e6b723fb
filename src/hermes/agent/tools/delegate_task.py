"""``delegate_task``: what a model is told about handing work to child agents."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hermes.tools.registry import Args, Tool, ToolContext

if TYPE_CHECKING:
    from hermes.agent.runtime import Runtime

# Every request carries these texts, so they are kept short.

_DESCRIPTION = (
    "Hand work to child agents and wait for their reports. A child starts with an empty conversation and knows only "
    "its goal and context, so give it paths, facts and constraints. Several independent tasks run in parallel. "
    "Check what a child reports before you rely on it."
)


def _without_words(schema: dict[str, Any]) -> dict[str, Any]:
    """What was described once need not be described again."""
    return {name: value for name, value in schema.items() if name != "description"}


_TASK: dict[str, Any] = {
    "goal": {"type": "string", "description": "What the child is to achieve"},
    "context": {"type": "string", "description": "What it must know"},
    "toolsets": {
        "type": "array",
        "items": {"type": "string"},
        "description": "Of yours, those it may use; default all",
    },
    "role": {
        "type": "string",
        "enum": ["leaf", "orchestrator"],
        "description": "An orchestrator may delegate further",
        "default": "leaf",
    },
}

_PARAMETERS: dict[str, Any] = {
    "type": "object",
    "properties": {
        **_TASK,
        "tasks": {
            "type": "array",
            "description": "Several tasks instead of one goal",
            "items": {
                "type": "object",
                "properties": {name: _without_words(schema) for name, schema in _TASK.items()},
                "required": ["goal"],
            },
        },
    },
    "required": [],
}


def delegate_task(runtime: Runtime) -> Tool:
    """The tool, for the conversations of one host."""

    def run(args: Args, context: ToolContext) -> str:
        from hermes.agent.children.delegate import delegate  # its code is imported at the first call

        return delegate(args, context, runtime)

    return Tool(
        "delegate_task",
        "delegation",
        _DESCRIPTION,
        _PARAMETERS,
        run,
        "resumable",
        available=lambda: runtime.config.delegation.max_spawn_depth > 0,
        emoji="🔀",
    )
