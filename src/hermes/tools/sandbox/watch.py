"""Watch over files that run code by themselves: what a command did to them is undone and reported.

Mounts keep most of these files read-only. The watch is for what a mount cannot keep: files that were not there
before, repositories that a command makes, single keys of a git configuration, and every one of them under Landlock.
"""

from __future__ import annotations

import os
import stat
import threading
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from hermes.policy.files.code import GIT_FILES, first_parts
from hermes.tools.files.guard import is_settled
from hermes.tools.sandbox.git_config import CodeKeys, code_keys, restore_keys
from hermes.tools.sandbox.profile import SandboxProfile, is_inside
from hermes.tools.sandbox.workspace.repositories import HooksFolders, hooks_of, is_worktree, read_regular, used_folders
from hermes.tools.sandbox.workspace.tree import WorkspaceTree, workspace_tree
from hermes.tools.sandbox.workspace.undone import UndoneChange, move_away, write_state

#: A larger file is reported when it changes, and cannot be put back; the same for more than that in all.
_MOST_BYTES = 4_194_304
_MOST_BYTES_OF_ALL = 67_108_864
_RUNS_CODE = "which runs code by itself"
#: Files that are looked at in one folder of the list.
_MOST_FILES = 20_000
#: Another command may make more of them all the time.
_MOST_LOOKS = 100

_Id = tuple[int, int]


@dataclass(frozen=True, slots=True)
class _FileState:
    """A file at some moment. ``content`` is None when it was too large to keep, or is no ordinary file."""

    stamp: tuple[int, int, int, int]
    mode: int
    content: bytes | None
    #: The folder that the list of files is about: it takes its files along when it is moved.
    folder: _Id = (0, 0)


@dataclass(slots=True)
class _Snapshot:
    files: dict[str, _FileState] = field(default_factory=dict[str, _FileState])
    #: Git configurations by path.
    configurations: dict[str, _FileState] = field(default_factory=dict[str, _FileState])
    #: Files and folders that were looked at, with the folder that each belongs to.
    places: dict[str, str] = field(default_factory=dict[str, str])
    #: Those of them with more files than are looked at: which ones are seen may change by itself.
    crowded: set[str] = field(default_factory=set[str])
    #: How much more content may be kept.
    room: int = _MOST_BYTES_OF_ALL


