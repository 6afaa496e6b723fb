from __future__ import annotations

import os
import resource
import stat
import subprocess
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pytest

from hermes.tools.declarations.builtin import DECLARED
from hermes.tools.files.atomic import FileChange, apply_changes
from hermes.tools.registry import ToolContext

Call = Callable[..., dict[str, Any]]


@contextmanager
def files_of_at_most(size: int) -> Generator[None]:
    """Writing beyond ``size`` bytes fails, as on a disk that is full."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def names_in(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


def test_a_new_file(call: Call, workdir: Path) -> None:
    answer = call("write_file", path="a.txt", content="ä\n")
    path = str(workdir / "a.txt")
    assert answer == {"bytes_written": 3, "dirs_created": False, "resolved_path": path, "files_modified": [path]}
    assert (workdir / "a.txt").read_bytes() == "ä\n".encode()
    assert names_in(workdir) == ["a.txt"]


def test_parents_are_made(call: Call, workdir: Path) -> None:
    assert call("write_file", path="a/b/c.txt", content="x")["dirs_created"] is True
    assert (workdir / "a/b/c.txt").read_text() == "x"


def test_content_is_written_as_it_is(call: Call, workdir: Path) -> None:
    call("write_file", path="a", content="one\r\ntwo\rthree")
    assert (workdir / "a").read_bytes() == b"one\r\ntwo\rthree"
    call("write_file", path="a", content="")
    assert (workdir / "a").read_bytes() == b""


def test_permissions_are_kept_and_new_files_follow_the_umask(call: Call, workdir: Path) -> None:
    (workdir / "script").write_text("old")
    (workdir / "script").chmod(0o754)
    call("write_file", path="script", content="new")
    assert stat.S_IMODE((workdir / "script").stat().st_mode) == 0o754
    old = os.umask(0o027)
    try:
        call("write_file", path="fresh", content="x")
    finally:
        os.umask(old)
    assert stat.S_IMODE((workdir / "fresh").stat().st_mode) == 0o640


def test_links_are_written_through(call: Call, workdir: Path) -> None:
    (workdir / "real").write_text("old")
    (workdir / "link").symlink_to("real")
    (workdir / "dangling").symlink_to("made")
    assert call("write_file", path="link", content="new")["resolved_path"] == str(workdir / "real")
    assert (workdir / "link").is_symlink() and (workdir / "real").read_text() == "new"
    call("write_file", path="dangling", content="x")
    assert (workdir / "dangling").is_symlink() and (workdir / "made").read_text() == "x"


def test_a_full_disk_leaves_the_old_file(call: Call, workdir: Path) -> None:
    (workdir / "a").write_text("old")
    with files_of_at_most(100):
        answer = call("write_file", path="a", content="x" * 1_000)
        fresh = call("write_file", path="deep/er/b", content="x" * 1_000)
    assert set(answer) == {"error"} and "nothing was changed" in answer["error"]
    assert "nothing was changed" in fresh["error"]
    assert (workdir / "a").read_text() == "old"
    assert names_in(workdir) == ["a"], "neither temporary files nor new directories stay behind"


@pytest.fixture
def small_disk(workdir: Path) -> Generator[Path]:
    place = workdir / "disk"
    place.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(place)]
    if os.geteuid() != 0 or subprocess.run(command, capture_output=True, check=False).returncode != 0:
        pytest.skip("only who may mount can make a small disk")
    yield place
    subprocess.run(["umount", str(place)], check=True)


def test_a_disk_that_is_really_full(call: Call, small_disk: Path) -> None:
    (small_disk / "a").write_text("old")
    answer = call("write_file", path=str(small_disk / "a"), content="x" * 100_000)
    assert "no space left" in answer["error"]
    assert (small_disk / "a").read_text() == "old" and names_in(small_disk) == ["a"]


def test_a_read_only_disk(call: Call, small_disk: Path) -> None:
    (small_disk / "a").write_text("old")
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    assert "read-only" in call("write_file", path=str(small_disk / "a"), content="x")["error"]
    assert (small_disk / "a").read_text() == "old"


def test_a_directory_that_may_not_be_written(
    call: Call, workdir: Path, unprivileged: AbstractContextManager[None]
) -> None:
    workdir.chmod(0o555)
    with unprivileged:
        answer = call("write_file", path="a", content="x")
    workdir.chmod(0o755)
    assert "permission denied" in answer["error"]
    assert names_in(workdir) == []


@pytest.mark.parametrize(
    ("path", "content", "said"),
    [
        ("", "x", "path"),
        (None, "x", "path"),
        ("a\0", "x", "NUL"),
        ("a", None, "content must be a string"),
        ("a", 3, "content must be a string"),
        ("a", "x\ud800", "position 1"),
        (".", "x", "directory"),
        ("file/below", "x", "not a directory"),
        ("x" * 300, "x", "too long"),
        ("/etc/hermes-test", "x", "system directory"),
    ],
)
def test_what_cannot_be_written_is_explained(call: Call, workdir: Path, path: Any, content: Any, said: str) -> None:
    (workdir / "file").write_text("a file")
    answer = call("write_file", path=path, content=content)
    assert set(answer) == {"error"} and said in answer["error"]
    assert names_in(workdir) == ["file"]


def test_pipes_and_devices_are_not_replaced(call: Call, workdir: Path) -> None:
    os.mkfifo(workdir / "pipe")
    assert "named pipe" in call("write_file", path="pipe", content="x")["error"]
    assert call("write_file", path="/dev/null", content="gone")["bytes_written"] == 4
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)  # noqa: PTH116


def test_a_circle_of_links(call: Call, workdir: Path) -> None:
    (workdir / "a").symlink_to("b")
    (workdir / "b").symlink_to("a")
    assert "circle" in call("write_file", path="a", content="x")["error"]


def test_protected_files_are_refused(call: Call, workdir: Path, home: Path, context: ToolContext) -> None:
    context.guard.protect(workdir / "state.db")
    assert "open" in call("write_file", path="state.db", content="x")["error"]
    assert "settings" in call("write_file", path=str(home / "config.yaml"), content="x")["error"]
    assert not (workdir / "state.db").exists() and not home.exists()


def test_the_paths_of_a_call_are_real_names(workdir: Path, context: ToolContext) -> None:
    (workdir / "link").symlink_to("real")
    assert DECLARED["write_file"].written_paths({"path": "link"}, context.cwd) == [workdir / "real"]
    assert DECLARED["write_file"].written_paths({"path": None}, context.cwd) == []


# ---- several files at once


def test_changes_are_all_or_nothing(workdir: Path) -> None:
    for name in ("a", "b", "c"):
        (workdir / name).write_text(name)
    (workdir / "busy").mkdir()
    changes = [
        FileChange(str(workdir / "a"), b"a", b"new a"),
        FileChange(str(workdir / "new/deep"), None, b"new"),
        FileChange(str(workdir / "b"), b"b", None),
        FileChange(str(workdir / "busy"), b"?", None),  # a directory cannot be unlinked
    ]
    with pytest.raises(OSError, match="busy"):
        apply_changes(changes)
    assert names_in(workdir) == ["a", "b", "busy", "c"]
    assert [(workdir / name).read_text() for name in "abc"] == ["a", "b", "c"]


def test_a_rename_that_fails_takes_the_others_back(workdir: Path) -> None:
    (workdir / "a").write_text("a")
    (workdir / "a").chmod(0o600)
    (workdir / "directory").mkdir()
    changes = [FileChange(str(workdir / "a"), b"a", b"new"), FileChange(str(workdir / "directory"), None, b"x")]
    with pytest.raises(OSError, match="directory"):
        apply_changes(changes)
    assert (workdir / "a").read_text() == "a" and stat.S_IMODE((workdir / "a").stat().st_mode) == 0o600
    assert names_in(workdir) == ["a", "directory"]
