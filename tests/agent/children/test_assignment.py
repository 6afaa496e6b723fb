"""What a call asks for, whatever it says: tasks that can be done, or words that say why not."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from hermes.agent.children.assignments import MAX_CHILDREN, AssignmentReader
from hermes.base.config.schema.sections import DelegationConfig
from hermes.base.errors import HermesError
from hermes.tools.registry import Args, Tool, ToolContext, ToolRegistry

KEPT_FROM_CHILDREN = {"clarify", "memory", "send_message", "execute_code", "cronjob"}


def _run(_args: Args, _context: ToolContext) -> str:
    return "{}"


_TOOLSETS = {"terminal": "terminal", "read_file": "file", "delegate_task": "delegation"}
TOOLS = [Tool(name, _TOOLSETS.get(name, "private"), "", {}, _run) for name in (*_TOOLSETS, *sorted(KEPT_FROM_CHILDREN))]

_names = st.sampled_from(["terminal", "file", "delegation", "private", "coding", "all", " file ", "flying", ""])
_task = st.fixed_dictionaries(
    {},
    optional={
        "goal": st.text(max_size=5),
        "context": st.text(max_size=5),
        "toolsets": st.lists(_names, max_size=3),
        "role": st.sampled_from(["leaf", "orchestrator"]),
    },
)


def _with_tasks(call: Args, tasks: list[Args] | None) -> Args:
    return call if tasks is None else {**call, "tasks": tasks}


_args = st.builds(_with_tasks, _task, st.none() | st.lists(_task, max_size=MAX_CHILDREN + 2))
_settings = st.builds(DelegationConfig, max_spawn_depth=st.integers(0, 3), orchestrator_enabled=st.booleans())


@given(_args, _settings, st.integers(0, 3), st.integers(0, len(TOOLS)))
def test_any_call_gives_tasks_within_the_rules_or_a_reason(
    args: dict[str, Any], settings: DelegationConfig, level: int, offered: int
) -> None:
    reader = AssignmentReader(settings, ToolRegistry(TOOLS), TOOLS[:offered], level)
    try:
        assignments = reader.assignments(args)
    except HermesError as error:
        assert str(error)
        return
    assert level < settings.max_spawn_depth
    assert 1 <= len(assignments) <= MAX_CHILDREN
    for index, assignment in enumerate(assignments):
        names = {tool.name for tool in assignment.tools}
        assert assignment.index == index
        assert assignment.goal == assignment.goal.strip() != ""
        assert assignment.message.startswith(assignment.goal)
        assert names <= {tool.name for tool in TOOLS[:offered]} - KEPT_FROM_CHILDREN
        if "delegate_task" in names:
            assert assignment.role == "orchestrator"
            assert settings.orchestrator_enabled and level + 1 < settings.max_spawn_depth
