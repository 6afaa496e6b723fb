from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from hermes.base.errors import Interrupted
from hermes.tools.registry import ToolContext, ToolLimits
from hermes.tools.search.search_files import run_search_files
from support.waiting import finish

Call = Callable[..., dict[str, Any]]

RG = shutil.which("rg")
needs_rg = pytest.mark.skipif(RG is None, reason="ripgrep is not installed")


@pytest.fixture(params=["walk", pytest.param("rg", marks=needs_rg)], autouse=True)
def engine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    """Every test runs without ripgrep, and again with it where it is installed."""
    only = tmp_path / "bin"
    only.mkdir()
    if request.param == "rg" and RG:
        (only / "rg").symlink_to(RG)
    monkeypatch.setenv("PATH", str(only))
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))  # programs in a temporary folder do not count
    return request.param


@pytest.fixture
def tree(workdir: Path) -> Path:
    """Files of every kind a search meets."""
    files: dict[str, str | bytes] = {
        "a/x.txt": "hit one\ncontext\nhit two\n",
        "a.txt": "nothing\nhit three\n",
        "b/deep/er/y.py": "def hit():\n    return 'hit'\n",
        "b/z.md": "no match here\n",
        ".hidden": "hit\n",
        ".config/x": "hit\n",
        "node_modules/m/i.js": "hit\n",
        "b/__pycache__/c.py": "hit\n",
        "binary": b"hit\n\0",
        "late-binary": b"hit\n" + b"x" * 1_100_000 + b"\n\0",
        "utf16.txt": "\ufeffhit wide\n".encode("utf-16-le"),
        "bom.txt": b"\xef\xbb\xbfhit marked\n",
        "crlf.txt": b"first\r\nhit end\r\n",
        "latin.txt": b"hit caf\xe9\n",
        "empty": "",
        "no-newline": "hit last",
        os.fsdecode(b"odd\xff.txt"): "hit odd\n",
    }
    for name, content in files.items():
        path = workdir / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    (workdir / "link.txt").symlink_to("a.txt")
    (workdir / "loop").symlink_to(".")
    os.mkfifo(workdir / "pipe")
    return workdir


def found(answer: dict[str, Any]) -> list[str]:
    """The matches of an answer as ``path:line:text``, whichever way they are written."""
    if "matches" in answer:
        return [f"{match['path']}:{match['line']}:{match['content']}" for match in answer["matches"]]
    lines: list[str] = []
    path = ""
    for line in answer["matches_text"].split("\n"):
        number, colon, text = line.partition(":")
        if colon and number.isdigit():
            lines.append(f"{path}:{number}:{text}")
        else:
            path = line
    return lines


ALL_HITS = [
    "a/x.txt:1:hit one",
    "a/x.txt:3:hit two",
    "a.txt:2:hit three",
    "b/deep/er/y.py:1:def hit():",
    "b/deep/er/y.py:2:    return 'hit'",
    "bom.txt:1:hit marked",
    "crlf.txt:2:hit end",
    "latin.txt:1:hit caf\ufffd",
    "no-newline:1:hit last",
    "odd\ufffd.txt:1:hit odd",
    "utf16.txt:1:hit wide",
]


def test_every_text_file_is_searched_in_order(call: Call, tree: Path) -> None:
    answer = call("search_files", pattern="hit")
    assert found(answer) == ALL_HITS
    assert answer["total_count"] == len(ALL_HITS)
    assert "truncated" not in answer
    assert set(answer) == {"total_count", "matches_format", "matches_text"}


def test_few_matches_are_listed_one_by_one(call: Call, tree: Path) -> None:
    answer = call("search_files", pattern="hit t", path="a")
    assert answer == {"total_count": 1, "matches": [{"path": "a/x.txt", "line": 3, "content": "hit two"}]}


def test_anchors_are_about_lines(call: Call, tree: Path) -> None:
    assert found(call("search_files", pattern="^hit (end|marked)$")) == ["bom.txt:1:hit marked", "crlf.txt:2:hit end"]
    assert found(call("search_files", pattern=r"^\s+return")) == ["b/deep/er/y.py:2:    return 'hit'"]


