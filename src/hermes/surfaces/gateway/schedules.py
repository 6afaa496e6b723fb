"""Schedules in the process of the gateway: it fires them, and sends their answers to chats through its outbox."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from hermes.journal.store.port import Store
from hermes.service.dispatch.choose import runs_on_workers
from hermes.service.dispatch.scheduled import DispatchedRuns
from hermes.service.schedules.delivery import ChatAddress
from hermes.service.schedules.provider import serve
from hermes.service.schedules.scheduler import Scheduler
from hermes.surfaces.gateway.store.outbox import Outbox, OutgoingMessage

if TYPE_CHECKING:
    from hermes.surfaces.gateway.gateway import Gateway


class ScheduleOutbox:
    """Puts answers into the outbox. The gateway sends them, when it runs; a run delivered twice is one message."""

    def __init__(self, store: Store, on_put: Callable[[], bool]) -> None:
        """``on_put`` is called after each message, and says whether the gateway runs."""
        self._outbox = Outbox(store)
        self._on_put = on_put

    def put(self, key: str, address: ChatAddress, text: str) -> bool:
        """Store a message for a chat. Whether a gateway runs that sends it now."""
        self._outbox.add(OutgoingMessage(key, address.platform, address.chat, text, thread_id=address.thread))
        return self._on_put()


class ScheduleService:
    """The scheduler beside the platforms: its loop and its runs have threads of their own."""

    def __init__(self) -> None:
        #: The scheduler of the gateway that runs.
        self.scheduler: Scheduler | None = None

    async def run(self, gateway: Gateway) -> None:
        """Fire schedules until cancelled. Runs that last are interrupted, and continued by the next process."""
        stop = threading.Event()

        def wake() -> bool:
            gateway.call_soon(gateway.deliveries.wake)
            return True

        outbox = ScheduleOutbox(gateway.host.store, wake)
        turns = DispatchedRuns(gateway.host, gateway.dispatcher) if runs_on_workers(gateway.host.config) else None
        scheduler = self.scheduler = Scheduler(gateway.host, turns=turns, outbox=outbox)
        loop = asyncio.get_running_loop()
        thread = threading.Thread(
            target=partial(serve, gateway.host, scheduler, stop, adapters=gateway.adapters, loop=loop),
            name="hermes-cron",
            daemon=True,
        )
        thread.start()
        try:
            await asyncio.Event().wait()
        finally:
            stop.set()
            await asyncio.to_thread(scheduler.close)
