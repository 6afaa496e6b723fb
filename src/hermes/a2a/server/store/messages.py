"""Accepted messages by id: a message that is sent again, after a lost answer, belongs to the task it started."""

from __future__ import annotations

import hashlib
import sqlite3
from collections import OrderedDict

from a2a.types import Message

from hermes.a2a.server.store.database import Database

#: The messages that are remembered.
_MOST = 10_000

#: Owner, context and id of a message. One without a context starts another conversation each time it is sent.
MessageKey = tuple[str, str, str]


class AcceptedMessages:
    """The messages that started tasks, with a digest: some clients use one id for all their messages."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._known: OrderedDict[MessageKey, tuple[bytes, str]] = OrderedDict()

        def load(connection: sqlite3.Connection) -> list[tuple[str, str, str, bytes, str]]:
            connection.execute("DELETE FROM messages WHERE (owner, task_id) NOT IN (SELECT owner, id FROM tasks)")
            query = "SELECT owner, context_id, message_id, digest, task_id FROM messages ORDER BY rowid DESC LIMIT ?"
            return connection.execute(query, (_MOST,)).fetchall()

        for *key, digest, task_id in reversed(database.transact(load)):
            self._known[key[0], key[1], key[2]] = (digest, task_id)

    def task_of(self, owner: str, message: Message) -> str | None:
        """The id of the task that the same message of the same caller started, if there is one."""
        digest, task_id = self._known.get(_key(owner, message), (b"", ""))
        return task_id if task_id and digest == _digest(message) else None

    def keep(self, owner: str, message: Message, task_id: str) -> MessageKey:
        """Remember the task that a message starts. Returns the key to forget it with."""
        key, digest = _key(owner, message), _digest(message)
        self._known.pop(key, None)
        self._known[key] = (digest, task_id)
        if len(self._known) > _MOST:
            self._known.popitem(last=False)
        row = (*key, digest, task_id)

        def write(connection: sqlite3.Connection) -> None:
            connection.execute("INSERT OR REPLACE INTO messages VALUES (?, ?, ?, ?, ?)", row)

        self._database.run_soon(("message", *key), write)
        return key

    def forget(self, key: MessageKey) -> None:
        """The message started no task after all."""
        self._known.pop(key, None)
        query = "DELETE FROM messages WHERE owner = ? AND context_id = ? AND message_id = ?"
        self._database.run_soon(("message", *key), lambda connection: connection.execute(query, key))


def _key(owner: str, message: Message) -> MessageKey:
    return owner, message.context_id, message.message_id


def _digest(message: Message) -> bytes:
    parts = b"".join(part.SerializeToString(deterministic=True) for part in message.parts)
    return hashlib.sha256(parts).digest()
