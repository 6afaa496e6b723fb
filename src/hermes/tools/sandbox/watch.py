"""Watch over files that run code by themselves: what a command did to them is undone and reported.

Mounts keep most of these files read-only. The watch is for what a mount cannot keep: files that were not there
before, repositories that a command makes, single keys of a git configuration, and every one of them under Landlock.
"""

from __future__ import annotations

import os
import stat
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field

from hermes.policy.files.code import GIT_FILES, first_parts
from hermes.tools.files.guard import is_settled
from hermes.tools.sandbox.git_config import CodeKeys, code_keys
from hermes.tools.sandbox.profile import SandboxProfile, is_inside
from hermes.tools.sandbox.workspace.beneath import FileId, Folders
from hermes.tools.sandbox.workspace.repositories import HooksFolders, hooks_of, is_worktree, used_folders
from hermes.tools.sandbox.workspace.tree import WorkspaceTree, workspace_tree
from hermes.tools.sandbox.workspace.undone import UndoneChange, change_keys, move_away

#: A larger file is reported when it changes, and cannot be put back; the same for more than that in all.
_MOST_BYTES = 4_194_304
_MOST_BYTES_OF_ALL = 67_108_864
_RUNS_CODE = "which runs code by itself"
#: In the folder of a repository: what git does when an interrupted rebase or a row of commits goes on.
_TODO_FILES = ("rebase-merge/git-rebase-todo", "sequencer/todo")
#: Files that are looked at in one folder of the list.
_MOST_FILES = 20_000
#: Another command may make more of them all the time.
_MOST_LOOKS = 100


@dataclass(frozen=True, slots=True)
class _FileState:
    """A file at some moment. ``content`` is None when it was too large to keep, or is no ordinary file."""

    stamp: tuple[int, ...]
    mode: int
    content: bytes | None
    #: The folder that the list of files is about: it takes its files along when it is moved.
    folder: FileId = (0, 0)


