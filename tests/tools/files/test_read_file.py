from __future__ import annotations

import os
import socket
import threading
import tracemalloc
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hermes.base.errors import Interrupted
from hermes.tools.files.read_file import TextWindow, cut_window, run_read_file
from hermes.tools.registry import ToolContext, ToolLimits
from support.waiting import finish

Call = Callable[..., dict[str, Any]]
KEYS = {"content", "total_lines", "file_size"}


def test_lines_are_numbered(call: Call, workdir: Path) -> None:
    (workdir / "a.txt").write_text("one\n\nthree\n")
    assert call("read_file", path="a.txt") == {
        "content": "     1|one\n     2|\n     3|three\n",
        "total_lines": 3,
        "file_size": 11,
    }


@pytest.mark.parametrize(
    ("text", "content", "total"),
    [
        ("", "", 0),
        ("\n", "     1|\n", 1),
        ("x", "     1|x", 1),
        ("x\n", "     1|x\n", 1),
        ("a\nb", "     1|a\n     2|b", 2),
        ("a\n\n", "     1|a\n     2|\n", 2),
        ("a\x0cb\u2028c\n", "     1|a\x0cb\u2028c\n", 1),
    ],
)
def test_the_last_line_is_neither_lost_nor_invented(
    call: Call, workdir: Path, text: str, content: str, total: int
) -> None:
    (workdir / "a.txt").write_text(text)
    answer = call("read_file", path="a.txt")
    assert (answer["content"], answer["total_lines"], "truncated" in answer) == (content, total, False)


def test_a_window_says_how_to_go_on(call: Call, workdir: Path) -> None:
    (workdir / "a.txt").write_text("".join(f"line {n}\n" for n in range(1, 1_201)))
    answer = call("read_file", path="a.txt")
    assert answer["content"].endswith("   500|line 500\n")
    assert (answer["truncated"], answer["next_offset"], answer["truncated_by"]) == (True, 501, "lines")
    assert "offset=501" in answer["hint"]
    answer = call("read_file", path="a.txt", offset=1_199, limit=100)
    assert answer["content"] == "  1199|line 1199\n  1200|line 1200\n"
    assert "truncated" not in answer and "next_offset" not in answer
    answer = call("read_file", path="a.txt", offset=3, limit=2)
    assert answer["content"] == "     3|line 3\n     4|line 4\n"


def test_reading_on_gives_every_line_once(call: Call, workdir: Path, context: ToolContext) -> None:
    lines = [f"{n} " + "x" * (n % 50) for n in range(1, 301)]
    (workdir / "a.txt").write_text("\n".join(lines))
    context.limits = ToolLimits(max_read_chars=900)
    offset, seen = 1, ""
    while offset:
        answer = call("read_file", path="a.txt", offset=offset, limit=70)
        assert len(answer["content"]) <= 1_000
        seen += answer["content"]
        offset = answer.get("next_offset", 0)
    assert [line[7:] for line in seen.split("\n")] == lines


@pytest.mark.parametrize(("offset", "limit"), [(0, 1), (-5, 1), (1, 0), (1, -3)])
def test_odd_windows_are_put_right(call: Call, workdir: Path, offset: int, limit: int) -> None:
    (workdir / "a.txt").write_text("one\ntwo\n")
    assert call("read_file", path="a.txt", offset=offset, limit=limit)["content"] == "     1|one\n"


def test_at_most_two_thousand_lines(call: Call, workdir: Path) -> None:
    (workdir / "a.txt").write_text("x\n" * 3_000)
    assert call("read_file", path="a.txt", limit=10**12)["next_offset"] == 2_001


@pytest.mark.parametrize("offset", [3, 10**40])
def test_past_the_end_there_is_nothing(call: Call, workdir: Path, offset: int) -> None:
    (workdir / "a.txt").write_text("one\ntwo\n")
    answer = call("read_file", path="a.txt", offset=offset)
    assert (answer["content"], answer["total_lines"], "truncated" in answer) == ("", 2, False)
    assert "2 lines" in answer["hint"]


def test_long_lines_are_cut(call: Call, workdir: Path, context: ToolContext) -> None:
    context.limits = ToolLimits(max_line_length=10)
    (workdir / "a.txt").write_text("short\n" + "ä" * 30 + "\nend\n", encoding="utf-8")
    answer = call("read_file", path="a.txt")
    assert answer["content"] == "     1|short\n     2|" + "ä" * 10 + " [… cut after 10 characters]\n     3|end\n"
    assert (answer["truncated"], answer["truncated_by"]) == (True, "line_length")
    assert "encoding" not in answer


def test_a_character_cut_in_two_is_not_an_encoding_fault(call: Call, workdir: Path, context: ToolContext) -> None:
    context.limits = ToolLimits(max_line_length=10)
    (workdir / "a.txt").write_text("x" + "😀" * 40, encoding="utf-8")
    answer = call("read_file", path="a.txt")
    assert answer["content"] == "     1|x" + "😀" * 9 + " [… cut after 10 characters]"
    assert "encoding" not in answer


# ---- what is not plain text


