"""Connections to PostgreSQL: opened when needed, at most so many, used again."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg

from hermes.base.errors import JournalError, JournalUnavailable
from hermes.journal.store.postgres.dialect import PostgresConnection
from hermes.journal.store.postgres.errors import location_of
from hermes.journal.store.postgres.pipeline import PipelinedConnection

MINIMUM_VERSION = 140_000
CONNECT_SECONDS = 3
#: How long a thread waits for a connection that others use.
_TURN_SECONDS = 30.0
#: A dead peer is noticed: asked after 5 s of silence, every 2 s, and given up after 3 answers that did not come.
_KEEPALIVE: dict[str, Any] = {"keepalives": 1, "keepalives_idle": 5, "keepalives_interval": 2, "keepalives_count": 3}
_UNANSWERED_MS = 15_000


def connect(url: str, schema: str, name: str, *, seconds: int = CONNECT_SECONDS) -> PostgresConnection:
    """A new connection that sees the tables of ``schema`` first; ``name`` is shown in the server's list of them."""
    if not url.startswith(("postgresql://", "postgres://")):
        raise JournalError("journal.url: the address of a PostgreSQL database begins with postgresql://")
    raw = psycopg.connect(
        url,
        autocommit=True,
        client_encoding="utf8",
        connect_timeout=seconds,
        application_name=name,
        tcp_user_timeout=_UNANSWERED_MS,
        **_KEEPALIVE,
    )
    if raw.info.server_version < MINIMUM_VERSION:
        found = raw.info.parameter_status("server_version")
        raw.close()
        raise JournalError(
            f"{location_of(url)} runs PostgreSQL {found}; the journal needs {MINIMUM_VERSION // 10_000} or newer"
        )
    # The days of a list of costs are those of this machine, as they are with a file.
    settings = f"SET search_path = {quoted(schema)}, pg_temp; SET TIME ZONE '{_time_zone()}'"
    connection = PostgresConnection(raw)
    connection.command(settings.encode())
    return connection


def connection_name(process_id: str) -> str:
    """The name of all connections of a process in the server's list."""
    return f"hermes:{process_id}"


def quoted(name: str) -> str:
    """A name as SQL reads it, whatever its characters."""
    return '"' + name.replace('"', '""').replace("\0", "") + '"'


def _time_zone() -> str:
    link = os.environ.get("TZ", "")
    if not link:
        try:
            link = str(Path("/etc/localtime").readlink()).partition("zoneinfo/")[2]
        except OSError:
            link = ""
    if link and all(c.isalnum() or c in "/_+-" for c in link):
        return link
    return f"<+00>{time.timezone // 3600:+d}"


class PostgresPool:
    """The connections of one process. Thread-safe."""

    def __init__(self, size: int, open_one: Callable[[], PipelinedConnection], location: str) -> None:
        self._open = open_one
        self._location = location
        self._idle: list[PipelinedConnection] = []
        self._size = size
        #: How many are open, idle or in use.
        self._count = 0
        self._changed = threading.Condition(threading.Lock())
        self._is_closed = False

    def take(self) -> PipelinedConnection:
        """A connection that no other thread uses. Give it back, or discard it."""
        with self._changed:
            if not self._idle and self._count >= self._size:
                self._changed.wait_for(lambda: self._idle or self._count < self._size, _TURN_SECONDS)
            if self._is_closed:
                raise JournalError("the journal was closed")
            if self._idle:
                return self._idle.pop()
            if self._count >= self._size:
                raise JournalUnavailable(
                    f"{self._location}: all {self._size} connections of this process have been in use for "
                    f"{_TURN_SECONDS:g} s; raise journal.pool_size"
                )
            self._count += 1
        try:
            return self._open()
        except BaseException:
            self._dropped(1)
            raise

    def give_back(self, connection: PipelinedConnection) -> None:
        """The connection may be used by others; one that is broken or not at rest is closed."""
        if connection.is_idle:
            with self._changed:
                if not self._is_closed:
                    self._idle.append(connection)
                    self._changed.notify()
                    return
        connection.close()
        self._dropped(1)

    def discard(self, connection: PipelinedConnection) -> None:
        """Close a connection that broke, and those that wait: the server has probably gone with all of them."""
        with self._changed:
            idle, self._idle = self._idle, []
        for one in (connection, *idle):
            one.close()
        self._dropped(1 + len(idle))

    def _dropped(self, count: int) -> None:
        with self._changed:
            self._count -= count
            self._changed.notify(count)

    def close(self) -> None:
        """Close what is idle now, and the rest when it is given back."""
        with self._changed:
            self._is_closed = True
            idle, self._idle = self._idle, []
        for one in idle:
            one.close()
        self._dropped(len(idle))
