"""Restoring a checkpoint: contents, modes, deletions, links; never over later changes, never through a link."""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from hermes.base.config.schema.sections import CheckpointsConfig
from hermes.surfaces.cli.main import main
from hermes.testing import ScriptedProvider, ScriptedResponder, text, tool_call
from hermes.tools.files.checkpoints import states
from hermes.tools.files.checkpoints.recorder import Checkpoints, TurnInProgress
from hermes.tools.files.checkpoints.restore import RestorePlan, file_diff, plan_restore, restore
from hermes.tools.files.checkpoints.store import CheckpointStore
from support import HostFactory, write_config
from support.repl_terminal import ReplTerminal
from support.surfaces import Prompt


@pytest.fixture
def checkpoints(home: Path) -> Checkpoints:
    return Checkpoints(home, CheckpointsConfig())


class _Rig:
    """A folder in which turns change files."""

    def __init__(self, home: Path, folder: Path, checkpoints: Checkpoints) -> None:
        self.home, self.folder, self.checkpoints = home, folder, checkpoints
        self.store = checkpoints.store_of()
        self.turn = 0

    def command(self, change: Callable[[], object], *, dies: bool = False) -> None:
        """A turn with a command that makes a change."""
        turn = TurnInProgress("s1", f"t{self.turn}", self.turn, self.folder)
        self.checkpoints.before_command(turn)
        change()
        if not dies:
            self.checkpoints.turn_ended(turn.turn_id)
        self.turn += 1

    def plan(self, checkpoint_id: int = 1) -> RestorePlan:
        return plan_restore(self.store, self.store.get(checkpoint_id), self.home)

    def restore(self, checkpoint_id: int = 1, *, with_conflicts: bool = False) -> int | None:
        plan = self.plan(checkpoint_id)
        report = restore(self.store, plan, plan.restorable(with_conflicts=with_conflicts))
        assert report.failed == []
        return report.undo_id


@pytest.fixture
def rig(home: Path, workdir: Path, checkpoints: Checkpoints) -> _Rig:
    return _Rig(home, workdir, checkpoints)


def _names(rig: _Rig) -> list[str]:
    found = (path.relative_to(rig.folder) for path in rig.folder.rglob("*"))
    return sorted(map(str, found))


def test_contents_modes_deletions_links_and_folders_come_back(rig: _Rig) -> None:
    folder = rig.folder
    (folder / "text").write_text("one")
    (folder / "program").write_text("#!/bin/sh\n")
    (folder / "program").chmod(0o755)
    (folder / "deep").mkdir()
    (folder / "deep" / "gone").write_bytes(b"\0\xff")
    (folder / "link").symlink_to("text")
    before = _names(rig)

    def change() -> None:
        (folder / "text").write_text("two")
        (folder / "program").chmod(0o600)
        (folder / "deep" / "gone").unlink()
        (folder / "deep").rmdir()
        (folder / "link").unlink()
        (folder / "link").symlink_to("/etc/passwd")
        (folder / "new" / "er").mkdir(parents=True)
        (folder / "new" / "er" / "file").write_text("n")

    rig.command(change)
    actions = {rig.plan().name(file): (file.action, file.is_conflict) for file in rig.plan().files}
    assert actions == {
        "deep/gone": ("create", False),
        "link": ("change", False),
        "new/er/file": ("delete", False),
        "program": ("change", False),
        "text": ("change", False),
    }
    undo = rig.restore()
    assert _names(rig) == before
    assert (folder / "text").read_text() == "one"
    assert (folder / "deep" / "gone").read_bytes() == b"\0\xff"
    assert (folder / "program").stat().st_mode & 0o777 == 0o755
    assert (folder / "link").readlink() == Path("text")
    assert rig.plan().files == []

    assert undo is not None
    rig.restore(undo)  # a restore can be undone
    assert (folder / "text").read_text() == "two"
    assert (folder / "new" / "er" / "file").read_text() == "n"
    assert not (folder / "deep" / "gone").exists()


def test_later_turns_are_undone_too_and_a_single_turn_is_not_torn_out(rig: _Rig) -> None:
    file = rig.folder / "file"
    file.write_text("0")
    for number in (1, 2, 3):
        rig.command(lambda number=number: file.write_text(str(number)))
    rig.restore(2)
    assert file.read_text() == "1"
    rig.restore(1)
    assert file.read_text() == "0"


def test_a_file_that_changed_since_is_a_conflict_and_stays(rig: _Rig) -> None:
    mine, theirs = rig.folder / "mine", rig.folder / "theirs"
    mine.write_text("m0")
    theirs.write_text("t0")
    rig.command(lambda: (mine.write_text("m1"), theirs.write_text("t1"), (rig.folder / "new").write_text("n1")))
    mine.write_text("mine, by hand")
    (rig.folder / "new").write_text("edited by hand")
    assert [rig.plan().name(file) for file in rig.plan().conflicts] == ["mine", "new"]
    rig.restore()
    assert (mine.read_text(), theirs.read_text()) == ("mine, by hand", "t0")
    assert (rig.folder / "new").read_text() == "edited by hand"
    undo = rig.restore(with_conflicts=True)
    assert mine.read_text() == "m0"
    assert undo is not None
    rig.restore(undo)
    assert mine.read_text() == "mine, by hand", "even what was given up on purpose can be had back"


