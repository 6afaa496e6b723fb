"""Several processes write one journal at once, and some of them are killed while they do."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from hermes.journal.history.inspection import inspect_session
from hermes.journal.sessions import Sessions
from hermes.journal.store.port import Store
from hermes.journal.store.sqlite.store import SqliteStore
from hermes.trace.verify.session import verify
from journal.kit import PYTHON_PATH, rows

pytestmark = pytest.mark.both_stores

WRITER = Path(__file__).with_name("storm_writer.py")
FOREVER = 1_000_000


def start_writer(address: str, session_id: str, limit: int) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, str(WRITER), address, session_id, str(limit)],
        env={**os.environ, "PYTHONPATH": PYTHON_PATH},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def check(store: Store, acknowledged: dict[str, list[int]]) -> None:
    """Every acknowledged step is there once, with its message, and no number is missing from the sequences."""
    if isinstance(store, SqliteStore):
        assert rows(store, "PRAGMA integrity_check") == [("ok",)]
        assert rows(store, "PRAGMA foreign_key_check") == []
    for session_id, numbers in acknowledged.items():
        sequence = [
            seq for (seq,) in rows(store, "SELECT seq FROM events WHERE session_id = ? ORDER BY seq", session_id)
        ]
        assert sequence == list(range(1, len(sequence) + 1))
        query = "SELECT key FROM events WHERE session_id = ? AND kind = 'step_done'"
        recorded = [key for (key,) in rows(store, query, session_id)]
        assert len(recorded) == len(set(recorded)), "a step was recorded twice"
        assert {f"tick:{number}" for number in numbers} <= set(recorded)
        assert len(numbers) == len(set(numbers)), "a process that took over repeated a step"
        messages = rows(store, "SELECT count(*) FROM messages WHERE session_id = ?", session_id)[0][0]
        assert messages == len(recorded) + 1


@pytest.mark.slow_on_postgres
def test_four_processes_write_at_once(store: Store, journal_address: str) -> None:
    writers = {f"s{number}": start_writer(journal_address, f"s{number}", 60) for number in range(4)}
    acknowledged: dict[str, list[int]] = {}
    for session_id, writer in writers.items():
        output, errors = writer.communicate(timeout=60)
        assert writer.returncode == 0, errors.decode()
        acknowledged[session_id] = [int(line) for line in output.split()]
    assert acknowledged == {session_id: list(range(60)) for session_id in writers}
    check(store, acknowledged)


@pytest.mark.slow
def test_a_storm_of_kills_loses_nothing_acknowledged(store: Store, journal_address: str) -> None:
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    sessions = [f"w{number}" for number in range(3)]
    acknowledged: dict[str, list[int]] = {session: [] for session in sessions}
    failures: list[str] = []

    def torment(session_id: str) -> None:
        chance = random.Random(f"{seed} {session_id}")
        for _ in range(7):
            with start_writer(journal_address, session_id, FOREVER) as writer:
                assert writer.stdout is not None and writer.stderr is not None
                first = writer.stdout.readline()
                timer = threading.Timer(chance.uniform(0, 0.12), writer.kill)
                timer.start()
                lines = (first + writer.stdout.read()).split(b"\n")
                timer.join()
                # The last line is whole only when its newline arrived, and empty then.
                acknowledged[session_id].extend(int(line) for line in lines[:-1])
                failures.append(writer.stderr.read().decode())

    threads = [threading.Thread(target=torment, args=(session,)) for session in sessions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == [""] * 21
    assert all(len(numbers) > 7 for numbers in acknowledged.values()), acknowledged
    check(store, acknowledged)
    assert {row.id for row in Sessions(store).list()} == set(sessions)
    for session_id in sessions:
        assert [
            problem for problem in verify(inspect_session(store, session_id)) if "not finished" not in str(problem)
        ] == []
