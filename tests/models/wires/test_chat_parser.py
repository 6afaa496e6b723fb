"""Chat completions read from bytes: streams, documents, and everything in between."""

from __future__ import annotations

import tracemalloc
from itertools import pairwise
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hermes.base.errors import FailureReason, ProviderError
from hermes.contract.response import Record, chat_response
from hermes.models.costs.usage import Usage
from hermes.models.endpoint import Endpoint
from hermes.models.reply import IncompleteReply, Reply, ToolRequest, normalise
from hermes.models.wires.chat.wire import ChatCompletions
from hermes.models.wires.wire import Delta, ReasoningDelta, TextDelta, ToolCallDelta
from hermes.testing.scripted.replies import completion, events, reasoning, text, tool_calls

ENDPOINT = Endpoint("http://h/v1", "m", "demo", "sk-secret-key")


def parse(*pieces: bytes, streaming: bool = True) -> tuple[list[Delta], Record]:
    parser = ChatCompletions().parser(ENDPOINT, streaming=streaming)
    deltas = [delta for piece in pieces for delta in parser.feed(piece)]
    return deltas, chat_response(parser.finish())


def reply_of(*pieces: bytes) -> Reply:
    return normalise(parse(*pieces)[1])


def event(document: Any) -> bytes:
    return b"data: " + msgspec.json.encode(document) + b"\n\n"


def chunk(finish_reason: str | None = None, **delta: Any) -> bytes:
    return event({"id": "r", "model": "m", "choices": [{"index": 0, "delta": delta, "finish_reason": finish_reason}]})


def call(index: int | None = 0, **fields: Any) -> bytes:
    function = {name: fields.pop(name) for name in ("name", "arguments") if name in fields}
    piece = {**fields, "function": function} | ({} if index is None else {"index": index})
    return chunk(tool_calls=[piece])


END = chunk("stop") + b"data: [DONE]\n\n"
RECORDED = b"".join(
    events(
        tool_calls([("ls", {"path": "é"}), ("cat", '{"p": "x"}')], content="Let me look: ✓"),
        1,
        "m",
        include_usage=True,
    )
)


# -- the usual stream ---------------------------------------------------------------------------------------------


def test_text() -> None:
    deltas, response = parse(*events(text("Hello there"), 7, "gpt", include_usage=True))
    assert deltas == [TextDelta("Hello "), TextDelta("there")]
    assert response.choices[0].message.content == "Hello there"
    assert response.choices[0].message.tool_calls is None
    assert response.choices[0].finish_reason == "stop"
    assert response.usage.prompt_tokens == 10
    assert (response.id, response.model, response.object) == ("chatcmpl-7", "gpt", "chat.completion")


def test_tool_calls_in_pieces() -> None:
    deltas, response = parse(RECORDED)
    expected = [ToolRequest("call_1_0", "ls", '{"path":"é"}'), ToolRequest("call_1_1", "cat", '{"p": "x"}')]
    assert normalise(response).tool_calls == expected
    assert normalise(response).content == "Let me look: ✓"
    calls = [delta for delta in deltas if isinstance(delta, ToolCallDelta)]
    assert [delta.name for delta in calls if delta.name] == ["ls", "cat"]
    assert "".join(delta.arguments for delta in calls if delta.index == 1) == '{"p": "x"}'


def test_a_stream_and_a_document_of_the_same_reply_agree() -> None:
    for reply in (text("Hello there"), tool_calls([("a", {"x": 1}), ("b", {})]), reasoning("hm", "yes")):
        streamed = reply_of(*events(reply, 1, "m", include_usage=True))
        assert streamed == reply_of(completion(reply, 1, "m"))


@given(st.lists(st.integers(0, len(RECORDED)), max_size=10))
def test_any_chunking_gives_the_same_answer(cuts: list[int]) -> None:
    edges = sorted({0, len(RECORDED), *cuts})
    pieces = [RECORDED[start:end] for start, end in pairwise(edges)]
    assert parse(*pieces) == parse(RECORDED)


def test_every_byte_alone() -> None:
    assert parse(*(RECORDED[at : at + 1] for at in range(len(RECORDED)))) == parse(RECORDED)


