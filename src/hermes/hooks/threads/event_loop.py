"""Threads for callbacks that do not run in the turn's own: an asyncio event loop, and threads with a deadline."""

from __future__ import annotations

import contextvars
import logging
import os
import threading
import weakref
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from hermes.base.scope import current_scope
from hermes.hooks.threads.timed_call import FOREVER, TimedCall

if TYPE_CHECKING:
    import asyncio

log = logging.getLogger("hermes.hooks")

#: How long a callback may delay a turn that is already cancelled: a closing event must not keep it from ending.
CANCELLED_GRACE = 2.0
#: How often a waiting thread looks at the clock of a call that the host works for.
_POLL_SECONDS = 0.05
#: How often a waiting turn checks whether a callback blocks the event loop.
WATCH_SECONDS = 2.0
_CLOSE_SECONDS = 2.0


class CallFuture:
    """The result of work on another thread, a value or an error, and the wait for it. Made before the work starts."""

    __slots__ = ("_closing", "_interrupt", "_wake", "error", "finished", "value")

    def __init__(self) -> None:
        scope = current_scope.get()
        self._interrupt = None if scope is None else scope.interrupt
        #: The turn was cancelled before: this is one of the events that close it.
        self._closing = self._interrupt is not None and self._interrupt.cancelled
        self._wake = threading.Event()
        self.finished = False
        self.value: Any = None
        self.error: BaseException | None = None

    def finish(self, value: Any = None, error: BaseException | None = None) -> None:
        """Set the result and wake the waiting thread."""
        self.value, self.error = value, error
        self.finished = True
        self._wake.set()

    def run(self, work: Callable[[], Any]) -> None:
        """Do the work in this thread and set what it returns or raises as the result."""
        try:
            value = work()
        except BaseException as error:
            self.finish(error=error)
        else:
            self.finish(value)

    def wait(self, call: TimedCall, watch: Callable[[], None] | None = None) -> bool:
        """True when finished, False when the call is over its limit and given up, ``Interrupted`` in a cancelled turn.

        In a turn that was cancelled before, the wait is at most ``CANCELLED_GRACE``.
        """
        interrupt = self._interrupt
        if interrupt is None:
            return self._sleep(call, watch)
        if self._closing:
            call.limit = min(call.limit, CANCELLED_GRACE)
            return self._sleep(call, watch)
        with interrupt.on_cancel(self._wake.set):
            self._sleep(call, watch)
        if not self.finished:
            interrupt.check()
        return self.finished

    def result(self) -> Any:
        """The value, or raise the error."""
        if self.error is not None:
            raise self.error
        return self.value

    def _sleep(self, call: TimedCall, watch: Callable[[], None] | None) -> bool:
        """Until it is finished, the turn is cancelled, or the call has used up its own time."""
        while True:
            left = call.left
            if left <= 0 and call.give_up():
                return self.finished
            if self._wake.wait(min(max(left, _POLL_SECONDS), WATCH_SECONDS)):
                return self.finished
            if watch is not None:
                watch()


