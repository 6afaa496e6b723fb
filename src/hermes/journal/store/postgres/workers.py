"""The workers of a cluster as the database knows them.

A worker lives while it holds the advisory lock of its runner: no clocks are compared. Only a worker that is frozen, and
so keeps its lock, is found by the beat of its runner on the clock of the database.
"""

from __future__ import annotations

import os

import msgspec

from hermes.base.version import __version__
from hermes.journal.store.connection import JournalConnection
from hermes.journal.store.postgres.pool import connection_name
from hermes.journal.store.postgres.runner import alive
from hermes.journal.store.postgres.turn_queue import NOW
from hermes.journal.turns.lifecycle import LOOP_VERSION

#: A worker beats every second; one that has not for this long is in trouble.
SILENT_SECONDS = 10.0

_COLUMNS = "id, host, pid, version, loop, workspace, slots, child_slots, running, state, started_at"
_SILENT = f"coalesce((SELECT {NOW} - r.beat_at FROM runners r WHERE r.id = workers.id), 0)"
_BEAT = (
    "UPDATE workers SET running = ? WHERE id = ? RETURNING state, "
    "CAST(extract(epoch FROM clock_timestamp() - pg_postmaster_start_time()) AS double precision)"
)
_FROZEN = f"SELECT w.id FROM workers w JOIN runners r ON r.id = w.id WHERE r.beat_at < {NOW} - ? AND w.id <> ?"
_DEAD = f"""
    SELECT w.id FROM (SELECT id FROM workers UNION SELECT u.worker FROM turns t JOIN submissions u ON u.turn_id = t.id
        WHERE t.state IN ('queued', 'running') AND u.worker <> '') w WHERE w.id <> ? AND NOT {alive("w.id")}
"""


class WorkerRow(msgspec.Struct, frozen=True):
    """A worker as the database knows it."""

    id: str
    host: str
    pid: int
    version: str
    loop: int
    workspace: str
    slots: int
    child_slots: int
    running: int
    state: str
    started_at: float
    #: Seconds since its last sign of life.
    silent: float = 0.0


class Beat(msgspec.Struct, frozen=True):
    """What a worker learns with a sign of life."""

    #: ``running`` or ``draining``.
    state: str
    #: Seconds since the start of the database server.
    server_age: float


def add_worker(connection: JournalConnection, worker_id: str, workspace: str, slots: int, child_slots: int) -> None:
    """List this process as a worker."""
    connection.execute(
        "INSERT INTO workers (id, host, pid, version, loop, workspace, slots, child_slots, state, started_at) "
        f"VALUES (?, ?, ?, ?, ?, ?, ?, ?, 'running', {NOW})",
        (worker_id, os.uname().nodename, os.getpid(), __version__, LOOP_VERSION, workspace, slots, child_slots),
    )


def remove_worker(connection: JournalConnection, worker_id: str) -> None:
    """List a worker no more."""
    connection.execute("DELETE FROM workers WHERE id = ?", (worker_id,))


def beat(connection: JournalConnection, worker_id: str, running: int) -> Beat | None:
    """Give a sign of life; None when the worker is listed no more, because others have replaced it."""
    row = connection.execute(_BEAT, (running, worker_id)).fetchone()
    return None if row is None else Beat(*row)


def frozen_workers(connection: JournalConnection, asking: str, seconds: float) -> list[str]:
    """The other workers that have given no sign of life for so many seconds."""
    return [worker_id for (worker_id,) in connection.execute(_FROZEN, (seconds, asking)).fetchall()]


def dead_workers(connection: JournalConnection, asking: str) -> list[str]:
    """The other workers that are listed, or have open turns, and hold their lock no more."""
    return [worker_id for (worker_id,) in connection.execute(_DEAD, (asking,)).fetchall()]


# -- for operators ----------------------------------------------------------------------------------------------------


def list_workers(connection: JournalConnection) -> list[WorkerRow]:
    """All workers, the oldest first."""
    rows = connection.execute(f"SELECT {_COLUMNS}, {_SILENT} FROM workers ORDER BY started_at").fetchall()
    return [WorkerRow(*row) for row in rows]


def takes_turns(worker: WorkerRow, workspace: str) -> bool:
    """Whether a worker is there for the turns of a workspace."""
    return worker.silent <= SILENT_SECONDS and worker.state == "running" and worker.workspace == workspace


def request_drain(connection: JournalConnection, worker_id: str) -> bool:
    """Ask a worker to take no more turns and to end when those that it runs have. False when there is none."""
    query = "UPDATE workers SET state = 'draining' WHERE id = ?"
    return connection.execute(query, (worker_id,)).rowcount == 1


def evict(connection: JournalConnection, worker_id: str) -> None:
    """Remove a worker by force: its connections end, and with them its locks; others continue its turns."""
    remove_worker(connection, worker_id)
    connection.execute("DELETE FROM runners WHERE id = ?", (worker_id,))
    connection.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = ? AND pid <> pg_backend_pid()",
        (connection_name(worker_id),),
    ).fetchall()


def count_waiting(connection: JournalConnection) -> int:
    """How many submitted turns have not started."""
    return connection.execute("SELECT count(*) FROM turns WHERE state = 'queued'").fetchone()[0]
