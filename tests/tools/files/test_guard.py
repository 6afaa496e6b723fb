from __future__ import annotations

import os
import sqlite3
import time
from pathlib import Path

import pytest

from hermes.policy.files.credentials import HOME_STORES, KEY_FILES, STORES
from hermes.policy.judge import judge_read, judge_write
from hermes.tools.files.guard import FileGuard, may_be_credential, suspect_path


@pytest.fixture
def database(tmp_path: Path) -> Path:
    path = tmp_path / "state.db"
    path.write_bytes(b"data")
    return path


def guard_of(database: Path) -> FileGuard:
    guard = FileGuard()
    guard.protect(database, f"{database}-wal", f"{database}-shm")
    return guard


def test_a_file_held_open_is_refused_under_every_name(database: Path, tmp_path: Path) -> None:
    guard = guard_of(database)
    (tmp_path / "symbolic").symlink_to(database)
    (tmp_path / "hard").hardlink_to(database)
    (tmp_path / "folder").symlink_to(tmp_path)
    for name in ("state.db", "symbolic", "hard", "folder/state.db", "folder/symbolic", "folder/folder/./hard"):
        refused = guard.refusal(tmp_path / name)
        assert refused is not None and "open" in refused, name
        assert guard.refusal_to_write(tmp_path / name) is not None


def test_other_files_are_free(database: Path, tmp_path: Path) -> None:
    guard = guard_of(database)
    (tmp_path / "other").write_text("x")
    assert guard.refusal(tmp_path / "other") is None
    assert guard.refusal(str(tmp_path / "other"), (tmp_path / "other").stat()) is None
    assert guard.refusal(tmp_path / "missing") is None
    assert guard.refusal(tmp_path) is None


def test_companions_that_appear_later_are_refused(database: Path, tmp_path: Path) -> None:
    guard = guard_of(database)
    log = tmp_path / "state.db-wal"
    assert guard.refusal(log) is not None, "by name, before it exists"
    link = tmp_path / "elsewhere" / "innocent.txt"
    link.parent.mkdir()
    for _ in range(3):
        assert guard.refusal(database) is not None
        log.write_bytes(b"x")
        link.hardlink_to(log)
        assert guard.refusal(link) is not None, "by inode, as soon as it exists"
        log.unlink()
        link.unlink()


def test_a_settled_directory_is_not_looked_through_again(database: Path, tmp_path: Path) -> None:
    guard = guard_of(database)
    before = time.time() - 60
    os.utime(tmp_path, (before, before))
    assert guard.refusal(database) is not None
    (tmp_path / "copy").write_bytes(b"data")
    os.replace(tmp_path / "copy", database)  # noqa: PTH105
    assert guard.refusal(database) is not None, "the directory changed, so the new inode is known"


def test_a_live_database_is_refused_before_it_is_opened(tmp_path: Path) -> None:
    path = tmp_path / "live.db"
    connection = sqlite3.connect(path)
    connection.execute("pragma journal_mode=wal")
    connection.execute("create table t(x)")
    guard = guard_of(path)
    for suffix in ("", "-wal", "-shm"):
        assert guard.refusal(f"{path}{suffix}") is not None
    connection.close()


def test_settings_keys_and_records_are_neither_read_nor_written_under_any_name(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    for name in ("config.yaml", ".env", "auth.json", "auth.json.corrupt", "a2a.db", "state.db-wal"):
        (home / name).write_text("secret: x\n")
    guard = FileGuard(home)
    (tmp_path / "hard").hardlink_to(home / "config.yaml")
    (tmp_path / "symbolic").symlink_to(home / ".env")
    (tmp_path / "folder").symlink_to(home)
    names = ["hard", "symbolic", "folder/auth.json", "home/../home/a2a.db", "folder/state.db-wal"]
    names += [f"home/{name}" for name in ("config.yaml", ".env", "auth.json", "auth.json.corrupt", "search.db")]
    for name in names:
        for refused in (guard.refusal(tmp_path / name), guard.refusal_to_write(tmp_path / name)):
            assert refused is not None and "keys" in refused, name
    for name in ("notes.yaml", "home/notes.md", "home/memories/USER.md"):
        assert guard.refusal(tmp_path / name) is None
        assert guard.refusal_to_write(tmp_path / name) is None


def test_a_file_that_appears_later_is_protected_too(tmp_path: Path) -> None:
    guard = FileGuard(tmp_path)
    assert guard.refusal(tmp_path / "auth.json.corrupt-2") is not None  # by its name
    (tmp_path / "auth.json.corrupt-2").write_text("{}")
    (tmp_path / "other").hardlink_to(tmp_path / "auth.json.corrupt-2")
    assert guard.refusal(tmp_path / "other") is not None


def test_paths_that_may_hold_credentials_are_found_through_links(tmp_path: Path) -> None:
    keys = tmp_path / ".ssh"
    keys.mkdir()
    (keys / "id_ed25519").write_text("key")
    (tmp_path / "plain.txt").write_text("text")
    (tmp_path / "innocent").symlink_to(keys / "id_ed25519")
    (tmp_path / "folder").symlink_to(keys)
    real = str((keys / "id_ed25519").resolve())
    for name in ("innocent", "folder/id_ed25519", ".ssh/id_ed25519"):
        assert suspect_path(str(tmp_path / name)) == real
    assert suspect_path(str(tmp_path / "plain.txt")) is None
    assert suspect_path(str(tmp_path / "missing")) is None


def test_every_file_with_keys_is_found_and_asked_about() -> None:
    names = [*STORES, *HOME_STORES, *KEY_FILES]
    for name in names:
        path = "/home/me/" + name.replace("*", "x") + ("x" if name.endswith("/") else "")
        assert may_be_credential(path), path
        read, written = (judge(path, hermes_home="/home/me/.hermes") for judge in (judge_read, judge_write))
        assert read is not None and read.rule == "read-credentials", path
        assert written is not None and written.rule in ("write-credentials", "write-ssh", "wipe-logs"), path
    assert not may_be_credential("/home/me/project/.npmrc.md")
    assert judge_read("/home/me/project/.npmrc", hermes_home="/home/me/.hermes") is None


@pytest.mark.parametrize(
    "path", ["/etc/passwd", "/usr/bin/new", "/proc/self/mem", "/dev/sda", "/boot", "/lib64/x", "/sys/x", "/sbin/x"]
)
def test_system_directories_are_not_written(path: str) -> None:
    refused = FileGuard().refusal_to_write(path)
    assert refused is not None and "system directory" in refused
    assert FileGuard().refusal(path) is None


def test_a_link_into_a_system_directory_is_not_written_through(tmp_path: Path) -> None:
    (tmp_path / "way").symlink_to("/etc")
    assert FileGuard().refusal_to_write(tmp_path / "way/new.conf") is not None


@pytest.mark.parametrize(
    "path", ["/tmp/x", "/var/tmp/x", "/dev/null", "/home/someone/x", "/usr/src/app/x", "/etcetera"]
)
def test_ordinary_places_are_written(path: str) -> None:
    assert FileGuard().refusal_to_write(path) is None
