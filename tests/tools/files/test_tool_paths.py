from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes.tools.files.paths import display_path, resolve_path, similar_files, why


def test_relative_paths_are_relative_to_the_working_directory(tmp_path: Path) -> None:
    assert resolve_path("a/b.txt", tmp_path) == str(tmp_path / "a/b.txt")
    assert resolve_path("./a//b.txt", tmp_path) == str(tmp_path / "a/b.txt")
    assert resolve_path("/etc/hosts", tmp_path) == "/etc/hosts"


def test_tilde_is_the_home_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/somewhere")
    assert resolve_path("~/x", tmp_path) == "/somewhere/x"
    assert resolve_path("a~", tmp_path) == str(tmp_path / "a~")


def test_dots_follow_links_as_the_system_does(tmp_path: Path) -> None:
    (tmp_path / "far/away").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "far/away")
    assert resolve_path("link/../x", tmp_path) == os.path.realpath(tmp_path / "far/x")


@pytest.mark.parametrize("path", ["", "  ", None, 3, "a\0b", "a\ud800b"])
def test_impossible_names_are_explained(path: object, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="path"):
        resolve_path(path, tmp_path)


@given(st.text(st.characters(codec=None)))
def test_any_text_resolves_or_is_refused(text: str) -> None:
    try:
        resolved = resolve_path(text, "/base")
    except ValueError:
        return
    assert Path(resolved).is_absolute()


def test_paths_inside_the_working_directory_are_shown_short(tmp_path: Path) -> None:
    assert display_path(str(tmp_path / "a/b"), tmp_path) == "a/b"
    assert display_path("/elsewhere/b", tmp_path) == "/elsewhere/b"
    assert display_path(str(tmp_path) + "-other/b", tmp_path) == str(tmp_path) + "-other/b"


def test_similar_names_are_found_in_any_case(tmp_path: Path) -> None:
    for name in ("README.md", "readme.txt", "zzz"):
        (tmp_path / name).touch()
    near = similar_files(str(tmp_path / "readme.md"))
    assert near[0] == str(tmp_path / "README.md")
    assert str(tmp_path / "zzz") not in near
    assert similar_files(str(tmp_path / "missing/readme.md")) == []


def test_causes_are_words() -> None:
    assert "space" in why(OSError(errno.ENOSPC, "x"))
    assert why(OSError(errno.EIO, "Input/output error")) == "Input/output error"
    assert why(OSError("odd")) == "odd"
