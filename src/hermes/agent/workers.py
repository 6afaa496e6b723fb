"""Daemon threads for work that may block: reused when free, abandoned when stuck, never joined at exit."""

from __future__ import annotations

import contextvars
import queue
import threading
from collections.abc import Callable
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

    def wait(self, interrupt: Interrupt) -> bool:
        """Wait for the end. False when the work was cancelled and did not stop within the grace period."""
        while not self._over.wait(POLL_SECONDS):
            if interrupt.cancelled:
                return self._over.wait(GRACE_SECONDS)
        return True

    def result(self) -> T:
        """What the work returned, or its exception. Only after ``wait`` returned True."""
        if self._error is not None:
            raise self._error
        return self._value  # pyright: ignore[reportReturnType]  (set by run, unless _error is)


class Workers:
    """A pool without a limit: callers bound what they submit, and stuck work must never hold up healthy work."""

    def __init__(self) -> None:
        self._tasks: queue.SimpleQueue[Task[Any] | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._idle = 0
        self._threads = 0

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

    def close(self) -> None:
        """Let the free threads end. Those that are stuck end with the process."""
        with self._lock:
            idle, self._idle = self._idle, 0
        for _ in range(idle):
            self._tasks.put(None)

    def _serve(self) -> None:
        while (task := self._tasks.get()) is not None:
            task.run()
            del task  # what it holds must not live until the next one comes
            with self._lock:
                self._idle += 1
