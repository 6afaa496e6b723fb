"""The turns that run on one agent, so that closing it can stop them."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Generator

from hermes.errors import HermesError
from hermes.scope import Interrupt

#: How long closing an agent waits for its interrupted turns to record their end.
STOP_SECONDS = 5.0


class RunningTurns:
    """Thread-safe."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._turns: dict[object, tuple[Interrupt, int]] = {}
        self._is_stopped = False

    def refuse_if_stopped(self) -> None:
        """Raise when the agent was closed."""
        if self._is_stopped:
            raise HermesError("this agent was closed; open another one")

    @contextlib.contextmanager
    def entered(self, interrupt: Interrupt) -> Generator[None]:
        """A turn with that interrupt runs in this thread."""
        key = object()
        with self._changed:
            self.refuse_if_stopped()
            self._turns[key] = (interrupt, threading.get_ident())
        try:
            yield
        finally:
            with self._changed:
                del self._turns[key]
                self._changed.notify_all()

    def stop(self, reason: str) -> None:
        """Interrupt every turn and wait, for a limited time, until all have ended but one that this thread runs."""
        with self._changed:
            self._is_stopped = True
            running = list(self._turns.values())
        for interrupt, _ in running:
            interrupt.cancel(reason)
        with self._changed:
            self._changed.wait_for(self._only_mine, STOP_SECONDS)

    def _only_mine(self) -> bool:
        me = threading.get_ident()
        return all(thread == me for _, thread in self._turns.values())
