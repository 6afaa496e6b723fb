"""Coroutines of the embedding program, awaited from the thread of a turn."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable
from contextvars import ContextVar
from typing import Any, cast

from hermes.base.scope import Interrupt
from hermes.hooks.callback import is_awaitable
from hermes.hooks.threads.event_loop import run_on_private_loop

#: The event loop whose task awaits the turn, so that the program's coroutines run where its other objects live.
caller_loop: ContextVar[asyncio.AbstractEventLoop | None] = ContextVar("hermes_caller_loop", default=None)


def settle(value: Any, interrupt: Interrupt) -> Any:
    """The value, awaited when it is awaitable: on the caller's event loop if there is one, else on a new one."""
    if not is_awaitable(value):
        return value
    loop = caller_loop.get()
    try:
        if loop is None:
            return run_on_private_loop(_until_cancelled(value, interrupt))
        future = asyncio.run_coroutine_threadsafe(_awaited(value), loop)
        with interrupt.on_cancel(lambda: cast("None", future.cancel())):
            return future.result()
    except BaseException:
        interrupt.check()  # a cancelled turn is the reason why the coroutine was cancelled
        raise


async def _awaited(value: Awaitable[Any]) -> Any:
    return await value


async def _until_cancelled(value: Awaitable[Any], interrupt: Interrupt) -> Any:
    """Await it; an interrupt from another thread cancels it."""
    loop, task = asyncio.get_running_loop(), asyncio.ensure_future(_awaited(value))

    def cancel() -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed: it is over
            loop.call_soon_threadsafe(task.cancel)

    with interrupt.on_cancel(cancel):
        return await task
