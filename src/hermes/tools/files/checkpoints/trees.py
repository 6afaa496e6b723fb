"""Folder trees: the state of every file below a folder, cheap for a tree that has not changed (stat cache)."""

# Paths are strings here, because Path is slow.

from __future__ import annotations

import os
import stat
from collections.abc import Iterator

import msgspec

from hermes.tools.files.checkpoints.states import FileState, KeepContent, large_state, read_state
from hermes.tools.files.guard import is_settled
from hermes.tools.search.globs import IgnoreFile, is_ignored, read_gitignore

#: Left out wherever they are: what other programs keep for themselves and can make again.
SKIPPED = frozenset(
    (
        ".git .hg .svn .jj node_modules __pycache__ .venv venv .tox .nox .mypy_cache .pytest_cache "
        ".ruff_cache .cache .gradle .terraform"
    ).split()
)


class TreeTooLarge(Exception):
    """The tree has more files, or more bytes to store, than a checkpoint may take."""


class CachedFile(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A file as it was when it was last read."""

    mtime_ns: int
    ctime_ns: int
    size: int
    inode: int
    state: FileState

    def fits(self, status: os.stat_result) -> bool:
        """Whether the file is still the one that was read."""
        return (
            self.ctime_ns == status.st_ctime_ns
            and self.mtime_ns == status.st_mtime_ns
            and self.size == status.st_size
            and self.inode == status.st_ino
        )


class Tree(msgspec.Struct, frozen=True):
    """The files and folders below a folder, with their paths relative to it."""

    files: dict[str, FileState]
    folders: set[str]


class TreeLimits(msgspec.Struct, frozen=True):
    """How much one tree may hold."""

    files: int
    #: The longest file that is kept, in bytes.
    file_bytes: int
    #: The most bytes of files that are read for one snapshot.
    new_bytes: int


def read_tree(
    folder: str, cache: dict[str, CachedFile], keep: KeepContent, limits: TreeLimits, excluded: frozenset[str]
) -> tuple[Tree, bool]:
    """The tree, and whether the cache changed. ``excluded`` are real paths of folders that are left out.

    Left out are files that ``.gitignore`` names, and folders of other programs. Raises ``TreeTooLarge``.
    """
    files: dict[str, FileState] = {}
    folders: set[str] = set()
    stale: list[tuple[str, os.stat_result]] = []
    for path, status in _walk(folder, folders, excluded):
        if len(files) + len(stale) >= limits.files:
            raise TreeTooLarge(f"it has more than {limits.files:,} files")
        known = cache.get(path)
        if known is not None and known.fits(status):
            files[path] = known.state
        else:
            stale.append((path, status))
    size = sum(status.st_size for _, status in stale if status.st_size <= limits.file_bytes)
    if size > limits.new_bytes:
        raise TreeTooLarge(f"it has more than {limits.new_bytes >> 20} MB that are not stored yet")
    for path, status in stale:
        if stat.S_ISREG(status.st_mode) and status.st_size > limits.file_bytes:
            files[path] = large_state(status)
            continue
        state = read_state(f"{folder}/{path}", keep, limits.file_bytes)
        if state.kind != "absent":
            files[path] = state
            _remember(cache, path, status, state)
    gone = cache.keys() - files.keys()
    for path in gone:
        del cache[path]
    return Tree(files, folders), bool(stale or gone)


def _remember(cache: dict[str, CachedFile], path: str, status: os.stat_result, state: FileState) -> None:
    if state.kind == "other" or not is_settled(max(status.st_mtime_ns, status.st_ctime_ns)):
        cache.pop(path, None)
        return
    cache[path] = CachedFile(status.st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_ino, state)


_Rules = tuple[IgnoreFile, ...]


def _walk(folder: str, folders: set[str], excluded: frozenset[str]) -> Iterator[tuple[str, os.stat_result]]:
    """The files and links below the folder; adds the folders it enters to ``folders``."""
    waiting: list[tuple[str, _Rules]] = [("", ())]
    while waiting:
        inside, rules = waiting.pop()
        try:
            with os.scandir(f"{folder}/{inside}") as found:
                entries = list(found)
        except OSError:  # unreadable or deleted meanwhile
            continue
        if any(entry.name == ".gitignore" for entry in entries):
            own = read_gitignore(f"{folder}/{inside}", inside)
            rules = (*rules, own) if own is not None else rules
        for entry in entries:
            path = inside + entry.name
            is_folder = entry.is_dir(follow_symlinks=False)
            if (rules and is_ignored(path, is_folder, rules)) or (is_folder and entry.name in SKIPPED):
                continue
            if is_folder:
                if entry.path.replace("//", "/") not in excluded and _is_text(entry.name):
                    folders.add(path)
                    waiting.append((path + "/", rules))
                continue
            status = _file_status(entry)
            if status is not None:
                yield path, status


def _file_status(entry: os.DirEntry[str]) -> os.stat_result | None:
    """The status of a file or link that can be recorded; a name that is no UTF-8 cannot."""
    try:
        status = entry.stat(follow_symlinks=False)
    except OSError:
        return None
    is_file = stat.S_ISREG(status.st_mode) or stat.S_ISLNK(status.st_mode)
    return status if is_file and _is_text(entry.name) else None


def _is_text(name: str) -> bool:
    return name.isascii() or not any("\ud800" <= character <= "\udfff" for character in name)
