"""Turns one after the other, on a thread of their own; what is said meanwhile waits in line."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from hermes.agent.events import TurnResult
from hermes.agent.workers import Workers
from hermes.scope import Interrupt


@dataclass(frozen=True, slots=True)
class Errand:
    """Something for the agent to do."""

    #: As the person typed it.
    text: str
    run: Callable[[Interrupt], TurnResult | None]


class TurnLine:
    """At most one turn is under way. Stopping it leaves those in line alone."""

    def __init__(self, workers: Workers, do: Callable[[Errand, Interrupt], None], changed: Callable[[], None]) -> None:
        """``do`` carries an errand out, and raises nothing."""
        self._workers = workers
        self._do = do
        self._changed = changed
        self._state = threading.Condition()
        self._interrupt: Interrupt | None = None
        self._waiting: deque[Errand] = deque()
        self._closed = False

    @property
    def is_working(self) -> bool:
        """Whether a turn is under way."""
        return self._interrupt is not None

    @property
    def is_stopping(self) -> bool:
        """Whether the turn under way was told to stop."""
        interrupt = self._interrupt
        return interrupt is not None and interrupt.cancelled

    @property
    def waiting(self) -> list[str]:
        """What waits for the turn to end."""
        return [errand.text for errand in list(self._waiting)]

    def add(self, errand: Errand) -> bool:
        """Do this now, or after what is under way. True when it waits."""
        with self._state:
            if self._closed:
                return False
            if self._interrupt is not None:
                self._waiting.append(errand)
                return True
            self._interrupt = interrupt = Interrupt()
        self._workers.submit(lambda: self._serve(errand, interrupt))
        return False

    def stop(self, reason: str) -> None:
        """Interrupt the turn under way, if there is one."""
        interrupt = self._interrupt
        if interrupt is not None:
            interrupt.cancel(reason)

    def close(self, reason: str, *, insist: bool = False) -> None:
        """Stop, and begin nothing more. Those in line stay there."""
        self._closed = True
        self.stop(reason)
        interrupt = self._interrupt
        if insist and interrupt is not None:
            interrupt.insist()

    def wait_until_idle(self, seconds: float) -> bool:
        """Whether no turn is under way within that time."""
        with self._state:
            return self._state.wait_for(lambda: self._interrupt is None, seconds)

    def _serve(self, errand: Errand | None, interrupt: Interrupt) -> None:
        while errand is not None:
            self._changed()
            self._do(errand, interrupt)
            with self._state:
                errand = self._waiting.popleft() if self._waiting and not self._closed else None
                self._interrupt = None if errand is None else (interrupt := Interrupt())
                self._state.notify_all()
        self._changed()
