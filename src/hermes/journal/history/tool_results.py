"""What a tool answered last in a conversation, for tools whose state is their own record."""

from __future__ import annotations

import sqlite3

from hermes.journal.bodies import unpack
from hermes.journal.store import Store

#: Newest first; turns that the user took back do not count. The name is looked for in the text before it is decoded.
_CALLS = """
    SELECT e.body FROM events e
    JOIN turns t ON t.id = e.turn_id AND NOT t.undone
    LEFT JOIN blobs b ON e.body = '{"$blob":"' || b.sha256 || '"}'
    WHERE e.session_id = ? AND e.kind = 'step_done' AND substr(e.key, 1, 5) = 'tool:'
      AND instr(coalesce(b.data, e.body), ?)
    ORDER BY e.seq DESC
"""


def last_result(store: Store, session_id: str, tool: str) -> str | None:
    """The result of the last call of a tool that worked; None when there was none."""

    def find(connection: sqlite3.Connection) -> str | None:
        for (body,) in connection.execute(_CALLS, (session_id, f'"name":"{tool}"')):
            call = unpack(connection, body)
            if call["name"] == tool and call["status"] == "ok":
                return call["result"]
        return None

    return store.read(find)
