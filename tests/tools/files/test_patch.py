from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from hermes.tools.declarations.builtin import DECLARED
from hermes.tools.registry import ToolContext
from support.waiting import finish

Call = Callable[..., dict[str, Any]]
KEYS = {"success", "diff", "files_modified", "files_created", "files_deleted", "resolved_path"}


def replace(call: Call, old: str, new: str, path: str = "a.py", **more: Any) -> dict[str, Any]:
    return call("patch", mode="replace", path=path, old_string=old, new_string=new, **more)


def test_a_unique_piece_is_replaced(call: Call, workdir: Path) -> None:
    (workdir / "a.py").write_text("one\ntwo\nthree\n")
    answer = replace(call, "two", "2")
    assert (workdir / "a.py").read_text() == "one\n2\nthree\n"
    assert set(answer) == KEYS | {"replacements"}
    assert answer["success"] is True and answer["replacements"] == 1
    assert answer["files_modified"] == [str(workdir / "a.py")] and answer["resolved_path"] == str(workdir / "a.py")
    assert answer["files_created"] == [] and answer["files_deleted"] == []
    assert answer["diff"] == "--- a/a.py\n+++ b/a.py\n@@ -1,3 +1,3 @@\n one\n-two\n+2\n three\n"


def test_a_piece_that_stands_twice_needs_more_lines_or_replace_all(call: Call, workdir: Path) -> None:
    (workdir / "a.py").write_text("x\ny\nx\n")
    answer = replace(call, "x", "z")
    assert answer["success"] is False and "2 times (lines 1, 3)" in answer["error"] and answer["_hint"]
    assert (workdir / "a.py").read_text() == "x\ny\nx\n"
    assert replace(call, "x", "z", replace_all=True)["replacements"] == 2
    assert (workdir / "a.py").read_text() == "z\ny\nz\n"


def test_a_piece_that_is_missing_shows_what_is_near(call: Call, workdir: Path) -> None:
    (workdir / "a.py").write_text("def first():\n    pass\n\ndef compute_total(items):\n    return sum(items)\n")
    answer = replace(call, "def compute_totals(item):\n    return 1\n", "x")
    assert answer["success"] is False
    assert "     4|def compute_total(items):\n     5|    return sum(items)" in answer["error"]


@pytest.mark.parametrize(
    ("text", "old", "new", "result", "forgiven"),
    [
        ("a  \nb\t\nc\n", "a\nb\n", "x\n", "x\nc\n", "line ends"),
        ("a\nb\nc", "a \nb ", "x", "x\nc", "line ends"),
        ("if x:\n    a\n    b\n", "a\nb\n", "c\n  d\n\n", "if x:\n    c\n      d\n\n", "indentation"),
        ("a\nb\n", "    a\n    b", "    c\n", "c\n\n", "indentation"),
        ("\tif a:\n\t\tb\n", "if a:\n\tb\n", "if c:\n\td\n", "\tif c:\n\t\td\n", "indentation"),
        ("a \nb\nc\n", "a\nb\n", "x", "xc\n", "line ends"),
    ],
)
def test_white_space_is_forgiven_and_mentioned(
    call: Call, workdir: Path, text: str, old: str, new: str, result: str, forgiven: str
) -> None:
    (workdir / "a.py").write_text(text)
    answer = replace(call, old, new)
    assert (workdir / "a.py").read_text() == result
    assert forgiven in answer["_hint"]


def test_forgiveness_is_not_guessing(call: Call, workdir: Path) -> None:
    (workdir / "a.py").write_text("  a\n      b\n  c \n c\n")
    assert "not found" in replace(call, "a\nb\n", "x")["error"], "the lines are indented differently"
    assert "2 times (lines 3, 4)" in replace(call, "c\t", "x")["error"]


def test_line_ends_and_byte_order_marks_are_kept(call: Call, workdir: Path) -> None:
    (workdir / "a.py").write_bytes(b"\xef\xbb\xbfone\r\ntwo\r\nthree\r\n")
    assert replace(call, "one\ntwo\n", "1\n2\n2b\n")["success"]
    assert (workdir / "a.py").read_bytes() == b"\xef\xbb\xbf1\r\n2\r\n2b\r\nthree\r\n"
    assert replace(call, "2\r\n2b\r\n", "2\r\n")["success"]
    assert (workdir / "a.py").read_bytes() == b"\xef\xbb\xbf1\r\n2\r\nthree\r\n"


def test_a_file_with_mixed_line_ends_changes_only_where_asked(call: Call, workdir: Path) -> None:
    (workdir / "a.py").write_bytes(b"one\r\ntwo\nthree\r\nfour\n")
    assert replace(call, "two", "2")["success"]
    assert replace(call, "three\nfour\n", "3\n4\n")["success"]
    assert (workdir / "a.py").read_bytes() == b"one\r\n2\n3\n4\n"


def test_bytes_that_are_no_utf8_survive(call: Call, workdir: Path) -> None:
    (workdir / "a.py").write_bytes(b"caf\xe9 one\n")
    answer = replace(call, "one", "two ä")
    assert (workdir / "a.py").read_bytes() == b"caf\xe9 two \xc3\xa4\n"
    assert "caf\ufffd" in answer["diff"]