@pytest.mark.parametrize(
    ("glob", "paths"),
    [
        ("*.py", {"b/deep/er/y.py"}),
        ("*.{py,md}", {"b/deep/er/y.py"}),
        ("b/**/*.py", {"b/deep/er/y.py"}),
        ("[a-c]*.txt", {"a.txt", "bom.txt", "crlf.txt"}),
        (".hidden", set[str]()),
        ("[", set[str]()),
    ],
)
def test_only_files_like_that(call: Call, tree: Path, glob: str, paths: set[str]) -> None:
    answer = call("search_files", pattern="hit", file_glob=glob, output_mode="files_only")
    assert set(answer["files"]) == paths
    assert answer["total_count"] == len(paths)


def test_counts(call: Call, tree: Path) -> None:
    answer = call("search_files", pattern="hit", output_mode="count", limit=3)
    assert answer["total_count"] == len(ALL_HITS)
    assert answer["counts"] == {"a/x.txt": 2, "a.txt": 1, "b/deep/er/y.py": 2}
    assert answer["truncated"] is True and "offset=3" in answer["hint"]


def test_pages_together_are_the_whole(call: Call, tree: Path) -> None:
    seen: list[str] = []
    for offset in range(0, len(ALL_HITS), 3):
        answer = call("search_files", pattern="hit", limit=3, offset=offset)
        seen += found(answer)
        assert answer["total_count"] == len(ALL_HITS)
        assert ("truncated" in answer) == (offset + 3 < len(ALL_HITS))
    assert seen == ALL_HITS


def test_context_lines(call: Call, workdir: Path) -> None:
    (workdir / "a.txt").write_text("".join(f"{n}\n" for n in range(1, 31)))
    answer = call("search_files", pattern="^(3|5|20)$", context=1)
    assert answer["total_count"] == 3
    assert answer["matches_text"] == "a.txt\n2-2\n3:3\n4-4\n5:5\n6-6\n--\n19-19\n20:20\n21-21"
    answer = call("search_files", pattern="^(3|5|20)$", context=1, limit=1, offset=2)
    assert answer["matches"] == [
        {"path": "a.txt", "line": 19, "content": "19", "context": True},
        {"path": "a.txt", "line": 20, "content": "20"},
        {"path": "a.txt", "line": 21, "content": "21", "context": True},
    ]


def test_context_across_a_large_file(call: Call, workdir: Path) -> None:
    lines = [f"{n:07d} {'x' * 40}" for n in range(60_000)]
    for at in (0, 21_399, 21_400, 59_999):
        lines[at] = f"needle {at}"
    (workdir / "a.txt").write_text("\n".join(lines))
    answer = call("search_files", pattern="needle", context=2)
    shown = [line for line in answer["matches_text"].split("\n")[1:] if line != "--"]
    numbers = [1, 2, 3, *range(21_398, 21_404), 59_998, 59_999, 60_000]
    assert [int(line.replace(":", "-").split("-")[0]) for line in shown] == numbers
    assert [line.split(":")[1] for line in shown if ":" in line] == [f"needle {n}" for n in (0, 21399, 21400, 59999)]


def test_a_file_can_be_searched_by_name_even_when_hidden(call: Call, tree: Path) -> None:
    assert found(call("search_files", pattern="hit", path=".hidden")) == [".hidden:1:hit"]
    assert found(call("search_files", pattern="hit", path=".config")) == [".config/x:1:hit"]
    assert found(call("search_files", pattern="hit", path="link.txt")) == ["link.txt:2:hit three"]
    assert call("search_files", pattern="hit", path="binary")["total_count"] == 0


def test_nothing_found_says_what_was_not_searched(call: Call, tree: Path) -> None:
    answer = call("search_files", pattern="absent everywhere")
    assert answer["total_count"] == 0 and answer["matches"] == []
    assert "git-ignored" in answer["hint"]


def test_places_outside_are_shown_in_full(call: Call, tree: Path, context: ToolContext) -> None:
    context.cwd = tree / "b"
    assert found(call("search_files", pattern="three", path=str(tree))) == [f"{tree}/a.txt:2:hit three"]
    assert found(call("search_files", pattern="three", path="..")) == [f"{tree}/a.txt:2:hit three"]