def test_binary_files_are_not_shown(call: Call, workdir: Path) -> None:
    (workdir / "a.bin").write_bytes(b"\x7fELF\0\0\1")
    answer = call("read_file", path="a.bin")
    assert (answer["content"], answer["is_binary"], "is_image" in answer) == ("", True, False)
    assert "binary" in answer["error"] and answer["file_size"] == 7


def test_noise_without_nul_is_binary_too(call: Call, workdir: Path) -> None:
    (workdir / "a.bin").write_bytes(bytes(range(1, 32)) * 30 + b"\xff\xfe\xfd")
    assert call("read_file", path="a.bin")["is_binary"]


@pytest.mark.parametrize(
    ("start", "mime"),
    [
        (b"\x89PNG\r\n\x1a\n\0\0", "image/png"),
        (b"\xff\xd8\xff\xe0\0", "image/jpeg"),
        (b"GIF89a\0", "image/gif"),
        (b"RIFF\0\0\0\0WEBP", "image/webp"),
    ],
)
def test_images_are_recognised_by_content(call: Call, workdir: Path, start: bytes, mime: str) -> None:
    (workdir / "picture").write_bytes(start)
    answer = call("read_file", path="picture")
    assert (answer["is_image"], answer["mime_type"], answer["content"]) == (True, mime, "")
    assert "error" not in answer


def test_a_sound_file_is_no_image(call: Call, workdir: Path) -> None:
    (workdir / "sound").write_bytes(b"RIFF\0\0\0\0WAVE")
    answer = call("read_file", path="sound")
    assert answer["is_binary"] and "is_image" not in answer


def test_invalid_utf8_is_shown_as_far_as_possible(call: Call, workdir: Path) -> None:
    (workdir / "a.txt").write_bytes(b"caf\xe9\nok\n")
    answer = call("read_file", path="a.txt")
    assert answer["content"] == "     1|caf\ufffd\n     2|ok\n"
    assert "UTF-8" in answer["encoding"]


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-be", "utf-32", "utf-8-sig"])
def test_byte_order_marks_are_understood(call: Call, workdir: Path, encoding: str) -> None:
    text = "eins\nzwei ä 😀\n"
    mark = b"\xfe\xff" if encoding == "utf-16-be" else b""
    (workdir / "a.txt").write_bytes(mark + text.encode(encoding))
    answer = call("read_file", path="a.txt")
    assert answer["content"] == "     1|eins\n     2|zwei ä 😀\n"
    assert answer["total_lines"] == 2
    assert answer["encoding"].startswith("utf-")


def test_windows_line_ends_are_noted_and_not_shown(call: Call, workdir: Path) -> None:
    (workdir / "crlf").write_bytes(b"a\r\nb\r\n")
    (workdir / "mixed").write_bytes(b"a\r\nb\nc")
    (workdir / "lone").write_bytes(b"a\rb\n")
    crlf = call("read_file", path="crlf")
    assert (crlf["content"], crlf["line_endings"]) == ("     1|a\n     2|b\n", "crlf")
    mixed = call("read_file", path="mixed")
    assert (mixed["content"], mixed["line_endings"]) == ("     1|a\n     2|b\n     3|c", "mixed")
    assert call("read_file", path="lone")["content"] == "     1|a\rb\n"


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
@given(data=st.binary(max_size=200), offset=st.integers(-2, 9), limit=st.integers(-2, 9))
def test_any_bytes_give_an_answer(call: Call, workdir: Path, data: bytes, offset: int, limit: int) -> None:
    (workdir / "any").write_bytes(data)
    answer = call("read_file", path="any", offset=offset, limit=limit)
    assert set(answer) >= KEYS
    assert answer["file_size"] == len(data)


# ---- what is no file, or out of reach


def test_a_missing_file_names_its_neighbours(call: Call, workdir: Path) -> None:
    (workdir / "config.yaml").touch()
    answer = call("read_file", path="confg.yaml")
    assert set(answer) == KEYS | {"error", "similar_files"}
    assert answer["similar_files"] == [str(workdir / "config.yaml")]
    assert "not found" in answer["error"]


@pytest.mark.parametrize("path", ["", None, "a\0b", "\ud800", "x" * 5_000])
def test_impossible_paths(call: Call, path: Any) -> None:
    answer = call("read_file", path=path)
    assert set(answer) >= KEYS | {"error"}


def test_a_name_with_odd_bytes(call: Call, workdir: Path) -> None:
    name = os.fsdecode(b"odd\xff.txt")
    (workdir / name).write_text("x\n")
    assert call("read_file", path=name)["content"] == "     1|x\n"
    assert "not found" in call("read_file", path=os.fsdecode(b"odd\xfe.txt"))["error"]


def test_things_that_are_no_files_never_block(call: Call, workdir: Path) -> None:
    os.mkfifo(workdir / "pipe")
    (workdir / "pipe-link").symlink_to("pipe")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(workdir / "s"))
        for name, kind in (("pipe", "named pipe"), ("pipe-link", "named pipe"), ("s", "socket"), (".", "directory")):
            answer = call("read_file", path=name)
            assert kind in answer["error"] and answer["content"] == ""
    assert "device" in call("read_file", path="/dev/zero")["error"]


