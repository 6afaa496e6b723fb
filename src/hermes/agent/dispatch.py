"""A tool call that a plugin makes: the same pipeline as the model's own calls."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from hermes.agent.tool_call import ToolCall, ToolRuntime, data_problem
from hermes.providers.reply import ToolRequest
from hermes.scope import Scope, new_id
from hermes.tools.results import encodable, tool_error

#: How deep tools that call tools may go.
MAX_DEPTH = 4


def dispatch_tool(runtime: ToolRuntime, outer: Scope, cwd: Path, name: str, args: dict[str, Any]) -> str:
    """Run a tool on behalf of a plugin, with the ids of the work in hand, and return what the model would see."""
    problem = data_problem(args)
    if problem is not None:
        return tool_error(problem)
    if outer.depth >= MAX_DEPTH:
        return tool_error(f"tools that call tools may go {MAX_DEPTH} deep; this call would be deeper")
    call_id = f"{outer.tool_call_id or 'plugin'}/{new_id()[:8]}"
    scope = outer.nested(call_id)
    request = ToolRequest(call_id, name, msgspec.json.encode(encodable(args)).decode())
    call = ToolCall(runtime, request, scope, runtime.registry.get(name), runtime.context(scope, cwd))
    try:
        outcome = call.prepare() or call.execute()
    except BaseException as error:
        call.finish(call.cancelled(type(error).__name__))
        raise
    return call.finish(outcome)
