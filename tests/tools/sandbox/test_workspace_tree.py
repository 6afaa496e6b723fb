"""Looking for files that run code: what is found, whatever happens between two looks, and what a look visits."""

from __future__ import annotations

import os
import random
import shutil
from pathlib import Path
from typing import Any

import pytest

from hermes.tools.sandbox.workspace.tree import WorkspaceTree
from support.ordinary_user import as_ordinary_user, shared_folder


def marks(folder: Path) -> dict[str, set[str]]:
    """What a look has to find, by the longest way."""
    wanted = {".git", "HEAD", "objects", "refs", "commondir", "AGENTS.md"}
    found: dict[str, set[str]] = {}
    for place, folders, files in os.walk(folder):
        if names := wanted.intersection((*folders, *files)):
            found[place] = names
        if place.endswith("/.git"):
            folders[:] = [name for name in folders if name in ("modules", "worktrees")]
    return found


def change(folder: Path, chance: random.Random) -> None:
    """Do something to some folder."""
    folders = [place for place, _, _ in os.walk(folder)]
    place = Path(chance.choice(folders))
    other = Path(chance.choice(folders))
    what = chance.randrange(6)
    if what == 0:
        (place / chance.choice(["a", "b", "modules", ".git", "objects"])).mkdir(exist_ok=True)
    elif what == 1:
        (place / chance.choice("xy") / "deep" / ".git" / "modules" / "m").mkdir(parents=True, exist_ok=True)
    elif what == 2:
        (place / chance.choice(["AGENTS.md", "HEAD", "commondir", "plain"])).touch()
    elif what == 3 and place != folder:
        shutil.rmtree(place)
    elif place != folder and not other.is_relative_to(place):
        shutil.rmtree(other / "moved", ignore_errors=True)
        if place.exists() and other.exists():
            place.rename(other / "moved")


@pytest.mark.parametrize("kernel_tells", [True, False])
@pytest.mark.parametrize("seed", range(20))
def test_a_look_finds_what_is_there(
    tmp_path: Path, seed: int, kernel_tells: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever happens between two looks, and with a kernel that watches few folders."""
    if kernel_tells:
        monkeypatch.setattr("hermes.tools.sandbox.workspace.inotify._most_watches", lambda: 4 if seed % 2 else 1_000)
    else:
        monkeypatch.setattr("hermes.tools.sandbox.workspace.inotify.FolderChanges.__init__", refuse)
    tree = WorkspaceTree(str(tmp_path), ["AGENTS.md"])
    chance = random.Random(seed)
    for _ in range(25):
        for _ in range(chance.randrange(6)):
            change(tmp_path, chance)
        assert {folder: set(names) for folder, names in tree.find().items()} == marks(tmp_path)


def refuse(_changes: object) -> None:
    raise OSError("too many")


def test_more_changes_than_the_kernel_keeps(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    tree = WorkspaceTree(str(tmp_path), ["AGENTS.md"])
    assert tree.find() == {}
    most = int(Path("/proc/sys/fs/inotify/max_queued_events").read_text())
    for number in range(most // 2 + 10):
        made = tmp_path / f"f{number}"
        made.touch()
        made.unlink()
    (tmp_path / "a" / "b" / "AGENTS.md").touch()
    assert tree.find() == {str(tmp_path / "a" / "b"): {"AGENTS.md"}}


def test_a_look_visits_only_folders_that_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It costs the same in a workspace of any size."""
    for number in range(50):
        (tmp_path / f"a{number}" / "b").mkdir(parents=True)
    tree = WorkspaceTree(str(tmp_path), ["AGENTS.md"])
    tree.find()
    visited: list[str] = []
    scan = WorkspaceTree._scan  # pyright: ignore[reportPrivateUsage]

    def noting(self: WorkspaceTree, folder: str, *rest: Any) -> Any:
        visited.append(folder)
        return scan(self, folder, *rest)

    monkeypatch.setattr(WorkspaceTree, "_scan", noting)
    tree.find()
    (tmp_path / "a7" / "b" / "plain.txt").touch()
    tree.find()
    assert visited == []
    (tmp_path / "a7" / "b" / "new").mkdir()
    tree.find()
    assert visited == [str(tmp_path / "a7" / "b"), str(tmp_path / "a7" / "b" / "new")]


def test_a_folder_that_cannot_be_read_for_a_while() -> None:
    with shared_folder() as folder:
        folder.chmod(0o777)

        def looks() -> list[object]:
            tree = WorkspaceTree(str(folder), ["AGENTS.md"])
            found = [dict(tree.find())]
            (folder / "closed").mkdir()
            (folder / "closed" / "AGENTS.md").touch()
            (folder / "closed").chmod(0)
            found.append(dict(tree.find()))
            (folder / "closed").chmod(0o700)
            return [*found, {place: set(names) for place, names in tree.find().items()}]

        assert as_ordinary_user(looks) == [{}, {}, {str(folder / "closed"): {"AGENTS.md"}}]
