"""The host's time to start a child agent: from the parent's call until the child's first request is at the server."""

from __future__ import annotations

from time import monotonic
from typing import Any

from hermes.base.config import Config
from hermes.base.config.schema.sections import AgentConfig, ModelConfig
from hermes.contract.events import ToolStarted, TurnEvent
from hermes.host import Host, HostOptions
from hermes.testing import ScriptedProvider, text, tool_call

from .measure import BenchFailed
from .table import Row
from .workspace import Workspace

BUDGET_MILLISECONDS = 5.0
#: Delegations in a row, one child each. The first pays for what is loaded on first use and is left out.
CHILDREN = 40

_GOAL = "say hello"


def measure(workspace: Workspace) -> list[Row]:
    """One row."""
    best = min(_start_children(workspace, run) for run in range(workspace.repeat or 3)) * 1e3
    what = "starting a child agent, from the parent's call to the child's first request"
    return [Row(what, best, None, "ms", f"≤ {BUDGET_MILLISECONDS:g} ms", best <= BUDGET_MILLISECONDS)]


def _start_children(workspace: Workspace, run: int) -> float:
    """Seconds for one child: the best of a conversation, because the work is the same for each."""
    calls = [tool_call("delegate_task", {"goal": _GOAL}) for _ in range(CHILDREN)]
    called: list[float] = []

    def note(event: TurnEvent) -> None:
        if isinstance(event, ToolStarted):
            called.append(monotonic())

    with ScriptedProvider({"go": [*calls, text("done")], _GOAL: text("hello")}) as provider:
        config = Config(
            model=ModelConfig(provider="custom", default="bench", base_url=provider.base_url, api_key="bench-key"),
            agent=AgentConfig(max_turns=CHILDREN + 1),
        )
        home = workspace.folder / f"children-{run}"
        with Host(home, config, HostOptions(), cwd=workspace.notes, env={}) as host:
            result = host.new_session().run("go", listener=note)
        arrived = [request.arrived for request in provider.requests if _is_child(request)]
    if result.status != "completed" or len(arrived) != CHILDREN:
        raise BenchFailed(f"{CHILDREN} children were expected, the server saw {len(arrived)}: {result.error}")
    return min(there - asked for asked, there in zip(called[1:], arrived[1:], strict=True))


def _is_child(request: Any) -> bool:
    return request.last_user_text == _GOAL