class AutoRunWatch:
    """The files of one workspace that run code by themselves. Thread-safe; commands may overlap."""

    def __init__(self, profile: SandboxProfile, undone: str, tree: WorkspaceTree | None = None) -> None:
        """``undone`` is the folder that new files are moved to."""
        self._profile = profile
        self._undone = undone
        self._tree = tree or workspace_tree(profile.workspace)
        self._hooks = HooksFolders()
        #: What configurations include, by their contents.
        self._includes: dict[bytes, list[str]] = {}
        self._names = first_parts()
        # The tree finds those of projects by itself.
        names = tuple(f"/{name}" for found in self._names.values() for name in found)
        self._places = {
            path: os.path.dirname(path)
            for path in profile.protected
            if not (is_inside(path, self._tree.root) and path.endswith(names))
        }
        self._lock = threading.Lock()
        self._running = 0
        self._before = _Snapshot()

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
            undone: dict[str, UndoneChange] = {}
            after = self._look(self._before.places)
            for _ in range(_MOST_LOOKS):
                changes = [*self._undo_files(after), *self._undo_configurations(after)]
                # There may be more files than one look takes, and some that cannot be put back.
                if all(change.path in undone for change in changes):
                    break
                undone = {**{change.path: change for change in changes}, **undone}
                after = self._look(self._before.places)
            self._before = after
            return list(undone.values())

    def accept(self, change: UndoneChange) -> None:
        """A change was approved and made after all: a command that still runs is not the one that made it."""
        with self._lock:
            if not self._running:
                return
            before = self._before
            if change.keys is not None:
                state, known = self._state(change.path), before.configurations.get(change.path)
                expected = code_keys((known and known.content) or b"") or {}
                expected = {key: values for key, values in expected.items() if key not in change.keys_before}
                if state and state.content is not None and code_keys(state.content) == {**expected, **change.keys}:
                    before.configurations[change.path] = state
            elif change.is_deleted:
                before.files.pop(change.path, None)
            elif (state := self._state(change.path)) is not None and state.content == change.content:
                before.files[change.path] = state

    # -- looking ------------------------------------------------------------------------------------------------

    def _look(self, also: Mapping[str, str] | None = None) -> _Snapshot:
        """``also``: places that are looked at although they may be none any more."""
        marked = self._tree.find()
        seen = _Snapshot(places={**(also or {}), **self._places})
        for folder, tree in used_folders(self._tree.root, marked).items():
            if self._may_change(folder):
                self._look_at_git(folder, tree, seen)
        for folder, names in marked.items():
            for first in names.intersection(self._names):
                path = os.path.join(folder, first)
                # What a link leads to may be outside of the workspace, and is none of its files.
                found = (first,) if os.path.islink(path) else self._names[first]
                seen.places.update((os.path.join(folder, name), folder) for name in found)
        for place, owner in seen.places.items():
            for number, path in enumerate(_files_of(place)):
                if number >= _MOST_FILES:
                    seen.crowded.add(place)
                    break
                if (state := self._state(path, owner, seen)) is not None:
                    seen.files[path] = state
        return seen

    def _may_change(self, path: str) -> bool:
        return any(is_inside(path, root) for root in self._profile.roots())

    def _look_at_git(self, folder: str, tree: str, seen: _Snapshot) -> None:
        owner = tree if is_inside(folder, tree) else folder
        seen.places.update((path, owner) for path in hooks_of(self._hooks.of(folder, tree)) if self._may_change(path))
        for name in GIT_FILES:
            path = os.path.join(folder, name)
            if name.startswith("config"):
                self._look_at_configuration(path, owner, seen)
            elif not name.endswith("/") and not (name == "commondir" and is_worktree(folder)):
                seen.places[path] = owner

    def _look_at_configuration(self, file: str, owner: str, seen: _Snapshot) -> None:
        """A configuration of git, and those that it includes."""
        state = self._state(file, owner, seen)
        if state is None or file in seen.configurations:
            return
        seen.configurations[file] = state
        content = state.content or b""
        if b"[include" not in content.lower():
            return
        if content not in self._includes:
            keys = code_keys(content) or {}
            self._includes[content] = [path for key in keys if key.startswith("include") for path in keys[key]]
        for path in self._includes[content]:
            included = os.path.realpath(os.path.join(os.path.dirname(file), os.path.expanduser(path)))
            if self._may_change(included):
                self._look_at_configuration(included, os.path.dirname(included), seen)

    def _state(self, path: str, owner: str = "", seen: _Snapshot | None = None) -> _FileState | None:
        """A file as it is now. One that has not changed is not read again."""
        seen = seen or _Snapshot()
        try:
            found = os.lstat(path)
            folder = os.stat(owner) if owner else found
            stamp = (found.st_ino, found.st_ctime_ns, found.st_mtime_ns, found.st_size)
            known = self._before.files.get(path) or self._before.configurations.get(path)
            if known is not None and known.stamp == stamp and is_settled(found.st_ctime_ns):
                seen.room -= len(known.content or b"")
                return known
            content = None
            if stat.S_ISLNK(found.st_mode):
                content = os.fsencode(os.readlink(path))
            elif stat.S_ISREG(found.st_mode) and found.st_size <= min(_MOST_BYTES, seen.room):
                content = read_regular(path, _MOST_BYTES)
                seen.room -= found.st_size
        except OSError:
            return None
        return _FileState(stamp, found.st_mode, content, (folder.st_dev, folder.st_ino))

    # -- undoing ------------------------------------------------------------------------------------------------

    def _undo_files(self, after: _Snapshot) -> Iterator[UndoneChange]:
        before = self._before
        for path, state in after.files.items():
            known = before.files.get(path)
            if known is None:
                if _was_moved(state, before.files, after.files) or _is_in(path, before.crowded):
                    continue
                did, outcome = f"made {path}, {_RUNS_CODE}", self._move_away(path)
                yield UndoneChange(path, did, outcome, state.mode, state.content)
            elif (known.mode, known.content) != (state.mode, state.content):
                did = f"changed {path}, {_RUNS_CODE}"
                yield UndoneChange(path, did, _put_back(path, known), state.mode, state.content)
        for path, known in before.files.items():
            # A repository that was deleted takes its hooks along.
            owner = next((owner for place, owner in before.places.items() if is_inside(path, place)), "")
            if path not in after.files and os.path.isdir(owner) and not _is_in(path, after.crowded):
                yield UndoneChange(path, f"deleted {path}, {_RUNS_CODE}", _put_back(path, known), is_deleted=True)

    def _move_away(self, path: str) -> str:
        try:
            name = move_away(path, self._undone)
        except OSError as error:
            return f"it could not be removed: {error.strerror}"
        return f"it was moved to undone/{name} in TMPDIR"

    def _undo_configurations(self, after: _Snapshot) -> Iterator[UndoneChange]:
        before = self._before.configurations
        for file in {**before, **after.configurations}:
            known, state = before.get(file), after.configurations.get(file)
            if state is None:
                known = known if os.path.isdir(os.path.dirname(file)) else None  # it went with its repository
            elif known is None and not _was_moved(state, before, after.configurations):
                known = _FileState((0, 0, 0, 0), stat.S_IFREG | 0o644, b"")
            if known is None or (state and (state.mode, state.content) == (known.mode, known.content)):
                continue
            were = _keys_of(known)
            if were is None:  # what was odd before the command is the user's own affair
                continue
            keys = {} if state is None else _keys_of(state)
            if keys is None:
                yield UndoneChange(file, f"made {file} unreadable for git", _put_back(file, known))
            elif changed := restore_keys(file, were, keys):
                did = f"set {', '.join(changed)} in {file}, which makes git run a program"
                made, was = ({key: found[key] for key in changed if key in found} for found in (keys, were))
                # Git does not change a file that is locked, and whoever sets a key can lock it, too.
                now = self._state(file)
                is_undone = (_keys_of(now) if now else {}) == were
                outcome = "it was undone" if is_undone else _put_back(file, known)
                yield UndoneChange(file, did, outcome, keys=made, keys_before=was)


