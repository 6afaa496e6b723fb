from __future__ import annotations

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes.tools.terminal.output import BoundedOutput, omission, shorten, strip_escapes


def collected(data: bytes, limit: int, size: int) -> str:
    output = BoundedOutput(limit)
    for at in range(0, len(data), size):
        output.feed(data[at : at + size])
    output.end()
    return output.text()


@given(st.text() | st.binary(), st.integers(0, 60), st.integers(1, 9))
def test_streamed_output_is_bounded_like_a_finished_text(data: str | bytes, limit: int, size: int) -> None:
    raw = data.encode() if isinstance(data, str) else data
    assert collected(raw, limit, size) == shorten(raw.decode("utf-8", "replace"), limit)


def test_the_head_and_the_larger_tail_are_kept() -> None:
    text = collected(b"a" * 1_000 + b"b" * 1_000, 100, 7)
    assert text == "a" * 40 + omission(1_900) + "b" * 60
    assert "1,900 characters" in text


def test_text_can_be_read_while_more_arrives() -> None:
    output = BoundedOutput(10)
    output.feed(b"one")
    assert output.text() == "one"
    output.feed(b" two three four")
    assert output.text() == "one " + omission(8) + "e four"
    assert output.text() == "one " + omission(8) + "e four"


def test_a_flood_needs_little_memory() -> None:
    output = BoundedOutput(50_000)
    chunk = b"x" * 65_536
    tracemalloc.start()
    for _ in range(1_000):
        output.feed(chunk)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 5_000_000
    assert f"{65_536_000 - 50_000:,}" in output.text()


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("\x1b[1;31mred\x1b[0m", "red"),
        ("\x1b]0;title\x07text", "text"),
        ("\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("\x1b]never ended\nnext", "\nnext"),
        ("\x1b(Bplain\x1b=", "plain"),
        ("\x1b[2K\x1b[1Gx", "x"),
        ("\0no\0 escapes", "no escapes"),
    ],
)
def test_escape_sequences_are_removed(text: str, plain: str) -> None:
    assert strip_escapes(text) == plain


@given(st.text(st.sampled_from("\x1b[]()0;m\x07\\aP\n")))
def test_stripping_never_adds_text(text: str) -> None:
    assert len(strip_escapes(text)) <= len(text)
