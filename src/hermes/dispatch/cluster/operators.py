"""The operators' view of a cluster: questions and orders from a process that is no part of it."""

from __future__ import annotations

from types import TracebackType

from hermes.config.schema.sections import JournalConfig
from hermes.journal.store.postgres.store import PostgresStore
from hermes.journal.store.postgres.workers import WorkerRow, count_waiting, evict, list_workers, request_drain


class Operators:
    """The workers of the cluster that shares a journal."""

    def __init__(self, config: JournalConfig) -> None:
        self._store = PostgresStore(config)

    def __enter__(self) -> Operators:
        return self

    def __exit__(self, _type: type[BaseException] | None, _error: object, _trace: TracebackType | None) -> None:
        self._store.close()

    def workers(self) -> list[WorkerRow]:
        """All workers, the oldest first."""
        return self._store.read(list_workers)

    def waiting(self) -> int:
        """How many submitted turns have not started."""
        return self._store.read(count_waiting)

    def drain(self, worker_id: str) -> bool:
        """Ask a worker to end when its turns have. False when there is none."""
        return self._store.write(lambda connection: request_drain(connection, worker_id))

    def evict(self, worker_id: str) -> None:
        """Remove a worker by force."""
        self._store.write(lambda connection: evict(connection, worker_id))