def test_after_a_crash_in_the_turn_everything_is_there_and_asked_about(rig: _Rig, home: Path) -> None:
    file = rig.folder / "file"
    file.write_text("one")
    rig.command(lambda: (file.write_text("two"), (rig.folder / "made").write_text("x")), dies=True)
    rig.checkpoints.close()
    again = Checkpoints(home, CheckpointsConfig())
    store = again.store_of()
    [found] = store.list()
    plan = plan_restore(store, found, home)
    assert [(plan.name(one), one.is_conflict) for one in plan.files] == [("file", True), ("made", True)]
    restore(store, plan, plan.conflicts)
    assert file.read_text() == "one" and not (rig.folder / "made").exists()


def test_a_turn_that_is_continued_after_a_crash_keeps_its_first_state(rig: _Rig, home: Path) -> None:
    file = rig.folder / "file"
    file.write_text("one")
    rig.command(lambda: file.write_text("two"), dies=True)
    again = Checkpoints(home, CheckpointsConfig())
    turn = TurnInProgress("s1", "t0", 0, rig.folder)
    again.before_command(turn)
    file.write_text("three")
    again.turn_ended("t0")
    [saved] = again.store_of().files(1)
    assert again.store_of().content(saved.before.digest) == b"one"
    plan = plan_restore(again.store_of(), again.store_of().get(1), home)
    assert [one.is_conflict for one in plan.files] == [False]


