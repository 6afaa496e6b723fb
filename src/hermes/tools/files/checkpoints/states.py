"""File states: kind, permissions and content of one path, read and written without following symbolic links."""

# Paths are strings here, because Path is slow.

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from typing import Literal

import msgspec

from hermes.tools.files.atomic import NEW_FILE, open_folder

#: ``large``: too long to keep; its digest is its size and time. ``other``: a folder, a device, or unreadable.
StateKind = Literal["absent", "file", "link", "large", "other"]

#: Stores the content of a file under its digest.
KeepContent = Callable[[bytes, bytes], None]

# A named pipe must not block.
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class FileState(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What is at a path: nothing, a file or a link."""

    kind: StateKind
    mode: int = 0
    #: SHA-256 of the content, or of the target of a link.
    digest: bytes = b""


ABSENT = FileState("absent")


def read_state(path: str, keep: KeepContent, limit: int | None = None) -> FileState:
    """The state of a path; ``keep`` is given its content. A file over ``limit`` bytes is not read."""
    try:
        status = os.lstat(path)
        if stat.S_ISLNK(status.st_mode):
            return _kept("link", 0, os.fsencode(os.readlink(path)), keep)
        if not stat.S_ISREG(status.st_mode):
            return FileState("other", stat.S_IMODE(status.st_mode))
        if limit is not None and status.st_size > limit:
            return large_state(status)
        with open(os.open(path, _READ), "rb") as file:
            mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
            return _kept("file", mode, file.read(), keep)
    except (FileNotFoundError, NotADirectoryError):
        return ABSENT
    except OSError:
        return FileState("other")


def read_content(path: str, limit: int) -> bytes | None:
    """The content of a file; ``None`` for one over ``limit`` bytes. No part of the path may be a symbolic link.

    Raises ``OSError``.
    """
    with _parent(path, make=False) as (parent, name):
        if parent < 0:
            raise FileNotFoundError(path)
        with open(os.open(name, _READ, dir_fd=parent), "rb") as file:
            data = file.read(limit + 1)
    return data if len(data) <= limit else None


def large_state(status: os.stat_result) -> FileState:
    """The state of a file that is too long to be kept."""
    return FileState("large", stat.S_IMODE(status.st_mode), f"{status.st_size} {status.st_mtime_ns}".encode())


def discard(_digest: bytes, _data: bytes) -> None:
    """A ``KeepContent`` for states that are only compared."""


def _kept(kind: StateKind, mode: int, data: bytes, keep: KeepContent) -> FileState:
    digest = hashlib.sha256(data).digest()
    keep(digest, data)
    return FileState(kind, mode, digest)


# -- writing ---------------------------------------------------------------------------------------------------------


def write_state(path: str, state: FileState, data: bytes) -> None:
    """Make a path what ``state`` says, atomically. No part of the path may be a symbolic link.

    Raises ``OSError``; the path is then as it was.
    """
    with _parent(path, make=state.kind != "absent") as (parent, name):
        if parent < 0:
            return
        if state.kind == "absent":
            with suppress(FileNotFoundError):
                os.unlink(name, dir_fd=parent)
            return
        temporary = f".hermes-{os.urandom(6).hex()}.tmp"
        try:
            if state.kind == "link":
                os.symlink(os.fsdecode(data), temporary, dir_fd=parent)
            else:
                _write_file(temporary, data, state.mode, parent)
            os.rename(temporary, name, src_dir_fd=parent, dst_dir_fd=parent)
        except BaseException:
            with suppress(OSError):
                os.unlink(temporary, dir_fd=parent)
            raise


def remove_folders(first: str, last: str) -> None:
    """Remove ``last`` and the folders above it, up to ``first``, as far as they are empty."""
    while last == first or last.startswith(first + "/"):
        try:
            with _parent(last, make=False) as (parent, name):
                if parent < 0:
                    return
                os.rmdir(name, dir_fd=parent)
        except OSError:
            return
        last = os.path.dirname(last)


def missing_folder(path: str) -> str:
    """The topmost folder above ``path`` that does not exist; empty when there is none."""
    missing = ""
    folder = os.path.dirname(path)
    while folder and not os.path.lexists(folder):
        missing, folder = folder, os.path.dirname(folder)
    return missing


def _write_file(name: str, data: bytes, mode: int, parent: int) -> None:
    descriptor = os.open(name, NEW_FILE, 0o600, dir_fd=parent)
    with open(descriptor, "wb") as file:
        file.write(data)
        file.flush()
        os.fchmod(descriptor, mode)
        os.fsync(descriptor)


@contextmanager
def _parent(path: str, *, make: bool) -> Generator[tuple[int, str]]:
    """The folder of a path, opened without following links; -1 when it is missing."""
    folder, name = os.path.split(path)
    try:
        descriptor = open_folder(folder, [] if make else None)
    except FileNotFoundError:
        descriptor = -1
    try:
        yield descriptor, name
    finally:
        if descriptor >= 0:
            os.close(descriptor)
