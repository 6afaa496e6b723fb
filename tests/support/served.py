"""A server of the runtime on a thread of its own, stopped with the test."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Coroutine
from typing import Any

from hermes.base.http_server.stopping import StopEvent

#: Serves until the event is set, and announces its addresses.
Serve = Callable[[StopEvent, Callable[..., None]], Coroutine[Any, Any, None]]


class ServerThread:
    """Runs a server. ``announced`` are the addresses that it announced."""

    def __init__(self, serve: Serve) -> None:
        self.announced: tuple[str, ...] = ()
        self.failure: BaseException | None = None
        self._serve = serve
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run, name="served")
        self._thread.start()

    def _run(self) -> None:
        try:
            asyncio.run(self._main())
        except BaseException as error:
            self.failure = error
        finally:
            self._ready.set()

    async def _main(self) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), StopEvent()

        def announce(*addresses: str) -> None:
            self.announced = addresses
            self._ready.set()

        await self._serve(self._stop, announce)

    def wait_until_ready(self) -> str:
        """The first address that the server announced."""
        self._ready.wait(60)
        if self.failure is not None:
            raise self.failure
        return self.announced[0]

    def ask_to_stop(self) -> None:
        """Ask the server to stop, as a signal does."""
        with contextlib.suppress(RuntimeError):  # its loop has ended, and perhaps its thread has not
            self._loop.call_soon_threadsafe(self._stop.set)

    def stop(self) -> None:
        """Stop the server; its failure, if it had one, is raised."""
        self.ask_to_stop()
        self._thread.join(60)
        if self.failure is not None:
            raise self.failure
        assert not self._thread.is_alive()
