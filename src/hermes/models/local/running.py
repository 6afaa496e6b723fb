"""The local model server of a home: starts it, shares it between processes by file locks, and stops using it."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Generator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from hermes.base.config.files import open_lock, try_lock
from hermes.base.config.principals import make_private
from hermes.base.errors import ProviderError
from hermes.base.scope import Interrupt
from hermes.models.local.install.weights import Weights
from hermes.models.local.server import STATE_FILE, USERS_FILE, ServerSettings, ServerState

if TYPE_CHECKING:
    import subprocess

#: Where servers have their files, inside the home.
_RUN = ("local", "run")
_START_LOCK = "start"
LOG_FILE = "server.log"
_LOOK_EVERY = 0.02
#: How long loading a model may take.
_START_SECONDS = 300.0
#: How long to wait for the end of a server without other users.
_END_SECONDS = 2.0
#: The variables that the child process gets. It needs no keys.
_PASSED_ON = ("PATH", "HOME", "LANG", "LC_ALL", "TMPDIR", "LD_LIBRARY_PATH", "PYTHONPATH", "PYTHONHOME")


class RunningServer:
    """This process's share in the server of one model.

    All processes of one home use the same server. It lives as long as one of them holds a lock, so that it
    ends with the last of them, even by ``kill -9``; a server that died is started again by the next request.
    """

    def __init__(self, home: Path, weights: Weights, *, runtime: Path, threads: int | None = None) -> None:
        self._threads = threads or min(4, _cores())
        self._weights = weights
        self._runtime = runtime
        self.folder = home.joinpath(*_RUN, _digest(weights, self._threads))
        self._lock = threading.Lock()
        #: The file on which this process holds the lock of a user; -1 while it is none.
        self._membership = -1
        self._child: subprocess.Popen[bytes] | None = None

    def reach(self, interrupt: Interrupt) -> ServerState:
        """How the server is reached, started if it has to be.

        Raises ``ProviderError`` when it cannot run, and ``Interrupted`` when the work is cancelled meanwhile.
        """
        with self._lock:
            state = living_state(self.folder) if self._membership >= 0 else None
            return state or self._join(interrupt)

    def close(self) -> None:
        """Stop using the server. Without other users it has ended when this returns."""
        with self._lock:
            if self._membership < 0:
                return
            os.close(self._membership)
            self._membership = -1
            deadline = time.monotonic() + (_END_SECONDS if self._is_ending() else 0)
            while not self._has_ended() and time.monotonic() < deadline:
                time.sleep(_LOOK_EVERY)
            if self._child is not None and self._child.poll() is None:
                self._child.returncode = 0  # it has other users and outlives this process, so it is not waited for
            self._child = None

    def _is_ending(self) -> bool:
        """Whether the server has no users: their lock is free, or held by the server alone."""
        file = open_lock(self.folder / USERS_FILE)
        try:
            return try_lock(file) or not try_lock(file, shared=True)
        finally:
            os.close(file)

    def _has_ended(self) -> bool:
        if self._child is not None:
            return self._child.poll() is not None
        return living_state(self.folder) is None

    # -- starting -----------------------------------------------------------------------------------------------

    def _join(self, interrupt: Interrupt) -> ServerState:
        try:
            make_private(self.folder)
            with _held(self.folder / _START_LOCK, interrupt):
                if self._membership < 0:
                    self._membership = _membership(self.folder / USERS_FILE, interrupt)
                return living_state(self.folder) or self._start(interrupt)
        except OSError as error:
            raise _failed(f"{self.folder}: {error.strerror}") from None

    def _start(self, interrupt: Interrupt) -> ServerState:
        import secrets

        if self._child is not None:
            self._child.wait()  # it has died, else it would have a state
        weights = self._weights
        settings = ServerSettings(
            folder=str(self.folder),
            model=str(weights.path),
            name=weights.name,
            context_length=weights.context_length,
            threads=self._threads,
            key=secrets.token_urlsafe(24),
            runtime=str(self._runtime),
            fit=not weights.is_embedded,
        )
        child = self._spawn()
        try:
            said = _converse(child, msgspec.json.encode(settings) + b"\n", interrupt)
            state = living_state(self.folder) if said == "ready" else None
            if state is None:
                raise _failed(said or _how_it_ended(child, self.folder / LOG_FILE))
        except BaseException:
            child.kill()
            child.wait()
            raise
        finally:
            _close_pipes(child)
        self._child = child
        return state

    def _spawn(self) -> subprocess.Popen[bytes]:
        import subprocess
        import sys

        log = os.open(self.folder / LOG_FILE, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        try:
            return subprocess.Popen(
                # -P: nothing in the folder the user happens to be in takes the place of a module.
                [sys.executable, "-P", "-m", "hermes.models.local.server"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                env=_environment(os.environ),
                # Ctrl-C at the terminal of one user is not meant for a server that others share.
                start_new_session=True,
            )
        finally:
            os.close(log)


def living_state(folder: Path) -> ServerState | None:
    """How the server of a folder is reached; ``None`` when there is none, or it has died."""
    try:
        file = os.open(folder / STATE_FILE, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        # Shared, so that two who look at the same time do not take each other for the server.
        if try_lock(file, shared=True):
            return None
        return msgspec.json.decode(os.read(file, 65_536), type=ServerState)
    except msgspec.DecodeError:
        return None
    finally:
        os.close(file)


def running_states(home: Path) -> list[ServerState]:
    """The servers of a home that are running."""
    folders = home.joinpath(*_RUN).glob("*")
    return [state for folder in folders if (state := living_state(folder)) is not None]


# -- locks ----------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def _held(path: Path, interrupt: Interrupt) -> Generator[None]:
    """Be the only one who starts a server."""
    file = open_lock(path)
    try:
        _lock(file, interrupt)
        yield
    finally:
        os.close(file)


def _membership(path: Path, interrupt: Interrupt) -> int:
    """The lock of a user. A server that is just ending holds it alone; that takes a moment."""
    file = open_lock(path)
    try:
        _lock(file, interrupt, shared=True)
    except BaseException:
        os.close(file)
        raise
    return file


def _lock(file: int, interrupt: Interrupt, *, shared: bool = False) -> None:
    while not try_lock(file, shared=shared):
        interrupt.wait(_LOOK_EVERY)
        interrupt.check()


# -- the child ------------------------------------------------------------------------------------------------------


def _converse(child: subprocess.Popen[bytes], settings: bytes, interrupt: Interrupt) -> str:
    """Give the child its settings; what it says when it is ready or gives up, empty when it died without a word."""
    import select

    assert child.stdin is not None and child.stdout is not None
    with contextlib.suppress(BrokenPipeError):
        os.write(child.stdin.fileno(), settings)
    deadline = time.monotonic() + _START_SECONDS
    said = b""
    while not said.endswith(b"\n"):
        interrupt.check()
        if time.monotonic() > deadline:
            return f"it was not ready after {_START_SECONDS:.0f} s"
        if select.select([child.stdout], [], [], _LOOK_EVERY)[0]:
            piece = os.read(child.stdout.fileno(), 4096)
            if not piece:
                break
            said += piece
    return said.decode("utf-8", "replace").strip()


def _how_it_ended(child: subprocess.Popen[bytes], log: Path) -> str:
    import signal

    code = child.wait()
    if code == -signal.SIGILL:
        return "this processor lacks instructions that the runtime needs (AVX2); use a model elsewhere"
    how = f"it was ended by {signal.Signals(-code).name}" if code < 0 else f"it ended with code {code}"
    return f"{how}; see {log}"


def _close_pipes(child: subprocess.Popen[bytes]) -> None:
    for pipe in (child.stdin, child.stdout):
        if pipe is not None:
            with contextlib.suppress(OSError):
                pipe.close()


def _failed(why: str) -> ProviderError:
    return ProviderError(f"the local model did not start: {why}", reason="model_missing")


def _environment(env: Mapping[str, str]) -> dict[str, str]:
    return {name: env[name] for name in _PASSED_ON if name in env}


def _digest(weights: Weights, threads: int) -> str:
    """The identity of a server: another file or another window is another server."""
    import hashlib

    said = msgspec.json.encode([str(weights.path), weights.name, weights.context_length, threads])
    return hashlib.sha256(said).hexdigest()[:12]


def _cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