# ---- patterns


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        (r"\bhit\b.*two", ["a/x.txt:3:hit two"]),
        ("(?i)HIT T", ["a/x.txt:3:hit two", "a.txt:2:hit three"]),
        (r"hit (?!o|two)\w+ee", ["a.txt:2:hit three"]),
        (r"(?<!def )hit three", ["a.txt:2:hit three"]),
        (r"(h)it.*\1ree", ["a.txt:2:hit three"]),
        (r"[[:alpha:]]+\(\)", ["b/deep/er/y.py:1:def hit():"]),
        (r"\Ahit one\Z", ["a/x.txt:1:hit one"]),
    ],
)
def test_patterns_work_in_both_engines(call: Call, tree: Path, pattern: str, expected: list[str]) -> None:
    assert found(call("search_files", pattern=pattern)) == expected


@pytest.mark.parametrize(("pattern", "position"), [("a(b", 1), ("[z", 0), ("*x", 0), ("x{2,1}", 2)])
def test_a_bad_pattern_names_the_position(call: Call, tree: Path, pattern: str, position: int) -> None:
    answer = call("search_files", pattern=pattern)
    assert set(answer) == {"error"}
    assert f"at position {position}" in answer["error"] and pattern in answer["error"]


@pytest.mark.parametrize(
    ("args", "said"),
    [
        ({"pattern": ""}, "pattern is empty"),
        ({}, "pattern is empty"),
        ({"pattern": "x", "path": "a\0"}, "NUL"),
        ({"pattern": "x", "path": "mising"}, "not found"),
    ],
)
def test_bad_arguments_are_explained(call: Call, workdir: Path, args: dict[str, Any], said: str) -> None:
    (workdir / "missing").mkdir()
    answer = call("search_files", **args)
    assert said in answer["error"]
    if "path" in args and "\0" not in args["path"]:
        assert answer["similar_files"] == [str(workdir / "missing")]


# ---- what is left out


def test_gitignore_is_respected_inside_a_repository(call: Call, workdir: Path) -> None:
    def write(name: str, text: str = "hit\n") -> None:
        (workdir / name).parent.mkdir(parents=True, exist_ok=True)
        (workdir / name).write_text(text)

    write(".gitignore", "*.log\n/build/\n!keep.log\nsub/only-here\n")
    write("sub/.gitignore", "local\n!important.log\n")
    for name in ("a.log", "keep.log", "build/x", "sub/build/x", "sub/only-here", "sub/local", "local", "c.txt"):
        write(name)
    write("sub/important.log")
    write("other/.git/HEAD")
    write("other/x.log")
    everything = call("search_files", pattern="hit", output_mode="files_only", limit=99)["files"]
    assert len(everything) == 10, "outside a repository nothing is ignored"
    (workdir / ".git").mkdir()
    kept = ["c.txt", "keep.log", "local", "other/x.log", "sub/build/x", "sub/important.log"]
    assert call("search_files", pattern="hit", output_mode="files_only")["files"] == kept
    assert call("search_files", pattern="*", target="files")["files"] == kept
    below = ["sub/build/x", "sub/important.log"]
    assert call("search_files", pattern="hit", output_mode="files_only", path="sub")["files"] == below


def test_protected_files_are_not_searched(call: Call, workdir: Path, context: ToolContext) -> None:
    (workdir / "state.db").write_text("hit\n")
    (workdir / "other").write_text("hit\n")
    context.guard.protect(workdir / "state.db")
    (workdir / "hard").hardlink_to(workdir / "state.db")
    for mode in ("files_only", "count", "content"):
        answer = call("search_files", pattern="hit", output_mode=mode)
        left_out = answer.pop("not_searched")
        assert answer["total_count"] == 1 and "state.db" not in str(answer) and "hard" not in str(answer)
        assert left_out == ["hard", "state.db"] and "not searched" in answer["hint"]
    assert "open" in call("search_files", pattern="hit", path="hard")["error"]


def test_stores_of_keys_are_left_out_of_a_search(call: Call, workdir: Path) -> None:
    (workdir / "id_rsa").write_text("hit\n")
    (workdir / "passwords.kdbx").write_text("hit\n")
    answer = call("search_files", pattern="hit")
    assert answer["total_count"] == 0
    assert answer["not_searched"] == ["id_rsa", "passwords.kdbx"]


