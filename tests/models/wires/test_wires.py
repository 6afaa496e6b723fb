"""One suite for all request formats: the same answers, the same cuts and the same faults on each."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, get_args

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hermes.base.errors import ProviderError
from hermes.contract.response import Record, chat_response
from hermes.models.costs.usage import Usage
from hermes.models.endpoint import ApiMode, Endpoint
from hermes.models.reply import IncompleteReply, Reply, ToolRequest, normalise
from hermes.models.wires.choice import wire_for
from hermes.models.wires.wire import Delta, ModelRequest, ReasoningDelta, TextDelta, ToolCallDelta
from hermes.testing.scripted.formats import FORMATS, chat_messages
from hermes.testing.scripted.replies import ScriptedReply, reasoning, text, tool_calls

MODES: tuple[ApiMode, ...] = get_args(ApiMode)
PATHS: dict[ApiMode, str] = {
    "chat_completions": "/v1/chat/completions",
    "codex_responses": "/v1/responses",
    "anthropic_messages": "/v1/messages",
}
CALLS = [("ls", {"path": "é"}), ("cat", {"p": "x", "n": [1, {"a": None}]})]
COUNTED: dict[str, Any] = {
    "prompt_tokens": 120,
    "completion_tokens": 30,
    "prompt_tokens_details": {"cached_tokens": 64, "cache_write_tokens": 16},
    "completion_tokens_details": {"reasoning_tokens": 8},
}

#: What a server answers, and what is to come of it on any wire.
SCENARIOS: dict[str, tuple[ScriptedReply, Reply]] = {
    "text": (text("Hello there, ✓"), Reply("Hello there, ✓")),
    "two calls": (
        tool_calls(CALLS, content="Let me look:"),
        Reply(
            "Let me look:",
            tool_calls=[
                ToolRequest("call_1_0", "ls", '{"path":"é"}'),
                ToolRequest("call_1_1", "cat", '{"p":"x","n":[1,{"a":null}]}'),
            ],
            finish_reason="tool_calls",
        ),
    ),
    "a call without arguments": (
        tool_calls([("pwd", {})]),
        Reply(tool_calls=[ToolRequest("call_1_0", "pwd", "{}")], finish_reason="tool_calls"),
    ),
    "reasoning": (reasoning("So it is four", "Four."), Reply("Four.", "So it is four")),
    "reasoning alone": (reasoning("On and on", finish_reason="length"), Reply("", "On and on", finish_reason="length")),
    "a limit": (text("And so", finish_reason="length"), Reply("And so", finish_reason="length")),
    "a filter": (text("It is", finish_reason="content_filter"), Reply("It is", finish_reason="content_filter")),
    "counts": (text("Yes", usage=COUNTED), Reply("Yes", usage=Usage(40, 30, 64, 16, 8))),
    "many pieces": (text("word " * 50, chunks=40), Reply("word " * 50)),
}


def endpoint(mode: ApiMode) -> Endpoint:
    return Endpoint("http://h/v1", "m", "demo", "sk-secret-key", mode)


def document_of(mode: ApiMode, reply: ScriptedReply) -> bytes:
    return FORMATS[PATHS[mode]].document(reply, 1, "m")


def stream_of(mode: ApiMode, reply: ScriptedReply) -> bytes:
    return b"".join(FORMATS[PATHS[mode]].stream(reply, 1, "m", {"stream_options": {"include_usage": True}}))


def parse(mode: ApiMode, *pieces: bytes, tools: bool = True) -> tuple[list[Delta], Record]:
    parser = wire_for(endpoint(mode)).parser(endpoint(mode), streaming=True, tools=tools)
    deltas = [delta for piece in pieces for delta in parser.feed(piece)]
    return deltas, chat_response(parser.finish())


def said(reply: Reply) -> Reply:
    """The reply without what differs from wire to wire."""
    usage = reply.usage if reply.usage != Usage(10, 5) else None
    return msgspec.structs.replace(reply, response_id="", model="", provider_state=None, usage=usage)


@pytest.fixture(params=MODES)
def mode(request: pytest.FixtureRequest) -> ApiMode:
    return request.param


RICH = tool_calls(CALLS, content="Let me look: ✓")
RECORDED: dict[ApiMode, bytes] = {mode: stream_of(mode, RICH) for mode in MODES}


# -- answers ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_stream_and_a_document_say_the_same(name: str, mode: ApiMode) -> None:
    scripted, expected = SCENARIOS[name]
    _, streamed = parse(mode, stream_of(mode, scripted))
    _, whole = parse(mode, document_of(mode, scripted))
    assert said(normalise(streamed)) == expected
    assert normalise(streamed) == normalise(whole)
    assert normalise(streamed).model == "m"
    assert normalise(streamed).response_id.endswith("1")


@pytest.mark.parametrize("name", SCENARIOS)
def test_the_pieces_are_those_of_the_whole(name: str, mode: ApiMode) -> None:
    scripted, expected = SCENARIOS[name]
    deltas, _ = parse(mode, stream_of(mode, scripted))
    assert "".join(delta.text for delta in deltas if isinstance(delta, TextDelta)) == expected.content
    assert "".join(delta.text for delta in deltas if isinstance(delta, ReasoningDelta)) == expected.reasoning
    calls = [delta for delta in deltas if isinstance(delta, ToolCallDelta)]
    for position, call in enumerate(expected.tool_calls):
        own = [delta for delta in calls if delta.index == position]
        assert "".join(delta.name for delta in own) == call.name
        assert "".join(delta.id for delta in own) == call.id
        assert "".join(delta.arguments for delta in own) == call.arguments


def test_hooks_see_a_chat_completion(mode: ApiMode) -> None:
    _, response = parse(mode, RECORDED[mode])
    choice = response.choices[0]
    assert response.object == "chat.completion"
    assert choice.message.role == "assistant"
    assert choice.message.tool_calls[0].function.name == "ls"
    assert (response.usage.prompt_tokens, response.usage.completion_tokens) == (10, 5)
    assert normalise(msgspec.json.decode(msgspec.json.encode(response.model_dump()))) == normalise(response)


# -- pieces -----------------------------------------------------------------------------------------------------------


@given(st.sampled_from(MODES), st.lists(st.floats(0, 1), max_size=10))
def test_any_split_gives_the_same_answer(mode: ApiMode, cuts: list[float]) -> None:
    body = RECORDED[mode]
    edges = sorted({0, len(body), *(int(cut * len(body)) for cut in cuts)})
    assert parse(mode, *(body[start:end] for start, end in pairwise(edges))) == parse(mode, body)


def test_every_byte_alone(mode: ApiMode) -> None:
    body = RECORDED[mode]
    assert parse(mode, *(body[at : at + 1] for at in range(len(body)))) == parse(mode, body)


def test_a_stream_cut_at_any_byte_is_complete_or_keeps_what_arrived(mode: ApiMode) -> None:
    body = RECORDED[mode]
    complete = normalise(parse(mode, body)[1])
    endings = 0
    for cut in range(len(body)):
        parser = wire_for(endpoint(mode)).parser(endpoint(mode), streaming=True)
        shown = "".join(delta.text for delta in parser.feed(body[:cut]) if isinstance(delta, TextDelta))
        try:
            reply = normalise(parser.finish())
        except IncompleteReply as error:
            assert error.reason == "truncated"
            assert error.partial.content.startswith(shown)
            assert complete.content.startswith(error.partial.content)
            assert len(error.partial.tool_calls) <= len(complete.tool_calls)
            assert error.partial.finish_reason == "incomplete"
        else:
            endings += 1
            assert reply.content == complete.content
            assert reply.tool_calls == complete.tool_calls
    assert endings < len(body) / 2


def test_a_document_cut_at_any_byte_is_truncated(mode: ApiMode) -> None:
    body = document_of(mode, RICH)
    for cut in range(len(body)):
        with pytest.raises(IncompleteReply) as caught:
            parse(mode, body[:cut])
        assert caught.value.reason == "truncated"


def test_done_once_nothing_of_interest_can_follow(mode: ApiMode) -> None:
    parser = wire_for(endpoint(mode)).parser(endpoint(mode), streaming=True)
    parser.feed(RECORDED[mode][:-40])
    assert not parser.done
    parser.feed(RECORDED[mode][-40:])
    assert parser.done


# -- faults -----------------------------------------------------------------------------------------------------------


def event(**fields: Any) -> bytes:
    return b"data: " + msgspec.json.encode(fields) + b"\n\n"


def test_an_error_in_the_middle_keeps_what_arrived(mode: ApiMode) -> None:
    body = RECORDED[mode]
    begun = body[: body.index(b"look")]
    begun = begun[: begun.rindex(b"\n\n") + 2]
    error = event(type="error", error={"type": "overloaded_error", "message": "busy now"})
    with pytest.raises(IncompleteReply, match="busy now") as caught:
        parse(mode, begun + error)
    assert caught.value.reason == "overloaded"
    assert caught.value.partial.content == "Let me "


@pytest.mark.parametrize(
    "garbage", [b"data: {oops\n\n", b'data: {"error":"\xff"}\n\n', b"data: []\n\n", b"data: 1\n\n"]
)
def test_garbage_in_the_middle_keeps_what_arrived(mode: ApiMode, garbage: bytes) -> None:
    body = RECORDED[mode]
    begun = body[: body.index(b"look")]
    with pytest.raises(IncompleteReply) as caught:
        parse(mode, begun[: begun.rindex(b"\n\n") + 2] + garbage)
    assert caught.value.reason == "malformed"
    assert caught.value.partial.content == "Let me "


def test_events_that_nobody_knows_and_comments_mean_nothing(mode: ApiMode) -> None:
    unknown = event(type="response.web_search_call.searching", index=3, output_index=7) + b": ping\n\n"
    unknown += event(type="vendor.news", delta={"type": "vendor_delta"}, choices=[])
    body = RECORDED[mode]
    at = body.index(b"\n\n") + 2
    assert normalise(parse(mode, body[:at] + unknown + body[at:])[1]) == normalise(parse(mode, body)[1])


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"", "truncated"),
        (b"<html><title>Login</title></html>", "malformed"),
        (b"upstream connect error", "malformed"),
        (b'{"object": "list"}', "malformed"),
        (b'{"type":"error","error":{"type":"overloaded_error","message":"x"}}', "overloaded"),
        (b'{"error":{"code":"rate_limit_exceeded","message":"x"}}', "rate_limit"),
        (b'data: {"error":{"code":"rate_limit_exceeded","message":"x"}}\n\n', "rate_limit"),
        (b"data: nope\n\n", "malformed"),
        (b"[" * 100_000, "malformed"),
    ],
)
def test_what_is_no_answer(mode: ApiMode, body: bytes, reason: str) -> None:
    with pytest.raises(ProviderError) as caught:
        parse(mode, body)
    assert caught.value.reason == reason
    assert str(caught.value).startswith("demo: ")


FIELDS = (
    "type choices delta message content tool_calls function name arguments index id finish_reason usage error item "
    "output response output_index content_block text thinking partial_json stop_reason status call_id summary input"
)
KINDS = (
    "message_start content_block_start content_block_delta message_delta message_stop text tool_use thinking error "
    "response.created response.output_item.added response.output_item.done response.output_text.delta "
    "response.function_call_arguments.delta response.completed response.failed message function_call reasoning"
)
wild = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.text(max_size=4) | st.sampled_from(KINDS.split()),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(FIELDS.split()), inner, max_size=4),
    max_leaves=8,
)
shaped = st.fixed_dictionaries(
    {"type": st.sampled_from(KINDS.split())}, optional=dict.fromkeys(FIELDS.split()[1:], wild)
)


@settings(max_examples=150)
@given(st.sampled_from(MODES), st.lists(shaped | wild, min_size=1, max_size=5), st.booleans())
def test_wild_documents_give_an_answer_or_a_typed_error(mode: ApiMode, found: list[Any], as_stream: bool) -> None:
    body = b"".join(b"data: " + msgspec.json.encode(one) + b"\n\n" for one in found)
    try:
        normalise(parse(mode, body if as_stream else msgspec.json.encode(found[0]))[1])
    except ProviderError as error:
        assert str(error)


@given(st.sampled_from(MODES), st.binary(max_size=300))
def test_wild_bytes_give_a_typed_error(mode: ApiMode, body: bytes) -> None:
    with pytest.raises(ProviderError):
        parse(mode, body)


# -- requests ---------------------------------------------------------------------------------------------------------

TOOL: dict[str, Any] = {
    "type": "function",
    "function": {"name": "ls", "description": "List", "parameters": {"type": "object", "properties": {}}},
}


def sent(mode: ApiMode, messages: list[dict[str, Any]], **options: Any) -> dict[str, Any]:
    wire = wire_for(endpoint(mode))
    request = wire.http_request(endpoint(mode), wire.kwargs(endpoint(mode), ModelRequest(messages, **options)))
    assert request.url.endswith(PATHS[mode])
    return msgspec.json.decode(request.body)


words = st.text("abc é✓\n<>", min_size=1, max_size=8).filter(str.strip)
names = st.sampled_from(["ls", "cat", "write_file"])
arguments = st.dictionaries(st.sampled_from("abc"), st.integers() | words, max_size=2)


@st.composite
def conversations(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Turns as the loop makes them: a user, then answers with calls and their results, then an answer."""
    messages: list[dict[str, Any]] = [{"role": "system", "content": draw(words)}]
    count = 0
    for _ in range(draw(st.integers(1, 3))):
        messages.append({"role": "user", "content": draw(words)})
        for _ in range(draw(st.integers(0, 2))):
            calls: list[dict[str, Any]] = []
            for _ in range(draw(st.integers(1, 3))):
                count += 1
                written = msgspec.json.encode(draw(arguments)).decode()
                calls.append(
                    {"id": f"call_{count}", "type": "function", "function": {"name": draw(names), "arguments": written}}
                )
            messages.append({"role": "assistant", "content": draw(st.none() | words), "tool_calls": calls})
            messages += [{"role": "tool", "tool_call_id": call["id"], "content": draw(words)} for call in calls]
        messages.append({"role": "assistant", "content": draw(words)})
    return messages


