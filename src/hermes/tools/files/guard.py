"""Protected files: the runtime's open databases, its settings, and system files. Compares inodes (TOCTOU-safe)."""

# Paths are strings here, because Path is slow.

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

_SETTINGS = ("config.yaml", ".env", "auth.json")

_SYSTEM_DIRECTORIES = (
    *("/etc", "/boot", "/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"),
    *("/proc", "/sys", "/dev", "/run", "/var/run", "/var/spool", "/var/lib/dpkg", "/var/lib/rpm"),
    *("/private/etc", "/System", "/Library"),
)

#: Exceptions: ordinary working folders. Container images keep sources under /usr/src.
_ORDINARY = ("/usr/src", "/dev/null", "/dev/shm", "/run/user")

#: A directory changed more recently than this may change again with the same time stamp, ...
_CLOCK_GRAIN_NS = 50_000_000
#: ... and longer on file systems with whole seconds.
_COARSE_GRAIN_NS = 2_500_000_000
_SECOND_NS = 1_000_000_000

_Status = os.stat_result
_FileId = tuple[int, int]


class FileGuard:
    """Decides whether a tool may read or write a path; a result that is not None is the error message.

    Closing *any* descriptor of a database drops the locks SQLite holds on it in this process, and a later
    commit may then be lost. So a file the runtime holds open is recognised with ``stat``, before it is opened,
    by device and inode: a symbolic or hard link to it is refused like the file itself.
    """

    def __init__(self, home: Path | None = None) -> None:
        self._held_open = _KnownFiles()
        self._settings = _KnownFiles()
        if home is not None:
            self._settings.add(*(str(home / name) for name in _SETTINGS))

    def protect(self, *paths: Path | str) -> None:
        """Protect these files. Include a database's companion files, even if they do not exist yet."""
        self._held_open.add(*map(str, paths))

    def outside(self, path: Path | str) -> str | None:
        """Why a tool must not even look whether ``path`` exists; None here, as everything may be looked at."""
        return None

    def refusal_of_open(self, descriptor: int) -> str | None:
        """Why the file that was opened must not be read after all; None here. Closes a race with symbolic links."""
        return None

    def refusal(self, path: Path | str, status: _Status | None = None) -> str | None:
        """Why ``path`` must not be opened. ``status`` saves a ``stat`` when the caller has one."""
        if self._held_open.includes(path, status or _status(path)):
            return (
                f"{path} is a database this program has open; opening it a second time could damage it. "
                f"Use the terminal tool with `hermes sessions` to look at conversations."
            )
        return None

    def refusal_to_write(self, path: Path | str) -> str | None:
        """Why ``path`` must not be created, changed, moved or deleted."""
        status = _status(path)
        refused = self.refusal(path, status)
        if refused:
            return refused
        if self._settings.includes(path, status):
            return f"{path} holds the runtime's settings or keys; ask the user to change it (`hermes config edit`)."
        directory = _system_directory(os.path.realpath(path))
        if directory:
            return (
                f"{path} is in the system directory {directory}; file tools do not write there. "
                f"Write inside the project, or ask the user to make this change."
            )
        return None


class _KnownFiles:
    """Files given by name, compared by device and inode, because one file can have many names."""

    def __init__(self) -> None:
        self._names: frozenset[str] = frozenset()
        self._directories: dict[str, int] = {}
        self._ids: frozenset[_FileId] = frozenset()
        self._lock = threading.Lock()

    def add(self, *paths: str) -> None:
        with self._lock:
            self._names |= {os.path.realpath(path) for path in paths}
            self._directories = dict.fromkeys(map(os.path.dirname, self._names), -1)

    def includes(self, path: Path | str, status: _Status | None) -> bool:
        if not self._names:
            return False
        if status is None:
            return os.path.realpath(path) in self._names
        if self._changed():
            self._look_again()
        return (status.st_dev, status.st_ino) in self._ids

    def _changed(self) -> bool:
        # A database's companion files appear and disappear; the time stamp of their directory shows when.
        for directory, seen in self._directories.items():  # noqa: SIM110  (any() costs twice as much)
            if _modified(directory) != seen:
                return True
        return False

    def _look_again(self) -> None:
        with self._lock:
            seen = {directory: _settled(_modified(directory)) for directory in self._directories}
            found = (_status(name) for name in self._names)
            self._ids = frozenset((status.st_dev, status.st_ino) for status in found if status)
            self._directories = seen  # last: until the inodes are set, other threads must check too


def _status(path: Path | str) -> _Status | None:
    try:
        return os.stat(path)
    except (OSError, ValueError):
        return None


def _modified(directory: str) -> int:
    status = _status(directory)
    return status.st_mtime_ns if status else 0


def _settled(modified: int) -> int:
    """The time stamp, or -1 when it is too recent to distinguish the next change."""
    grain = _CLOCK_GRAIN_NS if modified % _SECOND_NS else _COARSE_GRAIN_NS
    return modified if time.time_ns() - modified > grain else -1


def _system_directory(path: str) -> str | None:
    if any(path == ordinary or path.startswith(ordinary + "/") for ordinary in _ORDINARY):
        return None
    return next((top for top in _SYSTEM_DIRECTORIES if path == top or path.startswith(top + "/")), None)
