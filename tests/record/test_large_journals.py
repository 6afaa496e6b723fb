"""Journals of a size that years of work leave: one run is found in them without reading the others."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from hermes.base.config import Config
from hermes.base.errors import HermesError
from hermes.journal.history import copies
from hermes.journal.store.sqlite.store import SqliteStore
from hermes.record.audit.evidence import export_evidence, verify_evidence
from hermes.record.bundle import write_bundle
from hermes.record.recording import load_recording
from hermes.record.replay.replay import recorded_config, replay
from hermes.testing import ScriptedProvider, text, tool_call
from support import HostFactory

#: Tables that grow with every run.
LARGE = ("events", "messages", "model_calls", "turns", "questions", "blobs", "blob_uses")


@pytest.fixture
def recorded(make_host: HostFactory, workdir: Path) -> str:
    (workdir / "a").write_text("a" * 5_000)
    with ScriptedProvider([tool_call("read_file", {"path": "a"}), text("One."), text("Two.")]) as provider:
        host = make_host(provider)
        session = host.new_session()
        session.run("first")
        session.run("second")
        host.close()
    return session.id


def fill(path: Path, session_id: str, copies: int, blob_bytes: int) -> None:
    """Copies of a session under other ids, each with a blob of its own."""
    with closing(sqlite3.connect(path)) as connection, connection:
        for table, renamed in (
            ("sessions", ("id",)),
            ("turns", ("id", "session_id", "request_key")),
            ("events", ("session_id", "turn_id")),
            ("messages", ("session_id",)),
        ):
            columns = [name for _, name, *_ in connection.execute(f"PRAGMA table_info({table})")]
            columns = [name for name in columns if (table, name) != ("messages", "id")]
            values = [f"{name} || '-' || n" if name in renamed else name for name in columns]
            own = "id" if table == "sessions" else "session_id"
            connection.execute(
                f"WITH RECURSIVE copies(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM copies WHERE n < ?) "
                f"INSERT INTO {table} ({', '.join(columns)}) SELECT {', '.join(values)} FROM {table}, copies "
                f"WHERE {own} = ?",
                (copies, session_id),
            )
        connection.executemany(
            "INSERT INTO blobs (sha256, data) VALUES (?, ?)",
            ((f"{number:064x}", f"{number:x}" * (blob_bytes // len(f"{number:x}"))) for number in range(copies)),
        )
        connection.executemany(
            "INSERT INTO blob_uses (session_id, sha256) VALUES (?, ?)",
            ((f"{session_id}-{number + 1}", f"{number:064x}") for number in range(copies)),
        )


def test_a_run_is_read_by_indexes_alone(recorded: str, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No statement that takes a run out of the journal reads all rows of a large table."""
    path = home / "state.db"
    fill(path, recorded, copies=50, blob_bytes=100)
    statements: set[str] = set()
    plain = sqlite3.connect

    def traced(*arguments: Any, **options: Any) -> sqlite3.Connection:
        connection: sqlite3.Connection = plain(*arguments, **options)
        connection.set_trace_callback(statements.add)
        return connection

    monkeypatch.setattr(sqlite3, "connect", traced)
    with closing(SqliteStore(path)) as store:
        assert load_recording(store, recorded).turns[1].answer == "Two."
        write_bundle(store, recorded)
        export_evidence(store, recorded, [])
    asked = [one for one in statements if one.lstrip().upper().startswith(("SELECT", "WITH"))]
    assert any("FROM events" in one for one in asked), "the statements were not seen"
    with closing(plain(path)) as connection:
        plans = {one: [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {one}")] for one in asked}
    scans = {one: plan for one, plan in plans.items() if any(f"SCAN {table}" in " ".join(plan) for table in LARGE)}
    assert scans == {}


def test_a_run_that_is_too_large_says_so(
    recorded: str, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with closing(SqliteStore(home / "state.db")) as store:
        size = copies.stored_bytes(store)
        monkeypatch.setattr(copies, "MOST_BYTES", size - 1)  # the file is larger, the session is not
        assert load_recording(store, recorded).turns
        monkeypatch.setattr(copies, "MOST_BYTES", 5_000)
        for read in (
            lambda: replay(store, recorded, tmp_path / "elsewhere", Config()),
            lambda: write_bundle(store, recorded),
            lambda: export_evidence(store, recorded, []),
        ):
            with pytest.raises(HermesError, match=r"session .* has 0\.0 GB of records; a run of at most"):
                read()


@pytest.mark.soak
def test_one_run_in_a_journal_of_a_gigabyte(recorded: str, home: Path, tmp_path: Path) -> None:
    path = home / "state.db"
    fill(path, recorded, copies=10_000, blob_bytes=100_000)
    assert path.stat().st_size > 1_000_000_000
    with closing(SqliteStore(path)) as store:
        config = recorded_config(load_recording(store, recorded))
        assert config is not None
        assert replay(store, recorded, tmp_path / "elsewhere", config).identical
        assert verify_evidence(export_evidence(store, recorded, [])).problems == []
        assert len(write_bundle(store, recorded)) < 100_000
