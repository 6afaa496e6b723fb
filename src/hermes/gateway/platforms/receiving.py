"""Receiving from a platform: the task that does it while an adapter is connected, and polls that are tried again."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Collection, Coroutine
from typing import Any, TypeVar

from hermes.gateway.platforms.api import PlatformApiError

T = TypeVar("T")

#: A poll that fails is tried again by itself this often; then the gateway restarts the adapter, with its backoff.
_MOST_FAILED_POLLS = 3
_PAUSE = 1.0


class ReceiveTask:
    """The task of an adapter that receives messages."""

    def __init__(self) -> None:
        self._task: asyncio.Task[None] | None = None

    def start(self, work: Coroutine[Any, Any, None]) -> None:
        self._task = asyncio.create_task(work)

    async def stop(self) -> None:
        """End the task, unless it is the one that asks: a task that lost its connection disconnects its adapter."""
        task, self._task = self._task, None
        if task is not None and task is not asyncio.current_task():
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task


async def polled(poll: Callable[[], Awaitable[T]], *, final: Collection[int]) -> T:
    """The result of a poll, which is tried again when it fails. An error with one of the ``final`` statuses is not."""
    failed = 0
    while True:
        try:
            return await poll()
        except PlatformApiError as error:
            failed += 1
            if error.status in final or failed >= _MOST_FAILED_POLLS:
                raise
            await asyncio.sleep(error.retry_after or _PAUSE)