class AsyncLoop:
    """An event loop that awaits coroutines for other threads, on a daemon thread of its own, started when first used.

    Thread-safe and fork-safe: a forked process starts another thread when it needs one.
    """

    __slots__ = ("__weakref__", "_close_seconds", "_lock", "_loop", "_name", "_thread")

    def __init__(self, name: str = "hermes-async-callbacks", *, close_seconds: float = _CLOSE_SECONDS) -> None:
        self._name, self._close_seconds = name, close_seconds
        self._reset()
        _loops.add(self)

    def _reset(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    def run(self, awaitable: Awaitable[Any], label: str, timeout: float | None = None) -> Any:
        """Await on the loop and return the result. ``label`` names the code in warnings.

        Cancelling the turn ends the wait with ``Interrupted``, the deadline with ``TimeoutError``; both cancel the
        coroutine.
        """
        value, error = self.outcome(awaitable, label, timeout=timeout)
        if error is not None:
            raise error
        return value

    def outcome(
        self, awaitable: Awaitable[Any], label: str, call: TimedCall | None = None, timeout: float | None = None
    ) -> tuple[Any, BaseException | None]:
        """The result of the coroutine, or the error in place of it. Raises only what happens to the waiting thread.

        With a ``call``, the deadline is its limit.
        """
        if threading.current_thread() is self._thread:
            # Already on the loop: waiting here would stop the very coroutine waited for.
            try:
                return run_on_private_loop(awaitable), None
            except BaseException as error:
                return None, error
        future, call = CallFuture(), call or TimedCall(label, FOREVER if timeout is None else timeout)
        loop = self._start()
        tasks: list[asyncio.Task[None]] = []

        def begin() -> None:
            tasks.append(loop.create_task(_settle(awaitable, future), name=label))

        loop.call_soon_threadsafe(begin)  # takes this thread's context variables along
        try:
            if future.wait(call, watch=_BlockedLoopWatch(loop)):
                return future.value, future.error
            return None, TimeoutError(late_text(call.limit))
        finally:
            if not future.finished:
                loop.call_soon_threadsafe(lambda: [task.cancel() for task in tasks])

    def close(self) -> None:
        """Cancel what still runs and end the thread; one that a plugin blocks is left behind."""
        with self._lock:
            loop, thread = self._loop, self._thread
            self._loop = self._thread = None
        if loop is not None and thread is not None:
            loop.call_soon_threadsafe(loop.stop)
            thread.join(self._close_seconds)

    def _start(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None:
                import asyncio  # a run without async callbacks never pays for it

                self._loop = asyncio.new_event_loop()
                values = (self._loop, self._close_seconds)
                self._thread = threading.Thread(target=_serve, args=values, name=self._name, daemon=True)
                self._thread.start()
            return self._loop


_loops: weakref.WeakSet[AsyncLoop] = weakref.WeakSet()


def _reset_after_fork() -> None:
    for loop in list(_loops):
        loop._reset()  # pyright: ignore[reportPrivateUsage]


os.register_at_fork(after_in_child=_reset_after_fork)


def _serve(loop: asyncio.AbstractEventLoop, close_seconds: float) -> None:
    import asyncio

    try:
        loop.run_forever()
        left = asyncio.all_tasks(loop)
        for task in left:
            task.cancel()
        if left:
            loop.run_until_complete(asyncio.wait(left, timeout=close_seconds))
        loop.run_until_complete(loop.shutdown_asyncgens())
    finally:
        loop.close()


async def _settle(awaitable: Awaitable[Any], future: CallFuture) -> None:
    # Nothing may leave this coroutine: a SystemExit that reaches the loop would end it for everyone.
    try:
        value = await _uncancelled(awaitable)
    except BaseException as error:
        future.finish(error=error)
    else:
        future.finish(value)


async def _uncancelled(awaitable: Awaitable[Any]) -> Any:
    """Turn the cancellation of a coroutine into a failure: it must not look like the cancellation of the turn."""
    import asyncio

    try:
        return await awaitable
    except asyncio.CancelledError as error:
        raise RuntimeError("the coroutine was cancelled") from error


class _BlockedLoopWatch:
    """Warns with the name of a task that blocks the loop, so that no other can run."""

    __slots__ = ("_loop", "_suspect")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._suspect: object = None

    def __call__(self) -> None:
        import asyncio

        running = asyncio.current_task(self._loop)
        if running is not None and running is self._suspect:
            log.warning("%s blocks the loop that all async callbacks share; it should await", running.get_name())
        self._suspect = running


def run_on_private_loop(awaitable: Awaitable[Any]) -> Any:
    """Await in a loop of its own: in this thread when none is running here, else in another."""
    import asyncio

    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(_uncancelled(awaitable))
    future = CallFuture()
    spawn(lambda: future.run(lambda: asyncio.run(_uncancelled(awaitable))), "hermes-private-loop")
    future.wait(TimedCall("hermes-private-loop"))
    return future.result()


def run_with_deadline(work: Callable[[], Any], seconds: float, label: str) -> Any:
    """Run on a thread of its own. ``TimeoutError`` after the deadline; the thread is then abandoned, never joined."""
    future = CallFuture()
    spawn(lambda: future.run(work), f"hermes-deadline {label}")
    if not future.wait(TimedCall(label, seconds)):
        raise TimeoutError(late_text(seconds))
    return future.result()


def late_text(seconds: float) -> str:
    return f"no answer within {seconds:g} s"


def spawn(target: Callable[[], None], name: str) -> threading.Thread:
    """Start a daemon thread that carries this thread's context variables."""
    context = contextvars.copy_context()
    thread = threading.Thread(target=context.run, args=(target,), name=name, daemon=True)
    thread.start()
    return thread
