"""Atomic writes of several files: written to temporary files, synced, then renamed; rolled back on failure."""

# Paths are strings here, because Path is slow.

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field

NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
#: To go through a directory that cannot be listed, where the system has a way for it.
FOLDER = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


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
    staged: list[_Staged] = []
    done: list[_Staged] = []
    with ExitStack() as folders:
        try:
            # Write first, rename later: a full disk is noticed before anything has changed.
            for change in changes:
                folder = open_folder(os.path.dirname(change.path), change.directories)
                folders.callback(os.close, folder)
                staged.append(_Staged(change, folder, _stage(change, folder)))
            for one in staged:
                if one.temporary:
                    os.rename(one.temporary, one.name, src_dir_fd=one.folder, dst_dir_fd=one.folder)
                    done.append(one)
            for one in staged:
                if not one.temporary:
                    os.unlink(one.name, dir_fd=one.folder)
                    done.append(one)
        except BaseException:
            _take_back(changes, staged, done)
            raise
        for one in staged:
            # Without this a rename may be lost in a power cut; file systems that cannot do it are accepted.
            with suppress(OSError):
                folder = os.open(".", os.O_RDONLY | os.O_CLOEXEC, dir_fd=one.folder)
                folders.callback(os.close, folder)
                os.fsync(folder)


@dataclass(slots=True)
class _Staged:
    """A change whose content is written. ``folder`` is the open directory: whatever happens to its path, it stays."""

    change: FileChange
    folder: int
    #: The name of the temporary file in it; empty for a deletion.
    temporary: str

    @property
    def name(self) -> str:
        return os.path.basename(self.change.path)


def open_folder(directory: str, made: list[str] | None = None) -> int:
    """Open a directory part by part, so that no symbolic link is followed: where the path was checked there was none.

    With ``made`` missing parts are made, and added to it.
    """
    folder = os.open("/", FOLDER)
    path = ""
    try:
        for part in filter(None, directory.split("/")):
            path += f"/{part}"
            try:
                inner = os.open(part, FOLDER, dir_fd=folder)
            except FileNotFoundError:
                if made is None:
                    raise
                with suppress(FileExistsError):
                    os.mkdir(part, dir_fd=folder)
                    made.append(path)
                inner = os.open(part, FOLDER, dir_fd=folder)
            except OSError as error:
                raise OSError(error.errno, os.strerror(error.errno or 0), path) from None
            os.close(folder)
            folder = inner
    except BaseException:
        os.close(folder)
        raise
    return folder


def _stage(change: FileChange, folder: int) -> str:
    """Write the new content to a temporary file in the same directory; returns its name."""
    if change.after is None:
        return ""
    temporary = f".hermes-{os.urandom(6).hex()}.tmp"
    descriptor = os.open(temporary, NEW_FILE, 0o666, dir_fd=folder)
    try:
        with open(descriptor, "wb") as file:
            file.write(change.after)
            file.flush()
            _take_over_permissions(descriptor, change, folder)
            os.fsync(descriptor)
    except BaseException:
        os.unlink(temporary, dir_fd=folder)
        raise
    return temporary


def _take_over_permissions(descriptor: int, change: FileChange, folder: int) -> None:
    with suppress(FileNotFoundError):
        name = os.path.basename(change.path)
        old = os.stat(change.like) if change.like else os.stat(name, dir_fd=folder, follow_symlinks=False)
        new = os.fstat(descriptor)
        if (old.st_uid, old.st_gid) != (new.st_uid, new.st_gid):
            with suppress(PermissionError):
                os.fchown(descriptor, old.st_uid, old.st_gid)
        os.fchmod(descriptor, stat.S_IMODE(old.st_mode))


def _take_back(changes: Sequence[FileChange], staged: list[_Staged], done: list[_Staged]) -> None:
    for one in staged:
        if one.temporary:
            with suppress(OSError):
                os.unlink(one.temporary, dir_fd=one.folder)  # already renamed ones do not exist
    for one in reversed(done):
        with suppress(OSError):
            if one.change.before is None:
                os.unlink(one.name, dir_fd=one.folder)
            else:
                back = _stage(FileChange(one.change.path, one.change.after, one.change.before), one.folder)
                os.rename(back, one.name, src_dir_fd=one.folder, dst_dir_fd=one.folder)
    for change in changes:
        for directory in reversed(change.directories):
            with suppress(OSError):
                os.rmdir(directory)
