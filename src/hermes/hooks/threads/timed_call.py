"""TimedCall: one call of a plugin's code, with a clock that is paused while the host works for it."""

from __future__ import annotations

import sys
from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from threading import Lock, get_ident
from time import monotonic

from hermes.base.errors import PluginError

#: No limit.
FOREVER = float("inf")

#: Guards the clocks of all calls: each is changed rarely and for an instant.
_clock = Lock()


class TimedCall:
    """A call that may be given up when it takes too long.

    The limit is for the plugin's own time. While the host works for the plugin (``next_call``, ``ctx.dispatch_tool``,
    ``ctx.llm``) the clock is stopped, and the call cannot be given up: what the host has begun has an end. A call that
    was given up can no longer ask the host for anything.
    """

    __slots__ = ("_host_seconds", "_host_since", "_hosts", "given_up", "limit", "plugin", "started", "thread", "wraps")

    def __init__(self, plugin: str, limit: float = FOREVER, *, wraps: bool = False) -> None:
        self.plugin = plugin
        #: Seconds of its own that the call may take.
        self.limit = limit
        #: Whether it is execution middleware, whose ``next_call`` runs the host's own work.
        self.wraps = wraps
        self.given_up = False
        #: The thread that the plugin's code runs in.
        self.thread = 0
        self.started = monotonic()
        #: How many works of the host run for it now, since when, and the seconds of those that are over.
        self._hosts = 0
        self._host_since = 0.0
        self._host_seconds = 0.0

    @property
    def is_served(self) -> bool:
        """Whether the host works for it now."""
        return self._hosts > 0

    @property
    def was_served(self) -> bool:
        """Whether the host has worked for it."""
        return self._hosts > 0 or self._host_seconds > 0

    @property
    def left(self) -> float:
        """Seconds of its own that are left."""
        now = monotonic()
        with _clock:
            served = self._host_seconds + (now - self._host_since if self._hosts else 0.0)
        return self.limit - (now - self.started - served)

    def give_up(self) -> bool:
        """Give the call up, unless the host works for it right now."""
        with _clock:
            if self._hosts:
                return False
            self.given_up = True
            return True

    def check(self) -> None:
        """Raise ``PluginError`` when the call was given up."""
        if self.given_up:
            raise PluginError(f"plugin {self.plugin!r}: this call was given up; it can no longer use the host")

    def enter_host(self) -> None:
        """The host starts to work for the call: stop the clock."""
        with _clock:
            self.check()
            if not self._hosts:
                self._host_since = monotonic()
            self._hosts += 1

    def leave_host(self) -> None:
        """The host's work is done: the clock continues."""
        with _clock:
            self._hosts -= 1
            if not self._hosts:
                self._host_seconds += monotonic() - self._host_since

    def runs_here(self, plugin: str) -> bool:
        """Whether this very thread is in a callback of that plugin which a nested one may join.

        It then keeps the plugin's locks and thread-local guards. Not inside execution middleware: the result of what
        runs there must not be lost with a nested callback that blocks.
        """
        return self.plugin == plugin and not self.wraps and self.thread == get_ident()

    @contextmanager
    def own_work(self) -> Generator[None]:
        """The plugin's own code inside work of the host: the clock runs."""
        with _clock:
            hosts, self._hosts = self._hosts, 0
            self._host_seconds += monotonic() - self._host_since if hosts else 0.0
        try:
            yield
        finally:
            with _clock:
                self._hosts, self._host_since = hosts, monotonic()


#: The call whose code runs, in the plugin's thread and in what it starts with the context variables.
current_call: ContextVar[TimedCall | None] = ContextVar("hermes_plugin_call", default=None)


@contextmanager
def host_work() -> Generator[None]:
    """Work of the host that a plugin asked for: its time is not the plugin's. Refused for a call that was given up."""
    call = current_call.get()
    if call is None:
        yield
        return
    call.enter_host()
    try:
        yield
    finally:
        call.leave_host()


def refuse_late_calls() -> None:
    """Raise ``PluginError`` in a callback that was given up: what it does then must change nothing."""
    call = current_call.get()
    if call is not None:
        call.check()


def restore_recursion_limit(before: int) -> bool:
    """Set the interpreter's recursion limit back when a plugin has lowered it; whether it had."""
    if sys.getrecursionlimit() >= before:
        return False
    sys.setrecursionlimit(before)
    return True
