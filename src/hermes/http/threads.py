"""Blocking work awaited from an event loop: it runs on a daemon thread, and cancelling the task interrupts it."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import threading
from collections.abc import Callable
from typing import TypeVar

from hermes.scope import Interrupt

T = TypeVar("T")


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
