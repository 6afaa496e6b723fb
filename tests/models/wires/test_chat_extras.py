"""What chat servers want otherwise, and what they want back."""

from __future__ import annotations

from typing import Any

import msgspec

from hermes.models.endpoint import Endpoint, Quirks
from hermes.models.reply import Reply, normalise
from hermes.models.wires.chat.wire import ChatCompletions
from hermes.models.wires.provider_state import with_reasoning
from hermes.models.wires.responses.wire import Responses
from hermes.models.wires.wire import ModelRequest

WIRE = ChatCompletions()
MESSAGES: list[dict[str, Any]] = [{"role": "user", "content": "hi"}]
TOOL: dict[str, Any] = {"type": "function", "function": {"name": "ls", "parameters": {}}}


def endpoint(**quirks: Any) -> Endpoint:
    return Endpoint("http://h/v1", "m", "demo", quirks=Quirks(**quirks))


def chunk(**delta: Any) -> bytes:
    document = {"id": "r", "choices": [{"index": 0, "delta": delta, "finish_reason": None}]}
    return b"data: " + msgspec.json.encode(document) + b"\n\n"


def read(there: Endpoint, *pieces: bytes) -> Reply:
    parser = ChatCompletions().parser(there, streaming=True)
    for piece in (*pieces, b'data: {"choices":[{"delta":{},"finish_reason":"stop"}]}\n\n'):
        parser.feed(piece)
    return normalise(parser.finish())


