"""Who runs a session: a process is alive while it holds the kernel lock on its runner file. No clocks, no pids."""

from __future__ import annotations

import contextlib
import fcntl
import os
import secrets
import time
from pathlib import Path

import msgspec

from hermes.errors import JournalError


class Runner:
    """This process as an owner of sessions. The file appears with the first session it takes."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.id = secrets.token_hex(8)
        self._file = -1

    def start(self) -> None:
        """Make the runner file and lock it, once."""
        if self._file >= 0:
            return
        try:
            self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._file = os.open(self._path(self.id), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            fcntl.flock(self._file, fcntl.LOCK_EX)
            note = {
                "pid": os.getpid(),
                "host": os.uname().nodename,
                "since": time.strftime("%Y-%m-%d %H:%M:%S"),
            }
            os.write(self._file, msgspec.json.encode(note))
        except OSError as error:
            raise JournalError(
                f"cannot write {self.folder}: {error.strerror}; check its permissions or set HERMES_HOME"
            ) from error

    def is_alive(self, runner_id: str) -> bool:
        """Whether another process holds that runner's lock. The file of a dead one is swept away."""
        if runner_id == self.id:
            return True
        try:
            file = os.open(self._path(runner_id), os.O_RDWR | os.O_CLOEXEC)
        except OSError:
            return False
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        else:
            with contextlib.suppress(OSError):
                self._path(runner_id).unlink()
            return False
        finally:
            os.close(file)

    def describe(self, runner_id: str) -> str:
        """A living runner in words, for the person who is told that a session is busy."""
        try:
            note = msgspec.json.decode(self._path(runner_id).read_bytes(), type=dict[str, str | int])
            return f"process {note['pid']} on {note['host']} since {note['since']}"
        except (OSError, KeyError, msgspec.DecodeError):
            return "another process"

    def close(self) -> None:
        if self._file < 0:
            return
        with contextlib.suppress(OSError):
            self._path(self.id).unlink()
        os.close(self._file)
        self._file = -1

    def _path(self, runner_id: str) -> Path:
        return self.folder / runner_id
