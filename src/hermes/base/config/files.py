"""Files of a home: its paths, the lock that edits share across processes, atomic writes, and caches."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Generic, TypeVar

import msgspec

from hermes.base.errors import ConfigError

T = TypeVar("T")
#: msgspec inspects a struct at its first use; a second thread that uses it meanwhile would crash the process.
_inspecting = threading.Lock()
#: Seconds between two tries to get a lock that another process holds.
_LOCK_TICK = 0.01
#: Seconds for which a ``TimedCache`` believes an answer: a server may be started anew with other models.
LIFETIME = 600.0


def hermes_home() -> Path:
    """``$HERMES_HOME``, or ``~/.hermes`` when it is not set. The directory need not exist."""
    named = os.environ.get("HERMES_HOME", "").strip()
    try:
        return Path(named or "~/.hermes").expanduser().absolute()
    except RuntimeError:
        raise ConfigError("no home directory is known for this user; set HERMES_HOME to a directory") from None


def profile_name(home: Path) -> str:
    """The profile of a home: ``default``, or ``custom`` for another one than ``~/.hermes``."""
    return "default" if home == Path("~/.hermes").expanduser() else "custom"


def config_path(home: Path) -> Path:
    """The configuration file of a home."""
    return home / "config.yaml"


def open_lock(path: Path) -> int:
    """The open file of a lock, private to its owner; its folder is made when it is missing."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)


def try_lock(file: int, *, shared: bool = False) -> bool:
    """Take the lock of an open file. False when another process holds it."""
    import fcntl

    try:
        fcntl.flock(file, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


@contextlib.contextmanager
def file_lock(path: Path, failed: Callable[[OSError], Exception], *, seconds: float | None = None) -> Generator[None]:
    """Hold the lock of a file across processes. The system releases it when the process dies.

    Without it, the error that ``failed`` makes is raised: of a ``TimeoutError`` when another process holds the lock
    for longer than ``seconds``, of another ``OSError`` when the file cannot be written.
    """
    with contextlib.ExitStack() as stack:
        try:
            file = open_lock(path)
            stack.callback(os.close, file)
            _wait_for_lock(file, seconds)
        except OSError as error:
            raise failed(error) from None
        yield


def _wait_for_lock(file: int, seconds: float | None) -> None:
    import fcntl

    if seconds is None:
        fcntl.flock(file, fcntl.LOCK_EX)
        return
    give_up = time.monotonic() + seconds
    while not try_lock(file):
        if time.monotonic() >= give_up:
            raise TimeoutError
        time.sleep(_LOCK_TICK)


def locked(home: Path) -> contextlib.AbstractContextManager[None]:
    """Hold the lock of a home's files, across processes."""
    return file_lock(home / ".config.lock", lambda error: ConfigError(f"{home}: cannot be written: {error.strerror}"))


def read_document(path: Path, kind: type[T], what: str, advice: str) -> T | None:
    """A JSON document of a home; None without one. ``ConfigError`` when it is not ``what``, with the advice."""
    try:
        data = path.read_bytes()
        with _inspecting:
            decoder = msgspec.json.Decoder(kind)
        return decoder.decode(data)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: not {what} ({error}); {advice}") from None


def write_private_document(path: Path, document: object) -> None:
    """Replace a JSON document in one step; only its owner can read it."""
    if path.exists():
        path.chmod(0o600)  # the new content takes over the mode of the old
    write_atomically(path, msgspec.json.format(msgspec.json.encode(document)).decode() + "\n")


def write_atomically(path: Path, text: str) -> None:
    """Replace a file's content in one step, keeping its mode; a new file is private to its owner."""
    try:
        replace_file(path, text.encode())
    except OSError as error:
        raise ConfigError(f"{path}: cannot be written: {error.strerror}; the file is unchanged") from None


def replace_file(
    path: Path, data: bytes, *, mode: int | None = None, new_mode: int = 0o600, follow: bool = True
) -> None:
    """The same with bytes, and ``mode`` where it is given. Raises ``OSError``.

    A link (to a folder of dot files, say) stays a link, and the file it leads to is replaced, unless ``follow`` is off.
    """
    target = Path(os.path.realpath(path)) if follow else path
    fresh = target.with_name(f".{target.name[:100]}.{os.urandom(4).hex()}.tmp")
    try:
        if mode is None and target.exists():
            mode = target.stat().st_mode & 0o7777
        fd = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, new_mode if mode is None else 0o600)
        with os.fdopen(fd, "wb") as file:
            if mode is not None:
                os.fchmod(fd, mode)
            file.write(data)
            file.flush()
            os.fsync(fd)
        fresh.replace(target)
        _sync_directory(target.parent)
    finally:
        fresh.unlink(missing_ok=True)


def _sync_directory(directory: Path) -> None:
    fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


class TimedCache(Generic[T]):
    """A cache file of a home: what servers told, by key. A damaged or unwritable one is as good as none."""

    def __init__(self, home: Path, name: str, kind: type[T]) -> None:
        self._path = home / "cache" / name
        self._decoder = msgspec.json.Decoder(dict[str, tuple[float, kind]])

    def get(self, key: str) -> T | None:
        """An answer that is still believed."""
        found = self._fresh().get(key)
        return None if found is None else found[1]

    def keep(self, key: str, answer: T) -> None:
        """Remember an answer. Those that are out of date go."""
        entries = {**self._fresh(), key: (time.time(), answer)}
        with contextlib.suppress(OSError, ConfigError):
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            write_atomically(self._path, msgspec.json.encode(entries).decode())

    def _fresh(self) -> dict[str, tuple[float, T]]:
        now = time.time()
        try:
            found = self._decoder.decode(self._path.read_bytes())
        except (OSError, msgspec.DecodeError, UnicodeDecodeError):
            return {}
        return {key: entry for key, entry in found.items() if 0 <= now - entry[0] < LIFETIME}