def given_back(there: Endpoint, reply: Reply) -> dict[str, Any]:
    calls = [
        {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
        for call in reply.tool_calls
    ]
    state = with_reasoning(reply.provider_state, reply.reasoning)
    answer = {"role": "assistant", "content": reply.content, "tool_calls": calls, "carry": state}
    return WIRE.kwargs(there, ModelRequest([*MESSAGES, answer]))["messages"][1]


# -- quirks -----------------------------------------------------------------------------------------------------------


def test_the_name_of_the_limit() -> None:
    for name in ("max_tokens", "max_completion_tokens"):
        assert WIRE.kwargs(endpoint(max_tokens_field=name), ModelRequest(MESSAGES, max_tokens=5))[name] == 5
    assert not any(
        "max" in name for name in WIRE.kwargs(endpoint(max_tokens_field=""), ModelRequest(MESSAGES, max_tokens=5))
    )


def test_what_is_not_taken_is_left_out() -> None:
    there = endpoint(stream_options=False, temperature=False, parallel_tools=False, reasoning="")
    kwargs = WIRE.kwargs(there, ModelRequest(MESSAGES, [TOOL], temperature=0.5, reasoning_effort="high"))
    assert kwargs == {
        "model": "m",
        "messages": MESSAGES,
        "tools": [TOOL],
        "parallel_tool_calls": False,
        "stream": True,
    }
    assert "parallel_tool_calls" not in WIRE.kwargs(there, ModelRequest(MESSAGES))


def test_the_ways_to_ask_for_reasoning() -> None:
    assert WIRE.kwargs(endpoint(), ModelRequest(MESSAGES, reasoning_effort="low"))["reasoning_effort"] == "low"
    by_object = WIRE.kwargs(endpoint(reasoning="object"), ModelRequest(MESSAGES, reasoning_effort="low"))
    assert by_object["extra_body"] == {"reasoning": {"effort": "low"}}
    for effort, enabled in (("high", True), ("none", False)):
        switched = WIRE.kwargs(endpoint(reasoning="enabled"), ModelRequest(MESSAGES, reasoning_effort=effort))
        assert switched["extra_body"] == {"reasoning": {"enabled": enabled}}
    own = Endpoint("http://h", "m", extra_body={"reasoning": {"exclude": True}}, quirks=Quirks(reasoning="object"))
    merged = WIRE.kwargs(own, ModelRequest(MESSAGES, reasoning_effort="low"))["extra_body"]
    assert merged == {"reasoning": {"exclude": True, "effort": "low"}}
    assert own.extra_body == {"reasoning": {"exclude": True}}


def test_system_messages_become_one() -> None:
    messages = [
        {"role": "system", "content": "One."},
        *MESSAGES,
        {"role": "developer", "content": [{"type": "text", "text": "Two."}]},
    ]
    merged = WIRE.kwargs(endpoint(merge_system=True), ModelRequest(messages))["messages"]
    assert merged == [{"role": "system", "content": "One.\n\nTwo."}, *MESSAGES]
    plain = [messages[0], *MESSAGES]
    assert WIRE.kwargs(endpoint(merge_system=True), ModelRequest(plain))["messages"] is plain
    assert WIRE.kwargs(endpoint(), ModelRequest(messages))["messages"] is messages


def test_tool_call_ids_of_one_length() -> None:
    calls = [{"id": one, "type": "function", "function": {"name": "f"}} for one in ("call_1", "call_2", "abcdef123")]
    messages: list[dict[str, Any]] = [
        {"role": "assistant", "content": None, "tool_calls": calls},
        *({"role": "tool", "tool_call_id": call["id"], "content": "x"} for call in calls),
    ]
    sent = WIRE.kwargs(endpoint(tool_id_length=9), ModelRequest(messages))["messages"]
    made = [call["id"] for call in sent[0]["tool_calls"]]
    assert [message["tool_call_id"] for message in sent[1:]] == made
    assert made[2] == "abcdef123"
    assert len(set(made)) == 3
    assert all(len(one) == 9 and one.isalnum() for one in made)
    assert calls[0]["id"] == "call_1"


def test_a_response_format_is_passed_on() -> None:
    wanted = {"type": "json_object"}
    assert WIRE.kwargs(endpoint(), ModelRequest(MESSAGES, response_format=wanted))["response_format"] == wanted


# -- what goes back ---------------------------------------------------------------------------------------------------


def test_reasoning_blocks_in_pieces_go_back_whole() -> None:
    there = endpoint()
    one = {"type": "reasoning.text", "index": 0, "text": "So ", "signature": None, "format": "x"}
    reply = read(
        there,
        chunk(reasoning="So ", reasoning_details=[one]),
        chunk(reasoning="it is", reasoning_details=[{**one, "text": "it is", "signature": "sig"}]),
        chunk(reasoning_details=[{"type": "reasoning.encrypted", "index": 1, "data": "abc"}, "odd"]),
        chunk(tool_calls=[{"index": 0, "id": "c", "function": {"name": "ls", "arguments": "{}"}}]),
    )
    back = given_back(there, reply)
    assert back["reasoning_details"] == [
        {"type": "reasoning.text", "index": 0, "text": "So it is", "signature": "sig", "format": "x"},
        {"type": "reasoning.encrypted", "index": 1, "data": "abc"},
    ]
    assert "carry" not in back


def test_marks_on_calls_go_back_on_the_calls() -> None:
    there = endpoint()
    mark = {"google": {"thought_signature": "abc"}}
    call = {"index": 0, "id": "c", "function": {"name": "ls", "arguments": "{}"}, "extra_content": mark}
    reply = read(
        there, chunk(tool_calls=[call]), chunk(tool_calls=[{"index": 1, "id": "d", "function": {"name": "x"}}])
    )
    back = given_back(there, reply)["tool_calls"]
    assert back[0]["extra_content"] == mark
    assert "extra_content" not in back[1]
    document = {"choices": [{"message": {"tool_calls": [call]}, "finish_reason": "tool_calls"}]}
    parser = ChatCompletions().parser(there, streaming=False)
    parser.feed(msgspec.json.encode(document))
    assert given_back(there, normalise(parser.finish()))["tool_calls"][0]["extra_content"] == mark


def test_a_mark_on_the_text_goes_back_on_the_message() -> None:
    there = endpoint()
    mark = {"google": {"thought_signature": "abc"}}
    reply = read(there, chunk(content="Hel"), chunk(content="lo", extra_content=mark))
    assert given_back(there, reply)["extra_content"] == mark
    document = {"choices": [{"message": {"content": "Hello", "extra_content": mark}, "finish_reason": "stop"}]}
    parser = ChatCompletions().parser(there, streaming=False)
    parser.feed(msgspec.json.encode(document))
    assert given_back(there, normalise(parser.finish()))["extra_content"] == mark


def test_reasoning_goes_back_as_text_only_where_it_is_wanted() -> None:
    call = chunk(tool_calls=[{"index": 0, "id": "c", "function": {"name": "ls", "arguments": "{}"}}])
    wanted = endpoint(echo_reasoning=True)
    reply = read(wanted, chunk(reasoning_content="So."), call)
    assert given_back(wanted, reply)["reasoning_content"] == "So."
    assert "reasoning_content" not in given_back(endpoint(), reply)
    # Whichever model wrote it, and with an answer as well as with a call.
    elsewhere = Endpoint("http://h/v1", "another", "another")
    assert given_back(wanted, read(elsewhere, chunk(reasoning="So."), call))["reasoning_content"] == "So."
    assert given_back(wanted, read(wanted, chunk(reasoning="So."), chunk(content="4")))["reasoning_content"] == "So."


def test_an_empty_reasoning_is_sent_where_the_field_has_to_be_there() -> None:
    call = chunk(tool_calls=[{"index": 0, "id": "c", "function": {"name": "ls", "arguments": "{}"}}])
    insists = endpoint(echo_reasoning=True, echo_empty_reasoning=True)
    assert given_back(insists, read(insists, call))["reasoning_content"] == ""
    assert "reasoning_content" not in given_back(insists, read(insists, chunk(content="4")))
    wanted = endpoint(echo_reasoning=True)
    assert "reasoning_content" not in given_back(wanted, read(wanted, call))


def test_reasoning_of_an_older_journal_goes_back_too() -> None:
    state = {"api_mode": "chat_completions", "provider": "x", "model": "y"}
    items = [{"type": "message", "reasoning_content": "So."}]
    old = {"role": "assistant", "content": "4", "carry": {**state, "items": items}}
    sent = WIRE.kwargs(endpoint(echo_reasoning=True), ModelRequest([*MESSAGES, old]))["messages"][1]
    assert sent == {"role": "assistant", "content": "4", "reasoning_content": "So."}


def test_user_messages_in_a_row_become_one_where_roles_have_to_take_turns() -> None:
    image = {"type": "image_url", "image_url": {"url": "data:,"}}
    messages = [*MESSAGES, {"role": "user", "content": "there"}, {"role": "user", "content": [image]}]
    assert WIRE.kwargs(endpoint(), ModelRequest(messages))["messages"] is messages
    [merged] = WIRE.kwargs(endpoint(merge_user=True), ModelRequest(messages))["messages"]
    assert merged == {"role": "user", "content": [{"type": "text", "text": "hi\n\nthere"}, image]}
    assert messages[0] == MESSAGES[0] == {"role": "user", "content": "hi"}


def test_the_cache_key_is_sent_where_it_is_known() -> None:
    asked = ModelRequest(MESSAGES, cache_key="s1")
    assert WIRE.kwargs(endpoint(prompt_cache_key=True), asked)["prompt_cache_key"] == "s1"
    assert "prompt_cache_key" not in WIRE.kwargs(endpoint(), asked)
    responses = Responses().kwargs(endpoint(prompt_cache_key=True, reasoning_summary=True), asked)
    assert (responses["prompt_cache_key"], responses["reasoning"]) == ("s1", {"summary": "auto"})


def test_messages_that_carry_nothing_are_not_copied() -> None:
    assert WIRE.kwargs(endpoint(), ModelRequest(MESSAGES))["messages"] is MESSAGES