def test_a_crash_in_the_middle_of_a_restore_is_finished_by_the_next_one(
    rig: _Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in "abc":
        (rig.folder / name).write_text("one")
    rig.command(lambda: [(rig.folder / name).write_text("two") for name in "abc"])
    real = states.write_state
    written: list[str] = []

    class _Killed(BaseException):
        pass

    def dying(path: str, state: states.FileState, data: bytes) -> None:
        if written:
            raise _Killed
        written.append(path)
        real(path, state, data)

    monkeypatch.setattr("hermes.tools.files.checkpoints.restore.write_state", dying)
    with pytest.raises(_Killed):
        rig.restore()
    monkeypatch.undo()
    assert sorted((rig.folder / name).read_text() for name in "abc") == ["one", "two", "two"]
    assert [file.is_conflict for file in rig.plan().files].count(True) in (0, 2)
    rig.restore(with_conflicts=True)
    assert [(rig.folder / name).read_text() for name in "abc"] == ["one", "one", "one"]


def test_nothing_is_written_through_a_link(rig: _Rig, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "file").write_text("theirs")
    (rig.folder / "sub").mkdir()
    (rig.folder / "sub" / "file").write_text("one")
    rig.command(lambda: (rig.folder / "sub" / "file").write_text("two"))
    (rig.folder / "sub" / "file").unlink()
    (rig.folder / "sub").rmdir()
    (rig.folder / "sub").symlink_to(outside)
    plan = rig.plan()
    report = restore(rig.store, plan, plan.restorable(with_conflicts=True))
    assert [path for path, _ in report.failed] == [str(rig.folder / "sub" / "file")]
    assert (outside / "file").read_text() == "theirs"


def test_a_link_where_a_file_was_is_replaced_and_not_followed(rig: _Rig, tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.write_text("theirs")
    file = rig.folder / "file"
    file.write_text("one")
    rig.command(lambda: (file.unlink(), file.symlink_to(target)))
    rig.restore()
    assert target.read_text() == "theirs"
    assert file.read_text() == "one" and not file.is_symlink()


def test_a_diff_shows_texts_modes_links_and_no_binary_noise(rig: _Rig) -> None:
    (rig.folder / "text").write_text("one\n")
    (rig.folder / "data").write_bytes(b"\0one")
    (rig.folder / "text").chmod(0o644)

    def change() -> None:
        (rig.folder / "text").write_text("two\n")
        (rig.folder / "text").chmod(0o755)
        (rig.folder / "data").write_bytes(b"\0two!")
        (rig.folder / "link").symlink_to("text")

    rig.command(change)
    plan = rig.plan()
    shown = "".join(file_diff(rig.store, plan, file) for file in plan.files)
    assert "mode of text: 644 -> 755" in shown
    assert "-one\n+two\n" in shown
    assert "-[binary file, 4 bytes]\n+[binary file, 5 bytes]" in shown
    assert "+[link to text]" in shown


# -- the command -----------------------------------------------------------------------------------------------------


def test_the_command_lists_compares_restores_and_prunes(
    rig: _Rig, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HERMES_HOME", str(rig.home))
    monkeypatch.chdir(rig.folder)
    assert main(["checkpoints"]) == 0
    assert "There are no checkpoints" in capsys.readouterr().out
    for name in ("a", "b"):
        (rig.folder / name).write_text("one\n")
    rig.command(lambda: [(rig.folder / name).write_text("two\n") for name in "ab"])
    (rig.folder / "b").write_text("by hand\n")

    assert main(["checkpoints", "list", "--json"]) == 0
    [listed] = json.loads(capsys.readouterr().out)
    assert (listed["id"], listed["session_id"], listed["changed_files"]) == (1, "s1", 2)
    assert main(["checkpoints", "list", "--session", "other"]) == 0
    assert "There are no" in capsys.readouterr().out
    assert main(["checkpoints", "diff", "1", "a"]) == 0
    assert "-one\n+two\n" in capsys.readouterr().out
    assert main(["checkpoints", "diff", "1", "--json"]) == 0
    assert [one["changed_since"] for one in json.loads(capsys.readouterr().out)] == [False, True]

    assert main(["checkpoints", "restore", "1"]) == 1
    assert "not a terminal: use --yes" in capsys.readouterr().err
    assert main(["checkpoints", "restore", "1", "--yes"]) == 1
    printed = capsys.readouterr()
    assert "restored  a" in printed.out and "changed after that turn; --force" in printed.err
    assert ((rig.folder / "a").read_text(), (rig.folder / "b").read_text()) == ("one\n", "by hand\n")
    assert main(["checkpoints", "restore", "1", "--force", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert [one["name"] for one in report["restored"]] == ["b"]
    assert (rig.folder / "b").read_text() == "one\n"
    assert main(["checkpoints", "restore", str(report["undo"]), "--yes"]) == 0
    assert (rig.folder / "b").read_text() == "by hand\n"

    assert main(["checkpoints", "restore", "99", "--yes"]) == 1
    assert "no checkpoint 99" in capsys.readouterr().err
    assert main(["checkpoints", "prune", "--older-than", "all", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["deleted"] == 4


# -- /undo -----------------------------------------------------------------------------------------------------------

_WRITE = tool_call("write_file", {"path": "notes.txt", "content": "by the agent\n"})


def test_undo_offers_to_restore_and_asks_about_changes_of_ones_own(make_host: HostFactory, workdir: Path) -> None:
    notes = workdir / "notes.txt"
    notes.write_text("mine\n")
    with ScriptedProvider([_WRITE, text("done"), _WRITE, text("done"), _WRITE, text("done")]) as provider:
        host = make_host(provider)
        prompt = Prompt(host)
        host.responders.attach(prompt.session.id, ScriptedResponder())
        prompt.session.run("write")
        answer = prompt.type("/undo")
        assert prompt.surface.questions == ["Take back the last turn?", "Restore: notes.txt?"]
        assert "Restored 1 file" in answer
        assert notes.read_text() == "mine\n"

        prompt.session.run("write again")
        notes.write_text("changed by hand\n")
        prompt.surface.questions.clear()
        prompt.type("/undo")
        assert prompt.surface.questions[1].startswith("Changed after that turn")
        assert notes.read_text() == "mine\n"

        prompt.session.run("and again")
        assert "stay changed" in prompt.type("/undo keep")
        assert notes.read_text() == "by the agent\n"


def test_undo_without_a_person_restores_only_when_told_to(make_host: HostFactory, workdir: Path) -> None:
    notes = workdir / "notes.txt"
    with ScriptedProvider([_WRITE, text("done"), _WRITE, text("done")]) as provider:
        prompt = Prompt(make_host(provider))
        prompt.session.run("write")
        assert "can be restored with: hermes checkpoints restore 1" in prompt.type("/undo")
        assert notes.exists()
        prompt.session.run("write")
        assert "Left" not in prompt.type("/undo 1 files")
        assert notes.read_text() == "by the agent\n", "as it was before that turn"


def test_undo_at_a_terminal_restores_the_file(home: Path, workdir: Path) -> None:
    notes = workdir / "notes.txt"
    notes.write_text("mine\n")
    with ScriptedProvider([_WRITE, text("It is written.")]) as provider:
        write_config(home, provider.base_url)
        with ReplTerminal(home, workdir) as terminal:
            terminal.send("write")
            terminal.wait_for("It is written.")
            assert notes.read_text() == "by the agent\n"
            terminal.wait_until_idle()
            terminal.send("/undo")
            terminal.wait_for("Take back the last turn?")
            terminal.send("y")
            terminal.wait_for("Restore: notes.txt?")
            terminal.send("y")
            terminal.wait_for("Restored 1 file")
            assert notes.read_text() == "mine\n"
            terminal.send("/quit")
            assert terminal.end() == 0


def test_a_named_pipe_or_an_unreadable_file_holds_nothing_up(rig: _Rig) -> None:
    os.mkfifo(rig.folder / "pipe")
    (rig.folder / "file").write_text("one")
    rig.command(lambda: (rig.folder / "file").write_text("two"))
    assert [rig.plan().name(file) for file in rig.plan().files] == ["file"]


def test_what_a_turn_saves_after_the_end_of_its_host_leaves_no_file_open(tmp_path: Path) -> None:
    store = CheckpointStore(tmp_path)
    store.close()
    with store.writing() as connection:
        connection.execute("SELECT COUNT(*) FROM checkpoints")
    assert store.rows("SELECT COUNT(*) FROM checkpoints") == [(0,)]
    with pytest.raises(sqlite3.ProgrammingError, match="closed"):
        connection.execute("SELECT 1")
