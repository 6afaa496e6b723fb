"""Taking turns: a worker takes as many from the queue of the cluster as it has free slots."""

from __future__ import annotations

import contextlib
import logging
import random
import threading
import time
from collections.abc import Callable, Generator, Mapping
from typing import TYPE_CHECKING

from hermes.base.errors import JournalError
from hermes.journal.store.postgres.turn_queue import TakenTurn, TakeSettings, take_turns, waiting_queues

if TYPE_CHECKING:
    from hermes.journal.store.postgres.dialect import PostgresConnection
    from hermes.journal.store.postgres.store import PostgresStore

log = logging.getLogger("hermes.cluster")

#: Workers that were woken by the same turn look one after the other within this time, those with free slots first.
_SPREAD_SECONDS = 0.02
#: Seconds between two attempts to reach a database that is away.
_AWAY_SECONDS = 0.5


class TurnTaking:
    """Takes turns on a thread and a connection of its own: when it is woken, and every ``poll_seconds`` in any case."""

    def __init__(
        self,
        store: PostgresStore,
        settings: TakeSettings,
        slots: Mapping[str, int],
        start: Callable[[TakenTurn], None],
        *,
        poll_seconds: float,
    ) -> None:
        """``slots`` are the turns that may run at the same time, by queue. ``start`` begins to run one."""
        self._store, self._settings, self._start, self._poll_seconds = store, settings, start, poll_seconds
        self._slots = dict(slots)
        self._used = dict.fromkeys(slots, 0)
        self._lock = threading.Lock()
        self._woken = threading.Event()
        self._is_stopped = False
        self._connection: PostgresConnection | None = None
        self._thread = threading.Thread(target=self._run, name="hermes-taking", daemon=True)

    def start(self) -> None:
        """Begin to take turns."""
        self._thread.start()

    def wake(self) -> None:
        """Look soon: a turn waits, or a slot became free."""
        self._woken.set()

    def ended(self, queue: str) -> None:
        """A turn has ended: its slot is free."""
        with self._lock:
            self._used[queue] -= 1
        self.wake()

    def stop(self) -> None:
        """Take no more turns."""
        self._is_stopped = True
        self.wake()

    def close(self, timeout: float = 2.0) -> None:
        """Take no more turns, and wait for a look at the queue that has begun."""
        self.stop()
        if self._thread.is_alive():
            self._thread.join(timeout)

    # -- inside -------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        import psycopg

        while not self._is_stopped:
            if self._woken.wait(self._poll_seconds):
                time.sleep(_SPREAD_SECONDS * (random.random() + self._used_share()) / 2)
            self._woken.clear()
            try:
                self._look()
            except (psycopg.Error, JournalError) as error:
                # Turns that were taken all the same are missed by the membership, and left to all workers again.
                log.debug("no turns can be taken: %s", error)
                self._disconnect()
                time.sleep(_AWAY_SECONDS)
            except Exception:
                log.exception("an error while turns were taken; it continues")
                self._disconnect()
        self._disconnect()

    def _look(self) -> None:
        """Take turns for the free slots, and begin to run them."""
        free = self._free()
        if not free or self._is_stopped:
            return
        connection = self._connected()
        for queue in waiting_queues(connection, self._settings.workspace) & free.keys():
            with self._taking(connection):
                taken = take_turns(connection, self._settings, queue, free[queue])
            with self._lock:
                self._used[queue] += len(taken)
            for turn in taken:
                self._start(turn)

    @contextlib.contextmanager
    def _taking(self, connection: PostgresConnection) -> Generator[None]:
        """The transaction that a limit of the turns of a principal needs; without one a statement is enough."""
        if not self._settings.of_principal:
            yield
            return
        with connection.raw.transaction():
            yield

    def _free(self) -> dict[str, int]:
        with self._lock:
            return {queue: free for queue, slots in self._slots.items() if (free := slots - self._used[queue]) > 0}

    def _used_share(self) -> float:
        with self._lock:
            return sum(self._used.values()) / max(sum(self._slots.values()), 1)

    def _connected(self) -> PostgresConnection:
        if self._connection is None:
            self._connection = self._store.connect()
            # What is lost in a crash of the server was not started: the first commit of a turn waits for the disk.
            self._connection.execute("SET synchronous_commit = off")
        return self._connection

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None
