"""Runs one hook command with a deadline: bounded output, and its whole process group ended when it is late."""

from __future__ import annotations

import contextlib
import logging
import os
import select
import time
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING

from hermes.base.scope import Interrupt
from hermes.tools.sandbox.confinement import Confinement
from hermes.tools.terminal.child_process import check_program

if TYPE_CHECKING:
    import subprocess

    from hermes.tools.terminal.supervisor import ProcessSupervisor

log = logging.getLogger("hermes.plugins")

#: Most bytes of a command's output that are kept. The rest is read and dropped, so that a full pipe blocks no one.
MAX_STDOUT = 1_000_000
MAX_STDERR = 20_000

_CHUNK = 65_536
#: An interrupt normally wakes the wait by ending the command; this is the latest it notices one that refuses.
_LOOK_EVERY = 0.25
#: Where the kernel cannot announce an exit, this is how often we look.
_LOOK_OFTEN = 0.025
#: After the command has exited, a child it left behind may hold its output open: wait this long for more, ...
_QUIET = 0.05
#: ... and in all not longer than this.
_DRAIN = 0.25
#: How long a command may take to end after SIGTERM.
_GRACE = 0.5


@dataclass(frozen=True, slots=True)
class Finished:
    """How a command ended and what it said."""

    #: As a shell reports it (128 + signal); None when it was stopped because its time was up.
    exit_code: int | None
    stdout: str
    stderr: str
    seconds: float
    #: Whether it printed more than is kept.
    overflowed: bool = False


def run_command(
    argv: Sequence[str],
    *,
    stdin: bytes,
    cwd: str,
    confinement: Confinement,
    variables: Mapping[str, str] | None = None,
    timeout: float,
    interrupt: Interrupt | None = None,
    supervisor: ProcessSupervisor | None = None,
) -> Finished:
    """Run a program to its end. ``OSError`` when it cannot be started, ``Interrupted`` when the work is cancelled.

    ``variables`` are added to the environment. With a ``supervisor`` it does not outlive Hermes.
    """
    started = time.monotonic()
    process = _start(argv, cwd, confinement, variables or {}, supervisor)
    try:
        return _converse(process, stdin, started, timeout, interrupt)
    finally:
        if supervisor is not None:
            supervisor.remove(process.pid)
        for change in confinement.ended():
            log.warning("the hook command %s %s", argv[0], change.report)


def _start(
    argv: Sequence[str],
    cwd: str,
    confinement: Confinement,
    variables: Mapping[str, str],
    supervisor: ProcessSupervisor | None,
) -> subprocess.Popen[bytes]:
    """Start it with three pipes. Its group registers with the supervisor by itself, before it becomes the command."""
    from subprocess import PIPE, Popen

    if supervisor is None:

        def plain(line: Sequence[str], folder: str, environment: Mapping[str, str]) -> Popen[bytes]:
            env = {**environment, **variables}
            return Popen(
                line, stdin=PIPE, stdout=PIPE, stderr=PIPE, cwd=folder, env=env, bufsize=0, start_new_session=True
            )

        return confinement.start(argv, cwd, plain)
    from hermes.tools.terminal.supervisor import REGISTER

    supervisor.start()  # here, outside of any sandbox, which would limit whom it can signal
    with contextlib.ExitStack() as stack:
        reading, writing = os.pipe()
        stack.callback(os.close, writing)
        errors = os.fdopen(reading, "rb", 0)
        registration = stack.enter_context(supervisor.registration())

        def registered(line: Sequence[str], folder: str, environment: Mapping[str, str]) -> Popen[bytes]:
            env = {**environment, **variables}
            check_program(line[0], env, folder)
            return Popen(
                ["/bin/sh", "-c", REGISTER + 'exec "$@" 2>"$0"', f"/dev/fd/{writing}", *line],
                stdin=PIPE,
                stdout=PIPE,
                stderr=registration,
                cwd=folder,
                env=env,
                pass_fds=(writing,),
                bufsize=0,
                start_new_session=True,
            )

        try:
            process = confinement.start(argv, cwd, registered)
        except BaseException:
            errors.close()
            raise
    process.stderr = errors
    supervisor.add(process.pid)
    return process


def _converse(
    process: subprocess.Popen[bytes], stdin: bytes, started: float, timeout: float, interrupt: Interrupt | None
) -> Finished:
    with contextlib.closing(_Exchange(process, stdin)) as exchange:
        try:
            with _ended_by(interrupt, process):
                ended = exchange.run(started + timeout, interrupt)
            if interrupt is not None and interrupt.cancelled:
                ended = False
        except BaseException:
            _stop(process)
            raise
        if not ended:
            _stop(process)
            if interrupt is not None:
                interrupt.check()
        exchange.drain()
    code = process.returncode
    return Finished(
        exit_code=None if not ended else code if code >= 0 else 128 - code,
        stdout=exchange.stdout.text(),
        stderr=exchange.stderr.text(),
        seconds=time.monotonic() - started,
        overflowed=exchange.stdout.overflowed,
    )


