"""``hermes sessions prune``: what is old goes, what is in use or unfinished stays unless it is asked for."""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Generator
from contextlib import closing
from pathlib import Path

import pytest

from hermes.journal.leases import SessionInfo, release_lease
from hermes.journal.runner import FileRunner
from hermes.journal.store.sqlite.store import SqliteStore
from hermes.journal.turns.lifecycle import begin_turn
from hermes.journal.turns.steps import TurnJournal
from hermes.surfaces.cli.main import main

DAY = 86_400


class World:
    """A home with sessions of different age."""

    def __init__(self, home: Path) -> None:
        self.path = home / "state.db"
        self.store = SqliteStore(self.path)
        self.runner = FileRunner(home / "runners")

    def talk(self, session_id: str, days: float, *, ends: bool = True, parent: str | None = None) -> TurnJournal:
        turn_id = f"{session_id}:{os.urandom(3).hex()}"
        turn = begin_turn(
            self.store,
            self.runner,
            SessionInfo(session_id, "/home/you/desk", parent_id=parent),
            turn_id=turn_id,
            task_id="task",
            request_key=turn_id,
            message={"role": "user", "content": f"question of {session_id}"},
        )
        if ends:
            turn.end("completed", answer="answer")
            turn.commit()
            release_lease(self.store, self.runner, session_id)
        values = (time.time() - days * DAY, session_id)
        self.store.write(
            lambda connection: connection.execute("UPDATE sessions SET updated_at = ? WHERE id = ?", values)
        )
        return turn

    def left(self) -> set[str]:
        with closing(sqlite3.connect(self.path)) as connection:
            return {row[0] for row in connection.execute("SELECT id FROM sessions")}


@pytest.fixture
def world(home: Path, monkeypatch: pytest.MonkeyPatch) -> Generator[World]:
    monkeypatch.setenv("HERMES_HOME", str(home))
    made = World(home)
    made.talk("old", 40)
    made.talk("child", 40, parent="old")
    made.talk("new", 2)
    yield made
    made.store.close()
    made.runner.close()


def test_only_what_is_older_goes_with_its_children(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    world.store.close()
    world.runner.close()
    assert main(["sessions", "prune", "--older-than", "30d", "--yes"]) == 0
    assert capsys.readouterr().out == "Deleted 2 sessions.\n"
    assert world.left() == {"new"}
    assert main(["sessions", "prune", "--older-than", "30d", "--yes"]) == 0
    assert capsys.readouterr().out == "Nothing to delete.\n"


def test_a_dry_run_only_shows(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sessions", "prune", "--older-than", "30d", "--dry-run"]) == 0
    out = capsys.readouterr().out
    assert "question of old" in out and "question of new" not in out
    assert out.endswith("1 session would be deleted, including child agents.\n")
    assert world.left() == {"old", "child", "new"}


def test_an_unfinished_turn_keeps_its_session_unless_asked(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    world.talk("cut off", 40, ends=False)
    world.runner.close()
    assert main(["sessions", "prune", "--older-than", "30d", "--yes"]) == 0
    assert "Kept: 1 session with an unfinished turn (--unfinished deletes them too)." in capsys.readouterr().out
    assert world.left() == {"cut off", "new"}
    assert main(["sessions", "prune", "--older-than", "30d", "--yes", "--unfinished"]) == 0
    assert world.left() == {"new"}


def test_a_session_in_use_is_never_deleted(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    world.talk("busy", 40, ends=False)
    assert main(["sessions", "prune", "--older-than", "30d", "--yes", "--unfinished"]) == 0
    assert "Kept: 1 session in use." in capsys.readouterr().out
    assert world.left() == {"busy", "new"}
    world.runner.close()


def test_without_a_terminal_it_needs_a_yes(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sessions", "prune", "--older-than", "30d"]) == 1
    assert "use --yes to delete without confirmation" in capsys.readouterr().err
    assert world.left() == {"old", "child", "new"}


@pytest.mark.parametrize("age", ["", "thirty days", "-3d"])
def test_an_age_that_is_none_is_refused(world: World, age: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sessions", "prune", f"--older-than={age}"]) == 2
    assert "--older-than" in capsys.readouterr().err
    assert world.left() == {"old", "child", "new"}
