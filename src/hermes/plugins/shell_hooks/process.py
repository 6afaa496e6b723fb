"""Runs one hook command with a deadline: bounded output, and its whole process group ended when it is late."""

from __future__ import annotations

import contextlib
import logging
import os
import select
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from signal import SIGTERM

from hermes.base.scope import Interrupt
from hermes.tools.sandbox.confinement import Confinement
from hermes.tools.terminal.child_process import ChildProcess, check_program
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
    if supervisor is not None:
        supervisor.start()  # here, outside of any sandbox, which would limit whom it can signal
    reading, writing = os.pipe()
    with os.fdopen(reading, "rb", 0) as errors:

        def start(line: Sequence[str], folder: str, environment: Mapping[str, str]) -> ChildProcess:
            env = {**environment, **(variables or {})}
            if supervisor is not None:
                check_program(line[0], env, folder)
            return ChildProcess(line, cwd=folder, env=env, stdin="pipe", errors_to=writing, supervisor=supervisor)

        try:
            child = confinement.start(argv, cwd, start)
        finally:
            os.close(writing)
        try:
            return _converse(_Exchange(child, errors.fileno(), stdin), child, started, timeout, interrupt)
        finally:
            child.close()
            for change in confinement.ended():
                log.warning("the hook command %s %s", argv[0], change.report)


def _converse(
    exchange: _Exchange, child: ChildProcess, started: float, timeout: float, interrupt: Interrupt | None
) -> Finished:
    ended = False
    try:
        # A cancelled turn signals the process to end, and this thread does the rest.
        with contextlib.nullcontext() if interrupt is None else interrupt.on_cancel(lambda: _end(child)):
            ended = exchange.run(started + timeout, interrupt)
        ended = ended and not (interrupt is not None and interrupt.cancelled)
    finally:
        if not ended:
            child.stop()
    if interrupt is not None and not ended:
        interrupt.check()
    exchange.drain()
    return Finished(
        exit_code=child.exit_code() if ended else None,
        stdout=exchange.stdout.text(),
        stderr=exchange.stderr.text(),
        seconds=time.monotonic() - started,
        overflowed=exchange.stdout.overflowed,
    )


def _end(child: ChildProcess) -> None:
    """Called at any instant, perhaps from a signal handler: one system call, no waiting."""
    child.signal(SIGTERM)


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

    def __init__(self, child: ChildProcess, errors: int, stdin: bytes) -> None:
        self.stdout, self.stderr = _Kept(MAX_STDOUT), _Kept(MAX_STDERR)
        self._child = child
        self._unsent = stdin
        self._streams = {child.output_descriptor: self.stdout, errors: self.stderr}
        self._poller = select.poll()
        for descriptor in (*self._streams, child.exit_descriptor):
            if descriptor >= 0:
                self._poller.register(descriptor, select.POLLIN)
        self._poller.register(child.input_descriptor, select.POLLOUT)

    def run(self, deadline: float, interrupt: Interrupt | None) -> bool:
        """Serve its pipes until the process exits: True. False at the deadline or on an interrupt."""
        longest = _LOOK_EVERY if self._child.exit_descriptor >= 0 else _LOOK_OFTEN
        while self._child.exit_code() is None:
            remaining = deadline - time.monotonic()
            if remaining <= 0 or (interrupt is not None and interrupt.cancelled):
                return False
            self._step(min(remaining, longest))
        return True

    def drain(self) -> None:
        """Read what is still in the pipes."""
        self._close_input()
        if self._child.exit_descriptor >= 0:
            self._poller.unregister(self._child.exit_descriptor)
        deadline = time.monotonic() + _DRAIN
        while self._streams and time.monotonic() < deadline and self._step(_QUIET):
            pass

    def _step(self, seconds: float) -> bool:
        """Move what can be moved. False when nothing happened in that time."""
        ready = self._poller.poll(seconds * 1000)
        for descriptor, _ in ready:
            if descriptor in self._streams:
                self._read(descriptor)
            elif descriptor != self._child.exit_descriptor:
                self._write()
        return bool(ready)

    def _read(self, descriptor: int) -> None:
        data = os.read(descriptor, _CHUNK)
        self._streams[descriptor].feed(data)
        if not data:
            self._poller.unregister(descriptor)
            del self._streams[descriptor]

    def _write(self) -> None:
        try:
            self._unsent = self._unsent[self._child.write(self._unsent, 0) :]
        except OSError:
            self._unsent = b""  # a command need not read its input
        if not self._unsent:
            self._close_input()

    def _close_input(self) -> None:
        if self._child.input_open:
            self._poller.unregister(self._child.input_descriptor)
            self._child.close_input()
