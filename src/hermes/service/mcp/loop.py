"""The asyncio loop of the MCP client: one daemon thread that all servers of a host share."""

from __future__ import annotations

import asyncio
import concurrent.futures
from collections.abc import Coroutine
from typing import Any, TypeVar

from hermes.base.errors import Interrupted
from hermes.base.scope import Interrupt
from hermes.hooks.threads.event_loop import AsyncLoop

T = TypeVar("T")

#: How long the end of the loop may take: stopping a server that ignores the end of its input and SIGTERM takes most.
_CLOSE_SECONDS = 3.0


class McpLoop(AsyncLoop):
    """Runs coroutines for threads that wait. The thread starts with the first one. Thread-safe."""

    def __init__(self) -> None:
        super().__init__("hermes-mcp", close_seconds=_CLOSE_SECONDS)

    def submit(self, work: Coroutine[Any, Any, T]) -> concurrent.futures.Future[T]:
        """Start a coroutine; cancelling the future cancels it."""
        return asyncio.run_coroutine_threadsafe(work, self._start())

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
