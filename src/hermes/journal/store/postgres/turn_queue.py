"""The queue of a cluster: submitted turns that wait for a worker, and who has taken which.

The column ``worker`` of a submission says where its turn is: empty while it waits for a worker, the id of the worker
that has taken it, and NULL when workers have nothing to do with it: it is suspended until its question is answered, or
it was accepted by a process that runs its turns itself. Who may write to a session is decided by its lease, not here.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import msgspec

from hermes.journal.bodies import to_json
from hermes.journal.store.connection import JournalConnection, placeholders

#: What every worker listens to: cancel a turn, send its events to one more process, look at the queue.
CONTROL = "hermes_control"

#: Now, on the clock of the database.
NOW = "CAST(extract(epoch FROM clock_timestamp()) AS double precision)"

_OPEN = "t.state IN ('queued', 'running')"

#: The queues of a workspace in which anything waits: an index answers it.
_WAITING = f"SELECT DISTINCT queue FROM submissions WHERE worker = '' AND workspace = ? AND retry_at <= {NOW}"
#: The turns that one statement compares with each other.
_MOST_COMPARED = 1_000
#: ``ready``: turns that may run, which are first of their session. ``place``: the running turns of their principal, and
#: those of it that come before. The order is by priority, then by place, so that principals share fairly, then by time.
_TAKE = f"""
    WITH ready AS (
        SELECT u.turn_id, u.principal, u.priority, u.submitted_at
        FROM submissions u JOIN turns t ON t.id = u.turn_id
        WHERE u.worker = '' AND u.workspace = :workspace AND u.queue = :queue AND u.retry_at <= {NOW}
            AND t.loop_version = :loop AND (t.state = 'running' OR (t.state = 'queued' AND NOT EXISTS (
                SELECT 1 FROM turns o JOIN submissions p ON p.turn_id = o.id WHERE o.session_id = t.session_id
                AND (o.state = 'running' OR (o.state = 'queued' AND o.ordinal > t.ordinal)))))
        ORDER BY u.priority DESC, u.submitted_at LIMIT {_MOST_COMPARED}
    ), busy AS (
        SELECT u.principal, count(*) AS turns FROM turns t JOIN submissions u ON u.turn_id = t.id
        WHERE {_OPEN} AND u.worker <> '' GROUP BY u.principal
    ), placed AS (
        SELECT r.turn_id, r.priority, r.submitted_at, coalesce(b.turns, 0)
            + row_number() OVER (PARTITION BY r.principal ORDER BY r.priority DESC, r.submitted_at) AS place
        FROM ready r LEFT JOIN busy b ON b.principal = r.principal
    ), chosen AS (
        SELECT u.turn_id FROM placed p JOIN submissions u ON u.turn_id = p.turn_id
        WHERE u.worker = '' AND (:of_principal = 0 OR p.place <= :of_principal)
        ORDER BY p.priority DESC, p.place, p.submitted_at LIMIT :most FOR UPDATE OF u SKIP LOCKED
    )
    UPDATE submissions SET worker = :worker, dispatches = dispatches + 1
    WHERE turn_id IN (SELECT turn_id FROM chosen) RETURNING turn_id, session_id, queue
