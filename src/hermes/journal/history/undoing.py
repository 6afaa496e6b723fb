"""Undo: turns that stay in the journal, while the conversation continues without them."""

from __future__ import annotations

from dataclasses import dataclass

from hermes.journal.bodies import unpack
from hermes.journal.leases import Lease, take_lease
from hermes.journal.records import UndoingRecord
from hermes.journal.runner import Runner
from hermes.journal.store.connection import JournalConnection
from hermes.journal.store.port import Store
from hermes.journal.turns.lifecycle import resume_turn
from hermes.journal.turns.recovery import close_turn
from hermes.journal.turns.steps import Message, TurnJournal

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
