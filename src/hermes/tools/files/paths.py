"""Path arguments of tools: resolved to absolute paths, and shown in messages."""

# Paths are strings here, because Path is slow.

from __future__ import annotations

import errno
import os
import stat
from contextlib import suppress
from functools import lru_cache
from itertools import islice
from pathlib import Path

#: How many entries of a directory are compared with a missing name.
_NAMES_COMPARED = 2_000

_REASONS = {
    errno.ENOENT: "no such file or directory",
    errno.EACCES: "permission denied",
    errno.EPERM: "the system does not permit it",
    errno.ELOOP: "symbolic links point in a circle",
    errno.ENAMETOOLONG: "the name is too long",
    errno.ENOTDIR: "a part of the path is a file, not a directory",
    errno.EISDIR: "it is a directory",
    errno.ENOSPC: "no space left on the disk; nothing was changed",
    errno.EDQUOT: "the disk quota is used up; nothing was changed",
    errno.EFBIG: "the file would be larger than the system allows; nothing was changed",
    errno.EROFS: "the file system is read-only",
}

_KINDS = (
    (stat.S_ISDIR, "a directory"),
    (stat.S_ISFIFO, "a named pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)


def resolve_path(path: object, cwd: Path | str) -> str:
    """The absolute path that ``path`` means in the working directory ``cwd``.

    Raises ValueError, with a message for the model, when no file can have that name.
    """
    if not isinstance(path, str) or not path.strip():
        raise ValueError(f"path must be a file name, found {path!r}")
    if "\0" in path:
        raise ValueError("path contains a NUL byte; no file name can")
    if path[0] == "~":
        path = os.path.expanduser(path)
    if ".." in path:
        # "link/.." is the parent of the link's target, so ".." cannot be removed as text.
        return os.path.realpath(os.path.join(cwd, _encodable(path)))
    return _absolute(path, str(cwd))


@lru_cache(maxsize=32)  # one call asks for its path at the gate, in the tool and when its result is judged
def _absolute(path: str, cwd: str) -> str:
    return os.path.normpath(os.path.join(cwd, _encodable(path)))


def _encodable(path: str) -> str:
    try:
        os.fsencode(path)
    except UnicodeEncodeError as error:
        raise ValueError(f"path contains a character no file name can have: {error.reason}") from None
    return path


def has_link_below(folder: str, path: str) -> bool:
    """Whether a part of ``path`` below ``folder``, which it begins with, is a symbolic link, as far as it exists."""
    while len(path) > len(folder):
        if os.path.islink(path):
            return True
        path = os.path.dirname(path)
    return False


def display_path(path: str, cwd: Path | str) -> str:
    """``path`` relative to the working directory when it lies inside it, else as it is."""
    prefix = os.path.join(cwd, "")
    return path[len(prefix) :] if path.startswith(prefix) else path


def why(error: OSError) -> str:
    """The cause of a failed system call as text."""
    return _REASONS.get(error.errno or 0) or (error.strerror or str(error) or type(error).__name__)


def kind_of(mode: int) -> str:
    """The type of a file, from its ``st_mode``."""
    return next((name for test, name in _KINDS if test(mode)), "a regular file")


def similar_files(path: str, limit: int = 5) -> list[str]:
    """Names next to a missing file that resemble it."""
    import difflib

    directory, name = os.path.split(path)
    with suppress(OSError):
        with os.scandir(directory) as entries:
            names = {entry.name.lower(): entry.name for entry in islice(entries, _NAMES_COMPARED)}
        near = difflib.get_close_matches(name.lower(), names, n=limit, cutoff=0.5)
        return [os.path.join(directory, names[lowered]) for lowered in near]
    return []