@given(st.sampled_from(MODES), conversations())
def test_nothing_of_a_conversation_is_lost(mode: ApiMode, messages: list[dict[str, Any]]) -> None:
    before = msgspec.json.encode(messages)
    assert chat_messages(PATHS[mode], sent(mode, messages)) == messages
    assert msgspec.json.encode(messages) == before


def test_the_key_goes_in_the_header_and_nowhere_else(mode: ApiMode) -> None:
    wire = wire_for(endpoint(mode))
    request = wire.http_request(
        endpoint(mode), wire.kwargs(endpoint(mode), ModelRequest([{"role": "user", "content": "hi"}]))
    )
    assert b"sk-secret" not in request.body
    assert "sk-secret" not in request.url
    holders = [name for name, value in request.headers if "sk-secret-key" in value]
    assert holders == ["x-api-key" if mode == "anthropic_messages" else "authorization"]


def test_extra_body_headers_and_query(mode: ApiMode) -> None:
    there = Endpoint("http://h/v1", "m", api_mode=mode, extra_body={"seed": 1}, extra_headers={"X-A": "1"})
    wire = wire_for(there)
    kwargs = wire.kwargs(there, ModelRequest([{"role": "user", "content": "hi"}], [TOOL]))
    kwargs.update(timeout=3, extra_headers={"x-b": "2"}, extra_query={"q": "1"})
    request = wire.http_request(there, kwargs)
    body = msgspec.json.decode(request.body)
    assert body["seed"] == 1
    assert "timeout" not in body
    assert request.url.endswith("?q=1")
    assert {"x-a": "1", "x-b": "2"}.items() <= dict(request.headers).items()


def test_an_empty_list_of_tools_is_not_sent(mode: ApiMode) -> None:
    assert "tools" not in sent(mode, [{"role": "user", "content": "hi"}], tools=[])


def test_what_another_provider_wants_back_stays_here(mode: ApiMode) -> None:
    for other in MODES:
        for provider, model in (("else", "m"), ("demo", "other")):
            items = [{"type": "thinking", "thinking": "secret", "signature": "s"}, {"reasoning_content": "secret"}]
            carry = {"api_mode": other, "provider": provider, "model": model, "items": items}
            messages = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "yes", "carry": carry}]
            assert "secret" not in str(sent(mode, messages))
            assert "carry" not in str(sent(mode, messages))


@pytest.mark.parametrize("carry", [None, [], "x", {"items": 3}, {"api_mode": "chat_completions"}])
def test_a_carry_that_is_none(mode: ApiMode, carry: Any) -> None:
    messages = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "yes", "carry": carry}]
    assert chat_messages(PATHS[mode], sent(mode, messages))[1] == {"role": "assistant", "content": "yes"}