@pytest.mark.parametrize("encoding", ["utf-16", "utf-32"])
def test_other_encodings_survive(call: Call, workdir: Path, encoding: str) -> None:
    (workdir / "a.py").write_bytes("one\ntwo\n".encode(encoding))
    assert replace(call, "one", "😀")["success"]
    assert (workdir / "a.py").read_bytes() == "😀\ntwo\n".encode(encoding)


@pytest.mark.parametrize(
    ("args", "said"),
    [
        ({"old_string": "", "new_string": "x"}, "old_string is empty"),
        ({"old_string": "x", "new_string": "x"}, "the same"),
        ({"old_string": "x"}, "needs path, old_string and new_string"),
        ({"old_string": "one", "new_string": "\ud800"}, "cannot hold"),
        ({"old_string": "one", "new_string": "x", "path": "missing.py"}, "not found"),
        ({"old_string": "one", "new_string": "x", "path": "."}, "directory"),
        ({"old_string": "one", "new_string": "x", "path": ""}, "path"),
        ({"old_string": "one", "new_string": "x", "path": "binary"}, "not a text file"),
        ({"old_string": "one", "new_string": "x", "path": "/etc/hosts"}, "system directory"),
        ({"mode": "shuffle"}, "mode must be"),
        ({"mode": "patch"}, "needs the patch text"),
    ],
)
def test_what_cannot_be_done_is_explained(call: Call, workdir: Path, args: dict[str, Any], said: str) -> None:
    (workdir / "a.py").write_text("one\n")
    (workdir / "binary").write_bytes(b"one\0")
    answer = call("patch", **({"mode": "replace", "path": "a.py"} | args))
    assert answer["success"] is False and said in answer["error"] and answer["_hint"]
    assert (workdir / "a.py").read_text() == "one\n"


def test_a_missing_file_names_its_neighbours(call: Call, workdir: Path) -> None:
    (workdir / "settings.py").touch()
    assert str(workdir / "settings.py") in replace(call, "a", "b", path="setings.py")["error"]


def test_a_link_is_patched_through(call: Call, workdir: Path) -> None:
    (workdir / "real").write_text("one\n")
    (workdir / "a.py").symlink_to("real")
    assert replace(call, "one", "two")["resolved_path"] == str(workdir / "real")
    assert (workdir / "a.py").is_symlink() and (workdir / "real").read_text() == "two\n"


def test_the_work_does_not_grow_with_the_square_of_the_lines(call: Call, workdir: Path) -> None:
    """With the square of 200,000 lines it would take hours."""
    (workdir / "a.py").write_text("".join(f"line {n}\n" for n in range(200_000)))
    assert finish(lambda: replace(call, "line 150000\n", "changed\n"))["diff"].count("\n") == 11
    assert "left out" in finish(lambda: replace(call, "line", "row", replace_all=True))["diff"]
    assert finish(lambda: replace(call, "row 77777777", "x"))["success"] is False


def test_protected_files_are_refused(call: Call, workdir: Path, context: ToolContext) -> None:
    (workdir / "state.db").write_text("one\n")
    context.guard.protect(workdir / "state.db")
    (workdir / "a.py").hardlink_to(workdir / "state.db")
    assert "open" in replace(call, "one", "two")["error"]


def test_the_paths_of_a_call_are_real_names(workdir: Path, context: ToolContext) -> None:
    (workdir / "link").symlink_to("real")
    assert DECLARED["patch"].written_paths({"mode": "replace", "path": "link"}, context.cwd) == [workdir / "real"]
    patch = "*** Update File: link\n*** Move to: b c\n@@\n*** Delete File: d\n*** Move File: e -> f\n*** Add File: \0"
    expected = [workdir / name for name in ("real", "b c", "d", "e", "f")]
    assert DECLARED["patch"].written_paths({"mode": "patch", "patch": patch}, context.cwd) == expected
    assert DECLARED["patch"].written_paths({"mode": "patch", "patch": 3}, context.cwd) == []


lines = st.lists(st.sampled_from(["a", "b", "  c", "", "d  "]), min_size=1, max_size=8)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=80, deadline=None)
@example(before=["b"], old=["b", ""], new=["a"], crlf=False)
@given(before=lines, old=lines, new=lines, crlf=st.booleans())
def test_a_replacement_does_what_text_replace_does_or_nothing(
    call: Call, workdir: Path, before: list[str], old: list[str], new: list[str], crlf: bool
) -> None:
    text, old_text, new_text = ("\n".join(part) for part in (before, old, new))
    on_disk = text.replace("\n", "\r\n" if crlf else "\n").encode()
    (workdir / "a.py").write_bytes(on_disk)
    answer = replace(call, old_text, new_text)
    after = (workdir / "a.py").read_bytes().replace(b"\r\n", b"\n").decode()
    if not answer["success"]:
        assert after == text
    elif "_hint" not in answer:
        assert after == text.replace(old_text, new_text)
    assert os.listdir(workdir) == ["a.py"]  # noqa: PTH208
