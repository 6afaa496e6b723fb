"""The turns that run on one agent, so that any handle of a session can interrupt them and closing stops them all."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Generator
from dataclasses import dataclass

from hermes.base.errors import HermesError
from hermes.base.scope import Interrupt

#: How long closing an agent waits for its interrupted turns to record their end.
STOP_SECONDS = 5.0


@dataclass(slots=True, eq=False)
class RunningTurn:
    """A turn from the moment the program asked for it."""

    session_id: str
    interrupt: Interrupt
    #: The thread that runs it; None until it has one.
    thread: int | None = None


class RunningTurns:
    """Thread-safe."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._turns: set[RunningTurn] = set()
        self._is_stopped = False

    def refuse_if_stopped(self) -> None:
        """Raise when the agent was closed."""
        if self._is_stopped:
            raise HermesError("this agent was closed; open another one")

    def add(self, session_id: str, interrupt: Interrupt) -> RunningTurn:
        """A turn that is about to run: it can be interrupted from here on. ``entered`` or ``remove`` ends that."""
        turn = RunningTurn(session_id, interrupt)
        with self._changed:
            self.refuse_if_stopped()
            self._turns.add(turn)
        return turn

    def remove(self, turn: RunningTurn) -> None:
        """The turn is over, or will not run."""
        with self._changed:
            self._turns.discard(turn)
            self._changed.notify_all()

    @contextlib.contextmanager
    def entered(self, turn: RunningTurn) -> Generator[None]:
        """The turn runs in this thread, and is over after the block."""
        turn.thread = threading.get_ident()
        try:
            yield
        finally:
            self.remove(turn)

    def interrupt(self, session_id: str, reason: str) -> None:
        """Interrupt what runs in that session. It takes no lock, so a signal handler may call it."""
        for turn in tuple(self._turns):
            if turn.session_id == session_id:
                turn.interrupt.cancel(reason)

    def stop(self, reason: str) -> None:
        """Interrupt every turn and wait, for a limited time, until all have ended but one that this thread runs."""
        with self._changed:
            self._is_stopped = True
            running = tuple(self._turns)
        for turn in running:
            turn.interrupt.cancel(reason)
        with self._changed:
            self._changed.wait_for(self._only_mine, STOP_SECONDS)

    def _only_mine(self) -> bool:
        me = threading.get_ident()
        return all(turn.thread == me for turn in self._turns)
