"""Server-sent events from bytes in any pieces."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hermes.base.errors import ProviderError
from hermes.models.wires.sse import MAX_EVENT_BYTES, EventSplitter


def split(*pieces: bytes) -> list[bytes]:
    splitter = EventSplitter()
    found = [event for piece in pieces for event in splitter.feed(piece)]
    return found + splitter.finish()


lines = st.sampled_from(
    [b"data: one", b"data:two", b"data:  padded", b"data:", b"data", b": comment", b"event: x", b"id: 1", b"", b"junk"]
)
endings = st.sampled_from([b"\n", b"\r\n", b"\r"])


@given(st.lists(st.tuples(lines, endings), max_size=12), st.lists(st.integers(0, 120), max_size=8), st.booleans())
@example([(b"data: a", b"\r\n"), (b"", b"\r\n"), (b"data: b", b"\r"), (b"", b"\r")], [9], False)
def test_any_chunking_gives_the_same_events(written: list[tuple[bytes, bytes]], cuts: list[int], bom: bool) -> None:
    whole = (b"\xef\xbb\xbf" if bom else b"") + b"".join(line + ending for line, ending in written)
    edges = sorted({0, len(whole), *(cut for cut in cuts if cut < len(whole))})
    pieces = [whole[start:end] for start, end in pairwise(edges)]
    bytewise = [whole[at : at + 1] for at in range(len(whole))]
    assert split(*pieces) == split(whole) == split(*bytewise)


def test_the_usual_stream() -> None:
    assert split(b'data: {"a":1}\n\n', b'data: {"b":2}\n\n', b"data: [DONE]\n\n") == [b'{"a":1}', b'{"b":2}', b"[DONE]"]


def test_every_line_ending_and_the_byte_order_mark() -> None:
    for ending in (b"\n", b"\r\n", b"\r"):
        stream = b"\xef\xbb\xbfdata: a" + ending + ending + b": ping" + ending + b"data: b" + ending + ending
        assert split(stream) == [b"a", b"b"]


def test_lines_of_one_event_are_joined() -> None:
    assert split(b"event: x\ndata: one\nid: 7\ndata: two\n\n") == [b"one\ntwo"]


def test_one_blank_after_the_colon_belongs_to_the_syntax() -> None:
    assert split(b"data:a\n\ndata: b\n\ndata:  c\n\n") == [b"a", b"b", b" c"]


def test_an_event_without_its_blank_line_is_still_given_out() -> None:
    assert split(b"data: a\n\ndata: b") == [b"a", b"b"]
    assert split(b"data: a\n\ndata: b\n") == [b"a", b"b"]


@pytest.mark.parametrize("piece", [MAX_EVENT_BYTES * 2, 65536])
def test_a_line_without_end_is_refused(piece: int) -> None:
    splitter = EventSplitter()
    line = b"data: " + b"x" * (10 * 1024 * 1024) + b"\n\n"
    with pytest.raises(ProviderError, match="more than 8 MB") as caught:
        for start in range(0, len(line), piece):
            splitter.feed(line[start : start + piece])
    assert caught.value.reason == "malformed"


def test_an_event_of_endless_lines_is_refused() -> None:
    splitter = EventSplitter()
    with pytest.raises(ProviderError, match="more than 8 MB"):
        for _ in range(20):
            splitter.feed((b"data: " + b"x" * 1000 + b"\n") * 1000)
