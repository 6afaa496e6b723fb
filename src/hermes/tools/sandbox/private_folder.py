"""Private temporary folders of sandboxes: locked by their process, so that a later one finds what was left."""

from __future__ import annotations

import fcntl
import os
import shutil
import stat
import tempfile
from contextlib import suppress

#: A folder has this name only while, or after, a process held the lock on it.
PREFIX = "hermes-sandbox."


class PrivateFolder:
    """A new folder that no other user can read. It is locked until it is removed or the process ends."""

    def __init__(self) -> None:
        made = os.path.realpath(tempfile.mkdtemp(prefix=".hermes-sandbox-"))
        self._lock = os.open(made, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        # Renamed only now: a folder without a lock must not have the name of one that is to be locked.
        self.path = os.path.join(os.path.dirname(made), f"{PREFIX}{os.urandom(8).hex()}")
        os.rename(made, self.path)

    def remove(self) -> None:
        """Remove it, once."""
        lock, self._lock = self._lock, -1
        if lock >= 0:
            remove_folder(self.path)
            os.close(lock)


def remove_abandoned() -> None:
    """Remove the folders of this user whose process has ended without doing so."""
    parent = os.path.realpath(tempfile.gettempdir())
    with suppress(OSError):
        for name in os.listdir(parent):
            if name.startswith(PREFIX):
                with suppress(OSError):
                    _remove_if_abandoned(os.path.join(parent, name))


def _remove_if_abandoned(path: str) -> None:
    lock = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        if os.fstat(lock).st_uid == os.geteuid():
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)  # OSError while its process lives
            remove_folder(path)
    finally:
        os.close(lock)


def remove_folder(folder: str) -> None:
    """Remove a folder. Some caches are read-only (Go's modules), so folders are made writable on the way."""
    for path, folders, _ in os.walk(folder):
        for name in folders:
            inner = os.path.join(path, name)
            if not os.path.islink(inner) and not os.access(inner, os.W_OK | os.X_OK):
                with suppress(OSError):
                    os.chmod(inner, stat.S_IRWXU)
    shutil.rmtree(folder, ignore_errors=True)
