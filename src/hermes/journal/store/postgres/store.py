"""The journal in a PostgreSQL database: transactions on pooled connections, run again when the server was away.

A commit is on disk when it returns. When the connection breaks during a commit, the outcome is looked up by the number
of the transaction on another connection, and never guessed.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any, TypeVar

import psycopg

from hermes.base.config.schema.sections import JournalConfig
from hermes.base.errors import CommitUnknown, JournalUnavailable
from hermes.journal.crash import crash_point
from hermes.journal.store.connection import JournalConnection
from hermes.journal.store.port import Store
from hermes.journal.store.postgres import schema
from hermes.journal.store.postgres.dialect import PostgresConnection
from hermes.journal.store.postgres.errors import CONFLICTS, explain, is_connection_lost, location_of
from hermes.journal.store.postgres.pipeline import PipelinedConnection
from hermes.journal.store.postgres.pool import PostgresPool, connect, connection_name

if TYPE_CHECKING:
    from hermes.journal.store.postgres.runner import PostgresRunner
    from hermes.journal.store.postgres.search import PostgresSearchIndex

T = TypeVar("T")

#: How often work is run again because another transaction got in between.
_MOST_CONFLICTS = 10
#: Seconds between two attempts to reach a server that is away: the first pause, and the longest.
_PAUSE, _LONGEST_PAUSE = 0.05, 1.0
_NUMBERED = (
    "SELECT table_name, column_name FROM information_schema.columns WHERE table_schema = current_schema() "
    "AND is_identity = 'YES' AND identity_generation = 'BY DEFAULT'"
)
_CLOCK = "SELECT extract(epoch FROM clock_timestamp())::double precision"


class _Unknown(Exception):
    """The connection broke while a transaction was being committed."""

    def __init__(self, transaction: str, result: Any) -> None:
        super().__init__(transaction)
        self.transaction, self.result = transaction, result


class PostgresStore(Store):
    """Access to a journal in PostgreSQL. Thread-safe."""

    numbers_in_order = False

    def __init__(self, config: JournalConfig) -> None:
        self.url, self.schema = config.url, config.schema
        #: This process in the server's list of connections; a runner that is evicted loses all of them.
        self.process_id = os.urandom(8).hex()
        self._has_runner = False
        self._wait_seconds = config.wait_seconds
        self._pool = PostgresPool(config.pool_size, self._open, self.location)
        self._preparing = threading.Lock()
        self._is_prepared = False
        #: Of the clock of the database against that of this machine.
        self._offset = 0.0

    @property
    def location(self) -> str:
        """The address without the password."""
        return location_of(self.url)

    def exists(self) -> bool:
        """A database is there, or an error."""
        return True

    def connect(self, name: str = "", *, seconds: int = 3) -> PostgresConnection:
        """A connection beside the pool, for what needs one of its own. The caller closes it."""
        self._prepare()
        return connect(self.url, self.schema, name or self._name(), seconds=seconds)

    def _name(self) -> str:
        return connection_name(self.process_id)

    def _open(self) -> PipelinedConnection:
        self._prepare()
        connection = PipelinedConnection(connect(self.url, self.schema, self._name()).raw)
        connection.offset = self._offset
        return connection

    def _prepare(self, *, migrate: bool = False) -> int:
        """Before the first use: the tables are there and fit. Returns the version that was found."""
        with self._preparing:
            if self._is_prepared and not migrate:
                return 0
            with contextlib.closing(connect(self.url, self.schema, self._name())) as connection:
                found = schema.prepare(connection, self.schema, self.location, migrate=migrate)
                before = time.time()
                (now,) = connection.execute(_CLOCK).fetchall()[0]
                self._offset = now - (before + time.time()) / 2
            self._is_prepared = True
            return found

    def found_version(self) -> int | None:
        """The version of the tables, which are neither made nor changed; None when there are none."""
        try:
            with contextlib.closing(connect(self.url, self.schema, self._name())) as connection:
                return schema.stored_version(connection)
        except psycopg.Error as error:
            raise explain(error, self.url) from error

    def migrate(self) -> int:
        """Make the tables, or bring older ones forward. Returns the version that was found; 0 when there was none."""
        try:
            return self._prepare(migrate=True)
        except psycopg.Error as error:
            raise explain(error, self.url) from error

    # -- writing ------------------------------------------------------------------------------------------------

    def write(self, work: Callable[[JournalConnection], T]) -> T:
        """Run ``work`` in a transaction and return its result once that is on disk."""
        return self.write_soon(work)

    def write_soon(self, work: Callable[[JournalConnection], T]) -> T:
        """The same: the server syncs every commit, for all that wait at that moment together."""
        crash_point()
        while True:
            try:
                result = self._attempts(lambda connection: self._write_once(connection, work))
                break
            except _Unknown as unknown:
                if self._was_committed(unknown.transaction):
                    result = unknown.result
                    break
        crash_point()
        return result

    def change_mark(self) -> object:
        """The transactions that are visible: the text differs after each one that wrote something."""
        return self.read(lambda connection: connection.execute("SELECT CAST(pg_current_snapshot() AS text)").fetchone())

    def clock(self) -> float:
        """The time of the database, so that the machines that use it agree."""
        return time.time() + self._offset

    def start_sync(self) -> None:
        """Everything that was written is on disk."""

    def sync(self) -> None:
        """Everything that was written is on disk."""

    def _write_once(self, connection: PipelinedConnection, work: Callable[[JournalConnection], T]) -> T:
        connection.begin()
        result = work(connection)
        transaction = connection.transaction()
        try:
            connection.commit()
        except psycopg.Error as error:
            if connection.is_closed:
                raise _Unknown(transaction, result) from error
            raise
        return result

    def _was_committed(self, transaction: str) -> bool:
        """Ask for the outcome of a transaction. Raises ``CommitUnknown`` when the server stays away, or forgot it."""
        query = "SELECT pg_xact_status(CAST(? AS xid8))"

        def ask(connection: JournalConnection) -> str | None:
            return connection.execute(query, (transaction,)).fetchall()[0][0]

        give_up = time.monotonic() + self._wait_seconds
        try:
            # In progress: the server has yet to notice that the connection broke.
            while (state := self.read(ask)) == "in progress" and time.monotonic() < give_up:
                time.sleep(_PAUSE)
        except JournalUnavailable as error:
            raise CommitUnknown(f"{error}. Whether the last commit was made is not known") from error
        if state not in ("committed", "aborted"):
            raise CommitUnknown(f"{self.location}: whether the last commit was made is not known")
        return state == "committed"

    # -- reading ------------------------------------------------------------------------------------------------

    def read(self, work: Callable[[JournalConnection], T]) -> T:
        """Run ``work`` on a snapshot of every finished commit."""

        def run(connection: PipelinedConnection) -> T:
            connection.begin_read()
            result = work(connection)
            connection.roll_back()
            return result

        return self._attempts(run)

    # -- connections --------------------------------------------------------------------------------------------

    def _attempts(self, run: Callable[[PipelinedConnection], T]) -> T:
        """Do something on a connection: again while the server is away, and after conflicts."""
        give_up, pause, conflicts = time.monotonic() + self._wait_seconds, _PAUSE, 0
        while True:
            try:
                return self._once(run)
            except CONFLICTS as error:
                conflicts += 1
                if conflicts > _MOST_CONFLICTS:
                    raise explain(error, self.url) from error
            except psycopg.Error as error:
                if not self._is_prepared or not is_connection_lost(error) or time.monotonic() > give_up:
                    raise explain(error, self.url) from error
                time.sleep(pause)
                pause = min(pause * 2, _LONGEST_PAUSE)

    def _once(self, run: Callable[[PipelinedConnection], T]) -> T:
        connection = self._pool.take()
        try:
            result = run(connection)
        except BaseException as error:
            if isinstance(error, Exception) and not connection.is_closed:
                with contextlib.suppress(psycopg.Error):
                    connection.roll_back()
                self._pool.give_back(connection)
            else:
                self._pool.discard(connection)
            raise
        self._pool.give_back(connection)
        return result

    # -- the rest -----------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def erasing(self, connection: JournalConnection) -> Generator[None]:
        """Until the transaction ends, no other one begins to use a blob that is about to be deleted as unused."""
        connection.execute("LOCK TABLE blobs, blob_uses IN SHARE ROW EXCLUSIVE MODE")
        yield

    def number_on(self, connection: JournalConnection) -> None:
        """Set the sequences behind the highest numbers."""
        for table, column in connection.execute(_NUMBERED).fetchall():
            connection.execute(
                f"SELECT setval(pg_get_serial_sequence('{table}', '{column}'), coalesce(max({column}), 1), "
                f"max({column}) IS NOT NULL) FROM {table}"
            )

    def give_back_space(self) -> None:
        """The server does so by itself."""

    def check_after_crash(self) -> None:
        """The server repairs itself after a crash."""

    def new_runner(self) -> PostgresRunner:
        """This process as an owner of sessions. A second one acts as another process, as tests need it."""
        from hermes.journal.store.postgres.runner import PostgresRunner

        runner_id = os.urandom(8).hex() if self._has_runner else self.process_id
        self._has_runner = True
        return PostgresRunner(self, runner_id)

    def search_index(self) -> PostgresSearchIndex:
        """The search, in tables beside the journal."""
        from hermes.journal.store.postgres.search import PostgresSearchIndex

        return PostgresSearchIndex(self)

    def close(self) -> None:
        """Close the connections."""
        self._pool.close()
