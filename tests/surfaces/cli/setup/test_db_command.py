"""``hermes db``: the journal is shown, migrated, and copied to PostgreSQL and back."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import psycopg
import pytest

from hermes.base.config.schema.sections import JournalConfig
from hermes.journal.leases import SessionInfo, release_lease
from hermes.journal.questions import QuestionRow, Questions
from hermes.journal.records import SetupRecord
from hermes.journal.sessions import Sessions
from hermes.journal.store import schema
from hermes.journal.store.connection import JournalConnection
from hermes.journal.store.port import Store, open_store
from hermes.journal.store.postgres.copying import tables
from hermes.journal.store.postgres.dialect import PostgresConnection
from hermes.journal.turns.lifecycle import begin_turn
from hermes.journal.turns.steps import ModelCallRow
from hermes.record.bundle import write_bundle
from hermes.surfaces.cli.main import main
from journal.kit import insert_session

NEWEST = len(schema.MIGRATIONS)
SECRET = "s3cret-password"


def record_some(store: Store) -> None:
    """Two sessions, one delegated by the other, with a large body, a question and a model call."""
    with closing(store.new_runner()) as runner:
        for session, parent in (("one", None), ("two", "one")):
            turn = begin_turn(
                store,
                runner,
                SessionInfo(session, "/", parent_id=parent),
                turn_id=f"{session}:turn",
                task_id="t",
                request_key="key",
                message={"role": "user", "content": f"a question of {session} \ud800\0"},
            )
            turn.step(
                "setup", "done", "pure", SetupRecord(system="x" * 50_000), {"tools": [{"name": "a"}, {"name": "b"}]}
            )
            turn.model_call(ModelCallRow(f"{session}:api:1", "model:1", "p", "m", "ok", 1.0, 2.0, cost_usd=0.1))
            question = QuestionRow(f"ask-{session}", session, turn.id, "tool:1.0", "terminal", "digest", "rm -rf x")
            Questions(store).ask(question)
            turn.message(1, 0, {"role": "assistant", "content": "an answer"})
            turn.step("final", "done", "pure", {"text": "an answer", "finish_reason": "stop"})
            turn.end("completed", answer="an answer")
            turn.commit()
            release_lease(store, runner, session)


def everything(store: Store) -> dict[str, list[Any]]:
    """All rows of all tables, in an order of their own."""

    def read(connection: Any) -> dict[str, list[Any]]:
        return {
            table: sorted(connection.execute(f"SELECT {', '.join(columns)} FROM {table}").fetchall(), key=repr)
            for table, columns in tables().items()
        }

    return store.read(read)


def use(home: Path, url: str) -> None:
    home.mkdir(parents=True, exist_ok=True)
    (home / "config.yaml").write_text(f"journal:\n  url: {url}\n")


def test_a_journal_moves_to_postgres_and_back(
    home: Path, tmp_path: Path, postgres_url: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with closing(open_store(home)) as file:
        record_some(file)
        before, bundle = everything(file), write_bundle(file, "one")
    use(home, postgres_url)
    assert main(["db", "copy", "--to", "postgres"]) == 0
    assert "2 sessions copied" in capsys.readouterr().out
    with closing(open_store(home, JournalConfig(url=postgres_url))) as database:
        assert everything(database) == before
        assert [row.id for row in Sessions(database).children("one")] == ["two"]
        assert write_bundle(database, "one") == bundle
        assert {hit.session_id for hit in database.search_index().search("question")} == {"one", "two"}
        with closing(database.new_runner()) as runner:
            turn = begin_turn(
                *(database, runner, SessionInfo("three", "/")),
                turn_id="three:turn",
                task_id="t",
                request_key="key",
                message={"role": "user", "content": "further"},
            )
            turn.end("completed", answer="yes")
            turn.commit()
        after = everything(database)
    assert main(["db", "copy", "--to", "postgres"]) == 1
    assert "holds records already" in capsys.readouterr().err

    other = tmp_path / "other"
    use(other, postgres_url)
    monkeypatch.setenv("HERMES_HOME", str(other))
    assert main(["db", "copy", "--to", "file"]) == 0
    with closing(open_store(other)) as file:
        assert everything(file)["events"] == after["events"]
        assert everything(file)["messages"] == after["messages"]
        assert len(everything(file)["sessions"]) == 3


def test_a_copy_that_differs_is_not_made(
    home: Path, postgres_url: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from hermes.journal.store.postgres import copying

    with closing(open_store(home)) as file:
        record_some(file)
    use(home, postgres_url)

    def broken(connection: JournalConnection) -> set[str]:
        return {"one"} if isinstance(connection, PostgresConnection) else set()

    monkeypatch.setattr(copying, "_broken_chains", broken)
    assert main(["db", "copy", "--to", "postgres"]) == 1
    assert "do not fit their chain" in capsys.readouterr().err
    with psycopg.connect(postgres_url) as connection:
        assert connection.execute("SELECT count(*) FROM hermes.sessions").fetchone() == (0,)


def test_a_journal_in_use_is_not_copied(home: Path, postgres_url: str, capsys: pytest.CaptureFixture[str]) -> None:
    use(home, postgres_url)
    with closing(open_store(home)) as file, closing(file.new_runner()) as runner:
        begin_turn(
            *(file, runner, SessionInfo("busy", "/")),
            turn_id="t",
            task_id="t",
            request_key="t",
            message={"role": "user", "content": "x"},
        )
        assert main(["db", "copy", "--to", "postgres"]) == 1
    assert "session busy is in use" in capsys.readouterr().err


def test_status_and_migrate_of_a_database(
    home: Path, postgres_url: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    use(home, postgres_url)
    assert main(["db", "status"]) == 0
    assert "none yet" in capsys.readouterr().out
    assert main(["db", "migrate"]) == 0
    assert f"tables made, schema {NEWEST}" in capsys.readouterr().out
    assert main(["db", "status", "--json"]) == 0
    found = msgspec.json.decode(capsys.readouterr().out)
    assert (found["database"], found["schema"], found["sessions"], found["runners"]) == ("postgres", NEWEST, 0, 0)
    with closing(open_store(home, JournalConfig(url=postgres_url))) as store:
        store.write(lambda connection: insert_session(connection, "s1"))
    assert main(["db", "status"]) == 0
    assert "records   1 session, 0 turns, 0 events\n" in capsys.readouterr().out

    addition = "CREATE TABLE newly (id TEXT PRIMARY KEY, n INTEGER NOT NULL, at REAL, data BLOB) STRICT;"
    monkeypatch.setattr(schema, "MIGRATIONS", (*schema.MIGRATIONS, addition))
    assert main(["sessions", "list"]) == 1
    assert "hermes db migrate" in capsys.readouterr().err
    assert main(["db", "status"]) == 0
    assert f"schema    {NEWEST}; this version of hermes needs {NEWEST + 1}" in capsys.readouterr().out
    assert main(["db", "migrate"]) == 0
    assert f"migrated from schema {NEWEST} to {NEWEST + 1}" in capsys.readouterr().out
    assert main(["sessions", "list"]) == 0


def test_status_and_migrate_of_a_file(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["db"]) == 0
    assert "none yet" in capsys.readouterr().out
    assert not (home / "state.db").exists(), "looking makes nothing"
    assert main(["db", "migrate"]) == 0
    assert main(["db"]) == 0
    out = capsys.readouterr().out
    assert f"schema    {NEWEST}, up to date" in out and "0 sessions" in out


@pytest.mark.parametrize("command", [["db", "status"], ["db", "migrate"], ["sessions", "list"], ["usage"]])
def test_an_address_that_does_not_work_is_one_line_without_the_password(
    home: Path, command: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    home.mkdir()
    (home / ".env").write_text(f"DB_PASSWORD={SECRET}\n")
    (home / "config.yaml").write_text("journal:\n  url: postgresql://me:${DB_PASSWORD}@127.0.0.1:1/x\n")
    monkeypatch.delenv("DB_PASSWORD", raising=False)
    assert main(command) == 1
    err = capsys.readouterr().err.strip()
    assert "postgresql://me@127.0.0.1:1/x cannot be reached" in err
    assert SECRET not in err and len(err.splitlines()) == 1
    monkeypatch.delenv("DB_PASSWORD", raising=False)
