"""The event loop that the runtime's coroutines run on, on a thread of its own."""

from __future__ import annotations

import atexit
import threading
import time
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import asyncio
    import contextvars

#: An interpreter that ends sooner after a coroutine of the runtime may crash in it.
_SETTLE_SECONDS = 0.05
_JOIN_SECONDS = 2.0


class RelayLoop:
    """Starts with the first coroutine; after ``close`` the next one starts it again."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._last_used = 0.0

    def submit(
        self, make: Callable[[], Coroutine[Any, Any, Any]], context: contextvars.Context
    ) -> asyncio.AbstractEventLoop:
        """Run a coroutine without waiting for it. It must not let an exception out."""
        loop = self._start()

        def begin() -> None:
            task = loop.create_task(make(), context=context)
            tasks.add(task)  # a loop alone does not keep its tasks alive
            task.add_done_callback(tasks.discard)

        loop.call_soon_threadsafe(begin)
        return loop

    def run(self, coroutine: Coroutine[Any, Any, Any], seconds: float) -> Any:
        """Run a coroutine and wait for what it gives. ``TimeoutError`` when that takes too long."""
        import asyncio

        future = asyncio.run_coroutine_threadsafe(coroutine, self._start())
        try:
            return future.result(seconds)
        except TimeoutError:
            raise TimeoutError(f"nemo-relay did not answer within {seconds:g} s") from None
        finally:
            self._last_used = time.monotonic()

    def close(self) -> None:
        """End the thread."""
        with self._lock:
            loop, thread = self._loop, self._thread
            self._loop = self._thread = None
        if loop is not None and thread is not None:
            loop.call_soon_threadsafe(loop.stop)
            thread.join(_JOIN_SECONDS)

    def _settle(self) -> None:
        """Wait until the process may end."""
        time.sleep(max(self._last_used + _SETTLE_SECONDS - time.monotonic(), 0.0))

    def forget(self) -> None:
        """Drop the loop in a process that was forked: its thread stayed behind."""
        self._lock = threading.Lock()
        self._loop = self._thread = None

    def _start(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None:
                import asyncio

                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(
                    target=_serve, args=(self._loop,), name="hermes-nemo-relay", daemon=True
                )
                self._thread.start()
            if not self._last_used:
                atexit.register(self._settle)
            self._last_used = time.monotonic()
            return self._loop


#: Running tasks, on any loop.
tasks: set[asyncio.Task[Any]] = set()


def _serve(loop: asyncio.AbstractEventLoop) -> None:
    try:
        loop.run_forever()
    finally:
        loop.close()


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
