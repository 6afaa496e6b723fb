"""The folders of a workspace that hold files which run code, or git repositories: found once, then kept up to date.

The kernel says which folders changed, so that a look costs the same in a workspace of any size. Where it does not say,
every folder is asked when it changed last.
"""

from __future__ import annotations

import os
import re
import threading
import weakref
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from hermes.policy.files.code import first_parts
from hermes.tools.files.guard import is_settled

if TYPE_CHECKING:
    from hermes.tools.sandbox.workspace.inotify import FolderChanges

#: The folders that are visited, those near the workspace first. More are in no workspace, and in some home folders.
_MOST_FOLDERS = 100_000
#: What belongs to others: their packages may have settings for editors and agents. A repository there counts.
_PACKAGES = frozenset({"node_modules", "site-packages", ".venv", "venv", ".tox", ".nox", "__pycache__", ".cache"})
#: In the folder of a repository, folders that have more repositories in them.
_INSIDE_GIT = frozenset({"modules", "worktrees"})
_OBJECTS = re.compile(r"[0-9a-f]{2}|pack|info")

#: What git needs to take a folder for a repository; with ``commondir`` the rest may be elsewhere.
_LAYOUTS = (frozenset({"HEAD", "objects", "refs"}), frozenset({"HEAD", "commondir"}))
_GIT_NAMES = frozenset({".git"}.union(*_LAYOUTS))


class _Folder(NamedTuple):
    """A folder at some moment. ``changed`` is 0 when that is not known well enough."""

    changed: int
    folders: tuple[str, ...]
    names: frozenset[str]
    is_package: bool


class WorkspaceTree:
    """Where entries with certain names are below a folder. Thread-safe."""

    def __init__(self, root: str, names: Iterable[str]) -> None:
        self.root = root
        self._names = frozenset(names) | _GIT_NAMES
        self._known: dict[str, _Folder] = {}
        self._marked: dict[str, frozenset[str]] = {}
        #: Folders that the kernel does not report about.
        self._unwatched: set[str] = set()
        self._changes: FolderChanges | None = None
        self._has_started = False
        self._lock = threading.Lock()

    def find(self) -> Mapping[str, frozenset[str]]:
        """The folders that have entries with one of the names now, with those names."""
        with self._lock:
            changes = self._changes.read() if self._changes is not None else None
            if changes is None:
                self._start()
                self._look_at([self.root], everywhere=True)
                return dict(self._marked)
            changed: dict[str, None] = {}
            for folder, name, is_folder in changes:
                if is_folder:
                    self._forget(f"{folder}/{name}")  # there may be another folder of that name
                if is_folder or name in self._names:
                    changed[folder] = None
            self._look_at(list(changed), surely=True)
            self._look_at(list(self._unwatched))
            return dict(self._marked)

    def _start(self) -> None:
        if self._has_started:
            return
        self._has_started = True
        from hermes.tools.sandbox.workspace.inotify import FolderChanges  # brings ctypes along

        with suppress(OSError, AttributeError):  # a system without it
            self._changes = FolderChanges()
            weakref.finalize(self, self._changes.close)

    def _look_at(self, folders: list[str], *, surely: bool = False, everywhere: bool = False) -> None:
        """Look at folders and the new ones in them. ``surely``: also when they seem not to have changed.

        ``everywhere``: and at the ones in them that are known.
        """
        sure = len(folders) if surely else 0
        for number, folder in enumerate(folders):  # it grows while it is read
            known = self._known.get(folder)
            if known is None and len(self._known) >= _MOST_FOLDERS:
                break
            try:
                found = self._scan(folder, None if number < sure else known)
            except OSError as error:
                self._forget(folder)
                if isinstance(error, PermissionError):
                    self._unwatched.add(folder)  # a command may open it again
                continue
            for gone in set(known.folders).difference(found.folders) if known else ():
                self._forget(gone)
            self._known[folder] = found
            if found.names:
                self._marked[folder] = found.names
            else:
                self._marked.pop(folder, None)
            folders += found.folders if everywhere else (path for path in found.folders if path not in self._known)

    def _scan(self, folder: str, known: _Folder | None) -> _Folder:
        # The time of the last change of the folder itself: a program cannot set it.
        changed = os.stat(folder).st_ctime_ns
        if known is not None and known.changed == changed:
            return known
        if self._changes is None or not self._changes.watch(folder):
            self._unwatched.add(folder)
        if not is_settled(changed):
            changed = 0  # it may change again without another time of change
        parent, _, name = folder.rpartition("/")
        above = self._known.get(parent)
        is_package = folder != self.root and (name in _PACKAGES or (above is not None and above.is_package))
        folders, names = _entries(folder, _GIT_NAMES if is_package else self._names)
        if name == ".git":
            folders = [inner for inner in folders if inner in _INSIDE_GIT]
        elif name == "objects" and above is not None and is_git_folder(above.names):
            folders = [inner for inner in folders if not _OBJECTS.fullmatch(inner)]
        return _Folder(changed, tuple(f"{folder}/{inner}" for inner in folders), names, is_package)

    def _forget(self, folder: str) -> None:
        waiting = [folder]
        for path in waiting:  # it grows while it is read
            known = self._known.pop(path, None)
            self._marked.pop(path, None)
            self._unwatched.discard(path)
            if known is not None:
                waiting += known.folders


def workspace_tree(workspace: str) -> WorkspaceTree:
    """The tree that knows where in a workspace files are which run code."""
    return WorkspaceTree(os.path.realpath(workspace), first_parts())


def _entries(folder: str, wanted: frozenset[str]) -> tuple[list[str], frozenset[str]]:
    """The folders in a folder, and those of the wanted names that are there."""
    names: set[str] = set()
    folders: list[str] = []
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.name in wanted:
                names.add(entry.name)
            if entry.is_dir(follow_symlinks=False):
                folders.append(entry.name)
    return folders, frozenset(names)


def is_git_folder(names: frozenset[str]) -> bool:
    """Whether git takes a folder with these entries for a repository."""
    return any(layout <= names for layout in _LAYOUTS)