@dataclass(slots=True)
class _Snapshot:
    files: dict[str, _FileState] = field(default_factory=dict[str, _FileState])
    #: Git configurations by path.
    configurations: dict[str, _FileState] = field(default_factory=dict[str, _FileState])
    #: The lines that run a command in each list of what an interrupted rebase has to do.
    todos: dict[str, frozenset[bytes]] = field(default_factory=dict[str, frozenset[bytes]])
    #: Files and folders that were looked at, with the folder that each belongs to.
    places: dict[str, str] = field(default_factory=dict[str, str])
    #: Those of them with more files than are looked at: which ones are seen may change by itself.
    crowded: set[str] = field(default_factory=set[str])
    #: Device and number of the folders that places belong to.
    owners: dict[str, FileId] = field(default_factory=dict[str, FileId])
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
        places = (path for path in profile.protected if not (is_inside(path, self._tree.root) and path.endswith(names)))
        # Links of the owner may be on the way to them, and no link is followed later.
        self._places = {
            os.path.join(owner, os.path.basename(path)): owner
            for path in places
            if self._may_change(owner := os.path.realpath(os.path.dirname(path)))
        }
        self._hidden: set[FileId] = set()
        self._lock = threading.Lock()
        self._running = 0
        self._before = _Snapshot()

    def command_starts(self) -> None:
        """Look at everything as it is now. What changed since the last command was not done by a command."""
        with self._lock:
            if self._running == 0:
                with self._folders() as folders:
                    self._before = self._look(folders)
            self._running += 1

    def command_ended(self) -> list[UndoneChange]:
        """Undo what changed since the start."""
        with self._lock:
            self._running -= 1
            undone: dict[str, UndoneChange] = {}
            changes: list[UndoneChange] = []
            with self._folders() as folders:
                after = self._look(folders, self._before.places)
                for _ in range(_MOST_LOOKS):
                    changes = [*self._undo_files(after, folders), *self._undo_configurations(after, folders)]
                    changes += self._undo_todos(after, folders)
                    # There may be more files than one look takes, and some that cannot be put back.
                    if all(change.path in undone for change in changes):
                        break
                    undone = {**{change.path: change for change in changes}, **undone}
                    after = self._look(folders, self._before.places)
            # What could not be undone is no state to return to.
            for change in changes:
                _keep_known(change.path, self._before.files, after.files)
                _keep_known(change.path, self._before.configurations, after.configurations)
            self._before = after
            return list(undone.values())

    def accept(self, change: UndoneChange) -> None:
        """A change was approved and made after all: a command that still runs is not the one that made it."""
        with self._lock:
            if not self._running:
                return
            before = self._before
            with self._folders() as folders:
                state = self._state(folders, change.path)
            if change.keys is not None:
                known = before.configurations.get(change.path)
                expected = code_keys((known and known.content) or b"") or {}
                expected = {key: values for key, values in expected.items() if key not in change.keys_before}
                if state and state.content is not None and code_keys(state.content) == {**expected, **change.keys}:
                    before.configurations[change.path] = state
            elif change.path.endswith(_TODO_FILES):
                before.todos[change.path] = _command_lines(state)
            elif change.is_deleted:
                before.files.pop(change.path, None)
            elif state is not None and state.content == change.content:
                before.files[change.path] = state

    # -- looking ------------------------------------------------------------------------------------------------

    def _folders(self) -> Folders:
        """Ways to files, without links, and without what is hidden now or was before it was moved."""
        visible = (*self._profile.roots(), *self._profile.shown)
        for path in self._profile.hidden_now():
            real = os.path.realpath(path)
            # A command may have made this link, to keep its own files from being looked at.
            if real != path and self._may_change(path):
                continue
            # What holds the workspace hides only the rest of it.
            if not any(is_inside(shown, real) for shown in visible):
                with suppress(OSError):
                    found = os.lstat(real)
                    self._hidden.add((found.st_dev, found.st_ino))
        return Folders(self._hidden)

    def _look(self, folders: Folders, also: Mapping[str, str] | None = None) -> _Snapshot:
        """``also``: places that are looked at although they may be none any more."""
        marked = self._tree.find()
        seen = _Snapshot(places={**(also or {}), **self._places})
        for folder, tree in used_folders(self._tree.root, marked).items():
            if self._may_change(folder):
                self._look_at_git(folders, folder, tree, seen)
        for folder, names in marked.items():
            for first in names.intersection(self._names):
                path = os.path.join(folder, first)
                # What a link leads to may be outside of the workspace, and is none of its files.
                found = (first,) if os.path.islink(path) else self._names[first]
                seen.places.update((os.path.join(folder, name), folder) for name in found)
        for place, owner in seen.places.items():
            if (owner_id := _id_of(folders, owner, seen)) is None:
                continue
            for number, (path, folder) in enumerate(_files_of(folders, place)):
                if number >= _MOST_FILES:
                    seen.crowded.add(place)
                    break
                if (state := self._state_in(folders, folder, path, owner_id, seen)) is not None:
                    seen.files[path] = state
        return seen

    def _may_change(self, path: str) -> bool:
        return any(is_inside(path, root) for root in self._profile.roots())

    def _look_at_git(self, folders: Folders, folder: str, tree: str, seen: _Snapshot) -> None:
        owner = tree if is_inside(folder, tree) else folder
        seen.places.update((path, owner) for path in hooks_of(self._hooks.of(folder, tree)) if self._may_change(path))
        for name in GIT_FILES:
            path = os.path.join(folder, name)
            if name.startswith("config"):
                self._look_at_configuration(folders, path, owner, seen)
            elif not name.endswith("/") and not (name == "commondir" and is_worktree(folder)):
                seen.places[path] = owner
        for path in (os.path.join(folder, name) for name in _TODO_FILES):
            if (state := self._state(folders, path, folder)) is not None:
                seen.todos[path] = _command_lines(state)

    def _look_at_configuration(self, folders: Folders, file: str, owner: str, seen: _Snapshot) -> None:
        """A configuration of git, and those that it includes."""
        state = self._state(folders, file, owner, seen)
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
                self._look_at_configuration(folders, included, os.path.dirname(included), seen)

    def _state(self, folders: Folders, path: str, owner: str = "/", seen: _Snapshot | None = None) -> _FileState | None:
        """A file as it is now; None when there is none, or when a link is on the way to it."""
        seen = seen or _Snapshot()
        try:
            owner_id = _id_of(folders, owner, seen)
            folder = folders.open(os.path.dirname(path))
        except OSError:
            return None
        return None if owner_id is None else self._state_in(folders, folder, path, owner_id, seen)

    def _state_in(self, folders: Folders, folder: int, path: str, owner: FileId, seen: _Snapshot) -> _FileState | None:
        """A file of an open folder. One that has not changed is not read again."""
        name = os.path.basename(path)
        try:
            found = folders.status(name, folder)
        except OSError:
            return None
        stamp = (found.st_dev, found.st_ino, found.st_ctime_ns, found.st_mtime_ns, found.st_size)
        known = self._before.files.get(path) or self._before.configurations.get(path)
        if known is not None and known.stamp == stamp and is_settled(found.st_ctime_ns):
            seen.room -= len(known.content or b"")
            return known
        content = None
        if not stat.S_ISREG(found.st_mode) or found.st_size <= seen.room:
            content = folders.read(name, folder, _MOST_BYTES)
            seen.room -= len(content or b"")
        return _FileState(stamp, found.st_mode, content, owner)

    # -- undoing ------------------------------------------------------------------------------------------------

    def _undo_files(self, after: _Snapshot, folders: Folders) -> Iterator[UndoneChange]:
        before = self._before
        for path, state in after.files.items():
            known = before.files.get(path)
            if known is None:
                if _was_moved(state, before.files, after.files) or _is_in(path, before.crowded):
                    continue
                did, outcome = f"made {path}, {_RUNS_CODE}", self._move_away(path, folders)
                yield UndoneChange(path, did, outcome, state.mode, state.content)
            elif (known.mode, known.content) != (state.mode, state.content):
                did = f"changed {path}, {_RUNS_CODE}"
                yield UndoneChange(path, did, _put_back(path, known, folders), state.mode, state.content)
        for path, known in before.files.items():
            # A repository that was deleted takes its hooks along.
            owner = next((owner for place, owner in before.places.items() if is_inside(path, place)), "")
            if path not in after.files and folders.has(owner) and not _is_in(path, after.crowded):
                yield UndoneChange(
                    path, f"deleted {path}, {_RUNS_CODE}", _put_back(path, known, folders), is_deleted=True
                )

    def _move_away(self, path: str, folders: Folders) -> str:
        try:
            name = move_away(path, self._undone, folders)
        except OSError as error:
            return f"it could not be removed: {error.strerror}"
        return f"it was moved to undone/{name} in TMPDIR"

    def _undo_todos(self, after: _Snapshot, folders: Folders) -> Iterator[UndoneChange]:
        """Lists with new lines that run a command. Others are left alone: git writes them for every rebase."""
        for path, lines in after.todos.items():
            state = self._state(folders, path)
            if state is not None and lines - self._before.todos.get(path, frozenset()):
                did = f"left commands in {path}, which git runs when the rebase goes on"
                yield UndoneChange(path, did, self._move_away(path, folders), state.mode, state.content)

    def _undo_configurations(self, after: _Snapshot, folders: Folders) -> Iterator[UndoneChange]:
        before = self._before.configurations
        for file in {**before, **after.configurations}:
            known, state = before.get(file), after.configurations.get(file)
            if state is None:
                known = known if folders.has(os.path.dirname(file)) else None  # it went with its repository
            elif known is None and not _was_moved(state, before, after.configurations):
                known = _FileState((), stat.S_IFREG | 0o644, b"")
            if known is None or (state and (state.mode, state.content) == (known.mode, known.content)):
                continue
            were = _keys_of(known)
            if were is None:  # what was odd before the command is the user's own affair
                continue
            keys = {} if state is None else _keys_of(state)
            if keys is None:
                yield UndoneChange(file, f"made {file} unreadable for git", _put_back(file, known, folders))
            elif changed := _restore_keys(file, were, keys, folders):
                did = f"set {', '.join(changed)} in {file}, which makes git run a program"
                made, was = ({key: found[key] for key in changed if key in found} for found in (keys, were))
                # Git does not change a file that is locked, and whoever sets a key can lock it, too.
                now = self._state(folders, file)
                is_undone = (_keys_of(now) if now else {}) == were
                outcome = "it was undone" if is_undone else _put_back(file, known, folders)
                yield UndoneChange(file, did, outcome, keys=made, keys_before=was)


