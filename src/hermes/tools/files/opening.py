"""Opening of files for tools: what the guard protects and what the gate did not judge is refused (TOCTOU-safe)."""

# Paths are strings here, because Path is slow.

from __future__ import annotations

import os
import stat
import sys
from typing import IO, TYPE_CHECKING, Any, Literal, NamedTuple

from hermes.tools.files.guard import may_be_credential
from hermes.tools.files.paths import kind_of, resolve_path

if TYPE_CHECKING:
    from hermes.tools.registry import ToolContext

# O_NONBLOCK: if the file becomes a pipe between check and open (TOCTOU), nothing hangs.
_FLAGS = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


class FileRefused(ValueError):
    """A path that a tool must not open. The text is for the model."""


class NotAFile(FileRefused):
    """A path that is no regular file."""

    def __init__(self, path: str, mode: int) -> None:
        super().__init__(f"{path} is {kind_of(mode)}, not a file")
        self.path = path
        self.mode = mode


class OpenedFile(NamedTuple):
    """A file that was opened to be read. Its descriptor has to be closed."""

    descriptor: int
    path: str
    size: int


def open_file(path: object, mode: Literal["r", "rb", "w", "wb"], context: ToolContext) -> IO[Any]:
    """Open a file for a tool, as ``ToolContext.open`` says."""
    encoding = None if "b" in mode else "utf-8"
    if mode.startswith("w"):
        return open(writable_target(path, context), mode, encoding=encoding)
    return os.fdopen(open_to_read(path, context).descriptor, mode, encoding=encoding)


def open_to_read(path: object, context: ToolContext) -> OpenedFile:
    """Open a regular file. Raises FileRefused, with a text for the model, or OSError."""
    found, status = readable(path, context)
    if not stat.S_ISREG(status.st_mode):
        raise NotAFile(found, status.st_mode)
    descriptor = os.open(found, _FLAGS)
    try:
        _refuse(_refusal_of_opened(descriptor, status, context))
    except BaseException:
        os.close(descriptor)
        raise
    return OpenedFile(descriptor, found, status.st_size)


def readable(path: object, context: ToolContext) -> tuple[str, os.stat_result]:
    """The absolute path of a file or folder that may be read, and its status. Raises FileRefused or OSError."""
    found = resolve_path(path, context.cwd)
    _refuse(context.guard.outside(found))  # and it does not say whether the file exists
    status = os.stat(found)
    _refuse(context.guard.refusal(found, status))
    return found, status


def writable_target(path: object, context: ToolContext) -> str:
    """The real path of a file that may be created, changed or deleted. Raises FileRefused."""
    found = resolve_path(path, context.cwd)
    _refuse(context.guard.refusal_to_write(found))
    target = os.path.realpath(found)  # a link is written through, not replaced
    if context.checked is not None and target not in context.checked:
        _refuse(f"the path leads to {target} by now, which is not what was checked; nothing was written. Look again.")
    _refuse(context.guard.refusal_to_write(target))
    return target


def _refuse(reason: str | None) -> None:
    if reason:
        raise FileRefused(reason)


def _refusal_of_opened(descriptor: int, status: os.stat_result, context: ToolContext) -> str | None:
    """Why the file that was opened must not be read after all. ``status`` is that of the file that was checked."""
    found = os.fstat(descriptor)
    if (found.st_dev, found.st_ino) != (status.st_dev, status.st_ino):
        return "the file was replaced while it was opened; nothing was read. Try again."
    if context.checked is not None and sys.platform == "linux":
        real = os.readlink(f"/proc/self/fd/{descriptor}")
        if real not in context.checked and may_be_credential(real):
            return f"the path leads to {real} by now, which is not what was checked; nothing was read. Look again."
    return context.guard.refusal_of_open(descriptor)
