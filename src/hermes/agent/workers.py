"""Daemon threads for work that may block: reused when free, abandoned when stuck, never joined at exit."""

from __future__ import annotations

import contextvars
import queue
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

from hermes.scope import Interrupt

T = TypeVar("T")

#: How long cancelled work may take to stop by itself before it is left behind.
GRACE_SECONDS = 1.0
#: How often a waiting thread looks whether the work was cancelled. Its end is noticed at once.
POLL_SECONDS = 0.05


class Task(Generic[T]):
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
        """What the work returned, or its exception. Only when it is over."""
        if self._error is not None:
            raise self._error
        return self._value  # pyright: ignore[reportReturnType]  (set by run, unless _error is)


def wait_for(tasks: Sequence[Task[Any]], interrupt: Interrupt) -> list[Task[Any]]:
    """Wait for the end of all, and return those that ended. Once cancelled, they have one grace period together."""
    until: float | None = None
    for task in tasks:
        while not task.is_over(POLL_SECONDS if until is None else max(until - time.monotonic(), 0)):
            if until is not None:
                break
            if interrupt.cancelled:
                until = time.monotonic() + GRACE_SECONDS
    return [task for task in tasks if task.is_over(0)]


class Workers:
    """A pool without a limit: callers bound what they submit, and stuck work must never hold up healthy work."""

    def __init__(self) -> None:
        self._tasks: queue.SimpleQueue[Task[Any] | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._idle = 0
        self._threads = 0
        self._closed = False

    def submit(self, work: Callable[[], T]) -> Task[T]:
        task = Task(work)
        with self._lock:
            if self._idle:
                self._idle -= 1
            else:
                self._threads += 1
                threading.Thread(target=self._serve, name=f"hermes-worker-{self._threads}", daemon=True).start()
        self._tasks.put(task)
        return task

    @property
    def is_closed(self) -> bool:
        return self._closed

    @property
    def busy(self) -> int:
        """The number of threads that have work."""
        with self._lock:
            return self._threads - self._idle

    def close(self) -> None:
        """Let the free threads end. Those that are stuck end when they get free, or with the process."""
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, 0
        for _ in range(idle):
            self._tasks.put(None)

    def _serve(self) -> None:
        while (task := self._tasks.get()) is not None:
            task.run()
            del task  # what it holds must not live until the next one comes
            with self._lock:
                if self._closed:
                    return
                self._idle += 1
