"""``hermes doctor`` about the journal: damage, what was cut off, what is derived, and what ``--fix`` repairs."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from hermes.journal.runner import FileRunner
from hermes.journal.store import schema
from hermes.testing import ScriptedProvider, by_step, text, tool_call
from support import run_hermes, write_config
from support.doctor_rig import Examined, examine


@pytest.fixture
def used_home(home: Path, workdir: Path) -> Path:
    """A home with one conversation in it."""
    with ScriptedProvider("Hello there") as provider:
        write_config(home, provider.base_url)
        run_hermes("chat", "-q", "hi", "-Q", home=home, cwd=workdir)
    return home


def journal(home: Path, workdir: Path, *arguments: str) -> Examined:
    return examine(home, workdir, "journal", *arguments)


def change(home: Path, statement: str) -> None:
    with closing(sqlite3.connect(home / "state.db", isolation_level=None)) as connection:
        connection.execute(statement)


def test_a_journal_in_good_order(used_home: Path, workdir: Path) -> None:
    seen = journal(used_home, workdir)
    assert (seen.code, seen.document["warnings"]) == (0, 0), seen.output
    assert f"schema {len(schema.MIGRATIONS)}" in seen.one("journal", "ok")["detail"]
    assert seen.one("records", "ok")["detail"] == "the last 1 session complete"
    assert seen.one("search index", "ok")["detail"].startswith("not built yet")


@pytest.mark.parametrize("damage", ["no database", "one page"])
def test_a_damaged_journal_is_told_and_left_as_it_is(used_home: Path, workdir: Path, damage: str) -> None:
    database = used_home / "state.db"
    with closing(sqlite3.connect(database)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    intact = database.read_bytes()
    broken = b"no database at all" * 500 if damage == "no database" else intact[:4096] + os.urandom(len(intact) - 4096)
    database.write_bytes(broken)
    seen = examine(used_home, workdir, "journal", "plugins", "--fix")
    assert seen.code == 1
    found = seen.one("journal", "broken")
    assert "damaged" in found["detail"] and "move it aside" in found["fix"]
    assert database.read_bytes() == broken
    assert "Traceback" not in seen.output and "the check failed" not in seen.output


def test_journals_of_other_versions(used_home: Path, workdir: Path) -> None:
    change(used_home, "PRAGMA user_version = 1")
    older = journal(used_home, workdir)
    assert (older.code, older.about("records")) == (0, [])
    assert f"schema 1; the next run migrates it to {len(schema.MIGRATIONS)}" in older.one("journal", "ok")["detail"]
    with closing(sqlite3.connect(used_home / "state.db")) as connection:
        assert connection.execute("PRAGMA user_version").fetchone() == (1,)  # looking changes nothing
    change(used_home, "PRAGMA user_version = 999")
    assert "newer version" in journal(used_home, workdir).one("journal", "broken")["detail"]


def test_a_long_log(used_home: Path, workdir: Path) -> None:
    with closing(sqlite3.connect(used_home / "state.db")) as holder:
        holder.execute("SELECT count(*) FROM sessions").fetchone()
        log = used_home / "state.db-wal"
        log.touch()
        os.truncate(log, 100_000_000)
        found = journal(used_home, workdir).about("journal")
        os.truncate(log, 0)
    assert [finding["status"] for finding in found] == ["ok", "warning"]
    assert "100 MB" in found[1]["detail"]


def test_a_session_that_was_cut_off_and_the_runner_it_left(home: Path, workdir: Path) -> None:
    script = by_step(tool_call("terminal", {"command": "true"}), text("Done."))
    with ScriptedProvider(script) as provider:
        write_config(home, provider.base_url)
        run_hermes("chat", "-q", "Tidy up", "-Q", home=home, cwd=workdir, env={"HERMES_CRASH_AT": "6"})
        seen = journal(home, workdir)
        cut_off = seen.one("session", "warning")
        assert "was interrupted in the middle of a turn: Tidy up" in cut_off["detail"]
        assert seen.one("runners", "warning")["command"] == "hermes doctor --fix"
        fixed = journal(home, workdir, "--fix")
        assert fixed.one("runners", "ok")["fixed"] is True
        assert list((home / "runners").iterdir()) == []
        resumed = run_hermes(*cut_off["command"].split()[1:], "-Q", home=home, cwd=workdir)
    assert resumed.stdout == "Done.\n", resumed.stderr
    after = journal(home, workdir)
    assert (after.about("session"), after.about("runners")) == ([], [])


def test_a_runner_at_work_is_left_alone(used_home: Path, workdir: Path) -> None:
    runner = FileRunner(used_home / "runners")
    runner.start()
    change(used_home, f"UPDATE sessions SET runner = '{runner.id}'")
    change(used_home, "UPDATE turns SET state = 'running'")
    try:
        seen = journal(used_home, workdir, "--fix")
        assert seen.one("runners", "ok")["detail"] == "1 running"
        assert seen.about("session") == []
        assert (used_home / "runners" / runner.id).exists()
    finally:
        runner.close()
    assert len(journal(used_home, workdir).about("session")) == 1


def test_a_session_that_lost_something(used_home: Path, workdir: Path) -> None:
    change(used_home, "DELETE FROM events WHERE seq = 2")
    seen = journal(used_home, workdir)
    found = seen.one("records", "broken")
    assert "event 2 is missing" in found["detail"]
    verified = run_hermes(*found["command"].split()[1:], home=used_home, cwd=workdir)
    assert verified.returncode == 1


def test_questions_without_an_answer(used_home: Path, workdir: Path) -> None:
    change(
        used_home,
        "INSERT INTO questions (id, session_id, turn_id, key, tool, digest, subject, rules, description, surface, "
        "state, created_at) SELECT 'a1', id, 't', 'tool:1.0', 'terminal', 'd', 'make', '[]', '', 'cli', 'pending', 0 "
        "FROM sessions",
    )
    assert journal(used_home, workdir).one("approvals", "warning")["detail"] == "1 question without an answer"


@pytest.mark.parametrize("damage", ["garbage", "another journal"])
def test_a_search_index_of_no_use_is_removed_on_demand(used_home: Path, workdir: Path, damage: str) -> None:
    run_hermes("sessions", "search", "Hello", home=used_home, cwd=workdir)
    assert journal(used_home, workdir).one("search index", "ok")["detail"].endswith("kB")
    if damage == "garbage":
        for file in used_home.glob("search.db*"):
            file.unlink()
        (used_home / "search.db").write_bytes(b"garbage" * 1000)
    else:
        with closing(sqlite3.connect(used_home / "search.db", isolation_level=None)) as index:
            index.execute("UPDATE watermark SET message_id = 10000")
    seen = journal(used_home, workdir)
    assert seen.one("search index", "broken")["fixable"] is True
    assert (used_home / "search.db").exists()
    assert journal(used_home, workdir, "--fix").one("search index", "ok")["fixed"] is True
    again = run_hermes("sessions", "search", "Hello", home=used_home, cwd=workdir)
    assert "[Hello] there" in again.stdout


def test_an_index_that_is_behind_is_no_problem(used_home: Path, workdir: Path) -> None:
    run_hermes("sessions", "search", "Hello", home=used_home, cwd=workdir)
    with closing(sqlite3.connect(used_home / "search.db", isolation_level=None)) as index:
        index.execute("UPDATE watermark SET message_id = 0")
    assert "2 messages behind" in journal(used_home, workdir).one("search index", "ok")["detail"]
