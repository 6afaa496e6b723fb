"""``hermes workers``: the workers of a cluster, for those who operate it."""

from __future__ import annotations

import argparse
import time
from collections.abc import Generator
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING

from hermes.base.config import load_config
from hermes.base.errors import HermesError, did_you_mean
from hermes.surfaces.cli import home_with_variables
from hermes.surfaces.cli.arguments import JSON, Action, Argument, CommandSpec
from hermes.surfaces.cli.report import Report, table
from hermes.surfaces.cli.serve.cluster.worker import require_cluster
from hermes.surfaces.cli.terminal import running_time

if TYPE_CHECKING:
    from hermes.journal.store.postgres.store import PostgresStore
    from hermes.journal.store.postgres.workers import WorkerRow


_NO_WORKER = "no worker runs; start one with: hermes worker"
_HEADS = ("ID", "HOST", "PID", "TURNS", "SLOTS", "CHILD SLOTS", "STATE", "SINCE", "SEEN", "WORKSPACE")


@contextmanager
def _opened_journal(_args: argparse.Namespace) -> Generator[PostgresStore]:
    config = load_config(home_with_variables()).config
    require_cluster(config)
    from hermes.journal.store.postgres.store import PostgresStore

    with closing(PostgresStore(config.journal)) as store:
        yield store


def _list(_args: argparse.Namespace, store: PostgresStore) -> Report:
    from hermes.journal.store.postgres.workers import count_waiting, list_workers

    workers, waiting = store.read(list_workers), store.read(count_waiting)
    lines = table([_HEADS, *map(_worker_cells, workers)]) if workers else [_NO_WORKER]
    count = "1 turn waits" if waiting == 1 else f"{waiting} turns wait"
    return Report({"workers": workers, "waiting": waiting}, [*lines, count])


def _worker_cells(worker: WorkerRow) -> tuple[str, ...]:
    return (
        worker.id,
        worker.host[:16],
        str(worker.pid),
        str(worker.running),
        str(worker.slots),
        str(worker.child_slots),
        worker.state,
        running_time(max(time.time() - worker.started_at, 0)),
        f"{worker.silent:.1f} s",
        worker.workspace or "shared",
    )


def _drain(args: argparse.Namespace, store: PostgresStore) -> None:
    from hermes.journal.store.postgres.workers import request_drain

    worker = _named(args.worker, store)
    store.write(lambda connection: request_drain(connection, worker.id))
    print(f"worker {worker.id} drains: {worker.running} turns are running")


def _evict(args: argparse.Namespace, store: PostgresStore) -> None:
    from hermes.journal.store.postgres.workers import evict

    worker = _named(args.worker, store)
    store.write(lambda connection: evict(connection, worker.id))
    print(f"worker {worker.id} is removed; other workers continue its turns")


def _named(beginning: str, store: PostgresStore) -> WorkerRow:
    from hermes.journal.store.postgres.workers import list_workers

    workers = store.read(list_workers)
    found = [worker for worker in workers if worker.id.startswith(beginning)]
    if len(found) == 1:
        return found[0]
    if found:
        raise HermesError(f"several workers start with {beginning!r}; give more of the id")
    raise HermesError(f"there is no worker {beginning!r}{did_you_mean(beginning, [worker.id for worker in workers])}")


_WORKER = Argument("worker ID", "the id of 'hermes workers list', or its beginning")

COMMAND = CommandSpec(
    default="list",
    opened=_opened_journal,
    actions=(
        Action("list", _list, "list the workers and what waits (the default)").takes(JSON),
        Action("drain", _drain, "let a worker finish its turns, take no new ones, and end").takes(_WORKER),
        Action("evict", _evict, "remove a worker by force: its connections end, and others continue its turns").takes(
            _WORKER
        ),
    ),
)
