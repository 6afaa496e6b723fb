"""A check that tests close the SQLite connections that they open, as Python 3.13 makes it with a warning of its own."""

from __future__ import annotations

import os
import sqlite3
import sys
from collections.abc import Generator
from typing import Any

import pytest

#: Where connections were opened that were left to the garbage collector, since the last look.
_left: list[str] = []
_connect = sqlite3.connect


class _WatchedConnection(sqlite3.Connection):
    """A connection that says so when it goes without having been closed."""

    opened_at = ""
    process = 0

    def close(self) -> None:
        self.opened_at = ""
        super().close()

    def __del__(self) -> None:
        if self.opened_at and self.process == os.getpid():
            _left.append(self.opened_at)


def _watched(*arguments: Any, **options: Any) -> sqlite3.Connection:
    connection = _connect(*arguments, **{"factory": _WatchedConnection, **options})
    if isinstance(connection, _WatchedConnection):
        caller = sys._getframe(1)  # pyright: ignore[reportPrivateUsage]
        test = os.environ.get("PYTEST_CURRENT_TEST", "")
        connection.opened_at = f"{caller.f_code.co_filename}:{caller.f_lineno} in {test}"
        connection.process = os.getpid()
    return connection


@pytest.fixture(autouse=True)
def no_connection_is_left_open() -> Generator[None]:
    """What a test left may be found in a later one: the message names the one that opened it."""
    sqlite3.connect = _watched
    yield
    sqlite3.connect = _connect
    found, _left[:] = list(_left), []
    if found:
        pytest.fail("connections were not closed: " + "; ".join(found))
