"""Protected files: the runtime's databases, settings and keys, and system files. Compares inodes (TOCTOU-safe)."""

# Paths are strings here, because Path is slow.

from __future__ import annotations

import os
import re
import threading
from functools import cache
from pathlib import Path
from time import time_ns

from hermes.base.sanitize import has_mark

_SETTINGS = ("config.yaml", ".env", "auth.json")
#: With that of the A2A server in former versions, under both its names.
_DATABASES = ("state.db", "search.db", "checkpoints.db", "a2a.db", "a2a.db.migrated")
_COMPANIONS = ("", "-wal", "-shm", "-journal")

_SYSTEM_DIRECTORIES = tuple(
    (
        "/etc /boot /usr /bin /sbin /lib /lib32 /lib64 /libx32 /proc /sys /dev /run /var/run /var/spool "
        "/var/lib/dpkg /var/lib/rpm /private/etc /System /Library"
    ).split()
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
            databases = (f"{name}{companion}" for name in _DATABASES for companion in _COMPANIONS)
            self._settings.add(*(str(home / name) for name in (*_SETTINGS, *databases)), backups_in=str(home))

    def protect(self, *paths: Path | str) -> None:
        """Protect these files. Include a database's companion files, even if they do not exist yet."""
        self._held_open.add(*map(str, paths))

    @property
    def of_host(self) -> FileGuard:
        """The guard of the host itself, without the limits of a workspace."""
        return self

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
        if self._settings.includes(path, status or _status(path)):
            return (
                f"{path} holds settings, keys or records of this program; file tools do not open it. "
                f"Ask the user (`hermes config show` prints the settings without secrets)."
            )
        return None

    def refusal_to_write(self, path: Path | str) -> str | None:
        """Why ``path`` must not be created, changed, moved or deleted."""
        status = _status(path)
        refused = self.refusal(path, status)
        if refused:
            return refused
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
        self._backups_in = ""
        self._ids: frozenset[_FileId] = frozenset()
        self._lock = threading.Lock()

    def add(self, *paths: str, backups_in: str = "") -> None:
        """``backups_in`` is a folder whose copies of the settings count too, such as ``auth.json.corrupt``."""
        with self._lock:
            self._backups_in = backups_in and os.path.realpath(backups_in)
            self._names |= {os.path.realpath(path) for path in paths}
            self._directories = dict.fromkeys(map(os.path.dirname, self._names), -1)

    def includes(self, path: Path | str, status: _Status | None) -> bool:
        if not self._names:
            return False
        if status is None:
            real = os.path.realpath(path)
            return real in self._names or (os.path.dirname(real) == self._backups_in and _is_backup(real))
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
            stamps = {directory: _modified(directory) for directory in self._directories}
            seen = {directory: stamp if is_settled(stamp) else -1 for directory, stamp in stamps.items()}
            found = (_status(name) for name in (*self._names, *_backups(self._backups_in)))
            self._ids = frozenset((status.st_dev, status.st_ino) for status in found if status)
            self._directories = seen  # last: until the inodes are set, other threads must check too


def _is_backup(path: str) -> bool:
    return os.path.basename(path).startswith(_SETTINGS)


def _backups(folder: str) -> list[str]:
    try:
        return [os.path.join(folder, name) for name in os.listdir(folder) if _is_backup(name)] if folder else []
    except OSError:
        return []


def suspect_path(path: str) -> str | None:
    """The real path of a file that may hold credentials of other programs; None for all others, and missing ones."""
    real = os.path.realpath(path)
    return real if may_be_credential(real) and os.path.lexists(path) else None


def mark_refusal(text: str) -> str | None:
    """Why a text with a redaction mark is not written: the mark would replace the secret that it stands for."""
    if not has_mark(text):
        return None
    return (
        "the text contains <redacted:NAME>, which stands for a secret that is not shown; nothing was written. "
        "Leave that line as it is (patch only the lines around it), or refer to the secret by the name of its variable."
    )


def is_key_file(path: str) -> bool:
    """Whether a file has the name of a store of keys."""
    return _credential_patterns()[0].fullmatch(os.path.basename(path).lower()) is not None


def may_be_credential(path: str) -> bool:
    """Whether a path lies where keys of other programs lie. What does is judged by the policy."""
    return _credential_patterns()[1].search(path.lower()) is not None


@cache
def _credential_patterns() -> tuple[re.Pattern[str], re.Pattern[str]]:
    """Of names of files, and of whole paths. Made when first used: that takes as long as the rest of the module."""
    from hermes.policy.files.credentials import HOME_STORES, KEY_FILES, STORES
    from hermes.policy.files.patterns import pattern_of

    names = pattern_of(KEY_FILES)
    places = rf"/(?:\.env[^/]*|{names}|{pattern_of((*STORES, *HOME_STORES))})$|^/etc/|^/proc/|^(?:/var)?/run/secrets"
    return re.compile(names), re.compile(places)


def _status(path: Path | str) -> _Status | None:
    try:
        return os.stat(path)
    except (OSError, ValueError):
        return None


def _modified(directory: str) -> int:
    status = _status(directory)
    return status.st_mtime_ns if status else 0


def is_settled(changed: int) -> bool:
    """Whether the next change will have another time stamp than this one."""
    return time_ns() - changed > (_CLOCK_GRAIN_NS if changed % _SECOND_NS else _COARSE_GRAIN_NS)


def _system_directory(path: str) -> str | None:
    if any(path == ordinary or path.startswith(ordinary + "/") for ordinary in _ORDINARY):
        return None
    return next((top for top in _SYSTEM_DIRECTORIES if path == top or path.startswith(top + "/")), None)