def test_fields_of_the_first_event_are_kept() -> None:
    first = event({"id": "r", "provider": "Acme", "system_fingerprint": "fp", "choices": []})
    _, response = parse(first, chunk(content="x"), END)
    assert (response.provider, response.system_fingerprint) == ("Acme", "fp")


def test_only_the_first_choice_counts() -> None:
    other = event({"choices": [{"index": 1, "delta": {"content": "other"}, "finish_reason": "stop"}]})
    assert reply_of(chunk(content="mine"), other, END).content == "mine"


# -- tool calls from unusual servers --------------------------------------------------------------------------------


def test_a_whole_call_in_one_event() -> None:
    stream = call(0, id="a", name="ls", arguments='{"x":1}') + call(1, id="b", name="cat", arguments={"y": 2})
    assert reply_of(stream, END).tool_calls == [ToolRequest("a", "ls", '{"x":1}'), ToolRequest("b", "cat", '{"y":2}')]


def test_calls_that_are_all_numbered_zero() -> None:
    stream = call(0, id="a", name="ls", arguments="{}") + call(0, id="b", name="ls", arguments='{"x":1}')
    assert reply_of(stream, END).tool_calls == [ToolRequest("a", "ls", "{}"), ToolRequest("b", "ls", '{"x":1}')]


def test_calls_without_an_index_go_by_id_and_then_by_order() -> None:
    stream = (
        call(None, id="a", name="ls", arguments='{"x"')
        + call(None, arguments=":1}")
        + call(None, id="b", name="cat", arguments="{")
        + call(None, id="a", arguments=" ")
        + call(None, id="b", arguments="}")
    )
    assert reply_of(stream, END).tool_calls == [ToolRequest("a", "ls", '{"x":1} '), ToolRequest("b", "cat", "{}")]


def test_calls_without_index_or_id_begin_with_their_name() -> None:
    stream = call(None, name="ls", arguments="{}") + call(None, name="cat") + call(None, arguments="{}")
    assert reply_of(stream, END).tool_calls == [ToolRequest("call_0", "ls", "{}"), ToolRequest("call_1", "cat", "{}")]


def test_an_id_and_a_name_that_are_repeated_in_every_piece() -> None:
    stream = call(0, id="a", name="ls", arguments='{"x"') + call(0, id="a", name="ls", arguments=":1}")
    assert reply_of(stream, END).tool_calls == [ToolRequest("a", "ls", '{"x":1}')]


def test_a_call_whose_id_comes_late_or_never() -> None:
    stream = call(0, name="ls", arguments="") + call(0, id="late", arguments="{}") + call(1, name="cat", arguments="{}")
    assert [call.id for call in reply_of(stream, END).tool_calls] == ["late", "call_1"]


def test_odd_pieces_are_ignored() -> None:
    stream = chunk(tool_calls=["x", None]) + chunk(content="text")
    assert reply_of(stream, END).tool_calls == []


def test_the_legacy_function_call_is_a_call() -> None:
    pieces = [{"name": "old", "arguments": ""}, {"arguments": '{"a":'}, {"arguments": " 1}"}]
    reply = reply_of(*(chunk(function_call=piece) for piece in pieces), END)
    assert [(call.name, call.arguments) for call in reply.tool_calls] == [("old", '{"a": 1}')]
    document = {"choices": [{"message": {"function_call": {"name": "old", "arguments": "{}"}}}]}
    parser = ChatCompletions().parser(ENDPOINT, streaming=False)
    parser.feed(msgspec.json.encode(document))
    assert [(call.name, call.arguments) for call in normalise(parser.finish()).tool_calls] == [("old", "{}")]


@pytest.mark.parametrize(
    ("sent", "arguments"),
    [
        (['{"a": 1}', '{"a": 1}'], '{"a": 1}'),
        (['{"a"', ": 1}", '{"a": 1}'], '{"a": 1}'),
        (["{}{"], "{}{"),
        (["xx"], "xx"),
    ],
)
def test_arguments_that_are_sent_twice_count_once(sent: list[str], arguments: str) -> None:
    pieces = [
        chunk(tool_calls=[{"index": 0, "id": "c", "function": {"name": "f", "arguments": text}}]) for text in sent
    ]
    assert [call.arguments for call in reply_of(*pieces, END).tool_calls] == [arguments]


