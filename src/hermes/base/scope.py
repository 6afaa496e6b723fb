"""Scope: the correlation ids of running work, and the interrupt that cancels it."""

from __future__ import annotations

import contextlib
import itertools
import os
import threading
import time
from collections.abc import Callable, Generator
from contextvars import ContextVar
from typing import Any

import msgspec
from msgspec.structs import replace

from hermes.base.errors import Interrupted


class Interrupt:
    """Cancellation token shared by everything that works on one turn. Thread-safe and async-signal-safe.

    ``cancel`` takes no lock that other code holds, so a signal handler may call it at any instant.
    Callbacks may be called twice when registration and cancellation race: they must be idempotent.
    """

    __slots__ = ("_callbacks", "_gate", "_ids", "_starts", "cancelled", "insisted", "reason")

    def __init__(self) -> None:
        self.cancelled = False
        #: A second request to stop: what can be ended by force should be.
        self.insisted = False
        self.reason = ""
        self._callbacks: dict[int, Callable[[], None]] = {}
        self._ids = itertools.count()
        self._starts = 0
        self._gate = threading.Lock()
        self._gate.acquire()

    def cancel(self, reason: str = "interrupted") -> None:
        if self.cancelled:
            return
        self.reason = reason
        self.cancelled = True
        with contextlib.suppress(RuntimeError):
            self._gate.release()
        for callback in list(self._callbacks.values()):
            _call_quietly(callback)

    def insist(self) -> None:
        """Call every callback once more, because cancelling was not enough."""
        self.insisted = True
        for callback in list(self._callbacks.values()):
            _call_quietly(callback)

    @property
    def is_starting(self) -> bool:
        """Whether something is being started that no callback could stop yet."""
        return self._starts > 0

    @contextlib.contextmanager
    def starting(self) -> Generator[None]:
        """Start something and register its callback in the block: a forced exit waits for that."""
        self._starts += 1
        try:
            yield
        finally:
            self._starts -= 1

    def check(self) -> None:
        """Raise ``Interrupted`` when the work was cancelled."""
        if self.cancelled:
            raise Interrupted(self.reason)

    def wait(self, seconds: float) -> bool:
        """Sleep, but wake at once on cancellation. True when cancelled."""
        if not self.cancelled and self._gate.acquire(timeout=max(seconds, 0)):
            self._gate.release()
        return self.cancelled

    @contextlib.contextmanager
    def on_cancel(self, callback: Callable[[], None]) -> Generator[None]:
        """Call ``callback`` when the work is cancelled while the block runs."""
        remove = self.add_callback(callback)
        try:
            yield
        finally:
            remove()

    def add_callback(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Like ``on_cancel`` without a block: returns the function that removes the callback again."""
        key = next(self._ids)
        self._callbacks[key] = callback
        if self.cancelled:
            _call_quietly(callback)
        return lambda: self._callbacks.pop(key, None) and None


def _call_quietly(callback: Callable[[], None]) -> None:
    # One callback that fails must not keep the others from stopping their work.
    with contextlib.suppress(Exception):
        callback()


#: The platform of sessions that a schedule started.
SCHEDULED = "cron"


class Scope(msgspec.Struct, frozen=True):
    """The correlation ids of every hook, log line and journal row."""

    session_id: str = ""
    task_id: str = ""
    turn_id: str = ""
    api_request_id: str = ""
    tool_call_id: str = ""
    platform: str = "cli"
    #: The caller this work is done for; empty is the owner of the home.
    principal: str = ""
    #: How many tool calls this work is nested in.
    depth: int = 0
    interrupt: Interrupt = msgspec.field(default_factory=Interrupt)

    def child(self, **ids: str) -> Scope:
        """The same scope with some ids filled in."""
        return replace(self, **ids)

    def ids(self, *more: str) -> dict[str, Any]:
        """The ids of the turn, and those that are named, as fields of an event."""
        return {name: getattr(self, name) for name in ("session_id", "task_id", "turn_id", *more)}

    def nested(self, tool_call_id: str) -> Scope:
        """The scope of a call that is made from inside another one."""
        return replace(self, tool_call_id=tool_call_id, depth=self.depth + 1)


#: Carries the scope across the plugin boundary only; inside the core it is always an argument.
current_scope: ContextVar[Scope | None] = ContextVar("hermes_scope", default=None)


def current_principal() -> str:
    """The principal of the running turn; empty for the owner, and outside of turns."""
    scope = current_scope.get()
    return "" if scope is None else scope.principal


def new_session_id() -> str:
    return f"{time.strftime('%Y%m%d_%H%M%S')}_{os.urandom(3).hex()}"


def new_id(prefix: str = "") -> str:
    return prefix + os.urandom(16).hex()
