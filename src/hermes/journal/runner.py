"""Runner: the identity of a process that owns sessions.

On one machine it is alive while it holds the kernel lock (``flock``) on its runner file: no heartbeats, no clocks, no
pids. On several it is alive while it holds an advisory lock of their database (``postgres/runner.py``).
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import threading
import time
from abc import ABC, abstractmethod
from pathlib import Path

import msgspec

from hermes.base.config.files import open_lock, try_lock
from hermes.base.errors import JournalError
from hermes.journal.store.connection import JournalConnection

#: How long the lock of a process that has ended is waited for.
SECONDS_TO_RELEASE = 2.0


class Runner(ABC):
    """A process as an owner of sessions. Others see it from ``start`` on, which the first session it takes calls."""

    def __init__(self) -> None:
        #: Never used again by another process.
        self.id = os.urandom(8).hex()

    @abstractmethod
    def start(self) -> bool:
        """Be visible as alive from now on. True when runners that died were found, and removed."""

    @abstractmethod
    def is_alive(self, runner_id: str) -> bool:
        """Whether that process may still write to its sessions."""

    @abstractmethod
    def describe(self, runner_id: str) -> str:
        """A living runner as text, for the error that a session is busy."""

    @abstractmethod
    def close(self) -> None:
        """Release every session of this process."""


class FileRunner(Runner):
    """A runner among the processes of one machine. Its file is made with the first session it takes."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.folder = folder
        self._file = -1
        self._starting = threading.Lock()

    def start(self) -> bool:
        """Make the runner file and lock it, once. True when files of runners that died were found, and removed."""
        found_dead = False
        with self._starting:
            if self._file < 0:
                try:
                    found_dead = self._remove_dead()
                    self._file = self._locked_file()
                except OSError as error:
                    raise JournalError(
                        f"cannot write {self.folder}: {error.strerror}; check that folder, "
                        f"or set HERMES_HOME to another one"
                    ) from error
        return found_dead

    def _remove_dead(self) -> bool:
        """Remove the files of runners that died. One that starts at this moment has no note in its file yet."""
        names = [file.name for file in self.folder.iterdir() if file.stat().st_size] if self.folder.is_dir() else []
        return bool([name for name in names if not self.is_alive(name)])

    def is_alive(self, runner_id: str) -> bool:
        """Whether another process holds that runner's lock. The file of a dead one is removed."""
        if runner_id == self.id:
            return True
        try:
            file = os.open(self._path(runner_id), os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return False  # any other error proves nothing, and is the caller's to report
        try:
            if not self._is_released(file, runner_id):
                return True
            with contextlib.suppress(OSError):
                self._path(runner_id).unlink()
            return False
        finally:
            os.close(file)

    def _is_released(self, file: int, runner_id: str) -> bool:
        """Whether the lock is free. A process that a killed runner was just starting holds it for a moment longer."""
        give_up = time.monotonic() + SECONDS_TO_RELEASE
        while True:
            # Shared, so that two who ask at the same time do not take each other for the owner.
            if try_lock(file, shared=True):
                return True
            if time.monotonic() > give_up or not self._is_gone(runner_id):
                return False
            time.sleep(0.005)

    def _is_gone(self, runner_id: str) -> bool:
        """Whether the process that wrote the runner file has ended. Only the lock says that others may take over."""
        try:
            note = self._note_of(runner_id)
            if note["host"] == os.uname().nodename:
                os.kill(int(note["pid"]), 0)
        except ProcessLookupError:
            return True
        except (OSError, KeyError, ValueError, msgspec.DecodeError):
            return False
        return False

    def describe(self, runner_id: str) -> str:
        """A living runner as text, for the error that a session is busy."""
        try:
            note = self._note_of(runner_id)
            return f"process {note['pid']} on {note['host']} since {note['since']}"
        except (OSError, KeyError, msgspec.DecodeError):
            return "another process"

    def close(self) -> None:
        """Release every session of this process."""
        with self._starting:
            if self._file < 0:
                return
            with contextlib.suppress(OSError):
                self._path(self.id).unlink()
            os.close(self._file)
            self._file = -1

    def _locked_file(self) -> int:
        path = self._path(self.id)
        file = open_lock(path)
        note = {"pid": os.getpid(), "host": os.uname().nodename, "since": time.strftime("%Y-%m-%d %H:%M:%S")}
        try:
            fcntl.flock(file, fcntl.LOCK_EX)
            os.write(file, msgspec.json.encode(note))
        except BaseException:
            os.close(file)
            path.unlink(missing_ok=True)
            raise
        return file

    def _note_of(self, runner_id: str) -> dict[str, str | int]:
        return msgspec.json.decode(self._path(runner_id).read_bytes(), type=dict[str, str | int])

    def _path(self, runner_id: str) -> Path:
        return self.folder / runner_id


def count_runners(connection: JournalConnection) -> int:
    """How many processes use a shared journal, on all machines."""
    return connection.execute("SELECT count(*) FROM runners").fetchone()[0]
