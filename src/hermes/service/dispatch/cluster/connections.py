"""Connections of a cluster's processes beside those of the journal: notifications in both directions."""

from __future__ import annotations

import contextlib
import logging
import queue
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import closing
from typing import TYPE_CHECKING

from hermes.base.errors import HermesError, JournalError
from hermes.contract.events import TurnEvent
from hermes.host import Host
from hermes.journal.store.connection import JournalConnection
from hermes.service.dispatch.cluster.live import notifications

if TYPE_CHECKING:
    from hermes.journal.store.postgres.dialect import PostgresConnection
    from hermes.journal.store.postgres.store import PostgresStore

log = logging.getLogger("hermes.cluster")

_MAX_PAUSE = 1.0
#: Events wait this long for others, to share a notification.
_BATCH_SECONDS = 0.03
_MAX_WAITING_EVENTS = 10_000


class Publisher:
    """Sends live events to the processes that follow a turn, on a thread of its own. Loses them rather than wait."""

    def __init__(self, store: PostgresStore) -> None:
        self._store = store
        self._waiting: queue.Queue[tuple[tuple[str, ...], str, TurnEvent | None, str]] = queue.Queue(
            _MAX_WAITING_EVENTS
        )
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="hermes-live-events", daemon=True)
        self._connection: PostgresConnection | None = None

    def start(self) -> None:
        """Begin to send."""
        self._thread.start()

    def send(self, channels: tuple[str, ...], turn_id: str, event: TurnEvent | None, state: str = "") -> None:
        """Send an event, or with ``state`` that a turn has ended or is suspended."""
        with contextlib.suppress(queue.Full):
            self._waiting.put_nowait((channels, turn_id, event, state))

    def close(self) -> None:
        """Send what waits, for a moment, and end."""
        self._stopped.set()
        if self._thread.is_alive():
            self._thread.join(1.0)
        if self._connection is not None:
            self._connection.close()

    def _run(self) -> None:
        while not (self._stopped.is_set() and self._waiting.empty()):
            try:
                first = self._waiting.get(timeout=0.5)
            except queue.Empty:
                continue
            if not first[3]:  # the end of a turn waits for no others
                time.sleep(_BATCH_SECONDS)
            batch = [first]
            with contextlib.suppress(queue.Empty):
                while len(batch) < _MAX_WAITING_EVENTS:
                    batch.append(self._waiting.get_nowait())
            self._notify(list(_payloads(batch)))

    def _notify(self, payloads: list[tuple[str, str]]) -> None:
        import psycopg

        try:
            if self._connection is None:
                self._connection = self._store.connect()
                self._connection.execute("SET synchronous_commit = off")
            for payload in payloads:
                self._connection.execute("SELECT pg_notify(?, ?)", payload)
        except (psycopg.Error, JournalError) as error:
            log.debug("live events were lost: %s", error)
            if self._connection is not None:
                self._connection.close()
                self._connection = None
            self._stopped.wait(0.2)


def _payloads(
    batch: Iterable[tuple[tuple[str, ...], str, TurnEvent | None, str]],
) -> Iterable[tuple[str, str]]:
    """The notifications of a batch, by channel and turn, in order."""
    grouped: dict[tuple[str, str], tuple[list[TurnEvent], list[str]]] = {}
    for channels, turn_id, event, state in batch:
        for channel in channels:
            events, states = grouped.setdefault((channel, turn_id), ([], []))
            if event is not None:
                events.append(event)
            if state:
                states.append(state)
    for (channel, turn_id), (events, states) in grouped.items():
        for text in notifications(turn_id, events, states[-1] if states else ""):
            yield channel, text


class ChannelListener:
    """Listens to one channel on a thread of its own, and connects again when the connection breaks.

    ``tick`` is called between notifications, at least every ``seconds``, with the same connection; an error of the
    database in it is one of the connection.
    """

    def __init__(
        self,
        store: PostgresStore,
        channel: str,
        receive: Callable[[str], None],
        *,
        tick: Callable[[JournalConnection], None] | None = None,
        connected: Callable[[JournalConnection], None] | None = None,
        seconds: float = 0.5,
    ) -> None:
        self._store, self._channel = store, channel
        self._receive, self._tick, self._connected, self._seconds = receive, tick, connected, seconds
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"hermes-{channel}", daemon=True)
        self.is_connected = threading.Event()

    def start(self) -> None:
        """Begin to listen."""
        self._thread.start()

    def close(self) -> None:
        """Stop listening."""
        self._stopped.set()
        if self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join(self._seconds + 1.0)

    def _run(self) -> None:
        import psycopg

        pause = 0.1
        while not self._stopped.is_set():
            try:
                with closing(self._store.connect()) as connection:
                    if self._connected is not None:
                        self._connected(connection)
                    connection.execute(f'LISTEN "{self._channel}"')
                    self.is_connected.set()
                    pause = 0.1
                    self._listen(connection)
            except (psycopg.Error, JournalError) as error:
                log.warning("the database cannot be reached; trying again in %.1f s: %s", pause, str(error).strip())
            except Exception:
                log.exception("an error of the cluster's own thread; it continues")
            self.is_connected.clear()
            self._stopped.wait(pause)
            pause = min(pause * 2, _MAX_PAUSE)

    def _listen(self, connection: PostgresConnection) -> None:
        due = time.monotonic()
        while not self._stopped.is_set():
            for notification in connection.raw.notifies(timeout=max(due - time.monotonic(), 0.0), stop_after=1):
                self._handle(notification.payload)
            if time.monotonic() >= due:
                due = time.monotonic() + self._seconds
                if self._tick is not None:
                    self._tick(connection)
            # Those that were read with the answer to a statement: nothing more comes that would announce them.
            while (read := connection.raw.pgconn.notifies()) is not None:
                self._handle(read.extra.decode())

    def _handle(self, payload: str) -> None:
        try:
            self._receive(payload)
        except Exception:
            log.exception("a notification could not be handled: %.200s", payload)


def cluster_store(host: Host) -> PostgresStore:
    """The journal of a host that several machines share, or an error that says what to set."""
    from hermes.journal.store.postgres.store import PostgresStore

    if not isinstance(host.store, PostgresStore):
        raise HermesError("workers share a PostgreSQL database: set journal.url (docs/cluster.md)")
    return host.store
