"""The hand-over of accepted turns to the engine (DBOS), in the transaction of the caller.

At most one turn of a session is with the engine: the next one follows when it has ended. So the engine's one list,
ordered by priority and time, keeps the order of a session, and turns of different sessions are compared with each
other. (Its partitioned queues would pick sessions at random and know no priority between them.)
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from hermes.dispatch.port import CHILDREN, TURNS
from hermes.journal.store.connection import JournalConnection

#: The engine's name of this application and of its workflow.
APPLICATION, WORKFLOW = "hermes", "turn"

#: What every worker listens to: cancel a turn, send its events to one more process, look at a queue.
CONTROL = "hermes_control"

#: Now, on the clock of the database.
NOW = "CAST(extract(epoch FROM clock_timestamp()) AS double precision)"

#: Turns that may be handed over: queued, first of their session, and none of the session before them is open.
_READY = (
    "SELECT t.id, t.loop_version, u.queue, u.priority, u.principal, u.dispatches, u.workspace "
    "FROM turns t JOIN submissions u ON u.turn_id = t.id "
    f"WHERE t.state = 'queued' AND u.is_dispatched = 0 AND u.retry_at <= {NOW} {{of_session}} AND NOT EXISTS ("
    "SELECT 1 FROM turns o JOIN submissions p ON p.turn_id = o.id WHERE o.session_id = t.session_id "
    "AND (o.state = 'running' OR (o.state = 'queued' AND o.ordinal > t.ordinal))) "
    "ORDER BY u.priority DESC, u.submitted_at LIMIT ? FOR UPDATE OF u SKIP LOCKED"
)
_ENQUEUE = (
    "SELECT dbos.enqueue_workflow(workflow_name => ?, queue_name => ?, "
    "positional_args => ARRAY[to_json(CAST(? AS text))], workflow_id => ?, app_version => ?, "
    "priority => CAST(? AS integer), application_name => ?)"
)
#: Turns without a version are for every worker that is up to date.
_HAS_TURNS = (
    "SELECT EXISTS (SELECT 1 FROM dbos.workflow_status WHERE queue_name = ? AND status = 'ENQUEUED' "
    "AND (application_version = ? OR application_version IS NULL))"
)
#: The engine starts smaller numbers first. Fairness is a smaller difference than any step of priority.
_PRIORITY_STEP, _MAX_PRIORITY = 10_000_000, 100


class Handover(NamedTuple):
    """A turn for the engine."""

    turn_id: str
    loop_version: int
    queue: str
    priority: int
    principal: str
    dispatches: int
    workspace: str


def queue_name(queue: str, workspace: str) -> str:
    """The engine's queue for turns, or for their children, of a workspace; empty is the shared one."""
    return f"{queue}@{workspace}" if workspace else queue


def queue_names(workspace: str) -> list[str]:
    """The queues that a worker of a workspace takes turns from."""
    return [queue_name(queue, workspace) for queue in (TURNS, CHILDREN)]


def app_version(loop_version: int) -> str:
    """The engine's version of a turn: only workers with the same loop run it."""
    return f"loop-{loop_version}"


def has_engine(connection: JournalConnection) -> bool:
    """Whether the tables of the engine are there. The first worker makes them; until then accepted turns wait."""
    query = "SELECT count(*) FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace WHERE n.nspname = 'dbos' "
    return bool(connection.execute(query + "AND p.proname = 'enqueue_workflow'").fetchone()[0])


def has_turns(connection: JournalConnection, queue: str, version: str) -> bool:
    """Whether the engine has turns in a queue for workers of a version."""
    return connection.execute(_HAS_TURNS, (queue, version)).fetchone()[0]


def notify(connection: JournalConnection, message: dict[str, str]) -> None:
    """Send a message to all workers, when the transaction is committed."""
    connection.execute("SELECT pg_notify(?, ?)", (CONTROL, msgspec.json.encode(message).decode()))


def lock_session(connection: JournalConnection, session_id: str) -> None:
    """Wait for others that hand over turns of this session, until the end of the transaction."""
    connection.execute("SELECT id FROM sessions WHERE id = ? FOR UPDATE", (session_id,))


def hand_over(
    connection: JournalConnection, *, session_id: str = "", max_of_principal: int = 0, most: int = 100
) -> list[str]:
    """Give the engine the turns that may run, of one session or of all; returns their ids.

    ``max_of_principal`` is how many turns of one principal may be with the engine; 0 means no limit.
    """
    query = _READY.format(of_session="AND t.session_id = ?" if session_id else "")
    values = (session_id, most) if session_id else (most,)
    ready = [Handover(*row) for row in connection.execute(query, values).fetchall()]
    if max_of_principal:
        for principal in sorted({turn.principal for turn in ready}):
            lock = "SELECT pg_advisory_xact_lock(hashtextextended(?, 1))"
            connection.execute(lock, (f"principal:{principal}",))
    return [turn.turn_id for turn in ready if _enqueue(connection, turn, max_of_principal)]


def _enqueue(connection: JournalConnection, turn: Handover, max_of_principal: int) -> bool:
    (others,) = connection.execute(
        "SELECT count(*) FROM submissions u JOIN turns t ON t.id = u.turn_id WHERE u.principal = ? "
        "AND u.is_dispatched = 1 AND t.state IN ('queued', 'running')",
        (turn.principal,),
    ).fetchone()
    if max_of_principal and others >= max_of_principal:
        return False
    enqueue(connection, turn, others)
    return True


def enqueue(connection: JournalConnection, turn: Handover, others: int = 0) -> None:
    """Give one turn to the engine. ``others`` is how many of its principal are there already: they share fairly."""
    level = min(max(turn.priority, -_MAX_PRIORITY), _MAX_PRIORITY)
    number = (_MAX_PRIORITY - level) * _PRIORITY_STEP + min(others + 1, _PRIORITY_STEP - 1)
    queue = queue_name(turn.queue, turn.workspace)
    connection.execute(
        _ENQUEUE,
        (
            *(WORKFLOW, queue, turn.turn_id),
            *(workflow_id(turn.turn_id, turn.dispatches + 1), app_version(turn.loop_version), number, APPLICATION),
        ),
    )
    # The workers look at the queue by themselves too, if this gets lost.
    notify(connection, {"queue": queue})
    connection.execute(
        "UPDATE submissions SET is_dispatched = 1, dispatches = dispatches + 1 WHERE turn_id = ?", (turn.turn_id,)
    )


def workflow_id(turn_id: str, dispatch: int) -> str:
    """The engine's id of a turn: a new one each time that it is handed over."""
    return f"{turn_id}#{dispatch}"


def take_back(connection: JournalConnection, turn_id: str, *, seconds: float = 0.0) -> None:
    """The engine has done with a turn that has not ended: it is suspended, or to be handed over again later."""
    connection.execute(
        f"UPDATE submissions SET is_dispatched = 0, retry_at = {NOW} + ? WHERE turn_id = ?", (seconds, turn_id)
    )


def resume_now(connection: JournalConnection, turn_id: str) -> bool:
    """Hand a suspended turn over again. False when it is with the engine already, or has ended."""
    rows = connection.execute(
        "SELECT t.id, t.loop_version, u.queue, u.priority, u.principal, u.dispatches, u.workspace FROM turns t "
        "JOIN submissions u ON u.turn_id = t.id WHERE t.id = ? AND t.state = 'running' AND u.is_dispatched = 0 "
        "FOR UPDATE OF u",
        (turn_id,),
    ).fetchall()
    for row in rows:
        enqueue(connection, Handover(*row))
    return bool(rows)
