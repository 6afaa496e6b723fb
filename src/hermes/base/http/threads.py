"""Blocking work awaited from an event loop: on a daemon thread of its own, or on one of a few that are shared."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import queue
import threading
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

from hermes.base.scope import Interrupt

T = TypeVar("T")


def _settle(future: asyncio.Future[Any], value: Any, error: BaseException | None) -> None:
    """Give a future of an event loop its result, from any thread."""

    def settle() -> None:
        if future.done():
            return
        if error is not None:
            future.set_exception(error)
        else:
            future.set_result(value)

    with contextlib.suppress(RuntimeError):  # the loop has ended meanwhile
        future.get_loop().call_soon_threadsafe(settle)


async def run_in_thread(work: Callable[[Interrupt], T], interrupt: Interrupt | None = None) -> T:
    """Run ``work`` on a daemon thread, in a copy of the caller's context, and await its result.

    ``work`` is given an interrupt that is cancelled with ``interrupt`` or with the task. A cancelled task does not
    wait for the thread to end. Daemon threads, since the loop's own executor would keep the program from ending.
    """
    result: asyncio.Future[T] = asyncio.get_running_loop().create_future()
    own = Interrupt()
    context = contextvars.copy_context()

    def run() -> None:
        value, error = None, None
        try:
            value = context.run(work, own)
        except BaseException as raised:
            error = raised
        _settle(result, value, error)

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

    Cancelling a task that waits does not stop its work.
    """

    def __init__(self, most: int, name: str) -> None:
        self._most, self._name = most, name
        self._threads = 0
        self._work: queue.SimpleQueue[tuple[Callable[[], Any], asyncio.Future[Any]] | None] = queue.SimpleQueue()

    def start(self, work: Callable[..., T], *args: Any, **options: Any) -> asyncio.Future[T]:
        """The future of work that a thread does. To be called on the loop."""
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        if not self._threads or (self._threads < self._most and not self._work.empty()):
            self._threads += 1
            threading.Thread(target=self._serve, name=f"{self._name}-{self._threads}", daemon=True).start()
        self._work.put((partial(work, *args, **options), future))
        return future

    def close(self) -> None:
        """End the threads when what was started is done."""
        for _ in range(self._threads):
            self._work.put(None)

    def _serve(self) -> None:
        while (taken := self._work.get()) is not None:
            work, future = taken
            try:
                _settle(future, work(), None)
            except BaseException as error:
                _settle(future, None, error)
            del taken, work, future  # frees what they reference before the next one arrives
