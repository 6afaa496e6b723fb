"""The journal's connection with the cursors and the pipeline mode of psycopg, to measure what its own codec saves."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from typing import Any, cast

import psycopg
from psycopg.abc import Buffer
from psycopg.adapt import Dumper, Loader
from psycopg.pq import ConnStatus
from psycopg.types.string import StrDumper

from hermes.journal.store.connection import Parameters
from hermes.journal.store.postgres.dialect import translate


class _TextDumper(StrDumper):
    """A text without what PostgreSQL cannot hold."""

    def dump(self, obj: str) -> bytes:
        return obj.encode("utf-8", "replace").replace(b"\0", b"?")


class _BoolDumper(Dumper):
    """A truth value as the number that it is in SQLite."""

    oid = 23

    def dump(self, obj: bool) -> bytes:
        return b"1" if obj else b"0"


class _BoolLoader(Loader):
    def load(self, data: Buffer) -> int:
        return int(bytes(data) == b"t")


class _NumericLoader(Loader):
    def load(self, data: Buffer) -> int | float:
        number = bytes(data)
        return float(number) if b"." in number or b"N" in number else int(number)


class _Rows:
    """The rows of a cursor, which the pipeline reads when they are asked for."""

    def __init__(self, cursor: psycopg.RawCursor[Any]) -> None:
        self._cursor = cursor

    @property
    def description(self) -> Any:
        return self._cursor.description

    @property
    def rowcount(self) -> int:
        self.fetchall()
        return self._cursor.rowcount

    def fetchone(self) -> Any:
        return next(iter(self), None)

    def fetchall(self) -> list[Any]:
        try:
            return self._cursor.fetchall()
        except psycopg.ProgrammingError:  # a statement without rows
            return []

    def __iter__(self) -> Iterator[Any]:
        return iter(self._cursor)


class PlainConnection:
    """Takes the place of ``PipelinedConnection``: begin, execute, then commit or roll back."""

    answers_at_once = False

    def __init__(self, raw: psycopg.Connection[Any]) -> None:
        self.raw, self.offset = raw, 0.0
        raw.prepare_threshold, raw.prepared_max = 2, 500
        raw.cursor_factory = psycopg.RawCursor
        raw.adapters.register_dumper(str, _TextDumper)
        raw.adapters.register_dumper(bool, _BoolDumper)
        raw.adapters.register_loader("bool", _BoolLoader)
        raw.adapters.register_loader("numeric", _NumericLoader)
        self._entered = raw.pipeline()
        self._pipeline = self._entered.__enter__()
        self._identified: _Rows | None = None
        self._is_open = False

    def clock(self) -> float:
        return time.time() + self.offset

    @property
    def is_closed(self) -> bool:
        return self.raw.pgconn.status != ConnStatus.OK

    @property
    def is_idle(self) -> bool:
        return not self._is_open and not self.is_closed

    def close(self) -> None:
        self._entered.__exit__(None, None, None)
        self.raw.close()

    def execute(self, sql: str, parameters: Parameters = (), /) -> _Rows:
        text, names = translate(sql)
        values = parameters if names is None else [cast("dict[str, Any]", parameters)[name] for name in names]
        return self._run(text, values)

    def executemany(self, sql: str, parameters: Iterable[Parameters], /) -> _Rows:
        rows = [self.execute(sql, values) for values in parameters]
        return rows[-1] if rows else self._run(b"")

    def _run(self, text: bytes, values: Any = None) -> _Rows:
        return _Rows(cast("psycopg.RawCursor[Any]", self.raw.execute(text, values)))

    def begin(self) -> None:
        self._is_open = True
        self._run(b"BEGIN")
        self._identified = self._run(b"SELECT pg_current_xact_id()::text")

    def begin_read(self) -> None:
        self._is_open = True
        self._run(b"BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")

    def transaction(self) -> str:
        assert self._identified is not None
        return self._identified.fetchall()[0][0]

    def commit(self) -> None:
        self._end(b"COMMIT")

    def roll_back(self) -> None:
        if self._is_open:
            self._end(b"ROLLBACK")

    def _end(self, text: bytes) -> None:
        self._run(text)
        self._pipeline.sync()
        self._is_open = False
