from __future__ import annotations

import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes.tools.files.patch_v4a import Hunk, PatchError, apply_hunks, parse_patch, paths_in
from hermes.tools.registry import ToolContext

Call = Callable[..., dict[str, Any]]


def patched(call: Call, *lines: str) -> dict[str, Any]:
    return call("patch", mode="patch", patch="\n".join(("*** Begin Patch", *lines, "*** End Patch")))


def test_several_files_at_once(call: Call, workdir: Path) -> None:
    (workdir / "change.py").write_text("def a():\n    return 1\n\ndef b():\n    return 1\n")
    (workdir / "drop.py").write_text("x\n")
    (workdir / "move.py").write_text("one\ntwo\n")
    (workdir / "move.py").chmod(0o755)
    answer = patched(
        call,
        "*** Update File: change.py",
        "@@ def b():",
        "-    return 1",
        "+    return 2",
        "",
        "*** Delete File: drop.py",
        "*** Add File: new/deep.py",
        "+first",
        "+",
        "+third",
        "*** Update File: move.py",
        "*** Move to: moved.py",
        "@@",
        " one",
        "-two",
        "+2",
    )
    assert answer["success"] is True, answer
    assert (workdir / "change.py").read_text() == "def a():\n    return 1\n\ndef b():\n    return 2\n"
    assert (workdir / "new/deep.py").read_text() == "first\n\nthird\n"
    assert (workdir / "moved.py").read_text() == "one\n2\n"
    assert stat.S_IMODE((workdir / "moved.py").stat().st_mode) == 0o755
    assert not (workdir / "drop.py").exists() and not (workdir / "move.py").exists()
    assert answer["files_modified"] == [str(workdir / "change.py")]
    assert answer["files_created"] == [str(workdir / "new/deep.py"), str(workdir / "moved.py")]
    assert answer["files_deleted"] == [str(workdir / "drop.py"), str(workdir / "move.py")]
    assert "--- a/drop.py\n+++ /dev/null\n" in answer["diff"]
    assert "--- /dev/null\n+++ b/new/deep.py\n" in answer["diff"]


def test_when_one_file_does_not_fit_none_is_changed(call: Call, workdir: Path) -> None:
    (workdir / "a").write_text("one\n")
    (workdir / "b").write_text("one\n")
    answer = patched(
        call,
        "*** Update File: a",
        "-one",
        "+two",
        "*** Add File: c",
        "+new",
        "*** Update File: b",
        "-oen",
        "+two",
    )
    assert answer["success"] is False
    assert "b: these lines" in answer["error"] and "     1|one" in answer["error"]
    assert sorted(path.name for path in workdir.iterdir()) == ["a", "b"]
    assert (workdir / "a").read_text() == "one\n"


def test_one_file_may_be_named_twice(call: Call, workdir: Path) -> None:
    (workdir / "a").write_text("one\ntwo\n")
    answer = patched(call, "*** Update File: a", "-one", "+1", "*** Update File: ./a", "-two", "+2")
    assert answer["success"] is True
    assert (workdir / "a").read_text() == "1\n2\n"
    assert answer["files_modified"] == [str(workdir / "a")]


def test_moves_without_changes(call: Call, workdir: Path) -> None:
    (workdir / "a").write_text("one\n")
    assert patched(call, "*** Move File: a -> sub/b")["success"] is True
    assert (workdir / "sub/b").read_text() == "one\n" and not (workdir / "a").exists()


def test_line_ends_are_kept(call: Call, workdir: Path) -> None:
    (workdir / "a").write_bytes(b"one\r\ntwo\r\n")
    assert patched(call, "*** Update File: a", " one", "-two", "+2", "+3")["success"]
    assert (workdir / "a").read_bytes() == b"one\r\n2\r\n3\r\n"


def test_a_patch_may_itself_have_windows_line_ends(call: Call, workdir: Path) -> None:
    (workdir / "a").write_text("one\n")
    patch = "*** Begin Patch\r\n*** Update File: a\r\n-one\r\n+two\r\n*** End Patch\r\n"
    assert call("patch", mode="patch", patch=patch)["success"]
    assert (workdir / "a").read_text() == "two\n"


def test_the_frame_may_be_missing(call: Call, workdir: Path) -> None:
    (workdir / "a").write_text("one\n")
    assert call("patch", mode="patch", patch="\n*** Update File: a\n-one\n+two\n")["success"]


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (("*** Add File: a", "+x"), "exists already"),
        (("*** Add File: n", "no plus"), "line 3: every line of an added file starts with +"),
        (("*** Delete File: missing",), "not found"),
        (("*** Delete File: link",), "symbolic link"),
        (("*** Update File: missing", "-a", "+b"), "not found"),
        (("*** Update File: a",), "changes nothing"),
        (("*** Update File: a", "? what"), "line 3: a line starts with a space"),
        (("*** Update File: a", "@@ nowhere", "-one", "+1"), "no line reads 'nowhere'"),
        (("*** Update File: a", "*** Move to: b", " one", "-two", "+2"), "exists already"),
        (("*** Delete File: a", "*** Update File: a", "-one", "+1"), "deleted earlier"),
        (("*** Move File: a",), "written '*** Move File: old -> new'"),
        (("nonsense",), "expected a line like"),
        ((), "names no file"),
        (("*** Add File: /etc/hermes-test", "+x"), "system directory"),
        (("*** Add File: n", "+\ud800"), "cannot hold"),
    ],
)
def test_what_does_not_fit_is_explained(call: Call, workdir: Path, lines: tuple[str, ...], said: str) -> None:
    (workdir / "a").write_text("one\ntwo\n")
    (workdir / "b").write_text("b\n")
    (workdir / "link").symlink_to("a")
    answer = patched(call, *lines)
    assert answer["success"] is False and said in answer["error"], answer
    assert (workdir / "a").read_text() == "one\ntwo\n"
    assert sorted(path.name for path in workdir.iterdir()) == ["a", "b", "link"]


