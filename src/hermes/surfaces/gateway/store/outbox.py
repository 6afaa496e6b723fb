"""The outbox: messages that are to be sent to chats, each claimed on disk before its adapter sends it.

A process that dies while it sends leaves the claim behind: whether the message arrived is unknown, and it is not sent
again without the owner. Any process may add messages; the gateway that runs sends them.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from typing import Any, Literal

import msgspec

from hermes.base.errors import HermesError
from hermes.journal.bodies import clean_text
from hermes.journal.store.connection import JournalConnection
from hermes.journal.store.port import Store

#: ``sending``: claimed. ``unknown``: claimed by a process that died. ``failed``: refused by the platform, or tried too
#: often.
OutboxState = Literal["waiting", "sending", "sent", "failed", "unknown"]

#: ``clarify`` and ``approval`` are questions, which an adapter may ask in its own way.
OutgoingKind = Literal["text", "clarify", "approval"]

#: Only with the very words of the index can SQLite use it: without them every message there ever was is read.
_OPEN = "state IN ('waiting', 'sending')"
_WAITING = f"state = 'waiting' AND {_OPEN}"
_COLUMNS = (
    "number, key, platform, chat_id, content, thread_id, reply_to, kind, details, state, attempts, error, message_id, "
    "created_at, due_at"
)


class OutgoingMessage(msgspec.Struct, frozen=True):
    """A message for a chat. The same ``key`` is the same message, however often it is added."""

    key: str
    platform: str
    chat_id: str
    content: str
    thread_id: str = ""
    reply_to: str = ""
    kind: OutgoingKind = "text"
    #: Of a question: its id, its choices, the key of the conversation.
    details: dict[str, Any] = {}


class OutboxRow(msgspec.Struct, frozen=True):
    """A message in the outbox."""

    number: int
    message: OutgoingMessage
    state: OutboxState
    attempts: int
    error: str
    #: The platform's id of the message that was sent.
    message_id: str
    created_at: float
    due_at: float


class WaitingChat(msgspec.Struct, frozen=True):
    """A chat with messages that wait to be sent."""

    platform: str
    chat_id: str
    messages: int
    attempts: int
    #: Of the last attempt; empty when there was none.
    error: str
    due_at: float


class Outbox:
    """The outbox of one journal. Every call blocks; thread-safe."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def add(self, *messages: OutgoingMessage) -> None:
        """Have messages sent. Once this returns they are on disk."""
        self._store.write(lambda connection: insert_outgoing(connection, messages))

    def claim(self, platforms: Sequence[str], limit: int = 100) -> list[OutboxRow]:
        """The next messages for these platforms that are due, the oldest first. They are this process's to send."""
        if not platforms:
            return []
        marks = ", ".join("?" * len(platforms))
        # A chat gets its messages in order: one that waits for its next attempt holds back those behind it.
        query = (
            f"SELECT {_COLUMNS} FROM gateway_outbox o WHERE {_WAITING} AND platform IN ({marks}) AND due_at <= ? "
            "AND NOT EXISTS (SELECT 1 FROM gateway_outbox e WHERE e.platform = o.platform AND e.chat_id = o.chat_id "
            f"AND e.number < o.number AND e.{_OPEN} AND (e.state = 'sending' OR e.due_at > ?)) "
            "ORDER BY number LIMIT ?"
        )

        def write(connection: JournalConnection) -> list[OutboxRow]:
            now = time.time()
            rows = [_row(row) for row in connection.execute(query, (*platforms, now, now, limit)).fetchall()]
            connection.executemany(
                "UPDATE gateway_outbox SET state = 'sending', attempts = attempts + 1 WHERE number = ?",
                [(row.number,) for row in rows],
            )
            return rows

        if not self.has_waiting(platforms):
            return []
        return self._store.write(write)

    def has_waiting(self, platforms: Sequence[str]) -> bool:
        """Whether any message for these platforms is due."""
        marks = ", ".join("?" * len(platforms))
        query = f"SELECT 1 FROM gateway_outbox WHERE {_WAITING} AND platform IN ({marks}) AND due_at <= ? LIMIT 1"
        values = (*platforms, time.time())
        return self._store.read(lambda connection: connection.execute(query, values).fetchone()) is not None

    def settle(self, results: Iterable[tuple[int, OutboxState, str, str, float]]) -> bool:
        """Store how sending ended: number, state, error, the platform's id, and when to try again.

        Whether messages wait, which those may have held back.
        """
        now = time.time()
        values = [
            (state, clean_text(error), clean_text(message_id), due_at or now, number)
            for number, state, error, message_id, due_at in results
        ]
        change = "UPDATE gateway_outbox SET state = ?, error = ?, message_id = ?, due_at = ? WHERE number = ?"

        def write(connection: JournalConnection) -> bool:
            connection.executemany(change, values)
            waiting = f"SELECT 1 FROM gateway_outbox WHERE {_WAITING} AND due_at <= ? LIMIT 1"
            return connection.execute(waiting, (now,)).fetchone() is not None

        return self._store.write_soon(write)

    def make_due(self, platform: str, chat_id: str | None = None) -> None:
        """Have the messages that wait for their next attempt sent now: those of a chat, or of a whole platform."""
        now = time.time()
        change = f"UPDATE gateway_outbox SET due_at = ? WHERE {_WAITING} AND due_at > ? AND platform = ?"
        values: tuple[Any, ...] = (now, now, platform)
        if chat_id is not None:
            change, values = f"{change} AND chat_id = ?", (*values, chat_id)
        self._store.write(lambda connection: connection.execute(change, values))

    def settle_claims(self) -> int:
        """What a process that died was sending is unknown from now on; how many those are."""
        change = (
            "UPDATE gateway_outbox SET state = 'unknown', error = 'the process ended while it was sent; it may have "
            f"arrived' WHERE state = 'sending' AND {_OPEN}"
        )
        return self._store.write(lambda connection: connection.execute(change).rowcount)

    def retry(self, number: int) -> OutboxRow:
        """Send a message again whose outcome is unknown or that failed, because the owner says so."""

        def write(connection: JournalConnection) -> OutboxRow:
            row = connection.execute(f"SELECT {_COLUMNS} FROM gateway_outbox WHERE number = ?", (number,)).fetchone()
            found = None if row is None else _row(row)
            if found is None or found.state not in ("failed", "unknown"):
                state = "is not in the outbox" if found is None else f"is {found.state}"
                raise HermesError(f"message {number} {state}; 'hermes gateway status' lists those that were not sent")
            change = "UPDATE gateway_outbox SET state = 'waiting', attempts = 0, due_at = ? WHERE number = ?"
            connection.execute(change, (time.time(), number))
            return found

        return self._store.write(write)

    def undelivered(self, limit: int = 50) -> list[OutboxRow]:
        """The messages that failed or whose outcome is unknown, the newest first."""
        return self._select("state IN ('failed', 'unknown') ORDER BY number DESC LIMIT ?", limit)

    def waiting_chats(self) -> list[WaitingChat]:
        """The chats with messages that wait to be sent, the one that waits longest first."""
        query = (
            "SELECT platform, chat_id, count(*), max(attempts), max(error), min(due_at) FROM gateway_outbox "
            f"WHERE {_WAITING} GROUP BY platform, chat_id ORDER BY min(number)"
        )
        rows = self._store.read(lambda connection: connection.execute(query).fetchall())
        return [WaitingChat(*row) for row in rows]

    def counts(self) -> dict[str, int]:
        """How many messages there are in each state."""
        query = "SELECT state, count(*) FROM gateway_outbox GROUP BY state"
        return dict(self._store.read(lambda connection: connection.execute(query).fetchall()))

    def find(self, key: str) -> OutboxRow | None:
        """The message of that key."""
        return next(iter(self._select("key = ?", key)), None)

    def _select(self, condition: str, *values: Any) -> list[OutboxRow]:
        query = f"SELECT {_COLUMNS} FROM gateway_outbox WHERE {condition}"
        return [_row(row) for row in self._store.read(lambda c: c.execute(query, values).fetchall())]


def insert_outgoing(connection: JournalConnection, messages: Iterable[OutgoingMessage]) -> None:
    """Add messages to the outbox, inside a transaction. Those that are there already stay as they are."""
    at = time.time()
    values = [
        (
            clean_text(message.key),
            message.platform,
            message.chat_id,
            clean_text(message.content),
            message.thread_id,
            message.reply_to,
            message.kind,
            msgspec.json.encode(message.details).decode(),
            at,
            at,
        )
        for message in messages
    ]
    if values:
        connection.executemany(
            "INSERT INTO gateway_outbox (key, platform, chat_id, content, thread_id, reply_to, kind, details, state, "
            "attempts, created_at, due_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, 'waiting', 0, ?, ?) "
            "ON CONFLICT (key) DO NOTHING",
            values,
        )


def _row(row: Sequence[Any]) -> OutboxRow:
    number, key, platform, chat_id, content, thread_id, reply_to, kind, details, *rest = row
    message = OutgoingMessage(
        key, platform, chat_id, content, thread_id, reply_to, kind, msgspec.json.decode(details, type=dict[str, Any])
    )
    return OutboxRow(number, message, *rest)
