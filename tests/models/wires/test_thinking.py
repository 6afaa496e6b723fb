"""Inline reasoning, sorted from the answer."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from hermes.models.wires.chat.thinking import ThinkSplitter


def sort(*pieces: str) -> tuple[str, str]:
    """(reasoning, text) of a streamed message."""
    splitter = ThinkSplitter()
    found = [part for piece in pieces for part in splitter.feed(piece)] + splitter.finish()
    return (
        "".join(text for kind, text in found if kind == "reasoning"),
        "".join(text for kind, text in found if kind == "text"),
    )


def test_a_leading_block_is_reasoning() -> None:
    assert sort("<think>hm</think>\n\nParis") == ("hm", "Paris")
    assert sort("\n <think>hm</think>Paris") == ("hm", "Paris")


def test_an_unclosed_block_is_all_reasoning() -> None:
    assert sort("<think>going on and on") == ("going on and on", "")


def test_a_tag_later_on_is_text() -> None:
    assert sort("The tag <think> opens it, </think> closes it.") == (
        "",
        "The tag <think> opens it, </think> closes it.",
    )


def test_text_that_only_looks_like_a_tag_is_kept() -> None:
    assert sort("<thi") == ("", "<thi")
    assert sort("<thinker>") == ("", "<thinker>")
    assert sort("  ") == ("", "  ")
    assert sort("<think>a</thin") == ("a</thin", "")


@given(
    st.sampled_from(["", "<think>", " <think>", "<thi"]),
    st.text(alphabet="ab <>/think", max_size=20),
    st.sampled_from(["", "</think>", "</thi"]),
    st.text(alphabet="ab <>\n", max_size=10),
    st.lists(st.integers(0, 50), max_size=6),
)
def test_any_chunking_sorts_the_same(opening: str, inner: str, closing: str, rest: str, cuts: list[int]) -> None:
    whole = opening + inner + closing + rest
    edges = sorted({0, len(whole), *(cut for cut in cuts if cut < len(whole))})
    pieces = [whole[start:end] for start, end in pairwise(edges)]
    assert sort(*pieces) == sort(whole) == sort(*whole)


def test_plain_text_is_given_out_at_once() -> None:
    splitter = ThinkSplitter()
    assert splitter.feed("Hello") == [("text", "Hello")]
    assert splitter.passive
    assert splitter.feed(" <think>") == [("text", " <think>")]
    assert splitter.feed("") == []
