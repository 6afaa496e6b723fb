"""The workers of a cluster: which are alive, which have died, and who takes over the turns of those.

A worker lives while it holds the advisory lock of its id (``journal``'s runner): no clocks are compared. Only a worker
that is frozen, and so keeps its lock, is found by a beat on the clock of the database.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

import msgspec

from hermes.dispatch.cluster.handover import NOW
from hermes.journal.runner import Runner
from hermes.journal.store.connection import JournalConnection
from hermes.journal.turns.lifecycle import LOOP_VERSION
from hermes.version import __version__

if TYPE_CHECKING:
    from hermes.dispatch.cluster.engine import Engine

log = logging.getLogger("hermes.cluster")

#: After the start of the server all workers seem dead for a moment: their locks went with it.
_SECONDS_AFTER_START = 5.0
#: A turn that the engine has given to this worker and that none of its threads runs is handed out again after this.
_STRAY_SECONDS = 2.0
_SWEEP_SECONDS = 60.0
_MAX_SWEPT = 5_000
#: A worker beats every second; one that has not for this long is in trouble.
SILENT_SECONDS = 10.0
#: One worker at a time takes care of the dead; any number will do.
REAPER_LOCK = 7_305_808_869_231_651

_NAMES = "id, host, pid, version, loop, workspace, slots, child_slots, running, state, started_at"
_OPEN = "status IN ('ENQUEUED', 'PENDING', 'DELAYED')"


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


class Reapers(Protocol):
    """What a member needs of the worker that it belongs to."""

    def running_workflows(self) -> set[str]:
        """The hand-overs that threads of this worker are running."""
        ...

    def evicted(self) -> None:
        """Others have taken over from this worker: it must leave at once."""
        ...

    def drain(self) -> None:
        """An operator wants this worker to end when its turns have."""
        ...

    def cancel(self, turn_id: str, reason: str) -> None:
        """Stop a turn, if it runs here."""
        ...

    def hand_over_waiting(self, lost: Sequence[str]) -> None:
        """Give the engine the turns that may run and that it does not have; ``lost`` are those that it lost."""
        ...


class Membership:
    """This worker among the others. ``tick`` is called about twice a second, on one thread and one connection."""

    def __init__(
        self, row: WorkerRow, runner: Runner, worker: Reapers, engine: Engine, *, frozen_seconds: float
    ) -> None:
        self._row = row
        self._runner = runner
        self._worker = worker
        self._engine = engine
        self._frozen_seconds = frozen_seconds
        self._strays: dict[str, float] = {}
        self._swept = time.monotonic()
        self._is_member = False

    def join(self, connection: JournalConnection) -> None:
        """Be listed. After a lost connection: leave when others have removed this worker in the meantime."""
        if self._is_member:
            return
        row = self._row
        connection.execute(
            "INSERT INTO workers (id, host, pid, version, loop, workspace, slots, child_slots, state, started_at) "
            f"VALUES (?, ?, ?, ?, ?, ?, ?, ?, 'running', {NOW})",
            (row.id, row.host, row.pid, row.version, row.loop, row.workspace, row.slots, row.child_slots),
        )
        self._is_member = True

    def leave(self, connection: JournalConnection) -> None:
        """Be listed no more."""
        connection.execute("DELETE FROM workers WHERE id = ?", (self._row.id,))

    def tick(self, connection: JournalConnection) -> None:
        """Show a sign of life, obey what operators asked for, and take care of workers that are gone."""
        running = self._worker.running_workflows()
        found = connection.execute(
            "UPDATE workers SET running = ? WHERE id = ? RETURNING state, "
            "CAST(extract(epoch FROM clock_timestamp() - pg_postmaster_start_time()) AS double precision)",
            (len(running), self._row.id),
        ).fetchone()
        if found is None:
            self._worker.evicted()
            return
        if found[0] == "draining":
            self._worker.drain()
        self._cancel_marked(connection)
        if found[1] < _SECONDS_AFTER_START:
            return
        self._return_strays(connection, running)
        self._evict_frozen(connection)  # without the lock: it may be the frozen one that holds it
        if connection.execute("SELECT pg_try_advisory_lock(?)", (REAPER_LOCK,)).fetchone()[0]:
            try:
                self._resume_dead(connection)
                self._sweep(connection)
            finally:
                connection.execute("SELECT pg_advisory_unlock(?)", (REAPER_LOCK,))
        self._worker.hand_over_waiting(lost_turns(connection))

    def _cancel_marked(self, connection: JournalConnection) -> None:
        """Those whose notification got lost."""
        query = (
            "SELECT u.turn_id, u.cancel_reason FROM submissions u JOIN turns t ON t.id = u.turn_id "
            "WHERE t.state = 'running' AND u.cancel_reason IS NOT NULL"
        )
        for turn_id, reason in connection.execute(query).fetchall():
            self._worker.cancel(turn_id, reason)

    def _return_strays(self, connection: JournalConnection, running: set[str]) -> None:
        query = (
            "SELECT workflow_uuid, queue_name FROM dbos.workflow_status "
            "WHERE status = 'PENDING' AND executor_id = ? AND queue_name IS NOT NULL"
        )
        mine = dict(connection.execute(query, (self._row.id,)).fetchall())
        now = time.monotonic()
        self._strays = {one: self._strays.get(one, now) for one in mine if one not in running}
        for workflow, since in list(self._strays.items()):
            if now - since > _STRAY_SECONDS and workflow not in self._worker.running_workflows():
                log.warning("the engine lost %s; it is handed out again", workflow)
                self._engine.resume([workflow], mine[workflow])
                del self._strays[workflow]

    def _evict_frozen(self, connection: JournalConnection) -> None:
        query = f"SELECT w.id FROM workers w JOIN runners r ON r.id = w.id WHERE r.beat_at < {NOW} - ? AND w.id <> ?"
        for (worker_id,) in connection.execute(query, (self._frozen_seconds, self._row.id)).fetchall():
            log.warning("worker %s has given no sign of life for %g s; it is removed", worker_id, self._frozen_seconds)
            evict(connection, worker_id)

    def _resume_dead(self, connection: JournalConnection) -> None:
        query = (
            "SELECT executor_id FROM dbos.workflow_status "
            "WHERE status = 'PENDING' AND queue_name IS NOT NULL AND executor_id <> ? "
            "UNION SELECT id FROM workers WHERE id <> ?"
        )
        for (worker_id,) in connection.execute(query, (self._row.id, self._row.id)).fetchall():
            if self._runner.is_alive(worker_id):
                continue
            left: dict[str, list[str]] = {}
            query = (
                "SELECT queue_name, workflow_uuid FROM dbos.workflow_status "
                "WHERE status = 'PENDING' AND queue_name IS NOT NULL AND executor_id = ?"
            )
            for queue, workflow in connection.execute(query, (worker_id,)).fetchall():
                left.setdefault(queue, []).append(workflow)
            for queue, workflows in left.items():
                log.warning("worker %s is gone; %d of its turns continue elsewhere", worker_id, len(workflows))
                self._engine.resume(workflows, queue)
            connection.execute("DELETE FROM workers WHERE id = ?", (worker_id,))

    def _sweep(self, connection: JournalConnection) -> None:
        """Now and then: forget what the engine has done with, and find turns that it lost."""
        if time.monotonic() - self._swept < _SWEEP_SECONDS:
            return
        self._swept = time.monotonic()
        query = (
            f"SELECT workflow_uuid FROM dbos.workflow_status WHERE NOT ({_OPEN}) AND name = 'turn' "
            f"AND updated_at < (extract(epoch FROM now()) - 60) * 1000 LIMIT ?"
        )
        over = [workflow for (workflow,) in connection.execute(query, (_MAX_SWEPT,)).fetchall()]
        if over:
            self._engine.delete(over)


def lost_turns(connection: JournalConnection) -> list[str]:
    """The open turns that count as given to the engine and that it does not have."""
    query = (
        f"SELECT t.id FROM turns t JOIN submissions u ON u.turn_id = t.id WHERE t.state IN ('queued', 'running') "
        f"AND u.is_dispatched = 1 AND NOT EXISTS (SELECT 1 FROM dbos.workflow_status w "
        f"WHERE w.workflow_uuid = u.turn_id || '#' || u.dispatches AND {_OPEN})"
    )
    return [turn_id for (turn_id,) in connection.execute(query).fetchall()]


def new_worker_row(worker_id: str, workspace: str, slots: int, child_slots: int) -> WorkerRow:
    """The row of this process."""
    return WorkerRow(
        *(worker_id, os.uname().nodename, os.getpid(), __version__, LOOP_VERSION, workspace),
        *(slots, child_slots, 0, "running", 0.0),
    )


# -- for operators --------------------------------------------------------------------------------------------------


def list_workers(connection: JournalConnection) -> list[WorkerRow]:
    """All workers, the oldest first."""
    silent = f"coalesce((SELECT {NOW} - r.beat_at FROM runners r WHERE r.id = workers.id), 0)"
    rows = connection.execute(f"SELECT {_NAMES}, {silent} FROM workers ORDER BY started_at").fetchall()
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
    connection.execute("DELETE FROM workers WHERE id = ?", (worker_id,))
    connection.execute("DELETE FROM runners WHERE id = ?", (worker_id,))
    connection.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = ? AND pid <> pg_backend_pid()",
        (connection_name(worker_id),),
    ).fetchall()


def connection_name(worker_id: str) -> str:
    """The name of all connections of a worker in the server's list."""
    return f"hermes:{worker_id}"


def count_waiting(connection: JournalConnection) -> int:
    """How many submitted turns have not started."""
    return connection.execute("SELECT count(*) FROM turns WHERE state = 'queued'").fetchone()[0]
