"""The inbox: every message that was accepted, until its answer is in the outbox; and the session of each chat."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import fields
from datetime import datetime
from functools import cache
from typing import Any, Literal

import msgspec

from hermes.journal.bodies import clean_text
from hermes.journal.history.rows import requested_turns
from hermes.journal.store.connection import JournalConnection
from hermes.journal.store.port import Store
from hermes.surfaces.gateway.adapter import MessageEvent, MessageType, SessionSource
from hermes.surfaces.gateway.store.outbox import OutgoingMessage, insert_outgoing

#: ``queued``: to be handled, or its turn runs. ``waiting``: its turn waits for the answer to a question. ``done`` and
#: ``dead``: over; a dead letter was tried too often.
InboxState = Literal["queued", "waiting", "done", "dead"]

_OPEN = "('queued', 'waiting')"

#: Fields of a message that are not stored.
_LEFT_OUT = frozenset({"raw_message", "files"})


class IncomingMessage(msgspec.Struct, frozen=True):
    """A message in the inbox."""

    number: int
    #: The key of the conversation.
    chat: str
    platform: str
    #: The platform's id of the message, or one that was made for it.
    delivery: str
    #: The message as JSON.
    event: str
    state: InboxState = "queued"
    attempts: int = 0
    error: str = ""
    received_at: float = 0.0

    @property
    def request_key(self) -> str:
        """The idempotency key of its turn."""
        return f"gateway:{self.number}"

    def read_event(self) -> MessageEvent:
        """The message itself."""
        return decode_event(self.event)


class ChatRow(msgspec.Struct, frozen=True):
    """A conversation: its session, whose it is, and where its last message came from."""

    key: str
    platform: str
    principal: str
    session_id: str
    #: The last source as JSON.
    source: str
    last_at: float
    #: When the session was ended because it was idle; 0 while it is in use.
    expired_at: float = 0.0

    def read_source(self) -> SessionSource:
        return SessionSource.from_dict(msgspec.json.decode(self.source))


class Inbox:
    """The inbox of one journal. Every call blocks; thread-safe."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def accept(self, chat: ChatRow, delivery: str, event: MessageEvent, *, is_new: bool) -> IncomingMessage | None:
        """Store a message and its chat; None when it is there already. Once this returns it is on disk.

        ``is_new``: the chat has a new session. Otherwise the stored one stays, which a command may have changed.
        """
        encoded = encode_event(event)

        def write(connection: JournalConnection) -> int | None:
            rows = connection.execute(
                "INSERT INTO gateway_inbox (chat, platform, delivery, event, state, received_at) "
                "VALUES (?, ?, ?, ?, 'queued', ?) ON CONFLICT (platform, chat, delivery) DO NOTHING RETURNING number",
                (chat.key, chat.platform, delivery, encoded, chat.last_at),
            ).fetchall()
            if not rows:
                return None
            if is_new:
                write_chat(connection, chat)
            else:
                change = "UPDATE gateway_chats SET source = ?, last_at = ? WHERE key = ?"
                connection.execute(change, (chat.source, chat.last_at, chat.key))
            return rows[0][0]

        number = self._store.write(write)
        if number is None:
            return None
        return IncomingMessage(number, chat.key, chat.platform, delivery, encoded, received_at=chat.last_at)

    def count_attempt(self, number: int) -> int:
        """Note that a message is about to be handled, and how often that was so; on disk before it happens."""

        def write(connection: JournalConnection) -> int:
            row = connection.execute(
                "UPDATE gateway_inbox SET attempts = attempts + 1 WHERE number = ? RETURNING attempts", (number,)
            ).fetchone()
            return 0 if row is None else row[0]

        return self._store.write(write)

    def set_waiting(self, number: int, messages: Sequence[OutgoingMessage] = ()) -> None:
        """The turn of a message waits for an answer; ``messages`` ask for it."""

        def write(connection: JournalConnection) -> None:
            connection.execute("UPDATE gateway_inbox SET state = 'waiting' WHERE number = ?", (number,))
            insert_outgoing(connection, messages)

        self._store.write(write)

    def finish(
        self,
        number: int,
        messages: Sequence[OutgoingMessage] = (),
        *,
        state: Literal["done", "dead"] = "done",
        error: str = "",
        also: Sequence[int] = (),
    ) -> None:
        """A message is over, and ``messages`` answer it; ``also`` are others that joined its turn."""

        def write(connection: JournalConnection) -> None:
            change = "UPDATE gateway_inbox SET state = ?, error = ?, ended_at = ? WHERE number = ?"
            for one in (number, *also):
                connection.execute(change, (state, clean_text(error), time.time(), one))
            insert_outgoing(connection, messages)

        self._store.write(write)

    # -- reading ------------------------------------------------------------------------------------------------

    def open_messages(self) -> list[IncomingMessage]:
        """The messages that have no answer yet, the oldest first."""
        return self._select(f"state IN {_OPEN} ORDER BY number")

    def turns_of(self, messages: Sequence[IncomingMessage]) -> dict[int, tuple[str, str]]:
        """The session and the turn of each of these messages that was submitted."""
        wanted = {message.request_key: message.number for message in messages}
        found: dict[int, tuple[str, str]] = {}
        keys = list(wanted)

        def read(connection: JournalConnection) -> None:
            for start in range(0, len(keys), 500):
                turns = requested_turns(connection, keys[start : start + 500])
                found.update((wanted[key], turn) for key, turn in turns.items())

        self._store.read(read)
        return found

    def dead_letters(self, limit: int = 20) -> list[IncomingMessage]:
        """The messages that were given up, the newest first."""
        return self._select("state = 'dead' ORDER BY number DESC LIMIT ?", limit)

    def get(self, number: int) -> IncomingMessage | None:
        return next(iter(self._select("number = ?", number)), None)

    def _select(self, condition: str, *values: Any) -> list[IncomingMessage]:
        query = f"SELECT {', '.join(IncomingMessage.__struct_fields__)} FROM gateway_inbox WHERE {condition}"
        rows = self._store.read(lambda connection: connection.execute(query, values).fetchall())
        return [IncomingMessage(*row) for row in rows]

    # -- chats --------------------------------------------------------------------------------------------------

    def chat(self, key: str) -> ChatRow | None:
        """The conversation of that key, if there was one."""
        return next(iter(self._chats("WHERE key = ?", key)), None)

    def chat_of(self, session_id: str) -> ChatRow | None:
        """The conversation that has this session, if one does."""
        return next(iter(self._chats("WHERE session_id = ?", session_id)), None)

    def chats(self) -> list[ChatRow]:
        """All conversations, the one used last first."""
        return self._chats("ORDER BY last_at DESC")

    def idle_chats(self, before: float) -> list[ChatRow]:
        """The conversations whose last message is older and whose session was not ended yet."""
        return self._chats("WHERE last_at < ? AND expired_at = 0 ORDER BY last_at LIMIT 100", before)

    def _chats(self, condition: str, *values: Any) -> list[ChatRow]:
        query = f"SELECT {', '.join(ChatRow.__struct_fields__)} FROM gateway_chats {condition}"
        rows = self._store.read(lambda connection: connection.execute(query, values).fetchall())
        return [ChatRow(*row) for row in rows]

    def save_chat(self, chat: ChatRow) -> None:
        """Store a conversation."""
        self._store.write(lambda connection: write_chat(connection, chat))

    def expire_chat(self, chat: ChatRow) -> bool:
        """Mark the session of an idle conversation as ended; False when a message has arrived meanwhile."""

        def write(connection: JournalConnection) -> bool:
            change = "UPDATE gateway_chats SET expired_at = ? WHERE key = ? AND last_at = ?"
            return connection.execute(change, (time.time(), chat.key, chat.last_at)).rowcount > 0

        return self._store.write(write)

    def prune(self, before: float) -> None:
        """Drop what is over and older. Until then a delivery that is repeated is recognised."""

        def write(connection: JournalConnection) -> None:
            connection.execute("DELETE FROM gateway_inbox WHERE state = 'done' AND received_at < ?", (before,))
            connection.execute("DELETE FROM gateway_outbox WHERE state = 'sent' AND created_at < ?", (before,))

        self._store.write_soon(write)


