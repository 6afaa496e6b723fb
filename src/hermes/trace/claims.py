"""Event files, each written by one process at a time: the lines of two would run into each other."""

from __future__ import annotations

import contextlib
import os
import threading
from dataclasses import dataclass
from pathlib import Path

from hermes.base.config.files import try_lock

#: How many processes may write side by side.
_MOST = 100


@dataclass(slots=True)
class _Hold:
    """A file that this process has, with as many of its writers as share it."""

    descriptor: int
    writers: int = 1


_lock = threading.Lock()
_held: dict[Path, _Hold] = {}


def claim(folder: Path, filename: str) -> Path:
    """The file that this process may write to until ``give_back``: that one, or one beside it that is free.

    Folder and file are made if need be, for the user's eyes alone. ``OSError`` when they cannot be, or the file is a
    link.
    """
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    wanted = folder / filename
    numbered = (f"{wanted.stem}-{number}{wanted.suffix}" for number in range(2, _MOST + 1))
    with _lock:
        for path in (wanted, *(folder / name for name in numbered)):
            if _take(path):
                return path
    raise OSError(f"{wanted} and {_MOST - 1} files beside it are being written by other processes; name another file")


def give_back(path: Path) -> None:
    """Let others have the file."""
    with _lock:
        hold = _held.get(path)
        if hold is None:
            return  # in a process that was forked
        hold.writers -= 1
        if not hold.writers:
            del _held[path]
            os.close(hold.descriptor)


def _take(path: Path) -> bool:
    if path in _held:
        _held[path].writers += 1
        return True
    if path.is_symlink():
        raise OSError(f"{path} is a symbolic link; name the file itself")
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    # On a file system without locks, processes that share one need files of different names.
    with contextlib.suppress(OSError):
        if not try_lock(descriptor):
            os.close(descriptor)
            return False
    _held[path] = _Hold(descriptor)
    return True


def _forget() -> None:
    """A process that was forked has nothing: the files are its parent's, and free again when that is gone."""
    global _lock
    _lock = threading.Lock()
    for hold in _held.values():
        os.close(hold.descriptor)
    _held.clear()


os.register_at_fork(after_in_child=_forget)
