"""Branching: a new session that begins as a copy of another one."""

from __future__ import annotations

import time

from hermes.base.errors import JournalError, SessionNotFound
from hermes.journal.bodies import clean_text
from hermes.journal.events import chain_events
from hermes.journal.runner import Runner
from hermes.journal.store.connection import JournalConnection
from hermes.journal.store.port import Store
from hermes.journal.turns.steps import NOT_ASIDE

#: The id of a turn's copy: turn ids begin with their session's. Events beside any turn have none.
_TURN = (
    "CASE WHEN {0} = '' THEN '' WHEN substr({0}, 1, length(:old) + 1) = :old || ':' "
    "THEN :new || substr({0}, length(:old) + 1) ELSE :new || ':' || {0} END"
)

#: Rows are copied as they are, those of undone turns too, so that every reference by number holds.
_COPIES = (
    "INSERT INTO sessions (id, branched_from, branched_turn, branched_step, branched_seq, platform, title, cwd, "
    "provider, model, principal, mode, runner, epoch, head_seq, created_at, updated_at) SELECT :new, id, "
    "(SELECT max(ordinal) FROM turns WHERE session_id = :old), '', head_seq, platform, :title, cwd, provider, model, "
    "principal, mode, :runner, 1, head_seq, :now, :now FROM sessions WHERE id = :old",
    "INSERT INTO turns (id, session_id, ordinal, task_id, request_key, source, state, attempts, loop_version, "
    f"first_seq, started_at, ended_at, answer, error, undone) SELECT {_TURN.format('id')}, :new, ordinal, task_id, "
    "request_key, source, state, attempts, loop_version, first_seq, started_at, ended_at, answer, error, undone "
    "FROM turns WHERE session_id = :old AND ordinal >= 0",
    "INSERT INTO events (session_id, seq, turn_id, kind, key, effect, body, at, epoch) SELECT :new, seq, "
    f"{_TURN.format('turn_id')}, kind, key, effect, body, at, 1 FROM events WHERE session_id = :old ORDER BY seq",
    "INSERT INTO messages (session_id, turn, step, position, role, body) SELECT :new, turn, step, position, role, body "
    "FROM messages WHERE session_id = :old ORDER BY turn, step, position",
    "INSERT INTO blob_uses SELECT :new, sha256 FROM blob_uses WHERE session_id = :old",
    # Without tokens and cost: they were spent once, by the session that is copied.
    "INSERT INTO model_calls (session_id, api_request_id, turn_id, key, provider, model, status, error, "
    f"finish_reason, started_at, duration, first_token) SELECT :new, api_request_id, {_TURN.format('turn_id')}, key, "
    "provider, model, status, error, finish_reason, started_at, duration, first_token FROM model_calls "
    f"WHERE session_id = :old AND {NOT_ASIDE}",
)


def branch_session(store: Store, runner: Runner, session_id: str, new_id: str, title: str = "") -> None:
    """Copy a session under another id, which this runner then owns. It is there whole or not at all.

    Without a title the copy is named after its original. A session with a turn that is not finished is refused.
    """
    runner.start()

    def write(connection: JournalConnection) -> None:
        row = connection.execute("SELECT title FROM sessions WHERE id = ?", (session_id,)).fetchone()
        if row is None:
            raise SessionNotFound(f"session {session_id} has no message yet, so there is nothing to branch from")
        query = "SELECT 1 FROM turns WHERE session_id = ? AND state = 'running'"
        if connection.execute(query, (session_id,)).fetchone():
            raise JournalError(f"session {session_id} has a turn that is not finished; finish it or undo it first")
        values = {
            "old": session_id,
            "new": new_id,
            "title": clean_text(title) or next_title(connection, row[0]),
            "runner": runner.id,
            "now": time.time(),
        }
        for copy in _COPIES:
            connection.execute(copy, values)
        chain_events(connection, new_id)

    store.write(write)


def next_title(connection: JournalConnection, title: str) -> str:
    """The title with the lowest number that is free: ``Plan``, ``Plan (2)``, ``Plan (3)`` …"""
    base, _, number = title.removesuffix(")").rpartition(" (")
    if not (title.endswith(")") and base and number.isdecimal()):
        base = title
    taken = {row[0] for row in connection.execute("SELECT title FROM sessions WHERE title >= ?", (base,))}
    number = 2
    while f"{base} ({number})" in taken:
        number += 1
    return f"{base} ({number})".strip()
