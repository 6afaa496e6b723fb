"""Restoring a checkpoint: a plan that names every file, and its execution, which can itself be undone."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from hermes.tools.files.checkpoints.recorder import changed_files, excluded_folders, state_now
from hermes.tools.files.checkpoints.states import ABSENT, FileState, discard, read_state, remove_folders, write_state
from hermes.tools.files.checkpoints.store import (
    Checkpoint,
    CheckpointError,
    CheckpointStore,
    SavedFile,
    add_checkpoint,
    add_content,
    add_file,
    set_left,
)
from hermes.tools.files.checkpoints.trees import Tree, TreeLimits, TreeTooLarge, read_tree
from hermes.tools.files.draft import decode_text, unified_diff
from hermes.tools.files.paths import display_path, why

#: What a restore does to a file.
RestoreAction = Literal["change", "create", "delete"]

_LIMITS = TreeLimits(files=200_000, file_bytes=1 << 40, new_bytes=1 << 62)


@dataclass(frozen=True, slots=True)
class PlannedFile:
    """A file that differs from the checkpoint."""

    path: str
    before: FileState
    now: FileState
    #: It was changed after the turns that are undone, or it is not known how they left it.
    is_conflict: bool
    made: str = ""

    @property
    def action(self) -> RestoreAction:
        """What restoring does to the file as it is now."""
        if self.before.kind == "absent":
            return "delete"
        return "create" if self.now.kind == "absent" else "change"

    @property
    def problem(self) -> str:
        """Why it cannot be restored; empty when it can."""
        if self.before.kind == "large":
            return "it was too long to be kept"
        if self.before.kind == "other" or self.now.kind == "other":
            return "it is neither a file nor a link"
        return ""


@dataclass(frozen=True, slots=True)
class RestorePlan:
    """All that a restore would do."""

    checkpoint: Checkpoint
    files: Sequence[PlannedFile]

    @property
    def conflicts(self) -> list[PlannedFile]:
        """The files that changed since."""
        return [file for file in self.files if file.is_conflict and not file.problem]

    @property
    def unrestorable(self) -> list[PlannedFile]:
        """The files that cannot be restored."""
        return [file for file in self.files if file.problem]

    def restorable(self, *, with_conflicts: bool) -> list[PlannedFile]:
        """The files that a restore changes."""
        return [file for file in self.files if not file.problem and (with_conflicts or not file.is_conflict)]

    def name(self, file: PlannedFile) -> str:
        """The path as a person reads it: relative to the working folder where it is inside."""
        return display_path(file.path, Path(self.checkpoint.folder))


@dataclass(frozen=True, slots=True)
class RestoreReport:
    """What a restore did."""

    restored: Sequence[PlannedFile]
    #: Path and reason.
    failed: Sequence[tuple[str, str]]
    #: The checkpoint that undoes the restore; None when nothing was to be done.
    undo_id: int | None


def plan_restore(
    store: CheckpointStore, checkpoint: Checkpoint, home: Path, *, only: Sequence[Path] | None = None
) -> RestorePlan:
    """What restoring a checkpoint would do: files go back to their state before it, later turns included.

    ``only`` names files, or folders that they are in.
    """
    first: dict[str, SavedFile] = {}
    left: dict[str, FileState | None] = {}
    for one in store.from_here_on(checkpoint):
        for file in (*store.files(one.id), *_open_files(store, one, home)):
            first.setdefault(file.path, file)
            left[file.path] = file.left
    wanted = None if only is None else [os.path.realpath(path) for path in only]
    planned: list[PlannedFile] = []
    for path, file in sorted(first.items()):
        if wanted is not None and not any(path == one or path.startswith(one + "/") for one in wanted):
            continue
        now = state_now(path, file.before)
        if now != file.before:
            planned.append(PlannedFile(path, file.before, now, now != left[path], file.made))
    return RestorePlan(checkpoint, planned)


def _open_files(store: CheckpointStore, checkpoint: Checkpoint, home: Path) -> Iterable[SavedFile]:
    """The files that a turn without an end changed. How it left them is not known, so each is asked about."""
    found = store.open_tree(checkpoint.id)
    if found is None:
        return []
    folder, before = found
    try:
        after, _ = read_tree(folder, store.cache(folder), discard, _LIMITS, excluded_folders(home))
    except TreeTooLarge:
        files = {path: read_state(f"{folder}/{path}", discard) for path in before.files}
        after = Tree({path: state for path, state in files.items() if state != ABSENT}, set())
    return [SavedFile(file.path, file.before, None, file.made) for file in changed_files(folder, before, after.files)]


def file_diff(store: CheckpointStore, plan: RestorePlan, file: PlannedFile) -> str:
    """The change of a file since the checkpoint, as a unified diff."""
    old = _text_to_compare(file.before, lambda: store.content(file.before.digest))
    new = _text_to_compare(file.now, lambda: _content_now(file))
    name = plan.name(file)
    lines = unified_diff(old, new, name, name)
    if file.before.kind == file.now.kind == "file" and file.before.mode != file.now.mode:
        return f"mode of {name}: {file.before.mode:o} -> {file.now.mode:o}\n{lines}"
    return lines


def _content_now(file: PlannedFile) -> bytes:
    if file.now.kind == "link":
        return os.fsencode(os.readlink(file.path))
    return Path(file.path).read_bytes()


def _text_to_compare(state: FileState, content: Callable[[], bytes]) -> str | None:
    if state.kind == "absent":
        return None
    if state.kind not in ("file", "link"):
        return f"[{'a file that is too long to be kept' if state.kind == 'large' else 'not a file'}]\n"
    try:
        data = content()
    except (OSError, CheckpointError) as error:
        return f"[not readable: {error}]\n"
    if state.kind == "link":
        return f"[link to {os.fsdecode(data)}]\n"
    decoded = decode_text(data)
    return f"[binary file, {len(data):,} bytes]\n" if decoded is None else decoded.text


def restore(store: CheckpointStore, plan: RestorePlan, files: Sequence[PlannedFile]) -> RestoreReport:
    """Restore some files of a plan. Their present state becomes a checkpoint first, so the restore can be undone.

    Each file is replaced atomically: after a crash, the same restore finds what is left to do.
    """
    if not files:
        return RestoreReport((), (), None)
    undo_id = _save_present(store, plan.checkpoint, files)
    restored: list[PlannedFile] = []
    failed: list[tuple[str, str]] = []
    # Deletions first: a new file may stand where a folder was.
    for file in sorted(files, key=lambda one: one.before.kind != "absent"):
        try:
            data = b"" if file.before.kind == "absent" else store.content(file.before.digest)
            write_state(file.path, file.before, data)
        except CheckpointError as error:
            failed.append((file.path, str(error)))
            continue
        except OSError as error:
            failed.append((file.path, why(error)))
            continue
        restored.append(file)
    for file in sorted(restored, key=lambda one: one.path, reverse=True):
        if file.made:
            remove_folders(file.made, os.path.dirname(file.path))
    with store.writing() as connection:
        for file in restored:
            set_left(connection, undo_id, file.path, file.before)
    return RestoreReport(restored, failed, undo_id)


def _save_present(store: CheckpointStore, restored: Checkpoint, files: Iterable[PlannedFile]) -> int:
    now = time.time()
    with store.writing() as connection:
        made = Checkpoint(
            id=0,
            session_id=restored.session_id,
            turn_id=f"restore:{restored.id}:{now}",
            turn=restored.turn,
            reason="restore",
            created_at=now,
            folder=restored.folder,
            summary=f"before checkpoint {restored.id} was restored",
        )
        checkpoint_id = add_checkpoint(connection, made)
        keep: Callable[[bytes, bytes], None] = lambda digest, data: add_content(connection, digest, data)  # noqa: E731
        for file in files:
            add_file(connection, checkpoint_id, SavedFile(file.path, read_state(file.path, keep), None, file.made))
    return checkpoint_id
