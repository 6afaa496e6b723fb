"""Files changed all at once or not at all: written next to their place, synced, then renamed into it."""

# Paths are strings here: they come and go as strings, and Path is slow.

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field

_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


@dataclass(slots=True)
class Change:
    """What one file becomes. ``path`` has no symbolic links; ``None`` as content means that there is no file."""

    path: str
    before: bytes | None
    after: bytes | None
    #: Whose permissions a new file takes over, when it is one that moved.
    like: str | None = None
    #: Directories that had to be made for it.
    directories: list[str] = field(default_factory=list[str])


def apply_changes(changes: Sequence[Change]) -> None:
    """Make all the changes. When one fails, OSError is raised and every file is as it was."""
    staged: list[tuple[Change, str]] = []
    done: list[Change] = []
    try:
        # Writing first, renaming later: a full disk is found out before anything has changed.
        for change in changes:
            if change.after is not None:
                temporary = _stage(change)
                staged.append((change, temporary))
        for change, temporary in staged:
            os.rename(temporary, change.path)
            done.append(change)
        for change in changes:
            if change.after is None:
                os.unlink(change.path)
                done.append(change)
    except BaseException:
        _take_back(changes, staged, done)
        raise
    for directory in {os.path.dirname(change.path) for change in changes}:
        _sync_directory(directory)


def _stage(change: Change) -> str:
    """Write the new content to a file of its own in the same directory."""
    directory = os.path.dirname(change.path)
    _make_directories(directory, change.directories)
    temporary = os.path.join(directory, f".hermes-{os.urandom(6).hex()}.tmp")
    descriptor = os.open(temporary, _NEW_FILE, 0o666)
    try:
        with open(descriptor, "wb") as file:
            file.write(change.after or b"")
            file.flush()
            _take_over_permissions(descriptor, change.like or change.path)
            os.fsync(descriptor)
    except BaseException:
        os.unlink(temporary)
        raise
    return temporary


def _take_over_permissions(descriptor: int, path: str) -> None:
    with suppress(FileNotFoundError):
        old = os.stat(path)
        new = os.fstat(descriptor)
        if (old.st_uid, old.st_gid) != (new.st_uid, new.st_gid):
            with suppress(PermissionError):
                os.fchown(descriptor, old.st_uid, old.st_gid)
        os.fchmod(descriptor, stat.S_IMODE(old.st_mode))


def _take_back(changes: Sequence[Change], staged: list[tuple[Change, str]], done: list[Change]) -> None:
    for _, temporary in staged:
        with suppress(OSError):
            os.unlink(temporary)  # those renamed already are gone
    for change in reversed(done):
        with suppress(OSError):
            if change.before is None:
                os.unlink(change.path)
            else:
                back = Change(change.path, change.after, change.before)
                os.rename(_stage(back), change.path)
    for change in changes:
        for directory in reversed(change.directories):
            with suppress(OSError):
                os.rmdir(directory)


def _make_directories(directory: str, made: list[str]) -> None:
    """Make a directory with its parents, noting those that were not there."""
    missing: list[str] = []
    while not os.path.isdir(directory) and directory != os.path.dirname(directory):
        missing.append(directory)
        directory = os.path.dirname(directory)
    for path in reversed(missing):
        with suppress(FileExistsError):
            os.mkdir(path)
            made.append(path)


def _sync_directory(directory: str) -> None:
    # Without this a rename may be lost in a power cut; some file systems cannot do it, and that is all right.
    with suppress(OSError):
        descriptor = os.open(directory, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
