from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from hermes.tools.files.text_window import TextWindow, cut_window

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
