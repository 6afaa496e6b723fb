"""Sessions as scopes of the runtime, each with a stack of its own, and the clock of its events."""

from __future__ import annotations

import contextvars
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

from .relay import Kind, Relay

T = TypeVar("T")

#: What every session's scope is called.
SCOPE_NAME = "hermes"

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
#: How many moments one event of the host may take: a session begins, or ends with what it left open.
_MOMENTS = 10


class Clock:
    """Moments that never repeat: an end has to be later than its start, and order is all that sorts events.

    What is exported behind the turn happened earlier: within ``as_of`` the first moment is the one that was taken
    then, and those that follow come right after it.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._last = 0
        self._event = threading.local()

    def take(self, seconds: float | None = None) -> int:
        """That moment, else this one, in microseconds since the epoch."""
        at = time.time() if seconds is None else seconds
        with self._lock:
            self._last = max(int(at * 1_000_000), self._last + _MOMENTS)
            return self._last

    @contextmanager
    def as_of(self, at: int) -> Generator[None]:
        """In this thread the time is that moment."""
        self._event.at = at
        try:
            yield
        finally:
            self._event.at = None

    def now(self) -> datetime:
        """The next moment, as the runtime takes it."""
        at: int | None = getattr(self._event, "at", None)
        if at is None:
            at = self.take()
        else:
            self._event.at = at + 1
        return _EPOCH + timedelta(microseconds=at)

    def event_seconds(self) -> float:
        """The time of the current event, in seconds since the epoch."""
        at: int | None = getattr(self._event, "at", None)
        return time.time() if at is None else at / 1_000_000


@dataclass(slots=True)
class RelaySpan:
    """A model or tool call that has begun and not ended."""

    kind: Kind
    #: Begins it, and gives back what the runtime knows it by.
    begin: Callable[[], Any]
    handle: Any = None
    #: The runtime has begun it and ends it itself.
    is_managed: bool = False

    def open(self) -> Any:
        """What the runtime knows it by; begins it now if that was put off."""
        if self.handle is None:
            self.handle = self.begin()
        return self.handle


class SessionScope:
    """One conversation as the runtime sees it. May be used from any thread.

    The runtime keeps its stack of scopes in a context variable. Every session has a context of its own, and each call
    enters a copy, so that threads neither mix sessions up nor get into each other's way.
    """

    def __init__(
        self, relay: Relay, clock: Clock, session_id: str, *, parent: SessionScope | None = None, about: dict[str, Any]
    ) -> None:
        self.id = session_id
        self.parent = parent
        self.about = about
        self._relay = relay
        self._clock = clock
        self._context = contextvars.Context()
        #: The last request, its messages and the rest of it, to tell what is new in the next one.
        self.messages: list[Any] = []
        self.request: dict[str, Any] = {}
        self.handle: Any = self._context.run(
            relay.push,
            SCOPE_NAME,
            parent.handle if parent is not None else None,
            metadata=about,
            input={"session_id": session_id},
            timestamp=clock.now(),
        )

    def run(self, function: Callable[..., T], *args: Any, **fields: Any) -> T:
        """Call a function of the runtime on this session's stack."""
        return self._context.copy().run(function, *args, **fields)

    def context(self) -> contextvars.Context:
        """A copy of the session's context, for a task on an event loop."""
        return self._context.copy()

    def end(self, span: RelaySpan, result: Any, about: dict[str, Any]) -> None:
        """End a span, unless the runtime has done so."""
        if span.is_managed:
            return
        self.run(self._relay.end, span.kind, span.open(), result, metadata=about, timestamp=self._clock.now())

    def close(self, about: dict[str, Any]) -> None:
        """End the scope."""
        self.run(self._relay.pop, self.handle, about, output={"session_id": self.id}, timestamp=self._clock.now())
