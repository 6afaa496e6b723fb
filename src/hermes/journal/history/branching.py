"""Changes to stored conversations: a branch as a copy, turns that are undone, exchanges from elsewhere."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from hermes.base.errors import JournalError, SessionNotFound
from hermes.base.sanitize import Redactor
from hermes.base.scope import new_id
from hermes.journal.bodies import clean_text, unpack
from hermes.journal.events import chain_events
from hermes.journal.leases import Lease, SessionInfo, release_lease, take_lease
from hermes.journal.records import UndoingRecord
from hermes.journal.runner import Runner
from hermes.journal.store.connection import JournalConnection
from hermes.journal.store.port import Store
from hermes.journal.turns.lifecycle import begin_turn, resume_turn
from hermes.journal.turns.recovery import close_turn
from hermes.journal.turns.steps import NOT_ASIDE, Message, TurnJournal

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


# -- undo -------------------------------------------------------------------------------------------------------------


_CUT_OFF = "undone before it was finished"


@dataclass(frozen=True, slots=True)
class UndoneTurn:
    """An undone turn, and its user message."""

    ordinal: int
    message: Message


def undo_turns(store: Store, runner: Runner, session_id: str, count: int) -> list[UndoneTurn]:
    """Undo the last ``count`` turns, or as many as there are; returns them, oldest first.

    All of it is one transaction. A turn whose process died is closed first; one that a living process runs is refused.
    """
    runner.start()

    def write(connection: JournalConnection) -> list[UndoneTurn]:
        rows = connection.execute(
            "SELECT id, ordinal, task_id, state FROM turns WHERE session_id = ? AND undone = 0 "
            "AND ordinal >= 0 ORDER BY ordinal DESC LIMIT ?",
            (session_id, count),
        ).fetchall()
        if not rows:
            return []
        last_id, *_, state = rows[0]
        lease = _closed_lease(connection, store, runner, session_id, last_id if state == "running" else "")
        for turn_id, ordinal, task_id, _ in reversed(rows):
            turn = TurnJournal(store, lease, turn_id, ordinal, task_id, "interrupted")
            turn.event("turn_undone", "", UndoingRecord())
            turn.write_pending(connection)
            connection.execute("UPDATE turns SET undone = 1 WHERE id = ?", (turn_id,))
        return [UndoneTurn(ordinal, _user_message(connection, session_id, ordinal)) for _, ordinal, *_ in rows[::-1]]

    return store.write(write)


def _closed_lease(connection: JournalConnection, store: Store, runner: Runner, session_id: str, cut_off: str) -> Lease:
    """The right to write to the session, with the turn that was cut off, if any, brought to an end."""
    if not cut_off:
        return take_lease(connection, runner, session_id)
    turn = resume_turn(connection, store, runner, session_id, cut_off)
    close_turn(turn, "interrupted", _CUT_OFF)
    turn.write_pending(connection)
    return turn.lease


def _user_message(connection: JournalConnection, session_id: str, ordinal: int) -> Message:
    query = "SELECT body FROM messages WHERE session_id = ? AND turn = ? AND step = 0 AND position = 0"
    return unpack(connection, connection.execute(query, (session_id, ordinal)).fetchone()[0])


# -- import -----------------------------------------------------------------------------------------------------------


def import_exchanges(
    store: Store,
    runner: Runner,
    session: SessionInfo,
    exchanges: Sequence[tuple[Message, str]],
    redactor: Redactor | None = None,
) -> None:
    """Add a finished turn for each user message and its answer, to a session that may be new."""
    for message, answer in exchanges:
        task_id = new_id("import-")
        masked = message if redactor is None else redactor.mask_data(message)
        turn = begin_turn(
            store,
            runner,
            session,
            turn_id=f"{session.id}:{task_id}",
            task_id=task_id,
            request_key=task_id,
            message=masked,
        )
        turn.redactor = redactor
        turn.message(1, 0, {"role": "assistant", "content": answer})
        turn.end("completed", answer=answer)
        turn.commit()
    release_lease(store, runner, session.id)
