"""Watch over files that run code by themselves: what a command did to them is undone and reported.

Mounts keep most of these files read-only. The watch is for what a mount cannot keep: files that were not there
before, repositories that a command makes, single keys of a git configuration, and every one of them under Landlock.
"""

from __future__ import annotations

import os
import shutil
import stat
import threading
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass

from hermes.tools.sandbox.git_config import code_keys, restore_keys
from hermes.tools.sandbox.profile import AUTO_RUN_FILES, SandboxProfile, is_inside
from hermes.tools.sandbox.repositories import Repositories, git_folders, read_regular
from hermes.tools.sandbox.undone import UndoneChange, write_state

#: A larger file is reported when it changes, and cannot be put back.
_MOST_BYTES = 262_144
_RUNS_CODE = "which runs code by itself"
#: Files that are looked at in one folder.
_MOST_FILES = 2_000


@dataclass(frozen=True, slots=True)
class _FileState:
    """A file at some moment. ``content`` is None when it was too large to keep."""

    stamp: tuple[int, int, int, int]
    mode: int
    content: bytes | None


@dataclass(slots=True)
class _Snapshot:
    files: dict[str, _FileState]
    #: Git configurations by path; None for what is no file, or no ordinary one.
    configurations: dict[str, bytes | None]


class AutoRunWatch:
    """The files of one workspace that run code by themselves. Thread-safe; commands may overlap."""

    def __init__(self, profile: SandboxProfile, undone: str) -> None:
        """``undone`` is the folder that new files are moved to."""
        self._profile = profile
        self._undone = undone
        self._repositories = Repositories(profile.workspace)
        self._lock = threading.Lock()
        self._running = 0
        self._before = _Snapshot({}, {})

    def command_starts(self) -> None:
        """Look at everything as it is now. What changed since the last command was not done by a command."""
        with self._lock:
            if self._running == 0:
                self._before = self._look()
            self._running += 1

    def command_ended(self) -> list[UndoneChange]:
        """Undo what changed since the start."""
        with self._lock:
            self._running -= 1
            after = self._look()
            reports = [*self._undo_files(after), *self._undo_configurations(after)]
            if reports:
                after = self._look()
            self._before = after
            return reports

    def accept(self, change: UndoneChange) -> None:
        """A change was approved and made after all: a command that still runs is not the one that made it."""
        with self._lock:
            if not self._running:
                return
            if change.keys is not None:
                content = read_regular(change.path, _MOST_BYTES)
                expected = code_keys(self._before.configurations.get(change.path) or b"") or {}
                expected = {key: values for key, values in expected.items() if key not in change.keys_before}
                if content is not None and code_keys(content) == {**expected, **change.keys}:
                    self._before.configurations[change.path] = content
            elif change.is_deleted:
                self._before.files.pop(change.path, None)
            elif (state := self._state(change.path)) is not None and state.content == change.content:
                self._before.files[change.path] = state

    # -- looking ------------------------------------------------------------------------------------------------

    def _look(self) -> _Snapshot:
        files: dict[str, _FileState] = {}
        configurations: dict[str, bytes | None] = {}
        places = dict.fromkeys(self._profile.protected)
        for repository in self._repositories.find():
            for folder in git_folders(repository):
                if not any(is_inside(folder, root) for root in self._profile.roots()):
                    continue
                places[os.path.join(folder, "hooks")] = None
                for name in ("config", "config.worktree"):
                    if os.path.lexists(path := os.path.join(folder, name)):
                        configurations[path] = None if os.path.islink(path) else read_regular(path, _MOST_BYTES)
            places.update(dict.fromkeys(os.path.join(repository, name) for name in AUTO_RUN_FILES))
        for place in places:
            for path in _files_of(place):
                state = self._state(path)
                if state is not None:
                    files[path] = state
        return _Snapshot(files, configurations)

    def _state(self, path: str) -> _FileState | None:
        """A file as it is now. One that has not changed is not read again."""
        try:
            found = os.lstat(path)
            stamp = (found.st_ino, found.st_ctime_ns, found.st_mtime_ns, found.st_size)
            known = self._before.files.get(path)
            if known is not None and known.stamp == stamp:
                return known
            content = None
            if stat.S_ISLNK(found.st_mode):
                content = os.fsencode(os.readlink(path))
            elif stat.S_ISREG(found.st_mode) and found.st_size <= _MOST_BYTES:
                content = read_regular(path, _MOST_BYTES)
        except OSError:
            return None
        return _FileState(stamp, found.st_mode, content)

    # -- undoing ------------------------------------------------------------------------------------------------

    def _undo_files(self, after: _Snapshot) -> Iterator[UndoneChange]:
        before = self._before.files
        for path, state in after.files.items():
            known = before.get(path)
            if known is None:
                did, outcome = f"made {path}, {_RUNS_CODE}", self._move_away(path)
                yield UndoneChange(path, did, outcome, state.mode, state.content)
            elif (known.mode, known.content) != (state.mode, state.content):
                did = f"changed {path}, {_RUNS_CODE}"
                yield UndoneChange(path, did, _put_back(path, known), state.mode, state.content)
        for path, known in before.items():
            # A repository that was deleted takes its hooks along.
            if path not in after.files and os.path.isdir(os.path.dirname(path)):
                yield UndoneChange(path, f"deleted {path}, {_RUNS_CODE}", _put_back(path, known), is_deleted=True)

    def _move_away(self, path: str) -> str:
        number = 1
        while os.path.lexists(target := os.path.join(self._undone, f"{number}-{os.path.basename(path)}")):
            number += 1
        try:
            os.makedirs(self._undone, exist_ok=True)
            shutil.move(path, target)
        except OSError as error:
            with suppress(OSError):
                os.unlink(path)
            return f"it could not be removed: {error.strerror}" if os.path.lexists(path) else "it was deleted"
        return f"it was moved to undone/{os.path.basename(target)} in TMPDIR"

    def _undo_configurations(self, after: _Snapshot) -> Iterator[UndoneChange]:
        for file, content in after.configurations.items():
            known = self._before.configurations.get(file, b"")
            if content == known or known is None:  # what was odd before the command is the user's own affair
                continue
            before = code_keys(known)
            keys = None if content is None else code_keys(content)
            if before is None or keys is None:
                outcome = _put_back(file, _FileState((0, 0, 0, 0), 0o644, known))
                yield UndoneChange(file, f"made {file} unreadable for git", outcome)
                continue
            changed = restore_keys(file, before, keys)
            if changed:
                did = f"set {', '.join(changed)} in {file}, which makes git run a program"
                made, were = ({key: found[key] for key in changed if key in found} for found in (keys, before))
                yield UndoneChange(file, did, "it was undone", keys=made, keys_before=were)


def _files_of(place: str) -> Iterator[str]:
    """The files in a folder, or the file itself. Sample hooks of git never run."""
    if os.path.islink(place) or not os.path.isdir(place):
        if os.path.lexists(place):
            yield place
        return
    count = 0
    for folder, folders, files in os.walk(place):
        for name in (*files, *(name for name in folders if os.path.islink(os.path.join(folder, name)))):
            if not name.endswith(".sample"):
                count += 1
                if count > _MOST_FILES:
                    return
                yield os.path.join(folder, name)


def _put_back(path: str, known: _FileState) -> str:
    if known.content is None:
        return "it is too large to be put back"
    try:
        write_state(path, known.mode, known.content)
    except OSError as error:
        return f"it could not be put back: {error.strerror}"
    return "it was put back"
