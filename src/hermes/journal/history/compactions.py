"""Compactions in the journal: the shorter messages that replace older ones for the model. Nothing is deleted."""

from __future__ import annotations

import time

from hermes.base.errors import JournalError
from hermes.journal.bodies import to_json, unpack
from hermes.journal.events import NewEvent, append_events, compactions_in, readable
from hermes.journal.leases import take_lease
from hermes.journal.records import Compaction, Message
from hermes.journal.runner import Runner
from hermes.journal.store.connection import JournalConnection
from hermes.journal.store.port import Store

#: The event of a compaction that was asked for between two turns; one inside a turn is a step of that turn.
EVENT_KIND = "compacted"

#: A turn that was undone, or resumed, after its messages had been summarised.
_OUTDATED = (
    "SELECT 1 FROM events e JOIN turns t ON t.id = e.turn_id WHERE e.session_id = :id AND e.seq > :seq "
    "AND (t.ordinal < :turn OR (t.ordinal = :turn AND :step > 0 AND e.kind = 'turn_undone')) LIMIT 1"
)
_LATER_MESSAGES = (
    "SELECT body FROM messages WHERE session_id = :id AND (turn, step, position) >= (:turn, :step, :position) "
    "AND turn < :before AND turn NOT IN (SELECT ordinal FROM turns WHERE session_id = :id AND undone <> 0) "
    "ORDER BY turn, step, position"
)


def record_compaction(store: Store, runner: Runner, session_id: str, compaction: Compaction) -> None:
    """Store a compaction between two turns. Refused when the conversation has changed since it was read."""
    runner.start()

    def write(connection: JournalConnection) -> None:
        lease = take_lease(connection, runner, session_id)
        turns, unfinished = connection.execute(
            "SELECT count(*) FILTER (WHERE ordinal >= 0), count(*) FILTER (WHERE state = 'running') FROM turns "
            "WHERE session_id = ?",
            (session_id,),
        ).fetchone()
        if unfinished or turns != compaction.covers[0]:
            raise JournalError(f"session {session_id} went on while it was being compressed; try again")
        event = NewEvent(EVENT_KIND, "", None, to_json(compaction), time.time())
        append_events(connection, lease, "", [event])

    store.write(write)


def visible_messages(connection: JournalConnection, session_id: str, before_turn: int) -> list[Message]:
    """What the model sees of the turns below that number: the last compaction that still holds, and what follows it."""
    last = _last_valid(connection, session_id, before_turn)
    turn, step, position = last.covers if last is not None else (0, 0, 0)
    values = {"id": session_id, "turn": turn, "step": step, "position": position, "before": before_turn}
    rows = connection.execute(_LATER_MESSAGES, values)
    return [*(last.messages if last is not None else ()), *(unpack(connection, body) for (body,) in rows.fetchall())]


def _last_valid(connection: JournalConnection, session_id: str, before_turn: int) -> Compaction | None:
    """The newest compaction that is still valid."""
    for event in compactions_in(connection, session_id):
        compaction: Compaction = readable(event)
        turn, step, _ = compaction.covers
        values = {"id": session_id, "seq": event.seq, "turn": turn, "step": step}
        if compaction.covers <= (before_turn, 0, 0) and connection.execute(_OUTDATED, values).fetchone() is None:
            return compaction
    return None
