"""Queue of turns: one runs at a time, on a worker thread; messages sent meanwhile wait."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable

import msgspec
from msgspec.structs import replace

from hermes.agent.events import TurnResult
from hermes.agent.workers import Workers
from hermes.base.scope import Interrupt


class QueuedTurn(msgspec.Struct, frozen=True):
    """A turn to run."""

    #: The message as typed.
    text: str
    run: Callable[[Interrupt], TurnResult | None]
    #: Whether another turn was running when it came.
    waited: bool = False


class TurnQueue:
    """Runs at most one turn at a time. Stopping it leaves the waiting ones alone. Thread-safe."""

    def __init__(
        self, workers: Workers, run_turn: Callable[[QueuedTurn, Interrupt], None], changed: Callable[[], None]
    ) -> None:
        """``run_turn`` runs a turn and raises nothing."""
        self._workers = workers
        self._run_turn = run_turn
        self._changed = changed
        self._state = threading.Condition()
        self._interrupt: Interrupt | None = None
        self._waiting: deque[QueuedTurn] = deque()
        self._closed = False

    @property
    def is_working(self) -> bool:
        """Whether a turn is running."""
        return self._interrupt is not None

    @property
    def is_stopping(self) -> bool:
        """Whether the running turn was interrupted."""
        interrupt = self._interrupt
        return interrupt is not None and interrupt.cancelled

    @property
    def waiting(self) -> list[str]:
        """The waiting messages."""
        return [queued.text for queued in list(self._waiting)]

    def add(self, queued: QueuedTurn) -> bool:
        """Run a turn now, or after the running one. Returns whether it waits."""
        with self._state:
            if self._closed:
                return False
            if self._interrupt is not None:
                self._waiting.append(replace(queued, waited=True))
                return True
            self._interrupt = interrupt = Interrupt()
        self._workers.submit(lambda: self._serve(queued, interrupt))
        return False

    def stop(self, reason: str) -> None:
        """Interrupt the running turn, if any."""
        interrupt = self._interrupt
        if interrupt is not None:
            interrupt.cancel(reason)

    def close(self, reason: str, *, insist: bool = False) -> None:
        """Stop, and start no more turns. The waiting ones stay in the queue."""
        self._closed = True
        self.stop(reason)
        interrupt = self._interrupt
        if insist and interrupt is not None:
            interrupt.insist()

    def wait_until_idle(self, seconds: float) -> bool:
        """Wait until no turn is running; returns whether that was in time."""
        with self._state:
            return self._state.wait_for(lambda: self._interrupt is None, seconds)

    def _serve(self, queued: QueuedTurn | None, interrupt: Interrupt) -> None:
        while queued is not None:
            self._changed()
            self._run_turn(queued, interrupt)
            with self._state:
                queued = self._waiting.popleft() if self._waiting and not self._closed else None
                self._interrupt = None if queued is None else (interrupt := Interrupt())
                self._state.notify_all()
        self._changed()
