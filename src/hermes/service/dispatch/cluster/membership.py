"""A worker among the others: its signs of life, and the turns of those that have died."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING

from hermes.journal.store.connection import JournalConnection
from hermes.journal.store.postgres.turn_queue import take_from, turns_of
from hermes.journal.store.postgres.workers import (
    add_worker,
    beat,
    dead_workers,
    evict,
    frozen_workers,
    remove_worker,
)

if TYPE_CHECKING:
    from hermes.base.config.schema.sections import WorkerConfig
    from hermes.service.dispatch.cluster.worker import Worker

log = logging.getLogger("hermes.cluster")

#: After the start of the server all workers seem dead for a moment: their locks went with it.
_SECONDS_AFTER_START = 5.0
#: A turn that this worker has taken and that none of its threads runs is left to all workers after this.
_STRAY_SECONDS = 2.0


class Membership:
    """This worker among the others. ``tick`` is called about twice a second, on one thread and one connection."""

    def __init__(self, worker: Worker, settings: WorkerConfig) -> None:
        self._worker, self._id, self._settings = worker, worker.id, settings
        #: Turns of this worker that none of its threads runs, with the time when that was found.
        self._strays: dict[str, float] = {}
        self._is_listed = False

    def join(self, connection: JournalConnection) -> None:
        """Be listed. After a lost connection: leave when others have removed this worker in the meantime."""
        if not self._is_listed:
            settings = self._settings
            add_worker(connection, self._id, settings.workspace, settings.slots, settings.child_slots)
            self._is_listed = True

    def leave(self, connection: JournalConnection) -> None:
        """Be listed no more."""
        remove_worker(connection, self._id)

    def tick(self, connection: JournalConnection) -> None:
        """Show a sign of life, obey what operators asked for, and take care of workers that are gone."""
        now = beat(connection, self._id, len(self._worker.running_turns()))
        if now is None:
            self._worker.evicted()
            return
        if now.state == "draining":
            self._worker.drain()
        mine = turns_of(connection, self._id)
        for turn_id, reason in mine.items():
            if reason is not None:  # its notification may have been lost
                self._worker.cancel(turn_id, reason)
        if now.server_age < _SECONDS_AFTER_START:
            return
        self._give_back_strays(connection, set(mine))
        seconds = self._settings.frozen_seconds
        for worker_id in frozen_workers(connection, self._id, seconds):
            log.warning("worker %s has given no sign of life for %g s; it is removed", worker_id, seconds)
            evict(connection, worker_id)
        for worker_id in dead_workers(connection, self._id):
            left = take_from(connection, worker_id, turns_of(connection, worker_id))
            if left:
                log.warning("worker %s is gone; %d of its turns continue elsewhere", worker_id, left)
            remove_worker(connection, worker_id)

    def _give_back_strays(self, connection: JournalConnection, mine: set[str]) -> None:
        now, running = time.monotonic(), self._worker.running_turns()
        self._strays = {turn_id: self._strays.get(turn_id, now) for turn_id in mine - running}
        lost = [turn_id for turn_id, since in self._strays.items() if now - since > _STRAY_SECONDS]
        if lost:
            log.warning("turns that were taken and do not run are left to all workers: %s", ", ".join(lost))
            take_from(connection, self._id, lost)
