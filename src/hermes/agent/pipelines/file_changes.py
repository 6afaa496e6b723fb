"""Files that a tool call changes: saved before it in a checkpoint, and what the sandbox undid kept after all."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

from hermes.journal.bodies import message_text
from hermes.tools.results import tool_error, tool_result

if TYPE_CHECKING:
    from hermes.agent.pipelines.tool_call import ToolCall
    from hermes.agent.pipelines.tool_outcome import ToolOutcome
    from hermes.agent.runtime import OpenSession
    from hermes.tools.files.checkpoints.port import CheckpointPort
    from hermes.tools.files.checkpoints.recorder import TurnInProgress
    from hermes.tools.registry import Args, Tool
    from hermes.tools.sandbox.workspace.undone import UndoneChange


def run_after_checkpoint(call: ToolCall, tool: Tool, args: Args, checkpoints: CheckpointPort) -> str:
    """Run the tool; what it changes in files is saved before, once in a turn."""
    declared = tool.declares
    is_writer = declared is not None and declared.is_writer
    if not (is_writer or call.may_change_tree):
        return tool.run(args, call.context)
    from hermes.tools.files.checkpoints.store import CheckpointError

    paths = declared.written_paths(args, call.context.cwd) if declared is not None and is_writer else None
    try:
        return checkpoints.run(_turn_in_progress(call), paths, lambda: tool.run(args, call.context))
    except CheckpointError as error:
        return tool_error(str(error), error_type="no_checkpoint")


def _turn_in_progress(call: ToolCall) -> TurnInProgress:
    """The turn of the user that the call belongs to, also when a child agent makes the call."""
    from hermes.tools.files.checkpoints.recorder import TurnInProgress

    scope, sessions = call.scope, call.runtime.open_sessions
    session: OpenSession | None = sessions.get(scope.session_id)
    while session is not None and session.parent is not None:
        above: OpenSession | None = sessions.get(session.parent.session_id)
        if above is None or above.journal is None:
            break
        session = above
    journal = None if session is None else session.journal
    if session is None or journal is None:  # a plugin's call outside of a turn
        return TurnInProgress(
            scope.session_id, scope.turn_id or scope.tool_call_id, 0, call.context.cwd, scope.principal
        )
    summary = message_text(journal.messages[0, 0])
    return TurnInProgress(session.id, journal.id, journal.ordinal, session.cwd, session.principal, summary)


def keepable(call: ToolCall) -> list[UndoneChange]:
    """The undone changes that a user can be asked about: none that holds a secret, which no record may have."""
    redactor = call.runtime.redactor
    return [
        change
        for change in call.context.command.undone
        if change.can_be_kept and redactor.mask_known(text := change.text()) == text
    ]


def recall_undone(call: ToolCall, changes: list[Any]) -> None:
    """Take up what an earlier run of the turn recorded of changes that were undone."""
    from hermes.tools.sandbox.workspace.undone import UndoneChange

    call.context.command.undone = msgspec.convert(changes, list[UndoneChange])


def settle_undone(call: ToolCall, outcome: ToolOutcome) -> ToolOutcome:
    """Ask about what was undone after the command of the call; what is approved is made after all.

    The result is recorded. A question that is answered later suspends the turn, whose replay settles again.
    """
    changes = keepable(call)
    if not changes or call.tool is None or not call.context.key or call.scope.interrupt.cancelled:
        return outcome
    if not call.runtime.approvals.may_keep(call.tool, outcome.args, call.context, changes, call.owed):
        return outcome
    kept = {change.report: call.context.confinements.keep(change) for change in changes}
    try:
        fields = msgspec.json.decode(outcome.result, type=dict[str, Any])
    except msgspec.DecodeError:
        return outcome  # middleware made another text of it
    undone = [report for report in fields.pop("undone", ()) if report not in kept]
    more = {"undone": undone} if undone else {}
    return replace(outcome, result=tool_result(**fields, **more, kept=list(kept.values())))
