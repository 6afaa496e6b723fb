"""The ``memory`` tool: notes that later conversations start with."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from hermes.agent.memory.injection import refusal
from hermes.agent.memory.memory import Memory, Target
from hermes.agent.memory.notes import ACTIONS, Edit, NoteFile, NotesError, size_of
from hermes.tools.registry import Args, ToolContext
from hermes.tools.results import tool_result

if TYPE_CHECKING:
    from hermes.agent.runtime import Runtime

_NOTE = "It is saved and reaches the system prompt with the next message. Do not save it again."


def run_memory(args: Args, context: ToolContext, runtime: Runtime) -> str:
    """Edit one kind of notes, all operations or none."""
    memory = runtime.memory.of(context.scope.principal)
    target: Target = args["target"]
    if target not in memory.targets:
        return _failed(f"notes of the kind {target!r} are switched off; there are: {', '.join(memory.targets)}")
    notes = memory.notes(target)
    edits = _edits(args)
    problem = _problem(edits, memory)
    if problem:
        return _failed(problem)
    try:
        entries = notes.edit(edits)
    except NotesError as error:
        return _failed(str(error), notes)
    if memory.provided is not None:
        for edit in edits:
            said = edit.content.strip() or edit.old_text.strip()
            memory.provided.note_written(edit.action, target, said, context.scope)
    size = size_of(entries)
    return tool_result(
        success=True,
        done=True,
        target=target,
        usage=f"{100 * size // notes.limit}% ({size:,} of {notes.limit:,} characters)",
        entry_count=len(entries),
        message=_message(edits),
        note=_NOTE,
    )


def _edits(args: Args) -> list[Edit]:
    operations = cast("list[dict[str, Any]]", args.get("operations") or ())
    # Some models fill in both forms; the list is the one that says more.
    given = operations or [args]
    return [Edit(*(str(one.get(name) or "") for name in ("action", "content", "old_text"))) for one in given]


def _problem(edits: list[Edit], memory: Memory) -> str | None:
    for edit in edits:
        if edit.action not in ACTIONS:
            return f"action is {edit.action!r}; allowed: {', '.join(ACTIONS)}"
        refused = refusal(edit.content, memory.redactor) if edit.action != "remove" else None
        if refused:
            return f"{refused}. Nothing was saved"
    return None


def _message(edits: list[Edit]) -> str:
    if len(edits) > 1:
        return f"{len(edits)} operations done."
    return {"add": "Entry added.", "replace": "Entry replaced.", "remove": "Entry removed."}[edits[0].action]


def _failed(error: str, notes: NoteFile | None = None) -> str:
    if notes is None:
        return tool_result(success=False, error=error)
    entries = notes.readable_entries()
    usage = f"{size_of(entries):,} of {notes.limit:,} characters"
    return tool_result(success=False, error=error, current_entries=entries, usage=usage)
