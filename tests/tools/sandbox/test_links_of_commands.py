"""Links that commands make where Hermes looks, moves and writes: none is followed, whenever it is made."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hermes.tools.sandbox.backend import SandboxBackend
from hermes.tools.sandbox.profile import make_profile
from hermes.tools.sandbox.watch import AutoRunWatch
from hermes.tools.sandbox.workspace.beneath import Folders
from support.sandbox_rig import SandboxRig

MakeRig = Callable[..., SandboxRig]

_KEY = "hidden-value-1"
_LINK = "mv d d_real; ln -s ~ d"


@pytest.fixture
def rig(make_rig: MakeRig, bubblewrap: SandboxBackend) -> SandboxRig:
    return make_rig(bubblewrap)


def _wait_for(path: Path) -> None:
    deadline = time.monotonic() + 120.0
    while not path.exists():
        assert time.monotonic() < deadline, f"no {path}"
        time.sleep(0.01)


def test_what_a_link_shows_is_not_put_back_as_a_file(rig: SandboxRig) -> None:
    """While another process runs, what was seen after the last command is what the next one is compared with."""
    rig.run("touch ready; sleep 300", background=True)
    _wait_for(rig.workspace / "ready")
    rig.run("mkdir -p d/.hermes")
    rig.run(_LINK)
    rig.run("rm d; mv d_real d")
    assert list((rig.workspace / "d" / ".hermes").iterdir()) == []
    assert _KEY in (rig.hermes_home / ".env").read_text()


@pytest.mark.parametrize("call", ["listdir", "rename"])
def test_a_key_is_not_moved_when_a_link_takes_the_place_of_a_folder(
    rig: SandboxRig, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    """A process in the sandbox replaces the folder between the look at a new file and its removal."""
    rig.run(f"touch ready; until [ -e go ]; do sleep 0.01; done; {_LINK}; touch swapped; sleep 300", background=True)
    _wait_for(rig.workspace / "ready")
    real: Callable[..., Any] = getattr(os, call)
    swaps: list[str] = []

    def late(*args: Any, **options: Any) -> Any:
        if not swaps and (rig.workspace / "d" / ".hermes" / ".env").exists():
            swaps.append(call)
            (rig.workspace / "go").touch()
            _wait_for(rig.workspace / "swapped")
        return real(*args, **options)

    monkeypatch.setattr(os, call, late)
    result = rig.run("mkdir -p d/.hermes; echo x > d/.hermes/.env")
    monkeypatch.undo()
    assert swaps and "d/.hermes/.env" in str(result["undone"])
    assert _KEY in (rig.hermes_home / ".env").read_text()
    assert _KEY not in rig.run('cat "$TMPDIR"/undone/* | rev')["output"][::-1]


def _watch(folder: Path) -> tuple[AutoRunWatch, Path]:
    project = folder / "project"
    for place in (project, folder / "undone"):
        place.mkdir()
    profile = make_profile("workspace", str(project), home=str(folder / "home"), secrets=[str(project / "kept")])
    return AutoRunWatch(profile, str(folder / "undone" / "files")), project


def test_git_does_not_change_a_configuration_behind_a_link(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    watch, project = _watch(folder)
    for place in (project / "d", folder / "other"):
        subprocess.run(["git", "init", "-q", str(place)], check=True)
    subprocess.run(["git", "-C", str(folder / "other"), "config", "core.fsmonitor", "mine"], check=True)
    watch.command_starts()
    subprocess.run(["git", "-C", str(project / "d"), "config", "core.fsmonitor", "bad"], check=True)
    real: Callable[..., Any] = subprocess.run

    def late(command: list[str], **options: Any) -> Any:
        if "--unset-all" in command and not (project / "d").is_symlink():
            (project / "d").rename(project / "e")
            (project / "d").symlink_to(folder / "other")
        return real(command, **options)

    monkeypatch.setattr(subprocess, "run", late)
    watch.command_ended()
    assert (project / "d").is_symlink()
    assert "mine" in (folder / "other" / ".git" / "config").read_text()
    assert "bad" not in (project / "e" / ".git" / "config").read_text()


def test_what_is_hidden_is_not_kept_when_its_folder_moves(folder: Path) -> None:
    watch, project = _watch(folder)
    (project / "kept").mkdir()
    (project / "kept" / ".envrc").write_text("secret")
    watch.command_starts()
    watch.command_starts()
    (project / "kept").rename(project / "moved")
    assert watch.command_ended() == []
    (project / "moved" / ".envrc").unlink()
    watch.command_ended()
    assert not (project / "moved" / ".envrc").exists()


def test_what_could_not_be_undone_is_no_state_to_return_to(folder: Path) -> None:
    watch, project = _watch(folder)
    for _ in range(3):
        watch.command_starts()
    (folder / "undone").rename(folder / "away")
    (project / ".envrc").write_text("bad")
    assert "could not be removed" in watch.command_ended()[0].outcome
    (folder / "away").rename(folder / "undone")
    assert "was moved" in watch.command_ended()[0].outcome
    assert watch.command_ended() == [] and not (project / ".envrc").exists()


def test_no_part_of_a_path_may_be_a_link(folder: Path) -> None:
    (folder / "real" / "inner").mkdir(parents=True)
    (folder / "real" / "inner" / "file").write_text("x")
    (folder / "link").symlink_to(folder / "real")
    with Folders() as folders:
        assert folders.has(f"{folder}/real/inner") and not folders.has(f"{folder}/link/inner")
        assert not folders.has(f"{folder}/link") and not folders.has(f"{folder}/real/../real")
        for change in (
            lambda: folders.write(f"{folder}/link/inner/file", 0o100644, b"y"),
            lambda: folders.remove(f"{folder}/link/inner/file"),
        ):
            with pytest.raises(OSError, match="leads elsewhere"):
                change()
        assert folders.read("file", folders.open(f"{folder}/real/inner"), 10) == b"x"
    found = (folder / "real").stat()
    with Folders({(found.st_dev, found.st_ino)}) as folders:
        assert folders.has(str(folder)) and not folders.has(f"{folder}/real/inner")


def test_a_process_that_goes_on_writing_leaves_nothing_when_the_program_ends(rig: SandboxRig) -> None:
    rig.run("trap '' TERM; while :; do echo x > .envrc; touch ready; done", background=True)
    _wait_for(rig.workspace / "ready")
    rig.context.processes.close()
    assert not (rig.workspace / ".envrc").exists()


def test_the_end_of_the_program_waits_for_what_is_undone(rig: SandboxRig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hermes.tools.terminal.background._JOIN_SECONDS", 0.0)
    rig.run("for n in $(seq 300); do mkdir $n; echo x > $n/.envrc; done; touch ready; sleep 300", background=True)
    _wait_for(rig.workspace / "ready")
    rig.context.processes.close()
    assert list(rig.workspace.glob("*/.envrc")) == []
