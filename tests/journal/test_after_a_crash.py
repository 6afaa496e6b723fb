"""The start after a crash: the file is checked once, damage is reported before anything is written."""

from __future__ import annotations

from pathlib import Path

import pytest

from hermes.base.errors import JournalCorrupt
from hermes.journal.runner import FileRunner
from hermes.journal.store.port import Store
from hermes.journal.store.sqlite import database
from hermes.testing import ScriptedProvider, text
from journal.kit import FileRunnerFactory, RunnerFactory, StoreFactory, finish_turn, python, rows, start_turn
from support import HostFactory

#: A process that takes a session and dies with it.
DIES = """
import os, signal, sys
from pathlib import Path
from hermes.journal.runner import FileRunner, Runner
runner = FileRunner(Path(sys.argv[1]))
runner.start()
os.kill(os.getpid(), signal.SIGKILL)
"""


def spoil(path: Path, store: Store, runner: FileRunner) -> None:
    """Damage a page in the middle of the table of events."""
    for _ in range(30):
        finish_turn(start_turn(store, runner))
    store.close()
    runner.close()
    (page,) = rows(path, "SELECT rootpage FROM sqlite_master WHERE name = 'events'")[0]
    data = bytearray(path.read_bytes())
    data[(page - 1) * database.PAGE_SIZE : (page - 1) * database.PAGE_SIZE + 64] = b"\xff" * 64
    path.write_bytes(data)


def test_damage_is_found_at_the_start_after_a_crash(
    store: Store, runner: FileRunner, open_store: StoreFactory, new_runner: RunnerFactory, journal_path: Path
) -> None:
    spoil(journal_path, store, runner)
    before = journal_path.read_bytes()
    python(DIES, str(runner.folder))
    with pytest.raises(JournalCorrupt, match="is damaged"):
        start_turn(open_store(), new_runner(), "another")
    assert journal_path.read_bytes() == before


def test_the_file_is_checked_after_a_crash_only_and_once(
    store: Store, runner: FileRunner, new_runner: RunnerFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    checks: list[str] = []
    real = database.find_damage

    def count(connection: object) -> str:
        checks.append("check")
        return real(connection)  # pyright: ignore[reportArgumentType]

    monkeypatch.setattr(database, "find_damage", count)
    finish_turn(start_turn(store, runner))
    finish_turn(start_turn(store, new_runner(), "s2"))
    assert checks == []
    python(DIES, str(runner.folder))
    finish_turn(start_turn(store, new_runner(), "s3"))
    assert checks == ["check"]
    finish_turn(start_turn(store, new_runner(), "s4"))
    assert checks == ["check"]


def test_a_runner_that_is_just_starting_is_not_taken_for_dead(new_runner: FileRunnerFactory) -> None:
    runner = new_runner()
    runner.folder.mkdir(parents=True)
    starting = runner.folder / "0123456789abcdef"
    starting.touch()
    assert runner.start() is False and starting.exists()


@pytest.mark.parametrize("left", [None, b""])
def test_a_database_that_is_gone_beside_its_index_is_said(
    make_host: HostFactory, home: Path, left: bytes | None
) -> None:
    with ScriptedProvider([text("Hello.")]) as provider:
        assert not any("-wal" in notice for notice in make_host(provider).notices)
        home.mkdir(exist_ok=True)
        (home / "search.db").write_bytes(b"words")
        if left is not None:
            (home / "state.db").write_bytes(left)
        notices = make_host(provider).notices
    assert any("sessions were recorded here" in notice and "search.db" in notice for notice in notices), notices


def test_a_turn_never_ends_before_it_began(
    store: Store, runner: FileRunner, journal_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    turn = start_turn(store, runner)
    monkeypatch.setattr("hermes.journal.store.port.time.time", lambda: 1.0)
    finish_turn(turn)
    assert rows(journal_path, "SELECT ended_at >= started_at FROM turns") == [(1,)]
