"""``@path`` in a message: what counts as a mention, what is added, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hermes.base.errors import HermesError
from hermes.surfaces.cli.chat.message import MAX_MENTIONED_BYTES, MAX_NAMES, expand_mentions


@pytest.mark.parametrize("message", ["what does @property do?", "mail me@host.org", "a @ b", "plain", "\\@a/b.txt"])
def test_words_that_are_no_mentions_stay_words(tmp_path: Path, message: str) -> None:
    (tmp_path / "host.org").write_text("not meant")
    assert expand_mentions(message, tmp_path) == (message.replace("\\@", "@"), [])


@pytest.mark.parametrize("message", ["see @a.txt", "see @a.txt, please", '@"a.txt" and @a.txt', "(@a.txt)", "@./a.txt"])
def test_a_file_is_added_once(tmp_path: Path, message: str) -> None:
    (tmp_path / "a.txt").write_text("one\ntwo\n")
    expanded, [name] = expand_mentions(message, tmp_path)
    assert expanded == f'{message}\n\n<file path="{name}">\none\ntwo\n</file>'


def test_names_with_blanks_are_quoted_and_images_are_left_to_the_images(tmp_path: Path) -> None:
    (tmp_path / "my notes.txt").write_text("x")
    (tmp_path / "p.png").write_bytes(b"\x89PNG\r\n\x1a\n")
    expanded, names = expand_mentions('@"my notes.txt" @p.png', tmp_path)
    assert names == ["my notes.txt"] and expanded.endswith('<file path="my notes.txt">\nx\n</file>')


def test_a_folder_is_its_names(tmp_path: Path) -> None:
    for number in range(MAX_NAMES + 5):
        (tmp_path / f"{number:04}").touch()
    (tmp_path / "0000").unlink()
    (tmp_path / "0000").mkdir()
    expanded, _ = expand_mentions("@./", tmp_path)
    assert "\n0000/\n" in expanded and expanded.endswith("0199\n... and 5 more\n</folder>")


@pytest.mark.parametrize(
    ("content", "message", "problem"),
    [
        (b"x", "see @b.txt", "no such file or folder"),
        (b"x", "see @a.txt/b", "no such file or folder"),
        (b"\xff\xfe", "see @a.txt", "not a text file"),
        (b"a\0b", "see @a.txt", "not a text file"),
        (b"x" * (MAX_MENTIONED_BYTES + 1), "see @a.txt", "262,145 bytes"),
    ],
)
def test_what_cannot_be_added_is_an_error(tmp_path: Path, content: bytes, message: str, problem: str) -> None:
    (tmp_path / "a.txt").write_bytes(content)
    with pytest.raises(HermesError, match=problem):
        expand_mentions(message, tmp_path)


def test_several_files_share_the_room(tmp_path: Path) -> None:
    for name in ("a.txt", "b.txt"):
        (tmp_path / name).write_bytes(b"x" * (MAX_MENTIONED_BYTES // 2 + 1))
    with pytest.raises(HermesError, match=r"@b\.txt.*in total"):
        expand_mentions("@a.txt @b.txt", tmp_path)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.text())
def test_any_text_is_returned_or_refused(tmp_path: Path, message: str) -> None:
    try:
        expanded, _ = expand_mentions(message, tmp_path)
    except HermesError:
        return
    assert expanded.startswith(message.replace("\\@", "@"))
