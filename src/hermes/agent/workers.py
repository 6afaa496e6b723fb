"""Worker pool of daemon threads for blocking work: reused when idle, abandoned when stuck, never joined at exit."""

from __future__ import annotations

import contextvars
import queue
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

from hermes.base.scope import Interrupt

T = TypeVar("T")

#: Grace period: how long cancelled work may take to stop before it is abandoned.
GRACE_SECONDS = 1.0
#: How often a waiting thread polls for cancellation. The end of the work is noticed at once.
POLL_SECONDS = 0.05


class WorkerTask(Generic[T]):
    """One piece of work on another thread, in a copy of the caller's context."""

    def __init__(self, work: Callable[[], T]) -> None:
        self._work = work
        self._context = contextvars.copy_context()
        self._over = threading.Event()
        self._value: T | None = None
        self._error: BaseException | None = None

    def run(self) -> None:
        try:
            self._value = self._context.run(self._work)
        except BaseException as error:
            self._error = error
        self._over.set()

    def is_over(self, seconds: float | None) -> bool:
        """Whether the work ends within that time; None waits for it."""
        return self._over.wait(seconds)

    def result(self) -> T:
        """The return value of the work, or its exception. Only after it has ended."""
        if self._error is not None:
            raise self._error
        return self._value  # pyright: ignore[reportReturnType]  (set by run, unless _error is)


def wait_for(tasks: Sequence[WorkerTask[Any]], interrupt: Interrupt) -> list[WorkerTask[Any]]:
    """Wait for all, and return those that ended. Once cancelled, they share one grace period."""
    until: float | None = None
    for task in tasks:
        while not task.is_over(POLL_SECONDS if until is None else max(until - time.monotonic(), 0)):
            if until is not None:
                break
            if interrupt.cancelled:
                until = time.monotonic() + GRACE_SECONDS
    return [task for task in tasks if task.is_over(0)]


class Workers:
    """An unbounded pool: callers limit what they submit, and stuck work must never block other work. Thread-safe."""

    def __init__(self) -> None:
        self._tasks: queue.SimpleQueue[WorkerTask[Any] | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._idle = 0
        self._threads = 0
        self.is_closed = False

    def submit(self, work: Callable[[], T]) -> WorkerTask[T]:
        task = WorkerTask(work)
        with self._lock:
            if self._idle:
                self._idle -= 1
            else:
                self._threads += 1
                threading.Thread(target=self._serve, name=f"hermes-worker-{self._threads}", daemon=True).start()
        self._tasks.put(task)
        return task

    async def run(self, work: Callable[[], T]) -> T:
        """``submit`` for a coroutine, which waits for the result."""
        import asyncio  # loaded by then; a program without coroutines need not load it
        from concurrent.futures import Future

        future: Future[T] = Future()
        future.set_running_or_notify_cancel()

        def settle() -> None:
            try:
                future.set_result(work())
            except BaseException as error:
                future.set_exception(error)

        self.submit(settle)
        return await asyncio.wrap_future(future)

    @property
    def busy(self) -> int:
        """The number of threads that have work."""
        with self._lock:
            return self._threads - self._idle

    def close(self) -> None:
        """End the idle threads. Stuck ones end when they become idle, or with the process."""
        with self._lock:
            self.is_closed = True
            idle, self._idle = self._idle, 0
        for _ in range(idle):
            self._tasks.put(None)

    def _serve(self) -> None:
        while (task := self._tasks.get()) is not None:
            task.run()
            del task  # frees what it references before the next one arrives
            with self._lock:
                if self.is_closed:
                    return
                self._idle += 1
