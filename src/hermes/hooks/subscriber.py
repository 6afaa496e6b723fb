"""One plugin's callback at one hook: delivered in the turn's thread, on a deadline, or behind the turn."""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic, perf_counter
from typing import Any, Final, Literal

from hermes.errors import PluginError
from hermes.hooks.background import Background, run_with_deadline
from hermes.hooks.callback import Callback, is_awaitable
from hermes.hooks.queue import BackgroundQueue, Overflow

#: What ``deliver`` gives back when the callback did not do its work.
FAILED: Final = object()

OnError = Literal["allow", "deny"]

_MISSES_TO_TRIP = 3
_TRIPPED_SECONDS = 60.0


class Subscriber(Callback):
    """A callback that runs in the turn's own thread, as the contract has it by default."""

    __slots__ = ("_background", "_on_error")

    #: Whether it is done when ``deliver`` returns, so that what it changed in a live field can count.
    in_time = True

    def __init__(
        self,
        plugin: str,
        hook: str,
        function: Callable[..., Any],
        background: Background,
        on_error: OnError = "allow",
    ) -> None:
        super().__init__(plugin, hook, function)
        self._background = background
        self._on_error: OnError = on_error

    def deliver(self, given: dict[str, Any]) -> Any:
        """Call with these fields, which are the callback's own; its answer, or ``FAILED`` when it raised."""
        return self.call(given)

    def call(self, given: dict[str, Any]) -> Any:
        """The call itself, in the thread that makes it."""
        started = perf_counter()
        try:
            value = self.function(**given)
            if is_awaitable(value):
                value = self._background.run(value, f"plugin {self.plugin!r} in {self.site}")
        except Exception as error:
            self.failed(error, self.consequence)
            return FAILED
        finally:
            self.calls += 1
            self.seconds += perf_counter() - started
        return value

    @property
    def consequence(self) -> str:
        return "the call is blocked" if self._on_error == "deny" else "the turn goes on without it"

    def denial(self) -> dict[str, str] | None:
        """The answer that stands in for a failed policy callback."""
        if self._on_error != "deny":
            return None
        message = f"blocked: the policy of plugin {self.plugin!r} could not be evaluated ({self.last_error})"
        return {"action": "block", "message": message}


class DeadlineSubscriber(Subscriber):
    """Runs each call on a thread of its own and goes on without it when it is late.

    After several late calls in a row it is left out for a while, because every late call leaves a thread behind.
    Without a timeout it runs in the thread that delivers.
    """

    __slots__ = ("_misses", "_timeout", "_tripped_until")

    def __init__(
        self,
        plugin: str,
        hook: str,
        function: Callable[..., Any],
        background: Background,
        on_error: OnError,
        timeout: float | None,
    ) -> None:
        super().__init__(plugin, hook, function, background, on_error)
        self._timeout = timeout
        self._misses = 0
        self._tripped_until = 0.0

    def deliver(self, given: dict[str, Any]) -> Any:
        if self._timeout is None:
            return self.call(given)
        if self._misses >= _MISSES_TO_TRIP and monotonic() < self._tripped_until:
            self.failed(TimeoutError(f"left out after {self._misses} late calls"), self.consequence)
            return FAILED
        try:
            value = run_with_deadline(lambda: self.call(given), self._timeout, f"{self.plugin} {self.site}")
        except TimeoutError as error:
            self._misses += 1
            self._tripped_until = monotonic() + _TRIPPED_SECONDS
            self.failed(error, self.consequence)
            return FAILED
        self._misses = 0
        return value


class QueuedSubscriber(DeadlineSubscriber):
    """Receives its events in order through the plugin's background queue. What it returns is not used."""

    __slots__ = ("_overflow", "_queue")

    in_time = False

    def __init__(
        self,
        plugin: str,
        hook: str,
        function: Callable[..., Any],
        background: Background,
        timeout: float | None,
        queue: BackgroundQueue,
        overflow: Overflow,
    ) -> None:
        super().__init__(plugin, hook, function, background, "allow", timeout)
        self._queue = queue
        self._overflow: Overflow = overflow

    def deliver(self, given: dict[str, Any]) -> Any:
        deliver = super().deliver
        if not self._queue.put(lambda: deliver(given), overflow=self._overflow):
            # The queue has warned.
            self.failed(OverflowError("its queue is full or closed"), "the event is dropped", quiet=True)


def check_options(hook: str, timeout: float | None, background: bool, on_error: str, overflow: str) -> None:
    """Raise ``PluginError`` when a registration's options make no sense."""
    if on_error not in ("allow", "deny"):
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
