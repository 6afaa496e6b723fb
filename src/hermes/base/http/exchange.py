"""One request in progress: its deadlines, its interrupt, and the socket that it waits on."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Callable

import msgspec

from hermes.base.http.errors import Phase, TimedOut
from hermes.base.scope import Interrupt


class Timeouts(msgspec.Struct, frozen=True):
    """How long each phase of a request may take, in seconds. ``None`` means no limit."""

    connect: float | None = 15.0
    #: From the request being sent to the first byte of the answer; a model may think for minutes.
    first_byte: float | None = 300.0
    #: Between two pieces of an answer that has begun.
    between_chunks: float | None = 120.0
    total: float | None = 1800.0

    @classmethod
    def within(cls, seconds: float) -> Timeouts:
        """One limit for the whole request, whatever it waits for."""
        return cls(seconds, seconds, seconds, seconds)


class Exchange:
    """The deadlines and the interrupt of a request that blocks its thread.

    A socket that the interrupt shut down looks like one that the server closed, so every end or error of a read checks
    the interrupt first. The order in ``hold`` (store the socket, then check) leaves no gap for a lost wake-up.
    """

    __slots__ = (
        "_connect_until",
        "_deadline",
        "_socket",
        "interrupt",
        "is_on_main_thread",
        "on_wait",
        "phase",
        "timeouts",
    )

    def __init__(self, interrupt: Interrupt, timeouts: Timeouts, on_wait: Callable[[], object] | None = None) -> None:
        self.interrupt = interrupt
        self.timeouts = timeouts
        #: What was put off until the server has the next move, so that it costs no time of its own.
        self.on_wait = on_wait
        #: It blocks the thread that handles signals.
        self.is_on_main_thread = threading.current_thread() is threading.main_thread()
        self._socket: socket.socket | None = None
        self._deadline = None if timeouts.total is None else time.monotonic() + timeouts.total
        self.restart()

    def restart(self) -> None:
        """Begin with another connection, for a redirect. The deadline of the whole request stays."""
        self.phase: Phase = "connect"
        connect = self.timeouts.connect
        self._connect_until = None if connect is None else time.monotonic() + connect

    def remaining(self) -> float | None:
        """Seconds the next wait may take; ``None`` means no limit. Raises ``TimedOut`` when none remain."""
        if self.phase == "connect":
            seconds = None if self._connect_until is None else self._connect_until - time.monotonic()
        else:
            seconds = self._phase_limit()
        if self._deadline is not None:
            left = self._deadline - time.monotonic()
            seconds = left if seconds is None or left < seconds else seconds
        if seconds is not None and seconds <= 0:
            raise self.timed_out()
        return seconds

    def timed_out(self) -> TimedOut:
        """The error for a wait that has just exceeded its limit."""
        total = self.timeouts.total
        if total is not None and self._deadline is not None and time.monotonic() >= self._deadline:
            return TimedOut("total", total)
        return TimedOut(self.phase, self._phase_limit() or 0.0)

    def expect_end(self, seconds: float) -> None:
        """The content is complete: wait only so long for the formal end of the body, whatever else arrives."""
        until = time.monotonic() + seconds
        self.phase = "next chunk"
        self._deadline = until if self._deadline is None else min(self._deadline, until)

    def hold(self, sock: socket.socket) -> None:
        """Name the socket that the request is about to wait on."""
        self._socket = sock
        if self.interrupt.cancelled:
            self.interrupt.check()

    def shut_down(self) -> None:
        """Wake the thread that waits on the socket. Called by the interrupt, from any thread or a signal handler."""
        sock = self._socket
        if sock is not None:
            with contextlib.suppress(OSError):
                # Not the method of SSLSocket: that one also drops the TLS state under the reader's feet.
                socket.socket.shutdown(sock, socket.SHUT_RDWR)

    def release(self) -> None:
        """Forget the socket: the request has ended and another one may be using it."""
        self._socket = None

    def _phase_limit(self) -> float | None:
        if self.phase == "connect":
            return self.timeouts.connect
        return self.timeouts.first_byte if self.phase == "first byte" else self.timeouts.between_chunks
