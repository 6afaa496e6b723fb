"""Threads that plugins' callbacks run on: one per plugin and session, given up and replaced when a call is late."""

from __future__ import annotations

import logging
import os
import threading
import weakref
from _thread import allocate_lock
from collections.abc import Callable
from contextlib import suppress
from contextvars import Context
from sys import getrecursionlimit
from threading import TIMEOUT_MAX, get_ident
from time import monotonic
from typing import Any

from hermes.base.errors import Interrupted
from hermes.base.scope import Interrupt
from hermes.hooks.threads.event_loop import CANCELLED_GRACE
from hermes.hooks.threads.timed_call import TimedCall, current_call, restore_recursion_limit

log = logging.getLogger("hermes.hooks")

#: How long a hook that runs when its turn is cancelled may take to end before it is given up.
CANCEL_SECONDS = 0.1
#: How often the waiting thread looks whether the host still works for the plugin.
_POLL_SECONDS = 0.05
_CLOSE_SECONDS = 0.5
#: Idle threads that are kept in all. Beyond that, those of the session that was used first are ended.
MAX_IDLE = 256


class _DaemonThread(threading.Thread):
    """A daemon thread for plugins' code: threads that it starts are no daemons, as if it ran in the main thread."""

    _serves = False

    @property
    def daemon(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        return not self._serves

    def run(self) -> None:
        self._serves = True  # the interpreter has taken note that it need not wait for this thread
        super().run()


class CallbackThread:
    """A daemon thread that makes one call at a time for a thread that waits for it.

    The hand-over is a pair of locks: it costs some ten microseconds for both ways.
    """

    __slots__ = (
        "_context",
        "_done",
        "_finished",
        "_function",
        "_given",
        "_go",
        "_over",
        "_thread",
        "call",
        "error",
        "value",
    )

    def __init__(self, name: str) -> None:
        self._go, self._done = allocate_lock(), allocate_lock()
        self._go.acquire()
        self._done.acquire()
        self._function: Callable[..., Any] = _idle
        self._over = False
        self._given: dict[str, Any] = {}
        self._context: Context
        self._finished = False
        self.call: TimedCall
        #: What the call returned or raised, once ``run`` has returned True.
        self.value: Any = None
        self.error: BaseException | None = None
        self._thread = _DaemonThread(target=self._serve, name=name, daemon=True)
        self._thread.start()

    def run(
        self,
        function: Callable[..., Any],
        given: dict[str, Any],
        call: TimedCall,
        context: Context,
        interrupt: Interrupt | None,
    ) -> bool:
        """Make a call. True when it ended, False when it was late and is given up, and this thread with it.

        Raises ``Interrupted`` when the turn is cancelled and the call does not end at once. In a turn that was
        cancelled before, the call has at most ``CANCELLED_GRACE``.
        """
        self._function, self._given, self._context, self.call = function, given, context, call
        self._finished = False
        self.value = self.error = None
        closing = interrupt is not None and interrupt.cancelled
        if closing:
            call.limit = min(call.limit, CANCELLED_GRACE)
        remove = None if interrupt is None or closing else interrupt.add_callback(self._wake)
        limit, wait = min(call.limit, TIMEOUT_MAX), self._done.acquire
        try:
            # Nothing in between: the hand-over is quick when one thread sleeps as soon as it has woken the other.
            self._go.release()
            wait(True, limit)
            ended = self._finished or self._wait(call, None if closing else interrupt)
        except BaseException:
            call.given_up = True
            self.end()
            raise
        finally:
            if remove is not None:
                remove()
        if not ended:
            self.end()
        return ended

    def end(self) -> None:
        """Let the thread end, as soon as it is idle."""
        self._over = True
        # On a busy machine a call may be late before the thread has taken it: it then finds the end instead.
        with suppress(RuntimeError):
            self._go.release()

    def join(self, seconds: float) -> None:
        """Wait until the thread has ended."""
        self._thread.join(seconds)

    def _wait(self, call: TimedCall, interrupt: Interrupt | None) -> bool:
        """The wait that is not over at once: the host works for the plugin, the turn is cancelled, or it is late."""
        stop_at: float | None = None
        while not self._finished:
            if interrupt is not None and interrupt.cancelled:
                if call.is_served:
                    stop_at = None  # what the host does ends by itself, and the plugin may see how
                elif stop_at is None:
                    stop_at = monotonic() + (CANCELLED_GRACE if call.was_served else CANCEL_SECONDS)
                elif monotonic() >= stop_at and call.give_up():
                    raise Interrupted(interrupt.reason)
                self._done.acquire(True, _POLL_SECONDS)
                continue
            left = call.left
            if left <= 0 and call.give_up():
                return False
            self._done.acquire(True, min(max(left, _POLL_SECONDS), TIMEOUT_MAX))
        return True

    def _wake(self) -> None:
        """The turn is cancelled: let the waiting thread look."""
        with suppress(RuntimeError):  # it is being woken already
            self._done.release()

    def _serve(self) -> None:
        rest, wake, process = self._go.acquire, self._done.release, os.getpid()
        while True:
            rest()
            if self._over:
                return
            call, before = self.call, getrecursionlimit()
            try:
                self.value = self._context.run(self._work)
            except BaseException as error:
                self.error = error
            if os.getpid() != process:
                os._exit(0)  # the callback has forked, and in its child no other thread exists that could continue
            # While the limit is low, other threads cannot call anything: it is restored before they are woken.
            if restore_recursion_limit(before):
                log.warning("plugin %r lowered the recursion limit of the process; it is set back", call.plugin)
            self._given, self._function = {}, _idle
            self._finished = True
            try:
                wake()
            except RuntimeError:
                pass  # the cancelled turn is being woken already

    def _work(self) -> Any:
        call = self.call
        call.thread = get_ident()
        current_call.set(call)
        return self._function(**self._given)


def _idle() -> None:
    """A placeholder for the function of a thread that waits for its next call."""


class CallbackThreads:
    """The idle callback threads of one host, by session and plugin. Thread-safe and fork-safe."""

    __slots__ = ("__weakref__", "_idle", "_lock", "idle")

    def __init__(self) -> None:
        self._reset()
        _pools.add(self)

    def _reset(self) -> None:
        self._lock = threading.Lock()
        self._idle: dict[str, dict[str, list[CallbackThread]]] = {}
        #: How many threads are idle.
        self.idle = 0

    def take(self, plugin: str, session: str) -> CallbackThread:
        """The idle thread of the plugin in that session, or another one while that is busy."""
        with self._lock:
            idle = self._idle.setdefault(session, {}).setdefault(plugin, [])
            if idle:
                self.idle -= 1
                return idle.pop()
        return CallbackThread(f"hermes-plugin {plugin} {session}".rstrip())

    def give_back(self, plugin: str, session: str, thread: CallbackThread) -> None:
        """Keep a thread that is idle again, as long as the session is open."""
        with self._lock:
            idle = self._idle.get(session, {}).get(plugin)
            if idle is not None:
                idle.append(thread)
                self.idle += 1
                left = self._trim(session)
            else:
                left = [thread]
        for one in left:
            one.end()

    def _trim(self, session: str) -> list[CallbackThread]:
        """With the lock held: the threads that are too many."""
        left: list[CallbackThread] = []
        while self.idle > MAX_IDLE:
            oldest = next((other for other in self._idle if other != session), None)
            if oldest is None:
                break
            left += self._take_out(oldest)
        return left

    def _take_out(self, session: str) -> list[CallbackThread]:
        threads = [thread for idle in self._idle.pop(session, {}).values() for thread in idle]
        self.idle -= len(threads)
        return threads

    def end_session(self, session: str) -> list[CallbackThread]:
        """End the threads of a session; one that is busy ends when its call does. Returns those that were idle."""
        with self._lock:
            threads = self._take_out(session)
        for thread in threads:
            thread.end()
        return threads

    def close(self) -> None:
        """End all idle threads and wait for that."""
        ended = [thread for session in list(self._idle) for thread in self.end_session(session)]
        for thread in ended:
            thread.join(_CLOSE_SECONDS)


_pools: weakref.WeakSet[CallbackThreads] = weakref.WeakSet()


def _reset_after_fork() -> None:
    for pool in list(_pools):
        pool._reset()  # pyright: ignore[reportPrivateUsage]


os.register_at_fork(after_in_child=_reset_after_fork)