class _Kept:
    """The beginning of a stream."""

    __slots__ = ("_data", "_limit", "overflowed")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._data = bytearray()
        self.overflowed = False

    def feed(self, data: bytes) -> None:
        room = self._limit - len(self._data)
        self._data += data[:room]
        self.overflowed = self.overflowed or len(data) > room

    def text(self) -> str:
        return self._data.decode("utf-8", "replace")


class _Exchange:
    """Writes to and reads from a process at the same time, so that neither side waits for the other."""

    def __init__(self, process: subprocess.Popen[bytes], stdin: bytes) -> None:
        assert process.stdin and process.stdout and process.stderr
        self.stdout, self.stderr = _Kept(MAX_STDOUT), _Kept(MAX_STDERR)
        self._process = process
        self._input: IO[bytes] = process.stdin
        self._unsent = memoryview(stdin)
        self._streams = {process.stdout.fileno(): self.stdout, process.stderr.fileno(): self.stderr}
        self._poller = select.poll()
        self._exit_fd = _exit_descriptor(process.pid)
        for descriptor in (*self._streams, self._exit_fd):
            if descriptor >= 0:
                self._poller.register(descriptor, select.POLLIN)
        os.set_blocking(self._input.fileno(), False)
        self._poller.register(self._input.fileno(), select.POLLOUT)

    def run(self, deadline: float, interrupt: Interrupt | None) -> bool:
        """Serve its pipes until the process exits: True. False at the deadline or on an interrupt."""
        longest = _LOOK_EVERY if self._exit_fd >= 0 else _LOOK_OFTEN
        while self._process.poll() is None:
            remaining = deadline - time.monotonic()
            if remaining <= 0 or (interrupt is not None and interrupt.cancelled):
                return False
            self._step(min(remaining, longest))
        return True

    def drain(self) -> None:
        """Read what is still in the pipes."""
        self._close_input()
        if self._exit_fd >= 0:
            self._poller.unregister(self._exit_fd)
        deadline = time.monotonic() + _DRAIN
        while self._streams and time.monotonic() < deadline and self._step(_QUIET):
            pass

    def close(self) -> None:
        self._close_input()
        for stream in (self._process.stdout, self._process.stderr):
            assert stream
            stream.close()
        if self._exit_fd >= 0:
            os.close(self._exit_fd)

    def _step(self, seconds: float) -> bool:
        """Move what can be moved. False when nothing happened in that time."""
        ready = self._poller.poll(seconds * 1000)
        for descriptor, _ in ready:
            kept = self._streams.get(descriptor)
            if kept is not None:
                self._read(descriptor, kept)
            elif descriptor != self._exit_fd:
                self._write(descriptor)
        return bool(ready)

    def _read(self, descriptor: int, kept: _Kept) -> None:
        data = os.read(descriptor, _CHUNK)
        kept.feed(data)
        if not data:
            self._poller.unregister(descriptor)
            del self._streams[descriptor]

    def _write(self, descriptor: int) -> None:
        try:
            self._unsent = self._unsent[os.write(descriptor, self._unsent[:_CHUNK]) :]
        except BlockingIOError:
            return
        except OSError:
            self._unsent = self._unsent[:0]  # a command need not read its input
        if not self._unsent:
            self._close_input()

    def _close_input(self) -> None:
        if not self._input.closed:
            self._poller.unregister(self._input.fileno())
            self._input.close()


@contextlib.contextmanager
def _ended_by(interrupt: Interrupt | None, process: subprocess.Popen[bytes]) -> Generator[None]:
    """Signal the process to end as soon as the turn is cancelled; the waiting thread does the rest."""
    if interrupt is None:
        yield
        return
    from signal import SIGTERM

    def end() -> None:
        # Called at any instant, perhaps from a signal handler: one system call, no waiting.
        if process.returncode is None:
            _signal(process, SIGTERM)

    with interrupt.on_cancel(end):
        yield


def _stop(process: subprocess.Popen[bytes]) -> None:
    """End the whole process group: SIGTERM, then SIGKILL for what still runs."""
    import signal
    from subprocess import TimeoutExpired

    deadline = time.monotonic() + _GRACE
    alive = _signal(process, signal.SIGTERM)
    while alive and time.monotonic() < deadline:
        with contextlib.suppress(TimeoutExpired):
            process.wait(0.02)
            time.sleep(0.002)  # the leader is gone; the rest of the group may need a moment
        alive = _signal(process, 0)
    if alive:
        _signal(process, signal.SIGKILL)
    process.wait()


def _signal(process: subprocess.Popen[bytes], number: int) -> bool:
    """Send a signal to the whole group. False when it is empty."""
    try:
        os.killpg(process.pid, number)
    except ProcessLookupError:
        return False
    except PermissionError:  # macOS says so for a group of zombies
        return process.poll() is None
    return True


def _exit_descriptor(pid: int) -> int:
    """A descriptor that becomes readable when the process exits, or -1 where the system has none."""
    if hasattr(os, "pidfd_open"):
        with contextlib.suppress(OSError):
            return os.pidfd_open(pid)
    return -1
