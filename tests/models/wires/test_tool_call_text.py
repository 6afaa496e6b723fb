"""Tool calls written into the text of an answer."""

from __future__ import annotations

from itertools import pairwise

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes.models.endpoint import Endpoint
from hermes.models.reply import Reply, ToolRequest, normalise
from hermes.models.wires.chat.tool_calls import TextCall, ToolCallSplitter
from hermes.models.wires.chat.wire import ChatCompletions
from hermes.models.wires.wire import TextDelta, ToolCallDelta
from hermes.testing.scripted.replies import completion, events, text

ENDPOINT = Endpoint("http://h/v1", "m")
LS = '<tool_call>\n{"name": "ls", "arguments": {"path": "a"}}\n</tool_call>'
CALL = TextCall("ls", '{"path":"a"}')


def split(*pieces: str) -> list[str | TextCall]:
    """What is found, with neighbouring text joined."""
    splitter = ToolCallSplitter()
    found: list[str | TextCall] = []
    for one in [*(item for piece in pieces for item in splitter.feed(piece)), *splitter.finish()]:
        if isinstance(one, str) and found and isinstance(found[-1], str):
            found[-1] += one
        else:
            found.append(one)
    return found


ROWS: dict[str, list[str | TextCall]] = {
    "": [],
    "plain text < 3": ["plain text < 3"],
    LS: [CALL],
    f"\n\n{LS}\n{LS}\n": [CALL, CALL],
    f"I look.\n{LS} Then this.": ["I look.\n", CALL, "Then this."],
    "<tool_call>{}</tool_call>": ["<tool_call>{}</tool_call>"],
    '<tool_call>{"name": ""}</tool_call>': ['<tool_call>{"name": ""}</tool_call>'],
    "Use <tool_call> like this": ["Use <tool_call> like this"],
    f"<tool_call>oops</tool_call>{LS}": ["<tool_call>oops</tool_call>", CALL],
    "<tool_call>[1]</tool_call> and <tool_cal": ["<tool_call>[1]</tool_call> and <tool_cal"],
    LS.removesuffix("</tool_call>"): [CALL],
    '<tool_call>{"name": "ls", "argu': ['<tool_call>{"name": "ls", "argu'],
    '<tool_call>{"name":"ls","arguments":"{\\"path\\":\\"a\\"}"}</tool_call>': [CALL],
    '<tool_call>{"name":"pwd"}</tool_call>': [TextCall("pwd", "{}")],
    "  \n ": ["  \n "],
    " indented": [" indented"],
}


@pytest.mark.parametrize("written", ROWS)
def test_what_is_a_call_and_what_is_text(written: str) -> None:
    assert split(written) == ROWS[written]
    assert split(*written) == ROWS[written]


pieces = st.lists(
    st.sampled_from([LS, "<tool_call>", "</tool_call>", '{"name":"x"}', "<", "a", " ", "\n", "<tool", "_call>", "é"]),
    max_size=8,
).map("".join)


@given(pieces, st.lists(st.integers(0, 400), max_size=12))
def test_any_split_finds_the_same(written: str, cuts: list[int]) -> None:
    edges = sorted({0, len(written), *(cut for cut in cuts if cut < len(written))})
    assert split(*(written[start:end] for start, end in pairwise(edges))) == split(written)


@given(st.text("<>tol_ca/ {}\n", max_size=60))
def test_text_without_a_call_is_kept_to_the_letter(written: str) -> None:
    assert "".join(str(piece) for piece in split(written)) == written


# -- in an answer -----------------------------------------------------------------------------------------------------


def answer(words: str, *, tools: bool, chunks: int = 7) -> tuple[Reply, list[object]]:
    parser = ChatCompletions().parser(ENDPOINT, streaming=True, tools=tools)
    stream = events(text(words, chunks=chunks), 1, "m", include_usage=False)
    deltas: list[object] = [delta for piece in stream for delta in parser.feed(piece)]
    reply = normalise(parser.finish())
    whole = ChatCompletions().parser(ENDPOINT, streaming=False, tools=tools)
    whole.feed(completion(text(words, usage=None), 1, "m"))
    assert normalise(whole.finish()) == reply
    return reply, deltas


def test_calls_in_the_text_become_calls() -> None:
    reply, deltas = answer(f"<think>hm</think>I look.\n{LS}\n{LS}", tools=True)
    assert reply.content == "I look.\n"
    assert reply.reasoning == "hm"
    assert reply.tool_calls == [
        ToolRequest("call_0", "ls", '{"path":"a"}'),
        ToolRequest("call_1", "ls", '{"path":"a"}'),
    ]
    assert reply.finish_reason == "tool_calls"
    assert "".join(delta.text for delta in deltas if isinstance(delta, TextDelta)) == "I look.\n"
    assert [delta for delta in deltas if isinstance(delta, ToolCallDelta)] == [
        ToolCallDelta(0, "", "ls", '{"path":"a"}'),
        ToolCallDelta(1, "", "ls", '{"path":"a"}'),
    ]


def test_without_tools_it_is_only_text() -> None:
    reply, _ = answer(LS, tools=False)
    assert (reply.content, reply.tool_calls, reply.finish_reason) == (LS, [], "stop")


def test_a_block_that_breaks_off_is_kept_as_text() -> None:
    reply, _ = answer('Look: <tool_call>{"name": "l', tools=True)
    assert (reply.content, reply.tool_calls) == ('Look: <tool_call>{"name": "l', [])


def test_what_arrived_of_a_block_is_part_of_a_broken_answer() -> None:
    parser = ChatCompletions().parser(ENDPOINT, streaming=True, tools=True)
    document = {"choices": [{"index": 0, "delta": {"content": 'Yes <tool_call>{"na'}}]}
    assert parser.feed(b"data: " + msgspec.json.encode(document) + b"\n\n") == [TextDelta("Yes ")]
    assert parser.partial().content == 'Yes <tool_call>{"na'