"""
#: Taking turns under a limit of their principal: one worker after the other; any number will do.
_LIMIT_LOCK = 7_305_808_869_231_652


class TakenTurn(NamedTuple):
    """A turn that a worker is to run."""

    turn_id: str
    session_id: str
    queue: str


class TakeSettings(msgspec.Struct, frozen=True):
    """Which turns a worker takes."""

    worker: str
    workspace: str
    loop_version: int
    #: How many turns of one principal may be with workers at the same time; 0 is no limit.
    of_principal: int = 0


def notify(connection: JournalConnection, message: dict[str, str]) -> None:
    """Send a message to all workers, when the transaction is committed."""
    connection.execute("SELECT pg_notify(?, ?)", (CONTROL, msgspec.json.encode(message).decode()))


def wake_workers(connection: JournalConnection) -> None:
    """Have the workers look at the queue. They do so by themselves too, if this gets lost."""
    notify(connection, {"wake": ""})


def lock_session(connection: JournalConnection, session_id: str) -> None:
    """Wait for others that accept, suspend or resume turns of this session, until the end of the transaction."""
    connection.execute("SELECT id FROM sessions WHERE id = ? FOR UPDATE", (session_id,))


# -- at a surface -----------------------------------------------------------------------------------------------------


def offer(connection: JournalConnection, turn_id: str, workspace: str) -> None:
    """Leave an accepted turn to the workers of a workspace; empty is all workers."""
    connection.execute("UPDATE submissions SET workspace = ?, worker = '' WHERE turn_id = ?", (workspace, turn_id))
    wake_workers(connection)


def offer_left(connection: JournalConnection) -> int:
    """Leave the waiting turns of processes that ran their turns themselves to the workers; returns how many."""
    query = (
        "UPDATE submissions SET worker = '' WHERE worker IS NULL "
        "AND turn_id IN (SELECT t.id FROM turns t WHERE t.state = 'queued')"
    )
    return connection.execute(query).rowcount


def resume(connection: JournalConnection, turn_id: str) -> bool:
    """Leave a suspended turn to the workers again. False when it is with them already, or has ended."""
    query = (
        "UPDATE submissions SET worker = '' WHERE turn_id = ? AND worker IS NULL "
        "AND turn_id IN (SELECT t.id FROM turns t WHERE t.state = 'running')"
    )
    if connection.execute(query, (turn_id,)).rowcount != 1:
        return False
    wake_workers(connection)
    return True


def mark_cancelled(connection: JournalConnection, turn_id: str, reason: str) -> bool | None:
    """Have the worker of a turn stop it. True when it is suspended and no worker has it; None when it does not run."""
    rows = connection.execute(
        "UPDATE submissions SET cancel_reason = ? WHERE turn_id = ? AND turn_id IN "
        "(SELECT t.id FROM turns t WHERE t.state = 'running') RETURNING worker",
        (reason, turn_id),
    ).fetchall()
    if not rows:
        return None
    notify(connection, {"cancel": turn_id, "reason": reason})
    return rows[0][0] is None


def add_listener(connection: JournalConnection, turn_id: str, channel: str) -> None:
    """Have the events of a turn sent to one more channel."""
    row = connection.execute("SELECT options FROM submissions WHERE turn_id = ? FOR UPDATE", (turn_id,)).fetchone()
    if row is None:
        return
    options: dict[str, Any] = msgspec.json.decode(row[0])
    listeners = dict.fromkeys([*options.get("listeners", []), channel])
    # For a worker that takes the turn after this, and for one that has read these options already.
    query = "UPDATE submissions SET options = ? WHERE turn_id = ?"
    connection.execute(query, (to_json({**options, "listeners": list(listeners)}), turn_id))
    notify(connection, {"follow": turn_id, "to": channel})


def state_of(connection: JournalConnection, turn_id: str) -> str | None:
    """The state of a submitted turn: that of its row, or ``suspended``; None when there is no such turn."""
    query = "SELECT t.state, u.worker FROM turns t JOIN submissions u ON u.turn_id = t.id WHERE t.id = ?"
    row = connection.execute(query, (turn_id,)).fetchone()
    if row is None:
        return None
    return "suspended" if row[0] == "running" and row[1] is None else row[0]


def settled(connection: JournalConnection, turn_ids: list[str]) -> set[str]:
    """Those of these turns that have ended or are suspended."""
    query = (
        f"SELECT t.id FROM turns t JOIN submissions u ON u.turn_id = t.id WHERE t.id IN ({placeholders(turn_ids)}) "
        f"AND (NOT ({_OPEN}) OR (t.state = 'running' AND u.worker IS NULL))"
    )
    return {turn_id for (turn_id,) in connection.execute(query, tuple(turn_ids)).fetchall()}


# -- at a worker ------------------------------------------------------------------------------------------------------


def waiting_queues(connection: JournalConnection, workspace: str) -> set[str]:
    """The queues of a workspace in which turns wait; not all of them need to be ready to run."""
    return {queue for (queue,) in connection.execute(_WAITING, (workspace,)).fetchall()}


def take_turns(connection: JournalConnection, settings: TakeSettings, queue: str, most: int) -> list[TakenTurn]:
    """Take turns of a queue for a worker. Under a limit of their principal this is to be called in a transaction."""
    if settings.of_principal:
        connection.execute("SELECT pg_advisory_xact_lock(?)", (_LIMIT_LOCK,))
    values: dict[str, Any] = {
        "worker": settings.worker,
        "workspace": settings.workspace,
        "loop": settings.loop_version,
        "of_principal": settings.of_principal,
        "queue": queue,
        "most": most,
    }
    return [TakenTurn(*row) for row in connection.execute(_TAKE, values).fetchall()]


def suspend(connection: JournalConnection, turn_id: str, worker_id: str) -> None:
    """A turn waits for an answer, and no longer has a worker."""
    connection.execute("UPDATE submissions SET worker = NULL WHERE turn_id = ? AND worker = ?", (turn_id, worker_id))


def give_back(connection: JournalConnection, turn_id: str, worker_id: str, *, seconds: float = 0.0) -> None:
    """Leave a turn that a worker has taken to the others, after so many seconds."""
    query = f"UPDATE submissions SET worker = '', retry_at = {NOW} + ? WHERE turn_id = ? AND worker = ?"
    connection.execute(query, (seconds, turn_id, worker_id))


def turns_of(connection: JournalConnection, worker_id: str) -> dict[str, str | None]:
    """The open turns that a worker has taken, each with the reason to cancel it, if there is one."""
    query = (
        f"SELECT u.turn_id, u.cancel_reason FROM turns t JOIN submissions u ON u.turn_id = t.id "
        f"WHERE {_OPEN} AND u.worker = ?"
    )
    return dict(connection.execute(query, (worker_id,)).fetchall())


def take_from(connection: JournalConnection, worker_id: str, turn_ids: Iterable[str]) -> int:
    """Leave open turns that a worker has taken to all workers again; returns how many it still had."""
    wanted = list(turn_ids)
    if not wanted:
        return 0
    query = f"UPDATE submissions SET worker = '' WHERE worker = ? AND turn_id IN ({placeholders(wanted)})"
    count = connection.execute(query, (worker_id, *wanted)).rowcount
    wake_workers(connection)
    return count