def test_links_that_point_in_a_circle(call: Call, workdir: Path) -> None:
    (workdir / "a").symlink_to("b")
    (workdir / "b").symlink_to("a")
    assert "circle" in call("read_file", path="a")["error"]


def test_a_file_that_may_not_be_read(call: Call, workdir: Path, unprivileged: AbstractContextManager[None]) -> None:
    (workdir / "secret").write_text("x")
    (workdir / "secret").chmod(0)
    with unprivileged:
        assert "permission denied" in call("read_file", path="secret")["error"]


def test_files_the_runtime_holds_open_are_refused(call: Call, workdir: Path, context: ToolContext) -> None:
    (workdir / "state.db").write_text("text, even")
    context.guard.protect(workdir / "state.db")
    (workdir / "innocent.txt").hardlink_to(workdir / "state.db")
    for name in ("state.db", "innocent.txt"):
        answer = call("read_file", path=name)
        assert "open" in answer["error"] and answer["content"] == ""


def test_files_of_the_kernel_have_a_size_when_read(call: Call) -> None:
    if not Path("/proc/self/status").exists():
        pytest.skip("no /proc here")
    answer = call("read_file", path="/proc/self/status")
    assert answer["content"].startswith("     1|Name:") and answer["file_size"] > 100


# ---- large files


def test_a_window_of_a_hundred_megabytes(call: Call, workdir: Path) -> None:
    with (workdir / "large").open("wb") as file:
        for start in range(0, 2_000_000, 100_000):
            file.write(b"".join(b"%08d %s\n" % (n, b"x" * 41) for n in range(start, start + 100_000)))
    tracemalloc.start()
    answer = call("read_file", path="large", offset=1_999_999, limit=5)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    (workdir / "large").unlink()
    assert answer["total_lines"] == 2_000_000 and answer["file_size"] == 102_000_000
    assert answer["content"].startswith("1999999|01999998 x")
    assert peak < 12_000_000


def test_one_line_of_fifty_megabytes(call: Call, workdir: Path) -> None:
    (workdir / "large").write_bytes(b"x" * 50_000_000 + b"\nend\n")
    tracemalloc.start()
    answer = call("read_file", path="large")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    (workdir / "large").unlink()
    assert answer["total_lines"] == 2 and answer["content"].endswith("     2|end\n")
    assert len(answer["content"]) < 2_100
    assert peak < 12_000_000


def test_reading_is_interruptible(context: ToolContext, workdir: Path) -> None:
    with (workdir / "endless").open("wb") as file:
        file.write(b"x" * 10_000)  # text as far as anyone looks, and then a terabyte of nothing
        file.truncate(1 << 40)
    timer = threading.Timer(0.1, context.scope.interrupt.cancel)
    timer.start()
    with pytest.raises(Interrupted):
        finish(lambda: run_read_file({"path": "endless"}, context))
    timer.join()


texts = st.lists(st.sampled_from([b"a", b"bc", b"\n", b"\n\n", b"longer than that", b"\r\n"])).map(b"".join)


def chunked(data: bytes, size: int) -> list[bytes]:
    return [data[at : at + size] for at in range(0, len(data), size)]


@given(texts, st.integers(1, 9), st.integers(1, 6), st.integers(1, 12))
def test_the_window_is_the_slice_of_all_lines(data: bytes, first: int, count: int, size: int) -> None:
    lines = data.split(b"\n")
    if lines[-1] == b"":
        lines.pop()
    window = cut_window(chunked(data, size), first, count, longest=1_000, budget=10_000)
    shown = lines[first - 1 : first - 1 + count]
    reaches_open_end = bool(shown) and first - 1 + len(shown) == len(lines) and not data.endswith(b"\n")
    assert window == TextWindow(first, shown, len(lines), len(data), ended=not reaches_open_end, cut=False)


@given(texts, st.integers(1, 12), st.integers(1, 5))
def test_long_lines_are_cut_however_the_bytes_arrive(data: bytes, size: int, longest: int) -> None:
    whole = cut_window([data] if data else [], 1, 1_000, longest, 10_000)
    pieces = cut_window(chunked(data, size), 1, 1_000, longest, 10_000)
    assert pieces == whole
    assert all(len(line) <= longest for line in pieces.lines)
    assert pieces.cut == any(len(line) > longest for line in data.split(b"\n"))


@given(texts, st.integers(1, 12), st.integers(1, 40))
def test_the_budget_bounds_what_is_kept_but_not_what_is_counted(data: bytes, size: int, budget: int) -> None:
    window = cut_window(chunked(data, size), 1, 1_000, 5, budget)
    everything = cut_window(chunked(data, size), 1, 1_000, 5, 10_000)
    assert sum(len(line) + 1 for line in window.lines) < budget + 6 + size
    assert window.lines == everything.lines[: len(window.lines)]
    assert (window.total_lines, window.size) == (everything.total_lines, len(data))
