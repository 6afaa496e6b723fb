"""Subscribers: one plugin's callback at one hook, called with the turn or through a queue."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

from hermes.base.errors import PluginError
from hermes.hooks.answers import plain
from hermes.hooks.callback import FAILED, LATE, Callback
from hermes.hooks.queue import BackgroundQueue, Overflow
from hermes.hooks.threads.runner import CallbackRunner

OnError = Literal["allow", "deny"]


class Subscriber(Callback):
    """A callback that the turn waits for, as the contract has it by default."""

    __slots__ = ("_on_error",)

    #: Whether the call has ended when ``deliver`` returns, so that what it changed in a live field can count.
    in_time = True

    def __init__(
        self,
        plugin: str,
        hook: str,
        function: Callable[..., Any],
        runner: CallbackRunner | None,
        on_error: OnError | None = None,
        timeout: float | None = None,
    ) -> None:
        super().__init__(plugin, hook, function, runner, timeout)
        self._on_error = on_error

    def deliver(self, given: dict[str, Any], session: str) -> Any:
        """Call with these fields, which are the callback's own copies; its answer, or ``FAILED`` or ``LATE``."""
        value = self.ask(given, session, self.consequence)
        if value is None or value is FAILED or value is LATE:
            return value
        try:
            return plain(value)
        except BaseException as error:
            self.blame(error, self.consequence)
            return FAILED

    @property
    def consequence(self) -> str:
        return "the call is blocked" if self._on_error == "deny" else "the turn continues without it"

    def denial(self, outcome: object) -> dict[str, str] | None:
        """The answer in place of a policy callback that failed: block the call.

        A ``pre_tool_call`` callback that does not answer may be about to block it, so it does, unless the plugin has
        said that it should not.
        """
        silent = outcome is LATE and self._on_error is None and self.site == "pre_tool_call"
        if not silent and self._on_error != "deny":
            return None
        message = f"the policy of plugin {self.plugin!r} could not be evaluated ({self.last_error})"
        return {"action": "block", "message": message}


class QueuedSubscriber(Subscriber):
    """Receives its events in order through the plugin's background queue. What it returns is not used."""

    __slots__ = ("_overflow", "_queue")

    in_time = False

    def __init__(
        self,
        plugin: str,
        hook: str,
        function: Callable[..., Any],
        runner: CallbackRunner | None,
        timeout: float | None,
        queue: BackgroundQueue,
        overflow: Overflow,
    ) -> None:
        super().__init__(plugin, hook, function, runner, "allow", timeout)
        self._queue = queue
        self._overflow: Overflow = overflow

    def deliver(self, given: dict[str, Any], session: str) -> Any:
        deliver = super().deliver
        # One thread for all sessions: the queue delivers one event at a time, perhaps after its session has ended.
        if not self._queue.put(lambda: deliver(given, ""), overflow=self._overflow):
            # The queue has warned.
            self.failed(OverflowError("its queue is full or closed"), "the event is dropped", quiet=True)


def check_options(hook: str, timeout: float | None, background: bool, on_error: str | None, overflow: str) -> None:
    """Raise ``PluginError`` when a registration's options make no sense."""
    if on_error not in (None, "allow", "deny"):
        raise PluginError(f"register_hook({hook!r}): on_error is {on_error!r}; it may be 'allow' or 'deny'")
    if on_error == "deny" and (background or hook != "pre_tool_call"):
        raise PluginError(
            f"register_hook({hook!r}): on_error='deny' is for pre_tool_call callbacks that run with the turn; "
            "leave it out here"
        )
    if overflow not in ("drop", "block"):
        raise PluginError(f"register_hook({hook!r}): overflow is {overflow!r}; it may be 'drop' or 'block'")
    if overflow == "block" and not background:
        raise PluginError(f"register_hook({hook!r}): overflow='block' needs background=True")
    if timeout is not None and not timeout > 0:
        raise PluginError(f"register_hook({hook!r}): timeout is {timeout!r}; it must be seconds above 0")
