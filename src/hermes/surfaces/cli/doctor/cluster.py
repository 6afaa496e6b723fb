"""Checks of a cluster: its packages, its workers, turns that no worker takes, and the processes of ``hermes serve``."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

from hermes.base.errors import HermesError
from hermes.surfaces.cli.doctor.check import CheckResult, broken, ok, warning
from hermes.surfaces.cli.doctor.installation import Installation
from hermes.surfaces.commands.text import plural


def check_workers(installation: Installation) -> Iterator[CheckResult]:
    """Whether submitted turns are run by workers, where the journal is shared."""
    from hermes.surfaces.cli.serve.cluster.serve import check_commands

    settings = installation.settings()
    try:
        check_commands(settings)
    except HermesError as error:
        yield broken("serve", str(error), "change serve.commands")
    if not installation.has_shared_journal:
        return
    if not installation.has_current_journal():
        return
    from hermes.journal.store.postgres.workers import SILENT_SECONDS, count_waiting, list_workers, takes_turns
    from hermes.service.dispatch.choose import no_worker_text, runs_on_workers

    with closing(installation.store()) as store:
        workers, waiting = store.read(list_workers), store.read(count_waiting)
    silent = [worker for worker in workers if worker.silent > SILENT_SECONDS]
    for worker in silent:
        detail = f"worker {worker.id} on {worker.host} gave its last sign of life {worker.silent:.0f} s ago"
        yield warning("workers", detail, command=f"hermes workers evict {worker.id}")
    workspace = settings.worker.workspace
    has_worker = any(takes_turns(worker, workspace) for worker in workers)
    if waiting and not has_worker:
        yield broken("workers", f"{plural(waiting, 'turn')} wait and no worker runs", command="hermes worker")
    elif not has_worker and runs_on_workers(settings):
        yield warning("workers", no_worker_text(workspace), command="hermes worker")
    elif not silent:
        yield ok("workers", f"{plural(len(workers), 'worker')}, {plural(waiting, 'waiting turn')}")