def _keys_of(configuration: _FileState) -> CodeKeys | None:
    """The keys that run code; None when git cannot read it, or when it is no ordinary file."""
    if configuration.content is None or not stat.S_ISREG(configuration.mode):
        return None
    return code_keys(configuration.content)


def _was_moved(state: _FileState, before: Mapping[str, _FileState], after: Mapping[str, _FileState]) -> bool:
    """Whether a file is one of those before, untouched, whose whole folder is elsewhere now."""
    return any(
        known.stamp == state.stamp and known.folder == state.folder
        for path, known in before.items()
        if path not in after
    )


def _is_in(path: str, places: Iterable[str]) -> bool:
    return any(is_inside(path, place) for place in places)


def _files_of(place: str) -> Iterator[str]:
    """The files in a folder, or the file itself. Sample hooks of git never run."""
    try:
        mode = os.lstat(place).st_mode
    except OSError:
        return
    if not stat.S_ISDIR(mode):
        yield place
        return
    for folder, folders, files in os.walk(place):
        for name in (*files, *(name for name in folders if os.path.islink(os.path.join(folder, name)))):
            if not name.endswith(".sample"):
                yield os.path.join(folder, name)


def _put_back(path: str, known: _FileState) -> str:
    if known.content is None:
        return "it is too large to be put back"
    try:
        write_state(path, known.mode, known.content)
    except OSError as error:
        return f"it could not be put back: {error.strerror}"
    return "it was put back"
