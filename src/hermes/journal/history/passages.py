"""Look-ups in past conversations: passages of messages, families of sessions, the last result of a tool."""

from __future__ import annotations

from typing import Any, cast

import msgspec

from hermes.journal.bodies import message_text, unpack
from hermes.journal.history.rows import ancestors, family_ids
from hermes.journal.store.connection import JournalConnection
from hermes.journal.store.port import Store

#: Newest first; undone turns do not count. The name is looked for in the text before it is decoded.
_TOOL_CALLS = """
    SELECT e.body FROM events e
    JOIN turns t ON t.id = e.turn_id AND t.undone = 0
    LEFT JOIN blobs b ON e.body = '{"$blob":"' || b.sha256 || '"}'
    WHERE e.session_id = ? AND e.kind = 'step_done' AND substr(e.key, 1, 5) = 'tool:'
      AND instr(coalesce(b.data, e.body), ?) > 0
    ORDER BY e.seq DESC
"""


class PassageMessage(msgspec.Struct, frozen=True):
    """A message in its conversation."""

    id: int
    role: str
    text: str
    #: Tools that the message calls.
    calls: list[str]


class Passage(msgspec.Struct, frozen=True):
    """Some messages in order, and how many there are before and after them."""

    messages: list[PassageMessage]
    before: int
    after: int


def passage(store: Store, session_id: str, *, around: int | None, window: int) -> Passage | None:
    """The messages around one of a session's, or its first ones; None when the message is not there."""

    def find(connection: JournalConnection) -> Passage | None:
        rows = connection.execute(
            "SELECT id, role, body FROM messages WHERE session_id = ? AND turn NOT IN "
            "(SELECT ordinal FROM turns WHERE session_id = ? AND undone <> 0) ORDER BY turn, step, position",
            (session_id, session_id),
        ).fetchall()
        places = {row[0]: place for place, row in enumerate(rows)}
        if around is not None and around not in places:
            return None
        middle = window if around is None else places[around]
        start, stop = max(middle - window, 0), middle + window + 1
        messages = [_message(connection, *row) for row in rows[start:stop]]
        return Passage(messages, start, max(len(rows) - stop, 0))

    return store.read(find)


def families(store: Store, session_ids: list[str]) -> dict[str, str]:
    """The first ancestor of each of these sessions: the conversation of the user."""
    return store.read(lambda connection: {one: [one, *ancestors(connection, one)][-1] for one in session_ids})


def family_of(store: Store, session_id: str) -> set[str]:
    """A session, its ancestors, and all sessions they delegated to."""
    root = families(store, [session_id])[session_id]
    return set(store.read(lambda connection: family_ids(connection, root)))


def last_result(store: Store, session_id: str, tool: str) -> str | None:
    """The result of the last call of a tool that worked; None when there was none."""

    def find(connection: JournalConnection) -> str | None:
        for (body,) in connection.execute(_TOOL_CALLS, (session_id, f'"name":"{tool}"')):
            call = unpack(connection, body)
            if call["name"] == tool and call["status"] == "ok":
                return call["result"]
        return None

    return store.read(find)


def _message(connection: JournalConnection, message_id: int, role: str, body: str) -> PassageMessage:
    message: dict[str, Any] = unpack(connection, body)
    calls = cast("list[dict[str, Any]]", message.get("tool_calls") or [])
    return PassageMessage(message_id, role, message_text(message), [call["function"]["name"] for call in calls])
