"""Answers of scheduled runs on their way to chats: they go through the outbox of the gateway."""

from __future__ import annotations

from hermes.gateway.store.outbox import Outbox, OutgoingMessage
from hermes.journal.store import Store
from hermes.schedules.delivery import ChatAddress


class ScheduleOutbox:
    """Puts answers into the outbox. The gateway sends them, when it runs; a run delivered twice is one message."""

    def __init__(self, store: Store) -> None:
        self._outbox = Outbox(store)

    def put(self, key: str, address: ChatAddress, text: str) -> None:
        """Store a message for a chat."""
        self._outbox.add(OutgoingMessage(key, address.platform, address.chat, text, thread_id=address.thread))
