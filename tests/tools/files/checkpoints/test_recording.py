"""Checkpoints are made before the first change of a turn, and cost nothing before that."""

from __future__ import annotations

import os
import sqlite3
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from hermes.base.config.schema.sections import CheckpointsConfig
from hermes.contract.events import CheckpointMissing, TurnEvent
from hermes.surfaces.cli.doctor.check import Installation
from hermes.surfaces.cli.doctor.journal import check_checkpoints
from hermes.testing import ScriptedProvider, text, tool_call
from hermes.tools.files import guard
from hermes.tools.files.checkpoints import trees
from hermes.tools.files.checkpoints.port import CheckpointPort
from hermes.tools.files.checkpoints.recorder import Checkpoints, TurnInProgress
from hermes.tools.files.checkpoints.store import CheckpointError, delete_checkpoints_of
from support import HostFactory


@pytest.fixture(autouse=True)
def trusting_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Time stamps count at once: tests write files just before they are read."""
    monkeypatch.setattr(guard, "_CLOCK_GRAIN_NS", -1)
    monkeypatch.setattr(guard, "_COARSE_GRAIN_NS", -1)


def _turn(folder: Path, turn: int = 0, principal: str = "") -> TurnInProgress:
    return TurnInProgress("s1", f"t{turn}", turn, folder, principal, f"message {turn}")


def _states(checkpoints: Checkpoints, checkpoint_id: int = 1, principal: str = "") -> dict[str, tuple[str, str]]:
    """Name -> (kind before, kind that the turn left)."""
    files = checkpoints.store_of(principal).files(checkpoint_id)
    return {Path(file.path).name: (file.before.kind, file.left.kind if file.left else "?") for file in files}


def test_a_turn_that_changes_nothing_makes_and_imports_nothing(home: Path, workdir: Path) -> None:
    port = CheckpointPort(home, CheckpointsConfig(), lambda _path: None)
    port.turn_ended("t0")
    assert port.take_notices() == []
    port.close()
    assert "recorder" not in port.__dict__
    assert not home.exists() or list(home.iterdir()) == []


def test_files_of_tools_are_saved_once_even_when_git_ignores_them(home: Path, workdir: Path) -> None:
    (workdir / ".git").mkdir()
    (workdir / ".gitignore").write_text("secret.env\n")
    ignored, new = workdir / "secret.env", workdir / "a" / "b" / "new.txt"
    ignored.write_text("one")
    checkpoints = Checkpoints(home, CheckpointsConfig())
    turn = _turn(workdir)
    for content in ("two", "three"):
        checkpoints.before_files(turn, [ignored, new])
        ignored.write_text(content)
        new.parent.mkdir(parents=True, exist_ok=True)
        new.write_text(content)
        checkpoints.after_files(turn, [ignored, new])
    checkpoints.turn_ended(turn.turn_id)
    store = checkpoints.store_of()
    files = {file.path: file for file in store.files(1)}
    assert store.content(files[str(ignored)].before.digest) == b"one"
    assert files[str(new)].before.kind == "absent"
    assert files[str(new)].made == str(workdir / "a")
    [made] = store.list()
    assert (made.turn, made.summary, made.changed_files) == (0, "message 0", 2)
    assert store.path.stat().st_mode & 0o777 == 0o600
    assert store.path.parent.stat().st_mode & 0o077 == 0


def test_a_command_is_covered_by_the_tree_without_what_is_ignored(home: Path, workdir: Path) -> None:
    for name, content in {"kept": "k", "changed": "c", "gone": "g", "built/x.o": "o", ".gitignore": "built/\n"}.items():
        (workdir / name).parent.mkdir(exist_ok=True)
        (workdir / name).write_text(content)
    (workdir / "node_modules").mkdir()
    (workdir / "node_modules" / "lib.js").write_text("x")
    (workdir / "link").symlink_to("/etc/hostname")
    (workdir / "odd\udcff").write_text("not UTF-8")
    checkpoints = Checkpoints(home, CheckpointsConfig())
    turn = _turn(workdir)
    checkpoints.before_command(turn)
    (workdir / "changed").write_text("C")
    (workdir / "gone").unlink()
    (workdir / "sub").mkdir()
    (workdir / "sub" / "created").write_text("n")
    (workdir / "built" / "y.o").write_text("y")
    (workdir / "node_modules" / "more.js").write_text("x")
    checkpoints.before_command(turn)  # the second command of the turn
    checkpoints.turn_ended(turn.turn_id)
    assert _states(checkpoints) == {
        "changed": ("file", "file"),
        "gone": ("file", "absent"),
        "created": ("absent", "file"),
    }


def test_an_unchanged_tree_is_not_read_again(home: Path, workdir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(20):
        (workdir / f"f{number}").write_text(str(number))
    checkpoints = Checkpoints(home, CheckpointsConfig())
    checkpoints.before_command(_turn(workdir, 0))
    checkpoints.turn_ended("t0")
    read: list[str] = []
    real = trees.read_state

    def counting(path: str, *rest: object) -> object:
        read.append(Path(path).name)
        return real(path, *rest)  # pyright: ignore[reportArgumentType]

    monkeypatch.setattr(trees, "read_state", counting)
    checkpoints.before_command(_turn(workdir, 1))
    (workdir / "f3").write_text("changed")
    checkpoints.turn_ended("t1")
    assert read == ["f3"]
    assert _states(checkpoints, 2) == {"f3": ("file", "file")}
    assert [one.turn for one in checkpoints.store_of().list()] == [1], "a turn that changed nothing is not listed"


def test_a_change_within_the_same_time_stamp_is_noticed(
    home: Path, workdir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guard, "_CLOCK_GRAIN_NS", 1 << 62)  # as if everything had been written just now
    file = workdir / "file"
    file.write_text("one")
    checkpoints = Checkpoints(home, CheckpointsConfig())
    checkpoints.before_command(_turn(workdir))
    assert checkpoints.store_of().cache(str(workdir)) == {}, "such a stamp is not believed"


def test_the_home_and_folders_that_are_no_project_are_left_out(
    home: Path, workdir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inner = workdir / ".hermes"
    inner.mkdir()
    (inner / ".env").write_text("KEY=secret")
    checkpoints = Checkpoints(inner, CheckpointsConfig())
    checkpoints.before_command(_turn(workdir))
    found = checkpoints.store_of().open_tree(1)
    assert found is not None and list(found[1].files) == []
    monkeypatch.setenv("HOME", str(workdir))
    again = Checkpoints(home, CheckpointsConfig())
    again.before_command(_turn(workdir))
    assert "not the folder of one project" in again.take_notices()[0]


def test_a_tree_with_too_many_files_is_said_once(home: Path, workdir: Path) -> None:
    for number in range(6):
        (workdir / f"f{number}").write_text("x")
    checkpoints = Checkpoints(home, CheckpointsConfig(max_files=5))
    for number in range(3):
        checkpoints.before_command(_turn(workdir, number))
        checkpoints.turn_ended(f"t{number}")
    [notice] = checkpoints.take_notices()
    assert "more than 5 files" in notice and "file tools" in notice
    assert checkpoints.store_of().list() == []


def test_a_long_file_is_noticed_and_not_kept(home: Path, workdir: Path) -> None:
    (workdir / "long").write_bytes(b"x" * (2 << 20))
    checkpoints = Checkpoints(home, CheckpointsConfig(max_file_mb=1))
    checkpoints.before_command(_turn(workdir))
    (workdir / "long").write_bytes(b"y" * (2 << 20) + b"!")
    checkpoints.turn_ended("t0")
    assert _states(checkpoints) == {"long": ("large", "large")}


def test_callers_have_stores_of_their_own(home: Path, workdir: Path) -> None:
    file = workdir / "file"
    file.write_text("one")
    checkpoints = Checkpoints(home, CheckpointsConfig())
    checkpoints.before_files(_turn(workdir, principal="alice"), [file])
    assert (home / "principals" / "alice" / "checkpoints.db").is_file()
    assert checkpoints.store_of("alice").before_turn("s1", 0) is not None
    assert checkpoints.store_of().before_turn("s1", 0) is None
    assert checkpoints.store_of("bob").before_turn("s1", 0) is None


def test_the_checkpoint_before_a_turn(home: Path, workdir: Path) -> None:
    checkpoints = Checkpoints(home, CheckpointsConfig())
    for turn in (1, 3):
        checkpoints.before_files(_turn(workdir, turn), [workdir / "file"])
    found = [checkpoints.store_of().before_turn("s1", turn) for turn in range(5)]
    assert [one and one.turn for one in found] == [1, 1, 3, 3, None]
    assert checkpoints.store_of().before_turn("other", 0) is None


def _full(_home: Path) -> Callable[..., object]:
    def fail(*_arguments: object) -> object:
        raise sqlite3.OperationalError("database or disk is full")

    return fail


def test_a_full_disk_warns_and_goes_on_or_refuses(home: Path, workdir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hermes.tools.files.checkpoints.recorder.add_content", _full(home))
    (workdir / "file").write_text("one")
    checkpoints = Checkpoints(home, CheckpointsConfig())
    checkpoints.before_files(_turn(workdir), [workdir / "file"])
    checkpoints.before_command(_turn(workdir))
    checkpoints.after_files(_turn(workdir), [workdir / "file"])
    checkpoints.turn_ended("t0")
    [notice] = checkpoints.take_notices()
    assert "database or disk is full" in notice
    assert checkpoints.store_of().list() == [], "nothing half-written is left"
    strict = Checkpoints(home, CheckpointsConfig(on_error="refuse"))
    with pytest.raises(CheckpointError, match="the change was not made"):
        strict.before_files(_turn(workdir), [workdir / "file"])
    with pytest.raises(CheckpointError, match=r"checkpoints\.on_error"):
        strict.before_command(_turn(workdir))


def test_doctor_shows_the_store(home: Path, workdir: Path) -> None:
    [before] = check_checkpoints(Installation(home, workdir))
    assert "none yet" in before.detail
    checkpoints = Checkpoints(home, CheckpointsConfig())
    checkpoints.before_files(_turn(workdir), [workdir / "file"])
    [found] = check_checkpoints(Installation(home, workdir))
    assert (found.status, found.detail.startswith("1 with ")) == ("ok", True)


def test_a_store_that_is_no_database_is_reported(home: Path, workdir: Path) -> None:
    home.mkdir(exist_ok=True)
    (home / "checkpoints.db").write_text("this is not a database, and longer than a header of one would be " * 9)
    checkpoints = Checkpoints(home, CheckpointsConfig())
    checkpoints.before_files(_turn(workdir), [workdir / "file"])
    assert "file is not a database" in checkpoints.take_notices()[0]
    [found] = check_checkpoints(Installation(home, workdir))
    assert (found.status, "move" in found.fix) == ("warning", True)


def test_a_tree_that_grew_too_large_in_the_turn_loses_nothing_that_tools_did(home: Path, workdir: Path) -> None:
    file = workdir / "file"
    file.write_text("one")
    checkpoints = Checkpoints(home, CheckpointsConfig(max_files=5))
    turn = _turn(workdir)
    checkpoints.before_files(turn, [file])
    checkpoints.before_command(turn)
    file.write_text("two")
    checkpoints.after_files(turn, [file])
    for number in range(9):
        (workdir / f"made{number}").write_text("x")
    checkpoints.turn_ended(turn.turn_id)
    assert _states(checkpoints) == {"file": ("file", "file")}
    assert "more than 5 files" in checkpoints.take_notices()[0]


def test_a_damaged_store_never_ends_a_turn(home: Path, workdir: Path) -> None:
    (workdir / "file").write_text("one")
    checkpoints = Checkpoints(home, CheckpointsConfig())
    checkpoints.before_command(_turn(workdir, 0))
    with checkpoints.store_of().writing() as connection:
        connection.execute("UPDATE checkpoints SET tree = x'00'")
        connection.execute("UPDATE caches SET data = x'00'")
    checkpoints.turn_ended("t0")
    checkpoints.before_command(_turn(workdir, 1))
    assert any("damaged" in notice for notice in checkpoints.take_notices())
    checkpoints.store_of().prune(max_bytes=1 << 30, older_than=1e12)
    checkpoints.before_command(_turn(workdir, 2))
    assert checkpoints.take_notices() == []


def test_old_checkpoints_and_their_contents_are_pruned(home: Path, workdir: Path) -> None:
    file = workdir / "file"
    checkpoints = Checkpoints(home, CheckpointsConfig(max_size_mb=1))
    for turn in range(4):
        file.write_bytes(os.urandom(400_000))
        checkpoints.before_files(_turn(workdir, turn), [file])
        file.write_bytes(b"changed")
        checkpoints.after_files(_turn(workdir, turn), [file])
        checkpoints.turn_ended(f"t{turn}")
    store = checkpoints.store_of()
    assert store.stored_bytes() <= 1 << 20
    assert [one.turn for one in store.list()] == [3, 2], "the newest ones stay"
    assert store.path.stat().st_size < 2 << 20
    store.prune(max_bytes=1 << 30, older_than=1e12)
    assert (store.list(), store.stored_bytes()) == ([], 0)


def test_checkpoints_go_with_their_session_for_every_principal(home: Path, workdir: Path) -> None:
    (workdir / "file").write_text("one")
    checkpoints = Checkpoints(home, CheckpointsConfig())
    for principal in ("", "alice"):
        checkpoints.before_files(_turn(workdir, principal=principal), [workdir / "file"])
        checkpoints.turn_ended("t0")
    delete_checkpoints_of(home, ["another"])
    assert len(checkpoints.store_of().list()) == 1
    delete_checkpoints_of(home, ["s1"])
    for principal in ("", "alice"):
        store = checkpoints.store_of(principal)
        assert (store.list(), store.stored_bytes()) == ([], 0)


# -- in the pipeline -------------------------------------------------------------------------------------------------


def test_the_pipeline_saves_before_tools_and_commands_but_not_before_reading(
    make_host: HostFactory, home: Path, workdir: Path
) -> None:
    (workdir / "a.txt").write_text("one\n")
    (workdir / "b.txt").write_text("two\n")
    script = [
        tool_call("terminal", {"command": "cat a.txt"}),
        text("read"),
        tool_call("patch", {"mode": "replace", "path": "a.txt", "old_string": "one", "new_string": "ONE"}),
        tool_call("terminal", {"command": "echo more >> a.txt; echo new > c.txt; rm b.txt"}),
        text("changed"),
    ]
    with ScriptedProvider(script) as provider:
        host = make_host(provider)
        session = host.new_session()
        session.run("look")
        assert not (home / "checkpoints.db").exists()
        session.run("change")
        assert host.runtime.checkpoints is not None
        found = host.runtime.checkpoints.before_turn(session.id, 0)
        assert found is not None
        files = host.runtime.checkpoints.recorder.store_of().files(found.id)
        refused = host.guard.refusal(home / "checkpoints.db")
    assert (found.turn, found.summary, found.folder) == (1, "change", str(workdir))
    assert {Path(file.path).name: (file.before.kind, file.left and file.left.kind) for file in files} == {
        "a.txt": ("file", "file"),
        "b.txt": ("file", "absent"),
        "c.txt": ("absent", "file"),
    }
    assert refused is not None, "closing another descriptor would drop the locks of the database"


def test_what_a_child_agent_changes_belongs_to_the_turn_of_the_user(make_host: HostFactory, workdir: Path) -> None:
    script = [
        tool_call("delegate_task", {"goal": "write it"}),
        tool_call("write_file", {"path": "child.txt", "content": "by a child"}),
        text("written"),
        text("done"),
    ]
    with ScriptedProvider(script) as provider:
        host = make_host(provider)
        session = host.new_session()
        session.run("delegate")
        assert host.runtime.checkpoints is not None
        found = host.runtime.checkpoints.before_turn(session.id, 0)
    assert (workdir / "child.txt").exists()
    assert found is not None and found.summary == "delegate"


def test_a_missing_checkpoint_is_an_event_and_a_refusal_is_a_result(
    make_host: HostFactory, workdir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hermes.tools.files.checkpoints.recorder.add_checkpoint", _full(workdir))
    call = tool_call("write_file", {"path": "f.txt", "content": "x"})
    with ScriptedProvider([call, text("done"), call, text("refused")]) as provider:
        host = make_host(provider)
        events: list[TurnEvent] = []
        assert host.new_session().run("write", listener=events.append).status == "completed"
        assert (workdir / "f.txt").read_text() == "x"
        (workdir / "f.txt").unlink()
        host.config.checkpoints.on_error = "refuse"
        assert host.new_session().run("write").status == "completed"
    [missing] = [event for event in events if isinstance(event, CheckpointMissing)]
    assert missing.text.startswith("no checkpoint: ")
    assert not (workdir / "f.txt").exists()
    assert "no checkpoint could be made" in provider.requests[3].messages[-1]["content"]


def test_the_port_is_light() -> None:
    import subprocess

    program = (
        "import sys, hermes.tools.files.checkpoints.port\n"
        "print([name for name in sys.modules if 'checkpoints.' in name])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.strip() == "['hermes.tools.files.checkpoints.port']"
