"""The asyncio loop of the MCP client: one daemon thread that all servers of a host share."""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

from hermes.base.errors import Interrupted
from hermes.base.scope import Interrupt

T = TypeVar("T")

#: How long the end of the loop may take: stopping a server that ignores the end of its input and SIGTERM takes most.
_CLOSE_SECONDS = 3.0


class McpLoop:
    """Runs coroutines for threads that wait. The thread starts with the first one. Thread-safe."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()

    def submit(self, work: Coroutine[Any, Any, T]) -> concurrent.futures.Future[T]:
        """Start a coroutine; cancelling the future cancels it."""
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(target=self._run, args=(self._loop,), name="hermes-mcp", daemon=True)
                self._thread.start()
            return asyncio.run_coroutine_threadsafe(work, self._loop)

    def wait(self, work: Coroutine[Any, Any, T], interrupt: Interrupt) -> T:
        """The result of a coroutine. Cancelling the interrupt cancels it, and raises ``Interrupted`` at once."""
        future = self.submit(work)

        def cancel() -> None:
            future.cancel()

        with interrupt.on_cancel(cancel):
            try:
                return future.result()
            except concurrent.futures.CancelledError:
                raise Interrupted(interrupt.reason or "the MCP client was closed") from None

    def close(self) -> None:
        """Stop the loop; what still runs on it is abandoned."""
        with self._lock:
            loop, self._loop = self._loop, None
        if loop is None or self._thread is None:
            return
        loop.call_soon_threadsafe(loop.stop)
        self._thread.join(_CLOSE_SECONDS)

    @staticmethod
    def _run(loop: asyncio.AbstractEventLoop) -> None:
        asyncio.set_event_loop(loop)
        try:
            loop.run_forever()
            _cancel_all(loop)
        finally:
            loop.close()


def _cancel_all(loop: asyncio.AbstractEventLoop) -> None:
    tasks = asyncio.all_tasks(loop)
    for task in tasks:
        task.cancel()
    if tasks:
        loop.run_until_complete(asyncio.wait(tasks, timeout=_CLOSE_SECONDS - 0.5))