def test_comments_that_come_as_data_are_left_out() -> None:
    assert reply_of(b"data: : OPENROUTER PROCESSING\n\n", chunk(content="hi"), END).content == "hi"


@pytest.mark.parametrize("streaming", [True, False])
def test_thoughts_without_an_opening_tag_are_no_part_of_the_recorded_answer(streaming: bool) -> None:
    said = "First I think\nabout it.\n</think>\n\nIt is 4."
    parser = ChatCompletions().parser(ENDPOINT, streaming=streaming)
    if streaming:
        for piece in (chunk(content=said[:20]), chunk(content=said[20:]), END):
            parser.feed(piece)
    else:
        parser.feed(msgspec.json.encode({"choices": [{"message": {"content": said}, "finish_reason": "stop"}]}))
    reply = normalise(parser.finish())
    assert (reply.content, reply.reasoning) == ("It is 4.", "First I think\nabout it.")


@pytest.mark.parametrize(
    "said", ["End it with </think> and go on.", "Write `<think>` and then\n</think>\nhere.", "</think> is a tag"]
)
def test_an_answer_about_the_tag_stays_whole(said: str) -> None:
    assert reply_of(chunk(content="A: " + said), END).content == "A: " + said


# -- reasoning ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("field", ["reasoning", "reasoning_content"])
def test_reasoning_fields_are_kept_apart(field: str) -> None:
    deltas, response = parse(chunk(**{field: "hm "}), chunk(**{field: "so"}), chunk(content="yes"), END)
    assert deltas == [ReasoningDelta("hm "), ReasoningDelta("so"), TextDelta("yes")]
    assert response.choices[0].message.reasoning == "hm so"
    assert response.choices[0].message.content == "yes"


def test_inline_reasoning_is_kept_apart() -> None:
    pieces = [chunk(content=piece) for piece in ("<th", "ink>hm", " so</thi", "nk>\n", "\nyes")]
    deltas, response = parse(*pieces, END)
    assert "".join(delta.text for delta in deltas if isinstance(delta, ReasoningDelta)) == "hm so"
    assert "".join(delta.text for delta in deltas if isinstance(delta, TextDelta)) == "yes"
    assert normalise(response) == Reply("yes", "hm so", model="m", response_id="r")


def test_inline_reasoning_in_a_document() -> None:
    body = completion(text("<think>hm</think>\nyes"), 1, "m")
    assert (reply_of(body).reasoning, reply_of(body).content) == ("hm", "yes")


def test_reasoning_that_never_ends_is_not_the_answer() -> None:
    reply = reply_of(chunk(content="<think>on and on"), chunk("length"), b"data: [DONE]\n\n")
    assert (reply.reasoning, reply.content, reply.finish_reason) == ("on and on", "", "length")


def test_text_held_back_for_a_tag_is_not_lost() -> None:
    deltas, response = parse(chunk(content="<thi"), END)
    assert deltas == [TextDelta("<thi")]
    assert response.choices[0].message.content == "<thi"


# -- content and usage ----------------------------------------------------------------------------------------------


def test_content_parts_and_a_refusal() -> None:
    parts = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    assert reply_of(chunk(content=parts), END).content == "ab"
    document = {"choices": [{"message": {"content": parts}, "finish_reason": "stop"}]}
    assert reply_of(msgspec.json.encode(document)).content == "ab"
    deltas, response = parse(chunk(refusal="I can"), chunk(refusal="not"), END)
    assert deltas == [TextDelta("I can"), TextDelta("not")]
    assert response.choices[0].message.refusal == normalise(response).content == "I cannot"


def test_usage_in_its_usual_and_unusual_places() -> None:
    usage = {"prompt_tokens": 9, "completion_tokens": 1}
    last = {"choices": [{"delta": {}, "finish_reason": "stop", "usage": usage}]}
    groq: dict[str, Any] = {"choices": [{"delta": {}, "finish_reason": "stop"}], "x_groq": {"usage": usage}}
    for stream in (chunk("stop") + event({"choices": [], "usage": usage}), event(last), event(groq)):
        assert reply_of(chunk(content="x") + stream).usage == Usage(9, 1)


