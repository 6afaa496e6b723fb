"""Subscribers: one plugin's callback at one hook, called in the turn's thread, with a deadline, or through a queue."""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic, perf_counter
from typing import Any, Final, Literal

from hermes.errors import PluginError
from hermes.hooks.callback import Callback, is_awaitable
from hermes.hooks.queue import BackgroundQueue, Overflow
from hermes.hooks.threads import AsyncLoop, run_with_deadline

#: What ``deliver`` returns when the callback raised or was late.
FAILED: Final = object()

OnError = Literal["allow", "deny"]


class CircuitBreaker:
    """Stops calling a callback that is always late, because every late call leaves a thread behind.

    Consecutive misses open it for a while; then one call is tried, which closes it or opens it again.
    """

    __slots__ = ("_open_until", "misses")

    _MISSES_TO_OPEN = 3
    _OPEN_SECONDS = 60.0

    def __init__(self) -> None:
        self.misses = 0
        self._open_until = 0.0

    @property
    def is_open(self) -> bool:
        return self.misses >= self._MISSES_TO_OPEN and monotonic() < self._open_until

    def record_miss(self) -> None:
        self.misses += 1
        self._open_until = monotonic() + self._OPEN_SECONDS

    def record_success(self) -> None:
        self.misses = 0


class Subscriber(Callback):
    """A callback that runs in the turn's own thread, as the contract has it by default."""

    __slots__ = ("_loop", "_on_error")

    #: Whether the call has ended when ``deliver`` returns, so that what it changed in a live field can count.
    in_time = True

    def __init__(
        self,
        plugin: str,
        hook: str,
        function: Callable[..., Any],
        loop: AsyncLoop,
        on_error: OnError = "allow",
    ) -> None:
        super().__init__(plugin, hook, function)
        self._loop = loop
        self._on_error: OnError = on_error

    def deliver(self, given: dict[str, Any]) -> Any:
        """Call with these fields, which are the callback's own copies; its answer, or ``FAILED`` when it raised."""
        return self.call(given)

    def call(self, given: dict[str, Any]) -> Any:
        """The call itself, in the thread that makes it."""
        started = perf_counter()
        try:
            value = self.function(**given)
            if is_awaitable(value):
                value = self._loop.run(value, f"plugin {self.plugin!r} in {self.site}")
        except Exception as error:
            self.failed(error, self.consequence)
            return FAILED
        finally:
            self.calls += 1
            self.seconds += perf_counter() - started
        return value

    @property
    def consequence(self) -> str:
        return "the call is blocked" if self._on_error == "deny" else "the turn continues without it"

    def denial(self) -> dict[str, str] | None:
        """The answer used in place of a failed policy callback's: block the call."""
        if self._on_error != "deny":
            return None
        message = f"the policy of plugin {self.plugin!r} could not be evaluated ({self.last_error})"
        return {"action": "block", "message": message}


class DeadlineSubscriber(Subscriber):
    """Runs each call on a thread of its own, with a deadline and a circuit breaker.

    Without a timeout it runs in the thread that delivers.
    """

    __slots__ = ("_breaker", "_timeout")

    def __init__(
        self,
        plugin: str,
        hook: str,
        function: Callable[..., Any],
        loop: AsyncLoop,
        on_error: OnError,
        timeout: float | None,
    ) -> None:
        super().__init__(plugin, hook, function, loop, on_error)
        self._timeout = timeout
        self._breaker = CircuitBreaker()

    def deliver(self, given: dict[str, Any]) -> Any:
        if self._timeout is None:
            return self.call(given)
        if self._breaker.is_open:
            self.failed(TimeoutError(f"left out after {self._breaker.misses} late calls"), self.consequence)
            return FAILED
        try:
            value = run_with_deadline(lambda: self.call(given), self._timeout, f"{self.plugin} {self.site}")
        except TimeoutError as error:
            self._breaker.record_miss()
            self.failed(error, self.consequence)
            return FAILED
        self._breaker.record_success()
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
        loop: AsyncLoop,
        timeout: float | None,
        queue: BackgroundQueue,
        overflow: Overflow,
    ) -> None:
        super().__init__(plugin, hook, function, loop, "allow", timeout)
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
