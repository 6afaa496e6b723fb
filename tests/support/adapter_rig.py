"""A platform adapter on an event loop of its own, with a gateway that only notes what arrives."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Generator
from contextlib import contextmanager
from typing import Any, TypeVar

from hermes.surfaces.gateway.adapter import BasePlatformAdapter, MessageEvent, SendResult
from support.waiting import HANG, wait_until

T = TypeVar("T")


class AdapterRig:
    """Runs an adapter as the gateway does; its methods are called from the test's own thread."""

    def __init__(self, adapter: BasePlatformAdapter) -> None:
        self.adapter = adapter
        self.events: list[MessageEvent] = []
        #: Why the adapter reported that it has failed, each time it did.
        self.failures: list[str] = []
        #: Set to let the gateway refuse messages.
        self.refusal: Exception | None = None
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        adapter.set_message_handler(self._accept)
        adapter.set_fatal_error_handler(self._note_failure)

    async def _accept(self, event: MessageEvent) -> None:
        if self.refusal is not None:
            raise self.refusal
        self.events.append(event)

    async def _note_failure(self, adapter: BasePlatformAdapter) -> None:
        self.failures.append(adapter.fatal_error_message or "")

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine of the adapter to its end."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(HANG)

    def connect(self) -> bool:
        """Connect the adapter."""
        return self.call(self.adapter.connect())

    def send(self, chat_id: str, content: str, reply_to: str | None = None, **metadata: Any) -> SendResult:
        """Send a message."""
        return self.call(self.adapter.send(chat_id, content, reply_to, metadata or None))

    def next_event(self) -> MessageEvent:
        """The next message that has arrived."""
        wait_until(lambda: self.events, "a message")
        return self.events.pop(0)

    def close(self) -> None:
        """Disconnect and end the loop."""
        self.call(self.adapter.disconnect())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(HANG)
        self._loop.close()


@contextmanager
def running_adapter(adapter: BasePlatformAdapter, *, connect: bool = True) -> Generator[AdapterRig]:
    """An adapter that is connected, until the end of the block."""
    rig = AdapterRig(adapter)
    try:
        if connect:
            assert rig.connect(), adapter.fatal_error_message
        yield rig
    finally:
        rig.close()