def test_unreadable_places_are_passed_over(
    call: Call, context: ToolContext, unprivileged: AbstractContextManager[None]
) -> None:
    with TemporaryDirectory() as name:
        place = Path(name)
        place.chmod(0o755)
        for directory in ("open", "closed"):
            (place / directory).mkdir()
            (place / directory / "file").write_text("hit\n")
            (place / directory / "secret").write_text("hit\n")
            (place / directory / "secret").chmod(0)
        (place / "closed").chmod(0)
        context.cwd = place
        with unprivileged:
            answers = [call("search_files", pattern="hit", output_mode=mode) for mode in ("files_only", "content")]
        (place / "closed").chmod(0o755)
    assert answers[0]["files"] == ["open/file"]
    assert found(answers[1]) == ["open/file:1:hit"]


# ---- files by name


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("*.py", ["b/deep/er/y.py"]),
        ("*.txt", ["a/x.txt", "a.txt", "bom.txt", "crlf.txt", "latin.txt", "odd\ufffd.txt", "utf16.txt"]),
        ("BINARY", ["binary", "late-binary"]),
        ("b/**", ["b/deep/er/y.py", "b/z.md"]),
        ("nothing-like-that", list[str]()),
    ],
)
def test_files_are_found_by_name(call: Call, tree: Path, pattern: str, expected: list[str]) -> None:
    answer = call("search_files", pattern=pattern, target="files")
    assert answer["files"] == expected
    assert answer["total_count"] == len(expected)


def test_files_by_name_in_pages(call: Call, tree: Path) -> None:
    answer = call("search_files", pattern="*.txt", target="files", limit=2, offset=1)
    assert answer["files"] == ["a.txt", "bom.txt"] and answer["total_count"] == 7
    assert "offset=3" in answer["hint"]
    assert call("search_files", pattern="x", target="files", path="a/x.txt")["files"] == ["a/x.txt"]


# ---- limits


def test_long_lines_and_long_answers_are_cut(call: Call, workdir: Path, context: ToolContext) -> None:
    (workdir / "a.txt").write_text(("hit " + "x" * 100_000 + "\n") * 30)
    context.limits = ToolLimits(max_read_chars=5_000)
    answer = call("search_files", pattern="hit")
    assert answer["total_count"] == 30
    shown = found(answer)
    assert len(shown) < 12 and all(line.endswith("x…") and len(line) < 520 for line in shown)
    assert answer["truncated"] is True and "too long" in answer["hint"]


def test_one_line_of_many_megabytes(call: Call, workdir: Path) -> None:
    (workdir / "a.txt").write_bytes(b"x" * 20_000_000 + b"\nhit\n")
    (workdir / "b.txt").write_bytes(b"hit" + b"x" * 20_000_000)
    assert [line[:11] for line in found(call("search_files", pattern="hit"))] == ["a.txt:2:hit", "b.txt:1:hit"]


def test_too_many_matches_stop_the_search(call: Call, workdir: Path) -> None:
    for number in range(4):
        (workdir / f"{number}.txt").write_text("hit\n" * 4_000)
    answer = call("search_files", pattern="hit", limit=2)
    assert answer["total_count"] == 12_000 and "stopped after more than 10000" in answer["hint"]
    assert call("search_files", pattern="hit", output_mode="count")["total_count"] == 16_000


def test_a_search_that_takes_too_long_answers_with_what_it_has(
    call: Call, tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hermes.tools.search.query.MAX_SECONDS", -1.0)
    answer = call("search_files", pattern="hit")
    assert answer["truncated"] is True and "stopped after" in answer["hint"]


def test_a_search_is_interruptible(context: ToolContext, workdir: Path) -> None:
    with (workdir / "endless").open("wb") as file:
        for _ in range(5):
            file.write(b"x" * 10_000_000 + b"\n")
    for number in range(1, 100):
        (workdir / f"endless{number}").hardlink_to(workdir / "endless")
    timer = threading.Timer(0.2, context.scope.interrupt.cancel)
    timer.start()
    with pytest.raises(Interrupted):
        finish(lambda: run_search_files({"pattern": "(x+)y|absent"}, context))
    timer.join()
    for path in workdir.iterdir():
        path.unlink()
