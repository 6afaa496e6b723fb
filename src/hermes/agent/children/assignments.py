"""The assignments of child agents, read from the arguments of a ``delegate_task`` call."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from hermes.base.config.schema.sections import DelegationConfig
from hermes.base.errors import HermesError, did_you_mean
from hermes.tools.declarations.builtin import kept_from
from hermes.tools.registry import Args, Tool, ToolRegistry
from hermes.tools.toolsets import toolset_name, toolsets

if TYPE_CHECKING:
    from hermes.tools.skills.prompt_files import PromptFile

Role = Literal["leaf", "orchestrator"]

#: The most children one call may ask for.
MAX_CHILDREN = 50

DELEGATE = "delegate_task"
#: Tools that no child has: only its parent talks to it, and decides what outlives the task.
_KEPT_FROM_CHILDREN = kept_from("child")


@dataclass(frozen=True, slots=True)
class Assignment:
    """One child's task, with the tools it may use."""

    index: int
    goal: str
    context: str
    role: Role
    tools: list[Tool]
    #: What the parent should know about how it was understood.
    note: str = ""
    #: The named agent that does it.
    agent: PromptFile | None = None

    @property
    def message(self) -> str:
        """The message for the child. The same arguments give the same text, so that a child can be resumed."""
        return f"{self.goal}\n\nContext:\n{self.context}" if self.context else self.goal


@dataclass(frozen=True, slots=True)
class AssignmentReader:
    """Reads the assignments of a delegating session, within its own tools and depth."""

    settings: DelegationConfig
    registry: ToolRegistry
    offered: Sequence[Tool]
    #: 0 for the session of the user, 1 for its children, and so on.
    level: int
    #: The named agents that a child can be.
    agents: Sequence[PromptFile] = ()

    def assignments(self, args: Args) -> list[Assignment]:
        """The assignments of a call. Raises HermesError, with a text for the model, when it cannot be done as asked."""
        self._check_depth()
        tasks = _tasks(args)
        if len(tasks) > MAX_CHILDREN:
            raise HermesError(
                f"tasks has {len(tasks)} entries; at most {MAX_CHILDREN} are allowed in one call. "
                f"Delegate the first {MAX_CHILDREN}, then the rest."
            )
        return [self._assignment(index, task) for index, task in enumerate(tasks)]

    def _check_depth(self) -> None:
        deepest = self.settings.max_spawn_depth
        if self.level >= deepest:
            raise HermesError(
                f"this agent is {self.level} levels below the user, and delegation.max_spawn_depth allows children "
                f"down to level {deepest}. Do the task yourself."
            )

    def _assignment(self, index: int, task: Args) -> Assignment:
        goal = str(task.get("goal") or "").strip()
        if not goal:
            raise HermesError(f"task {index + 1} has no goal: say in goal what the child is to do")
        role, note = self._role(task.get("role") or "leaf")
        agent = self._agent(str(task.get("agent") or "").strip().lower())
        tools = self._tools(task.get("toolsets") or (), role)
        if agent is not None and agent.tools is not None:
            tools = [tool for tool in tools if tool.name in agent.tools]
        return Assignment(index, goal, str(task.get("context") or "").strip(), role, tools, note, agent)

    def _agent(self, name: str) -> PromptFile | None:
        if not name:
            return None
        for agent in self.agents:
            if agent.name == name:
                return agent
        names = [agent.name for agent in self.agents]
        hint = did_you_mean(name, names, otherwise=None if names else "leave agent out")
        raise HermesError(f"there is no agent {name!r}{hint}")

    def _role(self, wanted: str) -> tuple[Role, str]:
        if wanted not in ("leaf", "orchestrator"):
            raise HermesError(f"role must be leaf or orchestrator, found {wanted!r}")
        if wanted == "leaf":
            return "leaf", ""
        if not self.settings.orchestrator_enabled:
            return "leaf", "ran as leaf: delegation.orchestrator_enabled is off"
        if self.level + 1 >= self.settings.max_spawn_depth:
            return "leaf", f"ran as leaf: delegation.max_spawn_depth is {self.settings.max_spawn_depth}"
        return "orchestrator", ""

    def _tools(self, wanted: Sequence[str], role: Role) -> list[Tool]:
        """Those of the toolsets asked for that the parent has itself."""
        names = self._names(wanted) - _KEPT_FROM_CHILDREN
        if role == "orchestrator":
            names |= {DELEGATE}
        left_out = () if self.settings.inherit_mcp_toolsets else ("mcp-",)
        return [tool for tool in self.offered if tool.name in names and not tool.toolset.startswith(left_out)]

    def _names(self, wanted: Sequence[str]) -> frozenset[str]:
        own = frozenset(tool.name for tool in self.offered)
        if not wanted:
            return own
        known = {name: tools & own for name, tools in toolsets(self.registry).items() if tools & own}
        names = [toolset_name(name) for name in wanted]
        for name in names:
            if name not in known:
                raise HermesError(
                    f"toolset {name!r} cannot be given to a child; you have: {', '.join(sorted(known))}. "
                    f"Leave toolsets out to give the child all of them."
                )
        return frozenset[str]().union(*(known[name] for name in names))


def _tasks(args: Args) -> list[dict[str, Any]]:
    """The tasks of a call. Arguments beside ``tasks`` are defaults for all of them."""
    tasks: list[dict[str, Any]] | None = args.get("tasks")
    if tasks is None:
        return [args]
    if not tasks:
        if str(args.get("goal") or "").strip():
            return [args]
        raise HermesError("tasks is empty: give at least one task with a goal, or one goal without tasks")
    shared = {name: args[name] for name in ("toolsets", "role", "agent") if args.get(name)}
    whole = [str(args[name]).strip() for name in ("goal", "context") if str(args.get(name) or "").strip()]
    return [{**shared, **task, "context": _joined(task.get("context"), *whole)} for task in tasks]


def _joined(*pieces: Any) -> str:
    return "\n\n".join(str(piece).strip() for piece in pieces if piece)
