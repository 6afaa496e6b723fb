"""The loop of a server, and its end: asked to stop, it waits for the turns that run; asked again, it waits no more."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Awaitable, Callable
from typing import Any, cast


class StopEvent(asyncio.Event):
    """Set when a server is to stop. Setting it once more means at once: nothing that runs is waited for."""

    def __init__(self) -> None:
        super().__init__()
        self.at_once = asyncio.Event()

    def set(self) -> None:
        if self.is_set():
            self.at_once.set()
        super().set()


async def unless_at_once(stop: asyncio.Event, work: Awaitable[object]) -> None:
    """Wait for ``work``, and cancel it when a ``StopEvent`` is set once more; a plain event cannot ask for that."""
    if not isinstance(stop, StopEvent):
        await work
        return
    task, hurried = asyncio.ensure_future(work), asyncio.create_task(stop.at_once.wait())
    try:
        await asyncio.wait({task, hurried}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        hurried.cancel()
        if not task.done():
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
    if not task.cancelled():
        task.result()


def fastest_loop() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """What makes the loop of a server: uvloop where it is installed, as it takes less CPU; None for that of asyncio."""
    try:
        import uvloop  # pyright: ignore[reportMissingImports]
    except ImportError:
        return None
    return cast("Any", uvloop).new_event_loop


def stop_on_signals(stop: asyncio.Event) -> None:
    """Set the event with each SIGINT and SIGTERM that the running loop gets."""
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)


def waiting_text(turns: int, seconds: float) -> str:
    """The line for the owner about the turns that a server waits for before it stops."""
    which = "1 turn" if turns == 1 else f"{turns} turns"
    return (
        f"Stopping: waiting up to {seconds:.0f} s for {which}. Ctrl-C again stops at once. "
        f"What has not ended continues at the next start."
    )