def test_protected_files_are_refused(call: Call, workdir: Path, context: ToolContext) -> None:
    (workdir / "state.db").write_text("x\n")
    context.guard.protect(workdir / "state.db")
    for line in ("*** Delete File: state.db", "*** Move File: state.db -> b"):
        assert "open" in patched(call, line)["error"]
    assert "open" in patched(call, "*** Add File: n", "+x", "*** Move File: n -> state.db")["error"]


# ---- hunks


def hunk(*lines: str, anchors: tuple[str, ...] = (), at_end: bool = False) -> Hunk:
    return Hunk(list(anchors), [(line[0], line[1:]) for line in lines], at_end)


TEXT = "class A:\n    def run(self):\n        pass\n\nclass B:\n    def run(self):\n        pass\n"


def test_anchors_choose_the_place() -> None:
    text, forgiven = apply_hunks(TEXT, [hunk("-        pass", "+        return 1", anchors=("class B:",))], "f")
    assert text == TEXT[: TEXT.rindex("pass")] + "return 1\n"
    assert forgiven == []
    nested = hunk("-        pass", "+        x", anchors=("class A:", "def run"))
    assert apply_hunks(TEXT, [nested], "f")[0] == TEXT.replace("pass", "x", 1)


def test_an_anchor_may_be_repeated_as_context() -> None:
    repeated = hunk(" class B:", "-    def run(self):", "+    def go(self):", anchors=("class B:",))
    assert apply_hunks(TEXT, [repeated], "f")[0].endswith("class B:\n    def go(self):\n        pass\n")


def test_a_place_that_is_not_clear_is_refused() -> None:
    with pytest.raises(PatchError, match=r"2 places \(lines 3, 7\)"):
        apply_hunks(TEXT, [hunk("-        pass", "+        x")], "f")


def test_the_end_of_the_file_chooses_the_last_place() -> None:
    assert apply_hunks(TEXT, [hunk("-        pass", "+        x", at_end=True)], "f")[0].endswith("        x\n")


def test_later_hunks_look_further_down() -> None:
    hunks = [hunk(" class A:", "+    a = 1"), hunk(" class B:", "+    b = 1"), hunk("-    b = 1", "+    b = 2")]
    with_both = apply_hunks(TEXT, hunks, "f")[0]
    assert "class A:\n    a = 1\n" in with_both and "class B:\n    b = 2\n" in with_both


def test_hunks_may_come_out_of_order() -> None:
    hunks = [hunk(" class B:", "+    b = 1"), hunk(" class A:", "+    a = 1")]
    assert "class A:\n    a = 1\n" in apply_hunks(TEXT, hunks, "f")[0]


def test_pure_additions() -> None:
    assert apply_hunks("a\nb\n", [hunk("+c")], "f")[0] == "a\nb\nc\n"
    assert apply_hunks("a\nb\n", [hunk("+c", anchors=("a",))], "f")[0] == "a\nc\nb\n"
    assert apply_hunks("", [hunk("+c")], "f")[0] == "c\n"
    assert apply_hunks("a", [hunk("+c")], "f")[0] == "a\nc"


def test_context_is_kept_as_it_stands_in_the_file() -> None:
    text, forgiven = apply_hunks("  if x:  \n      a\n", [hunk(" if x:", "-    a", "+    b")], "f")
    assert text == "  if x:  \n      b\n"
    assert forgiven == ["indentation"]


def test_unified_headers_are_understood() -> None:
    files = parse_patch("*** Update File: f\n@@ -1,2 +1,2 @@ def x\n-a\n+b\n@@ -9 +9 @@\n-c\n+d\n")
    assert [found.anchors for found in files[0].hunks] == [["def x"], []]


@given(st.text(st.sampled_from("*** AddUpdateFile: ab+-@ \n")))
def test_any_text_parses_or_is_refused(text: str) -> None:
    list(paths_in(text))
    try:
        assert parse_patch(text)
    except PatchError as error:
        assert str(error)


@st.composite
def edits(draw: st.DrawFn) -> tuple[list[str], list[str]]:
    """Two versions of a file with unique lines, so that every place is clear."""
    before = [f"line {n}" for n in range(draw(st.integers(1, 12)))]
    after = [line for line in before if draw(st.booleans()) or draw(st.booleans())]
    for at in sorted(draw(st.sets(st.integers(0, len(after)), max_size=3)), reverse=True):
        after.insert(at, f"new {at}")
    return before, after


@given(edits())
def test_a_whole_file_hunk_turns_one_version_into_the_other(versions: tuple[list[str], list[str]]) -> None:
    import difflib

    before, after = versions
    marked = [line for line in difflib.ndiff(before, after) if not line.startswith("?")]
    whole = Hunk([], [(line[0], line[2:]) for line in marked])
    text, _ = apply_hunks("\n".join(before) + "\n", [whole], "f")
    assert text == "".join(line + "\n" for line in after)