def test_the_last_of_several_usages_wins() -> None:
    running = [event({"choices": [], "usage": {"prompt_tokens": count}}) for count in (1, 2, 3)]
    assert reply_of(chunk(content="x"), *running, END).usage == Usage(3)


def test_comments_and_empty_events_mean_nothing() -> None:
    assert reply_of(b": OPENROUTER PROCESSING\n\n", b"data:\n\n", chunk(content="x"), b": ping\n\n", END).content == "x"


def test_half_a_surrogate_pair_costs_one_character() -> None:
    broken = b'data: {"choices":[{"delta":{"content":"a\\ud83d"}}]}\n\n'
    assert reply_of(broken, chunk(content="b"), END).content == "a?b"


# -- the form of the body ---------------------------------------------------------------------------------------------


def test_the_body_says_what_it_is_whatever_was_asked_for() -> None:
    document = completion(text("hi"), 1, "m")
    for streaming in (True, False):
        assert normalise(parse(document, streaming=streaming)[1]).content == "hi"
        assert normalise(parse(RECORDED, streaming=streaming)[1]).content == "Let me look: ✓"
    assert reply_of(b"\xef\xbb\xbf \r\n" + document).content == "hi"


def test_blanks_before_the_answer_are_not_kept() -> None:
    """Some servers send them to keep the connection open while the model thinks."""
    for answer, content in ((completion(text("hi"), 1, "m"), "hi"), (RECORDED, "Let me look: ✓")):
        parser = ChatCompletions().parser(ENDPOINT, streaming=True)
        tracemalloc.start()
        try:
            for _ in range(500):
                assert parser.feed(b" \r\n\t" * 1000) == []
            assert tracemalloc.get_traced_memory()[0] < 100_000
        finally:
            tracemalloc.stop()
        parser.feed(answer)
        assert normalise(parser.finish()).content == content


def test_a_stream_without_done_or_without_finish_reason_is_complete() -> None:
    assert reply_of(chunk(content="x"), chunk("stop")).finish_reason == "stop"
    assert reply_of(chunk(content="x"), b"data: [DONE]").finish_reason == "stop"
    assert reply_of(call(0, id="a", name="f"), b"data: [DONE]\n\n").finish_reason == "tool_calls"


UNREADABLE: list[tuple[bytes, FailureReason, str]] = [
    (b"", "truncated", "ended before the answer began"),
    (b" \n ", "truncated", "ended before the answer began"),
    (b"<html><title>Login</title></html>", "malformed", "HTML page titled 'Login'"),
    (b"upstream connect error", "malformed", "upstream connect error"),
    (b'{"choices": []}', "malformed", "empty list of choices"),
    (b'{"choices": null}', "malformed", "no choices"),
    (b'{"object": "list"}', "malformed", "no choices"),
    (b'{"choices": [{"text": "old"}]}', "malformed", "no choices with a message"),
    (b"[1]", "malformed", "no choices"),
    (b'"text"', "malformed", "no choices"),
    (b'{"choices": [{', "truncated", "cut off"),
    (b'{"choices": nope}', "malformed", "bad JSON"),
    (b'{"choices": "\xff"}', "malformed", "bad JSON"),
    (b'{"a":1}{"b":2}', "malformed", "bad JSON"),
    (b'{"error": {"message": "busy", "code": 503}}', "overloaded", "busy"),
    (b'[{"error": {"message": "quota", "status": "RESOURCE_EXHAUSTED"}}]', "rate_limit", "quota"),
    (b"data: nope\n\n", "malformed", "bad event"),
    (b'data: "text"\n\n', "malformed", "bad event"),
    (b'data: {"choices": "x"}\n\n', "malformed", "bad event"),
    (b'data: {"choices": [{"delta": "x"}]}\n\n', "malformed", "bad event"),
    (b'data: {"choices": [{"delta": {"content": "\xff"}}]}\n\n', "malformed", "bad event"),
    (b"data: [DONE]\n\n", "malformed", "without choices"),
    (b'data: {"choices": []}\n\ndata: [DONE]\n\n', "malformed", "without choices"),
    (b'data: {"error": {"message": "no", "type": "overloaded_error"}}\n\n', "overloaded", "no"),
]