def _keep_known(path: str, before: Mapping[str, _FileState], after: dict[str, _FileState]) -> None:
    after.pop(path, None)
    if path in before:
        after[path] = before[path]


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


def _files_of(folders: Folders, place: str) -> Iterator[tuple[str, int]]:
    """The files in a folder, or the file itself, with an open folder for each. Sample hooks of git never run."""
    above, name = os.path.split(place)
    try:
        parent = folders.open(above)
        is_folder = stat.S_ISDIR(folders.status(name, parent).st_mode)
    except OSError:
        return
    if not is_folder:
        yield place, parent
        return
    for folder, inner, files, descriptor in os.fwalk(name, dir_fd=parent, follow_symlinks=False):
        found = [*files]
        for one in [*inner]:
            try:
                if not stat.S_ISDIR(folders.status(one, descriptor).st_mode):
                    found.append(one)  # a link
            except OSError:
                inner.remove(one)  # hidden, or gone
        for one in found:
            if not one.endswith(".sample"):
                yield os.path.join(above, folder, one), descriptor


def _id_of(folders: Folders, folder: str, seen: _Snapshot) -> FileId | None:
    """Device and number of a folder that files belong to; None when there is none, or links lead to it."""
    if folder not in seen.owners:
        try:
            found = os.fstat(folders.open(folder))
        except OSError:
            return None
        seen.owners[folder] = found.st_dev, found.st_ino
    return seen.owners[folder]


def _restore_keys(file: str, were: CodeKeys, keys: CodeKeys, folders: Folders) -> list[str]:
    try:
        return change_keys(file, were, keys, folders)
    except OSError:  # then the whole file is put back
        return [key for key in {**were, **keys} if were.get(key) != keys.get(key)]


def _command_lines(todo: _FileState | None) -> frozenset[bytes]:
    """The lines of a list that run a command; what is no ordinary file, or too large, counts as one."""
    if todo is None:
        return frozenset()
    if todo.content is None or not stat.S_ISREG(todo.mode):
        return frozenset({b""})
    words = ((line.split(None, 1), line) for line in todo.content.splitlines())
    return frozenset(line for word, line in words if word and word[0] in (b"exec", b"x"))


def _put_back(path: str, known: _FileState, folders: Folders) -> str:
    if known.content is None:
        return "it is too large to be put back"
    try:
        folders.write(path, known.mode, known.content)
    except OSError as error:
        return f"it could not be put back: {error.strerror}"
    return "it was put back"
