"""The turns of tasks in the journal, as the next server finds them after a crash."""

from __future__ import annotations

from hermes.host import Host
from hermes.journal.store.connection import JournalConnection

_LEFT = (
    "SELECT t.id, s.runner FROM turns t JOIN sessions s ON s.id = t.session_id WHERE t.state = 'running' "
    "AND s.platform = ? AND s.parent_id IS NULL AND NOT EXISTS (SELECT 1 FROM submissions u WHERE u.turn_id = t.id)"
)
_ADOPT = (
    "INSERT INTO submissions (turn_id, session_id, queue, priority, principal, submitted_at, options, message) "
    "SELECT t.id, t.session_id, 'turns', 0, s.principal, t.started_at, '{}', '' FROM turns t "
    "JOIN sessions s ON s.id = t.session_id WHERE t.id = ?"
)


def adopt_turns(host: Host, platform: str) -> None:
    """Have the dispatcher know the turns that a server of an older version began itself and left."""

    def read(connection: JournalConnection) -> list[tuple[str, str | None]]:
        return connection.execute(_LEFT, (platform,)).fetchall()

    found = host.store.read(read)
    left = [turn_id for turn_id, owner in found if owner is None or not host.runner.is_alive(owner)]

    def write(connection: JournalConnection) -> None:
        for turn_id in left:
            connection.execute(_ADOPT, (turn_id,))

    if left:
        host.store.write(write)


def open_turns(host: Host, session_id: str, *, but: str) -> list[str]:
    """The turns of a session that have not ended, without the one of the task ``but``."""
    query = "SELECT id FROM turns WHERE session_id = ? AND state IN ('queued', 'running') AND request_key != ?"

    def read(connection: JournalConnection) -> list[str]:
        return [turn_id for (turn_id,) in connection.execute(query, (session_id, but)).fetchall()]

    return host.store.read(read)
