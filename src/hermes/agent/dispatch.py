"""A tool call that a plugin makes: the same pipeline as the model's own calls."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from hermes.agent.runtime import Runtime
from hermes.agent.tool_call import Outcome, ToolCall, data_problem, tool_context
from hermes.journal.turns import TurnJournal
from hermes.models.reply import ToolRequest
from hermes.scope import Scope, new_id
from hermes.tools.results import encodable, tool_error

#: How deep tools that call tools may go.
MAX_DEPTH = 4


def dispatch_tool(
    runtime: Runtime, outer: Scope, cwd: Path, name: str, args: dict[str, Any], journal: TurnJournal | None = None
) -> str:
    """Run a tool on behalf of a plugin, with the ids of the work in hand, and return what the model would see.

    With the ``journal`` of the turn in hand the call is on record: a trace shows it, and no replay runs it again.
    """
    problem = data_problem(args)
    if problem is not None:
        return tool_error(problem)
    if outer.depth >= MAX_DEPTH:
        return tool_error(f"tools that call tools may go {MAX_DEPTH} deep; this call would be deeper")
    call_id = f"{outer.tool_call_id or 'plugin'}/{new_id()[:8]}"
    scope = outer.nested(call_id)
    request = ToolRequest(call_id, name, msgspec.json.encode(encodable(args)).decode())
    call = ToolCall(runtime, request, scope, runtime.tools.get(name), tool_context(runtime, scope, cwd))
    try:
        outcome = call.prepare() or _execute(call, journal)
    except BaseException as error:
        outcome = call.cancelled(type(error).__name__)
        _record(call, outcome, journal)
        call.finish(call.ended(outcome))
        raise
    _record(call, outcome, journal)
    return call.finish(call.ended(outcome))


def _execute(call: ToolCall, journal: TurnJournal | None) -> Outcome:
    if journal is not None and call.unsafe:
        journal.event("dispatch_claimed", f"dispatch:{call.request.id}", call.claim())
        journal.commit()
    return call.execute()


def _record(call: ToolCall, outcome: Outcome, journal: TurnJournal | None) -> None:
    if journal is None:
        return
    # The commit of the step in hand takes it along.
    journal.event("dispatch_done", f"dispatch:{call.request.id}", call.record(outcome))
