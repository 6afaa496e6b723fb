"""One request in hand: its time limits, its interrupt, and the socket it is waiting on."""

from __future__ import annotations

import contextlib
import socket
import time
from typing import Literal

from hermes.errors import ProviderError
from hermes.models.endpoint import Timeouts
from hermes.scope import Interrupt

Phase = Literal["connect", "sending", "first byte", "next chunk", "total"]


class TimedOut(Exception):
    """A phase of the request took longer than it may."""

    def __init__(self, phase: Phase, seconds: float) -> None:
        super().__init__(f"{phase}: {seconds} s")
        self.phase: Phase = phase
        self.seconds = seconds


class ConnectTimeout(ProviderError):
    """Nobody answered the connect: for everything behind the same server that is as good as a refusal."""

    def __init__(self, message: str) -> None:
        super().__init__(message, reason="timeout")


class Patience:
    """How long a request still waits: for its phase, and in all."""

    __slots__ = ("_connect_until", "_deadline", "phase", "timeouts")

    def __init__(self, timeouts: Timeouts) -> None:
        now = time.monotonic()
        self.timeouts = timeouts
        self.phase: Phase = "connect"
        self._connect_until = None if timeouts.connect is None else now + timeouts.connect
        self._deadline = None if timeouts.total is None else now + timeouts.total

    def left(self) -> float | None:
        """Seconds the next wait may take; ``None`` is for ever. Raises ``TimedOut`` when nothing is left."""
        phase = self.phase
        if phase == "connect":
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
        """The error for a wait that ran out now."""
        total = self.timeouts.total
        if total is not None and self._deadline is not None and time.monotonic() >= self._deadline:
            return TimedOut("total", total)
        return TimedOut(self.phase, self._phase_limit() or 0.0)

    def settle_for(self, seconds: float) -> None:
        """The answer is complete: wait only a moment for the body's formal end."""
        self.phase = "next chunk"
        self.timeouts = Timeouts(between_chunks=seconds, total=self.timeouts.total)

    def _phase_limit(self) -> float | None:
        if self.phase == "connect":
            return self.timeouts.connect
        return self.timeouts.first_byte if self.phase == "first byte" else self.timeouts.between_chunks


class Exchange(Patience):
    """A request that waits in a thread of its own, where only the socket can be woken.

    A cancelled socket looks like one the server closed, so whoever sees an end or an error asks the
    interrupt first. The order in ``hold`` (store the socket, then look) leaves no gap for a lost wake-up.
    """

    __slots__ = ("_socket", "interrupt")

    def __init__(self, interrupt: Interrupt, timeouts: Timeouts) -> None:
        super().__init__(timeouts)
        self.interrupt = interrupt
        self._socket: socket.socket | None = None

    def hold(self, sock: socket.socket) -> None:
        """Name the socket the request is about to wait on."""
        self._socket = sock
        if self.interrupt.cancelled:
            self.interrupt.check()

    def shut_down(self) -> None:
        """Wake whoever waits on the socket. Called by the interrupt, from any thread or a signal handler."""
        sock = self._socket
        if sock is not None:
            with contextlib.suppress(OSError):
                # Not the method of SSLSocket: that one also drops the TLS state under the reader's feet.
                socket.socket.shutdown(sock, socket.SHUT_RDWR)

    def release(self) -> None:
        """Forget the socket: the request is over and the next one may be using it."""
        self._socket = None
