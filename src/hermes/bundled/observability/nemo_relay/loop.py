"""The event loop that the runtime's coroutines run on, on a thread of its own."""

from __future__ import annotations

import atexit
import threading
import time
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

from hermes.hooks.threads.event_loop import AsyncLoop

if TYPE_CHECKING:
    import asyncio
    import contextvars

#: An interpreter that ends sooner after a coroutine of the runtime may crash in it.
_SETTLE_SECONDS = 0.05


class RelayLoop(AsyncLoop):
    """Starts with the first coroutine; after ``close`` the next one starts it again."""

    def __init__(self) -> None:
        super().__init__("hermes-nemo-relay")
        self._last_used = 0.0

    def submit(self, make: Callable[[], Coroutine[Any, Any, Any]], context: contextvars.Context) -> None:
        """Run a coroutine without waiting for it. It must not let an exception out."""
        loop = self._start()

        def begin() -> None:
            task = loop.create_task(make(), context=context)
            tasks.add(task)  # a loop alone does not keep its tasks alive
            task.add_done_callback(tasks.discard)

        loop.call_soon_threadsafe(begin)

    def wait(self, coroutine: Coroutine[Any, Any, Any], seconds: float) -> Any:
        """Run a coroutine and wait for what it gives. ``TimeoutError`` when that takes too long."""
        import asyncio

        future = asyncio.run_coroutine_threadsafe(coroutine, self._start())
        try:
            return future.result(seconds)
        except TimeoutError:
            raise TimeoutError(f"nemo-relay did not answer within {seconds:g} s") from None
        finally:
            self._last_used = time.monotonic()

    def _settle(self) -> None:
        """Wait until the process may end."""
        time.sleep(max(self._last_used + _SETTLE_SECONDS - time.monotonic(), 0.0))

    def _start(self) -> asyncio.AbstractEventLoop:
        if not self._last_used:
            atexit.register(self._settle)
        self._last_used = time.monotonic()
        return super()._start()


#: Running tasks, on any loop.
tasks: set[asyncio.Task[Any]] = set()


def bounded(function: Callable[[], None], seconds: float) -> None:
    """Call a function that may block, on a thread without an event loop. ``TimeoutError`` when it is late."""
    failures: list[BaseException] = []

    def call() -> None:
        try:
            function()
        except BaseException as error:
            failures.append(error)

    thread = threading.Thread(target=call, name="hermes-nemo-relay-flush", daemon=True)
    thread.start()
    thread.join(seconds)
    if failures:
        raise failures[0]
    if thread.is_alive():
        raise TimeoutError(f"nemo-relay did not answer within {seconds:g} s")
