"""Transactions that are sent in few round trips, in the pipeline mode of the PostgreSQL protocol.

A statement waits until a row of the transaction is asked for, or until the commit, and is sent with those that wait
beside it. The server runs them in their order, and nothing after one that failed; its error is raised where the answer
is read.
"""

from __future__ import annotations

import select
from typing import TYPE_CHECKING, Any

import psycopg
from psycopg.pq import ConnStatus, ExecStatus

from hermes.base.errors import JournalError
from hermes.journal.store.postgres.dialect import (
    MOST_PREPARED,
    PREPARED_FROM,
    ConnectionCut,
    PostgresConnection,
    Rows,
    Values,
)

if TYPE_CHECKING:
    from psycopg.pq.abc import PGresult

_BEGIN, _BEGIN_READ = b"BEGIN", b"BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
_COMMIT, _ROLLBACK = b"COMMIT", b"ROLLBACK"
#: Given to a transaction before anything of it is written, so that its outcome can be asked for afterwards.
_IDENTIFY = b"SELECT pg_current_xact_id()::text"
_NO_VALUES = Values([], (), None)
#: So many statements are sent without waiting for more.
_MOST_WAITING = 200

_GOOD = (ExecStatus.TUPLES_OK, ExecStatus.COMMAND_OK, ExecStatus.EMPTY_QUERY)
_SYNC, _SKIPPED = ExecStatus.PIPELINE_SYNC, ExecStatus.PIPELINE_ABORTED
_CONNECTED = ConnStatus.OK
_READABLE, _WRITABLE = select.POLLIN, select.POLLOUT


#: A statement, with the types of its values.
_Key = tuple[bytes, tuple[int, ...]]


class PipelinedConnection(PostgresConnection):
    """A connection of the pool: begin, execute, then commit or roll back."""

    __slots__ = ("_expected", "_identified", "_is_open", "_names", "_number", "_numbered", "_poll", "_uses", "_waiting")

    def __init__(self, raw: psycopg.Connection[Any]) -> None:
        super().__init__(raw)
        self._wire.nonblocking = 1
        self._wire.enter_pipeline_mode()
        self._poll = select.poll()
        self._poll.register(self._wire.socket, _READABLE)
        #: Statements that have not been sent.
        self._waiting: list[tuple[bytes, Values, Rows]] = []
        #: What the server has yet to answer: a statement, one that is being prepared, or the end of a round trip.
        self._expected: list[Rows | _Key | None] = []
        self._uses: dict[_Key, int] = {}
        self._names: dict[_Key, bytes] = {}
        self._numbered = 0
        #: The number of the transaction, until it is asked for and afterwards.
        self._identified: Rows | None = None
        self._number = ""
        #: The server has been sent the beginning of a transaction, and not its end.
        self._is_open = False

    # -- transactions -------------------------------------------------------------------------------------------

    def begin(self) -> None:
        """Begin a transaction that writes."""
        self._add(_BEGIN)
        self._identified = self._add(_IDENTIFY)

    def begin_read(self) -> None:
        """Begin a transaction that sees one state of the database and changes nothing."""
        self._add(_BEGIN_READ)

    def transaction(self) -> str:
        """The number of the transaction, which the server remembers the outcome by."""
        if self._identified is not None:
            self._number = self._identified.fetchall()[0][0]
            self._identified = None
        if not self.is_in_transaction:
            raise JournalError("a statement of the transaction had failed, so nothing was recorded")
        return self._number

    def commit(self) -> None:
        """Send what waits and commit, once ``transaction`` is known: after a lost connection it is asked for."""
        self._add(_COMMIT)
        self.exchange()
        self._is_open = False

    def roll_back(self) -> None:
        """End the transaction; what waits is forgotten. The answer is read with the next one."""
        self._waiting.clear()
        if self._is_open:
            self._add(_ROLLBACK)
            self._send()
            self._is_open = False

    @property
    def is_idle(self) -> bool:
        """Whether no transaction is open."""
        return not self._is_open and not self.is_closed

    # -- statements ---------------------------------------------------------------------------------------------

    def run(self, text: bytes, values: Values) -> Rows:
        """Let a statement wait for the next round trip."""
        rows = Rows(None, self.exchange)
        self._waiting.append((text, values, rows))
        if len(self._waiting) >= _MOST_WAITING:
            self.exchange()
        return rows

    def command(self, text: bytes) -> Rows:
        """Run a statement without values."""
        rows = self._add(text)
        self.exchange()
        return rows

    def _add(self, text: bytes) -> Rows:
        return self.run(text, _NO_VALUES)

    def exchange(self) -> None:
        """Send what waits, and read all answers. Raises the error of the first statement that failed."""
        try:
            self._send()
            self._read()
        except (psycopg.OperationalError, psycopg.InterfaceError) as error:
            if self._wire.status == _CONNECTED and error.sqlstate:
                raise
            self.close()  # its answers would be taken for those of other statements
            raise ConnectionCut(str(error)) from error

    def _send(self) -> None:
        wire, expected = self._wire, self._expected
        waiting, self._waiting = self._waiting, []
        for text, (values, types, formats), rows in waiting:
            key = (text, types)
            name = self._names.get(key) or self._prepare(key)
            if name:
                wire.send_query_prepared(name, values, formats)
            else:
                wire.send_query_params(text, values, types, formats)
            expected.append(rows)
        self._is_open = self._is_open or bool(waiting)
        wire.pipeline_sync()
        expected.append(None)
        if wire.flush():
            self._flush()

    def _prepare(self, key: _Key) -> bytes:
        """The name of a statement that is often used, or nothing."""
        uses = self._uses.get(key, 0)
        if uses < PREPARED_FROM:
            self._uses[key] = uses + 1
            return b""
        if len(self._uses) > MOST_PREPARED:
            self._wire.send_query_params(b"DEALLOCATE ALL", None)
            self._expected.append(Rows(None))
            self._uses, self._names = {}, {}
        # A number is not used again: whether a statement was prepared or dropped in a transaction that failed is open.
        self._numbered += 1
        name = self._names[key] = b"%.24s %d" % (key[0], self._numbered)
        self._wire.send_prepare(name, *key)
        self._expected.append(key)
        return name

    # -- the wire -----------------------------------------------------------------------------------------------

    def _flush(self) -> None:
        """Send what did not fit, while the server may be sending too."""
        self._poll.modify(self._wire.socket, _READABLE | _WRITABLE)
        while self._wire.flush():
            self._poll.poll()
            self._wire.consume_input()
        self._poll.modify(self._wire.socket, _READABLE)

    def _read(self) -> None:
        """Read the answers to everything that was sent."""
        wire, expected = self._wire, self._expected
        failed: PGresult | None = None
        interruption: BaseException | None = None
        for item in expected:
            while wire.is_busy():
                try:
                    self._poll.poll()
                except BaseException as error:  # of a signal: first the answer, so that it is known what was done
                    interruption = error
                wire.consume_input()
            result = wire.get_result() or wire.get_result()  # there is nothing between the answers of two statements
            if result is None or wire.status != _CONNECTED:
                raise ConnectionCut(wire.get_error_message() or "the connection is closed")
            status = result.status
            if status in _GOOD:
                if isinstance(item, Rows):
                    item.result = result
            elif status == _SYNC:
                if item is not None:
                    raise psycopg.InterfaceError("the answers of the server are out of step")
            else:
                if isinstance(item, tuple):
                    self._names.pop(item, None)
                if status != _SKIPPED:
                    failed = failed or result
        expected.clear()
        if interruption is not None:
            raise interruption
        if failed is not None:
            raise psycopg.errors.error_from_result(failed)