def write_chat(connection: JournalConnection, chat: ChatRow) -> None:
    """Store a conversation, inside a transaction."""
    connection.execute(
        f"INSERT INTO gateway_chats ({', '.join(chat.__struct_fields__)}) VALUES (?, ?, ?, ?, ?, ?, ?) "
        "ON CONFLICT (key) DO UPDATE SET principal = excluded.principal, session_id = excluded.session_id, "
        "source = excluded.source, last_at = excluded.last_at, expired_at = excluded.expired_at",
        msgspec.structs.astuple(chat),
    )


# -- messages as JSON ------------------------------------------------------------------------------------------------


def encode_event(event: MessageEvent) -> str:
    """A message as JSON, without what the platform delivered. What JSON has no form for is left out."""
    document: dict[str, Any] = {"text": clean_text(event.text or ""), "message_type": event.message_type.value}
    if event.source is not None:
        document["source"] = event.source.to_dict()
    document["timestamp"] = event.timestamp.isoformat()
    for name, usual in _usual_fields(type(event)):
        value = getattr(event, name)
        if value != usual and name not in document:
            document[name] = _plain(value)
    return clean_text(msgspec.json.encode(document).decode())


@cache
def _usual_fields(kind: type[MessageEvent]) -> list[tuple[str, Any]]:
    """The fields of a message that are stored, each with the value that it has unless an adapter sets it."""
    usual = MessageEvent("")
    names = [one.name for one in fields(kind) if one.name not in _LEFT_OUT]
    return [(name, getattr(usual, name, None)) for name in names]


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        found: dict[str, Any] = {}
        for key, item in value.items():  # pyright: ignore[reportUnknownVariableType]
            try:
                msgspec.json.encode(item)
            except (TypeError, ValueError, RecursionError):
                continue
            found[str(key)] = item  # pyright: ignore[reportUnknownArgumentType]
        return found
    try:
        msgspec.json.encode(value)
    except (TypeError, ValueError, RecursionError):
        return None
    return value


def decode_event(text: str) -> MessageEvent:
    """A message that was stored as JSON. Fields of other versions are left out."""
    document: dict[str, Any] = msgspec.json.decode(text)
    known = {one.name for one in fields(MessageEvent)}
    values = {name: value for name, value in document.items() if name in known}
    values["message_type"] = MessageType(values.get("message_type", "text"))
    if "source" in values:
        values["source"] = SessionSource.from_dict(values["source"])
    if "timestamp" in values:
        values["timestamp"] = datetime.fromisoformat(values["timestamp"])
    return MessageEvent(**values)
