"""Work of a chat: one message on its way, and what chats are given to answer it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextvars import Context
from typing import Protocol

from hermes.service.live.turn import LiveTurn
from hermes.service.live.turns import LiveTurns
from hermes.surfaces.gateway.access import Sender
from hermes.surfaces.gateway.adapter import MessageEvent, PlatformEntry, SessionSource
from hermes.surfaces.gateway.deliveries import Deliveries, DeliveryServices
from hermes.surfaces.gateway.session_store import SessionStore
from hermes.surfaces.gateway.store.inbox import ChatRow, Inbox, IncomingMessage


class ChatWork:
    """One message on its way through a chat."""

    __slots__ = ("context", "event", "is_done", "is_stale", "live", "message", "row", "sender", "source", "turn_id")

    def __init__(
        self, message: IncomingMessage, event: MessageEvent, source: SessionSource, sender: Sender, row: ChatRow
    ) -> None:
        self.message = message
        self.event = event
        self.source = source
        self.sender = sender
        #: The chat as it was when the message was accepted.
        self.row = row
        #: What its adapter sets beyond this, its turn has too.
        self.context = Context()
        #: Its turn, once it was accepted, and while it is followed here.
        self.turn_id = ""
        self.live: LiveTurn | None = None
        #: The turn was stopped: whatever it still says is not sent.
        self.is_stale = False
        self.is_done = False

    @property
    def is_finishing(self) -> bool:
        """Whether its turn has ended, and its answer is being stored."""
        return self.live is not None and self.live.has_ended and not self.is_done


class ChatServices(DeliveryServices, Protocol):
    """What a chat is given to answer its messages with. The gateway has it all."""

    inbox: Inbox
    turns: LiveTurns
    session_store: SessionStore
    deliveries: Deliveries
    #: Held while a message is handled that may have ended an earlier process.
    suspects: asyncio.Lock

    @property
    def entries(self) -> Mapping[str, PlatformEntry]:
        """All platforms that there are."""
        ...

    def call_soon(self, work: Callable[[], object]) -> None:
        """Run something on the loop. From any thread."""
        ...

    def message_limit(self, platform: str) -> int:
        """Most characters of one message; 0 means no limit."""
        ...

    def pass_hooks(self, event: MessageEvent) -> bool:
        """Let plugins skip or rewrite a message. False when it is skipped. Blocks."""
        ...

    def owner_chat(self) -> SessionSource | None:
        """Where the owner is asked. Blocks."""
        ...

    def accept_text(self, work: ChatWork, text: str) -> ChatWork | None:
        """Accept a further message of the sender of another one, in its chat. Blocks."""
        ...

    def change_session(self, row: ChatRow, session_id: str) -> None:
        """A command moved a chat to another session. Blocks."""
        ...

    def chat_idle(self, key: str) -> None:
        """A chat has nothing to do."""
        ...
