"""Rows of one stored session: itself, its turns, messages, model calls and children."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import Struct

from hermes.journal.store.connection import JournalConnection, placeholders
from hermes.journal.turns.steps import ModelCallRow, TurnState, is_aside


class SessionFacts(Struct, frozen=True):
    """A session as its row has it."""

    id: str
    title: str
    cwd: str
    platform: str
    provider: str
    model: str
    principal: str
    parent_id: str | None
    parent_call: str | None
    branched_from: str | None
    created_at: float
    updated_at: float
    runner: str | None
    #: The number of its last event.
    head_seq: int


class TurnFacts(Struct, frozen=True):
    """A turn as its row has it."""

    id: str
    session_id: str
    #: Its place in the conversation, from 0; negative while it waits.
    ordinal: int
    task_id: str
    request_key: str
    source: str
    state: TurnState
    undone: int
    #: The number of its first event.
    first_seq: int
    started_at: float
    ended_at: float | None
    answer: str | None
    error: str | None


class StoredCallRow(ModelCallRow, frozen=True, kw_only=True):
    """One attempt at a provider, with the turn that it belongs to; empty for none."""

    turn_id: str

    @property
    def ended_at(self) -> float:
        """When it ended, in seconds since the epoch."""
        return self.started_at + self.duration

    def exchange(self) -> dict[str, Any] | None:
        """What was asked and answered beside the conversation; None when it was not read, or not recorded."""
        return msgspec.json.decode(self.content) if self.content and is_aside(self.key) else None

    @property
    def read_tokens(self) -> int | None:
        """The tokens of the request, also those of a cache; None when they are not known."""
        parts = (self.input_tokens, self.cache_read_tokens, self.cache_write_tokens)
        known = [part for part in parts if part is not None]
        return sum(known) if known else None


class StoredMessage(Struct, frozen=True):
    """A message at its place in the conversation; ``body`` is what is stored for it."""

    turn: int
    step: int
    position: int
    body: str


#: The beginning of a query: ``family`` has the session ``:id`` and all it delegated to.
FAMILY = (
    "WITH RECURSIVE family(id) AS (SELECT :id UNION SELECT s.id FROM sessions s JOIN family f ON s.parent_id = f.id) "
)
SESSION_COLUMNS = ", ".join(SessionFacts.__struct_fields__)
_TURN_FACTS = ", ".join(TurnFacts.__struct_fields__)
_CALL_NAMES = (*(name for name in StoredCallRow.__struct_fields__ if name != "content"), "content")
_CALL_COLUMNS = ", ".join(_CALL_NAMES[:-1])


def session_facts(connection: JournalConnection, ids: Sequence[str]) -> list[SessionFacts]:
    """The sessions with these ids, as far as they exist, the one used last first."""
    query = f"SELECT {SESSION_COLUMNS} FROM sessions WHERE id IN ({placeholders(ids)}) ORDER BY updated_at DESC"
    return [SessionFacts(*row) for row in connection.execute(query, ids).fetchall()]


def turns_of(connection: JournalConnection, session_id: str, first: int = 0) -> list[TurnFacts]:
    """The turns of a session that have started, from that one on."""
    query = f"SELECT {_TURN_FACTS} FROM turns WHERE session_id = ? AND ordinal >= ? ORDER BY ordinal"
    return [TurnFacts(*row) for row in connection.execute(query, (session_id, first)).fetchall()]


def find_turn(connection: JournalConnection, turn_id: str) -> TurnFacts | None:
    """The turn of that id, of any session."""
    return _first_turn(connection, "id = ?", turn_id)


def last_turn(connection: JournalConnection, session_id: str) -> TurnFacts | None:
    """The last turn of a session that was not undone."""
    return _first_turn(connection, "session_id = ? AND undone = 0 ORDER BY ordinal DESC LIMIT 1", session_id)


def find_request(connection: JournalConnection, session_id: str, request_key: str) -> TurnFacts | None:
    """The turn of a session with that idempotency key."""
    return _first_turn(connection, "session_id = ? AND request_key = ?", session_id, request_key)


def _first_turn(connection: JournalConnection, where: str, *values: str) -> TurnFacts | None:
    row = connection.execute(f"SELECT {_TURN_FACTS} FROM turns WHERE {where}", values).fetchone()
    return None if row is None else TurnFacts(*row)


def later_turns(connection: JournalConnection, turn: TurnFacts) -> tuple[int, int]:
    """How many turns of its conversation came after a turn, and how many wait to be started."""
    query = (
        "SELECT count(*) FILTER (WHERE ordinal > ?), count(*) FILTER (WHERE state = 'queued') FROM turns "
        "WHERE session_id = ? AND undone = 0 AND id != ?"
    )
    return connection.execute(query, (turn.ordinal, turn.session_id, turn.id)).fetchone()


def requested_turns(connection: JournalConnection, keys: Sequence[str]) -> dict[str, tuple[str, str]]:
    """The session and the turn of each of these idempotency keys, as far as there is one."""
    query = f"SELECT request_key, session_id, id FROM turns WHERE request_key IN ({placeholders(keys)})"
    return {key: (session_id, turn_id) for key, session_id, turn_id in connection.execute(query, keys).fetchall()}


def calls_of(
    connection: JournalConnection,
    session_id: str,
    *,
    turn_id: str | None = None,
    key: str = "",
    with_content: bool = False,
) -> list[StoredCallRow]:
    """The model calls of a session in order, of a turn of it, or of a step of that.

    What plugins asked and were answered is read with ``with_content``.
    """
    content = "(SELECT data FROM blobs WHERE sha256 = model_calls.content)" if with_content else "NULL"
    conditions = ["session_id = :session"]
    conditions += ["turn_id = :turn"] if turn_id is not None else []
    conditions += ["key = :key"] if key else []
    where = " AND ".join(conditions)
    query = f"SELECT {_CALL_COLUMNS}, {content} FROM model_calls WHERE {where} ORDER BY started_at, api_request_id"
    values = {"session": session_id, "turn": turn_id, "key": key}
    rows = connection.execute(query, values).fetchall()
    return [StoredCallRow(**dict(zip(_CALL_NAMES, row, strict=True))) for row in rows]


def messages_of(
    connection: JournalConnection, session_id: str, first_turn: int = 0, role: str = ""
) -> list[StoredMessage]:
    """The messages of a session from a turn on, or those of a role, in order."""
    query = (
        "SELECT turn, step, position, body FROM messages WHERE session_id = :id AND turn >= :turn "
        f"{'AND role = :role ' if role else ''}ORDER BY turn, step, position"
    )
    values = {"id": session_id, "turn": first_turn, "role": role}
    return [StoredMessage(*row) for row in connection.execute(query, values).fetchall()]


def child_ids(connection: JournalConnection, session_id: str, call: str = "") -> list[str]:
    """The sessions that this one delegated to, in the order of their start; with ``call``, in that tool call."""
    where = "parent_id = :id AND parent_call = :call" if call else "parent_id = :id"
    query = f"SELECT id FROM sessions WHERE {where} ORDER BY created_at, rowid"
    return [child for (child,) in connection.execute(query, {"id": session_id, "call": call}).fetchall()]


def family_ids(connection: JournalConnection, session_id: str) -> list[str]:
    """A session and all it delegated to, whether or not it is there."""
    rows = connection.execute(f"{FAMILY}SELECT id FROM family", {"id": session_id}).fetchall()
    return [member for (member,) in rows]


def ancestors(connection: JournalConnection, session_id: str) -> list[str]:
    """The sessions that delegated to this one, the nearest first."""
    query = (
        "WITH RECURSIVE line(id, parent_id) AS (SELECT id, parent_id FROM sessions WHERE id = ? UNION "
        "SELECT s.id, s.parent_id FROM sessions s JOIN line ON s.id = line.parent_id) SELECT id FROM line"
    )
    return [found for (found,) in connection.execute(query, (session_id,)).fetchall()[1:]]


def descendants(connection: JournalConnection, session_id: str) -> list[str]:
    """A session and all it delegated to, parents first; nothing when it is not there."""
    row = connection.execute("SELECT created_at FROM sessions WHERE id = ?", (session_id,)).fetchone()
    if row is None:
        return []
    created_at: float = row[0]
    # A child is used after its parent was made, so that the index of recent sessions finds it.
    query = "SELECT id FROM sessions WHERE updated_at >= ? AND parent_id = ? ORDER BY created_at, id"
    found = [session_id]
    for member in found:
        children = connection.execute(query, (created_at, member)).fetchall()
        found += [child for (child,) in children if child not in found]
    return found