@pytest.mark.parametrize(("body", "reason", "says"), UNREADABLE)
def test_what_is_no_answer_says_what_came(body: bytes, reason: FailureReason, says: str) -> None:
    with pytest.raises(ProviderError, match=says) as caught:
        parse(body)
    assert caught.value.reason == reason
    assert str(caught.value).startswith("demo: ")


# -- what breaks off ------------------------------------------------------------------------------------------------


def test_a_stream_cut_at_any_byte_is_complete_or_keeps_what_arrived() -> None:
    complete = parse(RECORDED)[1]
    finished_at = RECORDED.index(b'"finish_reason":"tool_calls"')
    content = normalise(complete).content
    for cut in range(len(RECORDED)):
        parser = ChatCompletions().parser(ENDPOINT, streaming=True)
        shown = "".join(delta.text for delta in parser.feed(RECORDED[:cut]) if isinstance(delta, TextDelta))
        try:
            response = chat_response(parser.finish())
        except IncompleteReply as error:
            assert cut <= finished_at + 40
            assert error.reason == "truncated"
            assert error.partial.content.startswith(shown)
            assert content.startswith(error.partial.content)
        else:
            assert cut > finished_at
            assert response.choices == complete.choices


def test_an_error_in_the_middle_keeps_what_arrived() -> None:
    failure = event({"error": {"message": "busy", "code": 502}})
    with pytest.raises(IncompleteReply, match="busy") as caught:
        parse(chunk(content="half "), call(0, id="a", name="ls", arguments='{"x'), failure)
    assert caught.value.reason == "server_error"
    assert caught.value.status_code == 502
    assert caught.value.partial.content == "half "
    assert caught.value.partial.tool_calls == [ToolRequest("a", "ls", '{"x')]
    assert caught.value.partial.finish_reason == "incomplete"


def test_garbage_in_the_middle_keeps_what_arrived() -> None:
    for garbage in (b"data: {oops\n\n", b'data: {"choices":[{"delta":{"content":"\xff"}}]}\n\n', b"data: []\n\n"):
        with pytest.raises(IncompleteReply) as caught:
            parse(chunk(content="half"), garbage, END)
        assert caught.value.reason == "malformed"
        assert caught.value.partial.content == "half"


def test_a_ten_megabyte_line_is_refused_and_keeps_what_arrived() -> None:
    with pytest.raises(IncompleteReply, match="more than 8 MB") as caught:
        parse(chunk(content="half"), b"data: " + b"x" * 10 * 1024 * 1024)
    assert caught.value.partial.content == "half"


def test_partial_can_be_asked_at_any_time() -> None:
    parser = ChatCompletions().parser(ENDPOINT, streaming=True)
    assert parser.partial() == Reply(finish_reason="incomplete")
    parser.feed(chunk(content="half"))
    assert parser.partial() == Reply("half", finish_reason="incomplete", model="m", response_id="r")


FIELDS = "choices delta message content tool_calls function name arguments index id finish_reason usage error"

wild = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.text(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(FIELDS.split()),
            inner,
            max_size=4,
        )
    ),
    max_leaves=6,
)


choices = st.lists(st.fixed_dictionaries({"delta": wild, "message": wild}) | wild, max_size=3)
documents = wild | st.fixed_dictionaries({"choices": choices}, optional={"usage": wild, "id": wild, "model": wild})


@settings(max_examples=80)
@given(st.lists(documents, min_size=1, max_size=4), st.booleans())
def test_wild_documents_give_an_answer_or_a_typed_error(found: list[Any], as_stream: bool) -> None:
    body = b"".join(event(document) for document in found) if as_stream else msgspec.json.encode(found[0])
    try:
        normalise(parse(body)[1])
    except ProviderError as error:
        assert str(error)


@given(st.binary(max_size=300))
def test_wild_bytes_give_an_answer_or_a_typed_error(body: bytes) -> None:
    with pytest.raises(ProviderError):
        parse(body)
