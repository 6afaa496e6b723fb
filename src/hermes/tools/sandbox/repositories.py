"""Git repositories in and around a workspace: found by a bounded search that looks only at what changed."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator

#: How far below the workspace repositories are looked for, and how many folders are visited for it.
_DEPTH = 4
_MOST_FOLDERS = 2_000
_NEVER_SEARCHED = frozenset({"node_modules", ".venv", "venv", "__pycache__", ".tox", ".git", ".cache"})


class Repositories:
    """The working trees that a workspace is part of or contains."""

    def __init__(self, workspace: str) -> None:
        self._workspace = workspace
        #: Folder -> when its entries changed last, its folders, and whether it is a working tree.
        self._known: dict[str, tuple[int, list[str], bool]] = {}

    def find(self) -> list[str]:
        """The working trees there are now, the one around the workspace first."""
        found = dict.fromkeys(self._around())
        known = self._known
        seen: dict[str, tuple[int, list[str], bool]] = {}
        waiting = [(self._workspace, 0)]
        for folder, depth in waiting:  # it grows while it is read
            if len(seen) >= _MOST_FOLDERS:
                break
            try:
                # The time of the last change of the folder itself: a program cannot set it.
                changed = os.stat(folder).st_ctime_ns
                entry = known.get(folder)
                if entry is None or entry[0] != changed:
                    entry = (changed, *_look_at(folder))
            except OSError:
                continue
            seen[folder] = entry
            if entry[2]:
                found[folder] = None
            if depth < _DEPTH:
                waiting += [(path, depth + 1) for path in entry[1]]
        self._known = seen
        return list(found)

    def _around(self) -> Iterator[str]:
        folder = self._workspace
        while (parent := os.path.dirname(folder)) != folder:
            if os.path.lexists(os.path.join(folder, ".git")):
                yield folder
                return
            folder = parent


def _look_at(folder: str) -> tuple[list[str], bool]:
    """The folders in a folder that are worth a search, and whether it is a working tree."""
    folders: list[str] = []
    is_tree = False
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.name == ".git":
                is_tree = True
            elif entry.name not in _NEVER_SEARCHED and entry.is_dir(follow_symlinks=False):
                folders.append(entry.path)
    return folders, is_tree


def read_regular(path: str, limit: int) -> bytes | None:
    """The content of a regular file, links followed; None when it is something else, or larger than ``limit``.

    Commands choose what lies at these paths: a named pipe must not hold up the one who reads it.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError:
        return None
    with open(descriptor, "rb") as file:
        found = os.fstat(descriptor)
        return file.read(limit) if stat.S_ISREG(found.st_mode) and found.st_size <= limit else None


def git_folders(repository: str) -> list[str]:
    """The folders that hold a repository's data: one, or for a worktree or submodule its own and the common one.

    Anyone can write a ``.git`` file that names any folder. It counts only when that folder names the working tree too.
    """
    found = os.path.join(repository, ".git")
    if os.path.isdir(found) and not os.path.islink(found):
        return [os.path.realpath(found)]
    own = _pointer(found, "gitdir:", repository)
    if own is None or not os.path.isfile(os.path.join(own, "HEAD")):
        return []
    if _pointer(os.path.join(own, "gitdir"), "", own) == os.path.realpath(found):
        common = _pointer(os.path.join(own, "commondir"), "", own)
        is_worktree = common is not None and os.path.dirname(own) == os.path.join(common, "worktrees")
        return [own, common] if common is not None and is_worktree else []
    return [own] if _work_tree(own) == os.path.realpath(repository) else []


def _work_tree(own: str) -> str | None:
    """The working tree that the configuration of a submodule names."""
    lines = _text(os.path.join(own, "config")).splitlines()
    values = [value.strip() for name, _, value in (line.partition("=") for line in lines) if name.strip() == "worktree"]
    return os.path.realpath(os.path.join(own, values[-1])) if values else None


def _pointer(file: str, prefix: str, base: str) -> str | None:
    """The path that a small file of git names."""
    text = _text(file).strip()
    if not text or "\0" in text or not text.startswith(prefix):
        return None
    return os.path.realpath(os.path.join(base, text.removeprefix(prefix).strip()))


def _text(file: str) -> str:
    return os.fsdecode(read_regular(file, 65_536) or b"")
