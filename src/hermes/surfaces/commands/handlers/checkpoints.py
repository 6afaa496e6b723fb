"""Undo of files: offers to restore what the turns that were taken back had changed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from hermes.base.errors import HermesError
from hermes.surfaces.commands.conversation import Conversation
from hermes.surfaces.commands.text import plural
from hermes.tools.files.checkpoints.port import CheckpointPort

if TYPE_CHECKING:
    from hermes.tools.files.checkpoints.restore import PlannedFile

_LISTED = 8


def undo_files(conversation: Conversation, turn: int, choice: str) -> str:
    """Restore the files as they were before a turn.

    ``choice`` is ``files`` or ``keep``; when it is empty, a person is asked, and without one files stay.
    """
    checkpoints = conversation.host.runtime.checkpoints
    if checkpoints is None or choice == "keep":
        return "Files that changed meanwhile stay changed."
    try:
        return _restore(conversation, checkpoints, turn, choice)
    except HermesError as error:
        return f"The files stay as they are: {error}"


def _restore(conversation: Conversation, checkpoints: CheckpointPort, turn: int, choice: str) -> str:
    session, surface = conversation.session, conversation.surface
    found = checkpoints.before_turn(session.id, turn, session.principal)
    if found is None:
        return ""
    from hermes.tools.files.checkpoints.restore import plan_restore, restore

    store = checkpoints.recorder.store_of(session.principal)
    plan = plan_restore(store, found, conversation.host.home)
    safe, conflicts = plan.restorable(with_conflicts=False), plan.conflicts
    if not safe and not conflicts:
        return _lines("Not restored, because the content was not kept", [plan.name(file) for file in plan.unrestorable])
    how = f"hermes checkpoints restore {found.id}"
    # Where no person is, every question is answered with yes: nothing may depend on one.
    if not choice and conversation.host.responders.get(session.id) is None:
        return f"{plural(len(safe) + len(conflicts), 'changed file')} can be restored with: {how}"
    wants_safe = bool(safe) and (choice == "files" or surface.confirm(_question("Restore", safe, plan.name)))
    wants_conflicts = (
        bool(conflicts)
        and not choice
        and surface.confirm(
            _question("Changed after that turn, so your own changes would be lost. Restore too", conflicts, plan.name)
        )
    )
    if not wants_safe and not wants_conflicts:
        return f"Files stay changed. Restore them later with: {how}"
    chosen = [*(safe if wants_safe else ()), *(conflicts if wants_conflicts else ())]
    report = restore(store, plan, chosen)
    lines = [
        f"Restored {plural(len(report.restored), 'file')}; 'hermes checkpoints restore {report.undo_id}' undoes it."
    ]
    lines += [f"  not restored: {path}: {reason}" for path, reason in report.failed]
    left = [file for file in plan.files if file not in chosen]
    lines += [_lines("Left as they are", [plan.name(file) for file in left])] if left else []
    return "\n".join(lines)


def _question(start: str, files: Sequence[PlannedFile], name: Callable[[PlannedFile], str]) -> str:
    return f"{start}: {_names([name(file) for file in files])}?"


def _lines(title: str, names: Sequence[str]) -> str:
    return f"{title}: {_names(names)}." if names else ""


def _names(names: Sequence[str]) -> str:
    more = len(names) - _LISTED
    return ", ".join(names[:_LISTED]) + (f" and {more} more" if more > 0 else "")
