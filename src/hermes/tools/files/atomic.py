"""Atomic writes of several files: written to temporary files, synced, then renamed; rolled back on failure."""

# Paths are strings here, because Path is slow.

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field

_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


@dataclass(slots=True)
class FileChange:
    """The new state of one file. ``path`` has no symbolic links; ``None`` as content deletes the file."""

    path: str
    before: bytes | None
    after: bytes | None
    #: The file whose permissions a moved file keeps.
    like: str | None = None
    #: Directories created for it.
    directories: list[str] = field(default_factory=list[str])


def apply_changes(changes: Sequence[FileChange]) -> None:
    """Apply all changes. On failure raises OSError and restores every file."""
    staged: list[tuple[FileChange, str]] = []
    done: list[FileChange] = []
    try:
        # Write first, rename later: a full disk is noticed before anything has changed.
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


def _stage(change: FileChange) -> str:
    """Write the new content to a temporary file in the same directory."""
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


def _take_back(changes: Sequence[FileChange], staged: list[tuple[FileChange, str]], done: list[FileChange]) -> None:
    for _, temporary in staged:
        with suppress(OSError):
            os.unlink(temporary)  # already renamed ones do not exist
    for change in reversed(done):
        with suppress(OSError):
            if change.before is None:
                os.unlink(change.path)
            else:
                back = FileChange(change.path, change.after, change.before)
                os.rename(_stage(back), change.path)
    for change in changes:
        for directory in reversed(change.directories):
            with suppress(OSError):
                os.rmdir(directory)


def _make_directories(directory: str, made: list[str]) -> None:
    """Create a directory with its parents; records the new ones."""
    missing: list[str] = []
    while not os.path.isdir(directory) and directory != os.path.dirname(directory):
        missing.append(directory)
        directory = os.path.dirname(directory)
    for path in reversed(missing):
        with suppress(FileExistsError):
            os.mkdir(path)
            made.append(path)


def _sync_directory(directory: str) -> None:
    # Without this a rename may be lost in a power cut; file systems that cannot do it are accepted.
    with suppress(OSError):
        descriptor = os.open(directory, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
