"""Blocking work awaited from an event loop: on a daemon thread of its own, or on one of a few that are shared."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import os
import queue
import sys
import threading
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

from hermes.base.scope import Interrupt

T = TypeVar("T")

#: So many threads are a crowd.
CROWD = 100
#: How often a thread of a crowd asks for the interpreter's lock, in seconds.
CROWD_SWITCH_INTERVAL = 0.02


class ThreadCrowd:
    """Counts threads while they run; in a crowd, the interpreter's switch interval is longer. Thread-safe.

    Each thread that waits for the interpreter's lock wakes once per switch interval to ask for it, five milliseconds by
    default. When a thousand answers arrive at once, that costs more than reading them.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._count = 0
        #: The interval to set back.
        self._usual: float | None = None
        os.register_at_fork(after_in_child=self.forget)

    def forget(self) -> None:
        """Start again with no threads: those of a parent do not exist in a process that was forked."""
        self._lock = threading.Lock()
        self._count = 0
        if self._usual is not None:
            sys.setswitchinterval(self._usual)
            self._usual = None

    def __enter__(self) -> None:
        with self._lock:
            self._count += 1
            if self._count == CROWD and self._usual is None and sys.getswitchinterval() < CROWD_SWITCH_INTERVAL:
                self._usual = sys.getswitchinterval()
                sys.setswitchinterval(CROWD_SWITCH_INTERVAL)

    def __exit__(self, *_exception: object) -> None:
        with self._lock:
            self._count -= 1
            if self._usual is not None and self._count <= CROWD // 2:
                sys.setswitchinterval(self._usual)
                self._usual = None


_crowd = ThreadCrowd()


async def run_in_thread(work: Callable[[Interrupt], T], interrupt: Interrupt | None = None) -> T:
    """Run ``work`` on a daemon thread, in a copy of the caller's context, and await its result.

    ``work`` is given an interrupt that is cancelled with ``interrupt`` or with the task. A cancelled task does not
    wait for the thread to end. Daemon threads, since the loop's own executor would keep the program from ending.
    """
    loop = asyncio.get_running_loop()
    result: asyncio.Future[T] = loop.create_future()
    own = Interrupt()
    context = contextvars.copy_context()

    def settle(value: T | None, error: BaseException | None) -> None:
        if result.done():
            return
        if error is not None:
            result.set_exception(error)
        else:
            result.set_result(value)  # pyright: ignore[reportArgumentType]  (the value, since there is no error)

    def run() -> None:
        value, error = None, None
        try:
            with _crowd:
                value = context.run(work, own)
        except BaseException as raised:
            error = raised
        with contextlib.suppress(RuntimeError):  # the loop has ended meanwhile
            loop.call_soon_threadsafe(settle, value, error)

    with contextlib.ExitStack() as stack:
        if interrupt is not None:
            stack.enter_context(interrupt.on_cancel(lambda: own.cancel(interrupt.reason)))
        threading.Thread(target=run, name="hermes-http", daemon=True).start()
        try:
            return await result
        except asyncio.CancelledError:
            own.cancel("the task was cancelled")
            raise


class LoopThreads:
    """A few daemon threads for the short blocking work of one event loop, and the way back to it.

    Cheaper than an executor: results that are there while the loop is busy are brought to it together. Cancelling a
    task that waits does not stop its work.
    """

    def __init__(self, most: int, name: str) -> None:
        self._most, self._name = most, name
        self._threads = 0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._work: queue.SimpleQueue[tuple[Callable[[], Any], asyncio.Future[Any]] | None] = queue.SimpleQueue()
        self._results: deque[tuple[asyncio.Future[Any], Any, BaseException | None]] = deque()
        self._is_reporting = False

    def start(self, work: Callable[..., T], *args: Any, **options: Any) -> asyncio.Future[T]:
        """The future of work that a thread does. To be called on the loop."""
        loop = self._loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        if not self._threads or (self._threads < self._most and not self._work.empty()):
            self._threads += 1
            threading.Thread(target=self._serve, name=f"{self._name}-{self._threads}", daemon=True).start()
        self._work.put((partial(work, *args, **options) if args or options else work, future))
        return future

    def settle(self, future: asyncio.Future[T], value: T) -> None:
        """Set the result of a future of the loop, from any thread."""
        self._settle(future, value, None)

    def close(self) -> None:
        """End the threads when what was started is done."""
        for _ in range(self._threads):
            self._work.put(None)

    def _serve(self) -> None:
        while (taken := self._work.get()) is not None:
            work, future = taken
            try:
                self._settle(future, work(), None)
            except BaseException as error:
                self._settle(future, None, error)
            del taken, work, future  # frees what they reference before the next one arrives

    def _settle(self, future: asyncio.Future[Any], value: Any, error: BaseException | None) -> None:
        self._results.append((future, value, error))
        if not self._is_reporting and self._loop is not None:
            self._is_reporting = True
            with contextlib.suppress(RuntimeError):  # the loop has ended meanwhile
                self._loop.call_soon_threadsafe(self._report)

    def _report(self) -> None:
        self._is_reporting = False  # before the results are read: what is added later is reported again
        while self._results:
            future, value, error = self._results.popleft()
            if future.done():
                continue
            if error is not None:
                future.set_exception(error)
            else:
                future.set_result(value)
