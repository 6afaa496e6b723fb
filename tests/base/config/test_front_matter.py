"""Markdown files with front matter, as authors of other agents write them too."""

from __future__ import annotations

from pathlib import Path

import pytest

from hermes.base.config.front_matter import read_markdown, split_front_matter
from hermes.base.errors import ConfigError


def _file(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "one.md"
    path.write_bytes(text.encode())
    return path


def test_fields_and_text(tmp_path: Path) -> None:
    read = read_markdown(_file(tmp_path, "---\nname: one\nallowed-tools: [a, b]\n---\n\nText.\n"))
    assert (read.fields, read.body) == ({"name": "one", "allowed-tools": ["a", "b"]}, "Text.\n")
    assert read.text("title", "name") == "one"
    assert read.names("tools", "allowed-tools") == ["a", "b"]
    assert read.names("tools") is None
    assert read.text("tools") == ""


def test_a_text_without_front_matter_is_a_text(tmp_path: Path) -> None:
    assert read_markdown(_file(tmp_path, "Text.\n---\nmore\n")).fields == {}
    assert split_front_matter("", "x") == ({}, "")


@pytest.mark.parametrize(
    ("written", "names"),
    [
        ("read_file, patch", ["read_file", "patch"]),
        ("read_file patch", ["read_file", "patch"]),
        ("Bash(git log, git diff), Read", ["Bash(git log, git diff)", "Read"]),
        ("", []),
    ],
)
def test_names_in_one_line(tmp_path: Path, written: str, names: list[str]) -> None:
    assert (read_markdown(_file(tmp_path, f"---\ntools: '{written}'\n---\n")).names("tools")) == names


def test_values_that_yaml_refuses_are_read_as_others_read_them(tmp_path: Path) -> None:
    text = "\ufeff---\r\ndescription: Use it when: always\r\nhint: [file] [more]\r\n---\r\nText\r\n"
    read = read_markdown(_file(tmp_path, text))
    assert read.fields == {"description": "Use it when: always", "hint": "[file] [more]"}
    assert read.body == "Text\n"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("---\nname: x\n", "has no end"),
        ("---\na:\n  b: [c\n---\n", "front matter, line"),
        ("---\n- a\n---\n", "a mapping of key: value lines"),
    ],
)
def test_broken_front_matter_names_the_file(tmp_path: Path, text: str, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem) as raised:
        read_markdown(_file(tmp_path, text))
    assert "one.md" in str(raised.value)


def test_fields_of_another_kind_are_errors(tmp_path: Path) -> None:
    read = read_markdown(_file(tmp_path, "---\nname: [a]\ntools: {a: b}\n---\n"))
    with pytest.raises(ConfigError, match="name is not a text"):
        read.text("name")
    with pytest.raises(ConfigError, match="tools is neither"):
        read.names("tools")


def test_a_file_that_is_too_long_foreign_or_no_text_is_refused(tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    (tmp_path / "outside.md").write_text("secret")
    (project / "link.md").symlink_to(tmp_path / "outside.md")
    with pytest.raises(ConfigError, match="link that leaves"):
        read_markdown(project / "link.md", inside=project)
    (project / "own.md").symlink_to(project / "real.md")
    (project / "real.md").write_text("own")
    assert read_markdown(project / "own.md", inside=project).body == "own"
    with pytest.raises(ConfigError, match="more than 2 bytes"):
        read_markdown(project / "real.md", limit=2)
    (project / "binary.md").write_bytes(b"a\n\xff\xfe")
    with pytest.raises(ConfigError, match="line 2: not UTF-8"):
        read_markdown(project / "binary.md")
    with pytest.raises(ConfigError, match="is not a file"):
        read_markdown(project / "absent.md")
