"""What is special about the Responses format."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from hermes.base.errors import ProviderError
from hermes.models.endpoint import Endpoint, Quirks
from hermes.models.reply import Reply, normalise
from hermes.models.wires.responses.wire import Responses
from hermes.models.wires.wire import Delta, ModelRequest, ReasoningDelta, TextDelta, ToolCallDelta

WIRE = Responses()
ENDPOINT = Endpoint("http://h/v1", "gpt-6", "demo", "sk-key", "codex_responses")
USER: dict[str, Any] = {"role": "user", "content": "hi"}


def event(kind: str, **fields: Any) -> bytes:
    return b"data: " + msgspec.json.encode({"type": kind, **fields}) + b"\n\n"


def read(*pieces: bytes) -> tuple[list[Delta], Reply]:
    parser = WIRE.parser(ENDPOINT, streaming=True)
    deltas = [delta for piece in pieces for delta in parser.feed(piece)]
    return deltas, normalise(parser.finish())


def completed(*items: dict[str, Any], status: str = "completed", **fields: Any) -> bytes:
    response = {"id": "r", "model": "m", "status": status, "output": list(items), **fields}
    return event(f"response.{status}", response=response)


def said(words: str) -> dict[str, Any]:
    return {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": words}]}


def call(name: str, call_id: str = "c1", **fields: Any) -> dict[str, Any]:
    return {"type": "function_call", "id": "fc", "call_id": call_id, "name": name, "arguments": "{}", **fields}


# -- requests ---------------------------------------------------------------------------------------------------------


def test_the_usual_request() -> None:
    messages = [{"role": "system", "content": "Be brief."}, {"role": "developer", "content": "Be kind."}, USER]
    assert WIRE.kwargs(ENDPOINT, ModelRequest(messages, max_tokens=5)) == {
        "model": "gpt-6",
        "input": [{"type": "message", "role": "user", "content": "hi"}],
        "store": False,
        "instructions": "Be brief.\n\nBe kind.",
        "include": ["reasoning.encrypted_content"],
        "max_output_tokens": 16,
        "stream": True,
    }


def test_settings_that_a_model_or_a_server_refuses_are_left_out() -> None:
    old = Endpoint("http://h", "gpt-4o", api_mode="codex_responses")
    assert "include" not in WIRE.kwargs(old, ModelRequest([USER]))
    assert WIRE.kwargs(old, ModelRequest([USER], temperature=0.5))["temperature"] == 0.5
    assert "temperature" not in WIRE.kwargs(ENDPOINT, ModelRequest([USER], temperature=0.5))
    quirks = Quirks(max_tokens_field="", temperature=False, parallel_tools=False, reasoning="")
    strict = Endpoint("http://h", "m", api_mode="codex_responses", quirks=quirks)
    tool = {"type": "function", "function": {"name": "ls"}}
    kwargs = WIRE.kwargs(strict, ModelRequest([USER], [tool], max_tokens=99, temperature=0.5, reasoning_effort="low"))
    assert kwargs.keys() == {"model", "input", "store", "include", "tools", "parallel_tool_calls", "stream"}
    assert kwargs["parallel_tool_calls"] is False


def test_tools_are_not_strict_unless_they_say_so() -> None:
    plain = {"type": "function", "function": {"name": "ls", "description": "List"}}
    strict = {"type": "function", "function": {"name": "cat", "parameters": {"type": "object"}, "strict": True}}
    hosted = {"type": "web_search"}
    assert WIRE.kwargs(ENDPOINT, ModelRequest([USER], [plain, strict, hosted]))["tools"] == [
        {
            "type": "function",
            "name": "ls",
            "parameters": {"type": "object", "properties": {}},
            "strict": False,
            "description": "List",
        },
        {"type": "function", "name": "cat", "parameters": {"type": "object"}, "strict": True},
        hosted,
    ]


def test_json_output() -> None:
    kwargs = WIRE.kwargs(ENDPOINT, ModelRequest([USER], response_format={"type": "json_object"}))
    assert kwargs["text"] == {"format": {"type": "json_object"}}
    schema: dict[str, Any] = {"type": "object", "properties": {}}
    wanted: dict[str, Any] = {"type": "json_schema", "json_schema": {"schema": schema, "strict": True}}
    kwargs = WIRE.kwargs(ENDPOINT, ModelRequest([USER], response_format=wanted))
    assert kwargs["text"] == {"format": {"type": "json_schema", "name": "answer", "schema": schema, "strict": True}}


def test_reasoning_without_anything_to_decrypt_stays_here() -> None:
    """Its id means something only to a server that has stored it."""
    bare = {"type": "reasoning", "id": "rs", "summary": [{"type": "summary_text", "text": "hm"}]}
    assert read(completed(bare, said("x")))[1].provider_state is None
    open_text = {**bare, "content": [{"type": "reasoning_text", "text": "hm"}], "status": "completed"}
    carry = read(completed(open_text, said("x")))[1].provider_state
    assert carry is not None
    assert carry["items"][0] == {name: open_text[name] for name in ("type", "id", "summary", "content")}


def test_a_message_that_was_changed_since_keeps_its_reasoning_in_front() -> None:
    thought: dict[str, Any] = {"type": "reasoning", "id": "rs", "summary": [], "encrypted_content": "e"}
    reply = read(completed(thought, said("one"), call("ls"), said("two")))[1]
    answer: dict[str, Any] = {"role": "assistant", "content": "other words", "carry": reply.provider_state}
    assert WIRE.kwargs(ENDPOINT, ModelRequest([USER, answer]))["input"][1:] == [
        thought,
        {"type": "message", "role": "assistant", "content": "other words"},
    ]


def test_ids_that_the_server_would_refuse_are_replaced_everywhere() -> None:
    made = {"id": "call|1:" + "x" * 90, "type": "function", "function": {"name": "ls", "arguments": "{}"}}
    messages: list[dict[str, Any]] = [
        USER,
        {"role": "assistant", "content": None, "tool_calls": [made]},
        {"role": "tool", "tool_call_id": made["id"], "content": "x"},
    ]
    asked, answered = WIRE.kwargs(ENDPOINT, ModelRequest(messages))["input"][1:]
    assert asked["call_id"] == answered["call_id"]
    assert len(asked["call_id"]) <= 64
    assert asked["call_id"].replace("_", "").isalnum()


# -- answers ----------------------------------------------------------------------------------------------------------


def test_summaries_are_paragraphs() -> None:
    deltas, reply = read(
        event("response.reasoning_summary_part.added", output_index=0, summary_index=0),
        event("response.reasoning_summary_text.delta", output_index=0, summary_index=0, delta="One."),
        event("response.reasoning_summary_part.added", output_index=0, summary_index=1),
        event("response.reasoning_summary_text.delta", output_index=0, summary_index=1, delta="Two."),
        completed(
            {"type": "reasoning", "id": "rs", "summary": [{"text": "One."}, {"text": "Two."}]},
            said("x"),
        ),
    )
    assert reply.reasoning == "One.\n\nTwo."
    assert "".join(delta.text for delta in deltas if isinstance(delta, ReasoningDelta)) == reply.reasoning


def test_a_server_that_sends_items_whole() -> None:
    deltas, reply = read(
        event("response.output_item.done", output_index=0, item=said("Hello")),
        event("response.output_item.added", output_index=1, item=call("ls", arguments="")),
        event("response.output_item.done", output_index=1, item=call("ls", arguments='{"a":1}')),
        completed(),
    )
    assert deltas == [TextDelta("Hello"), ToolCallDelta(0, "c1", "ls", "")]
    assert (reply.content, reply.tool_calls[0].arguments) == ("Hello", '{"a":1}')


def test_a_server_that_ends_with_an_empty_list_has_said_everything_before() -> None:
    _, reply = read(
        event("response.output_item.added", output_index=0, item={"type": "message", "content": []}),
        event("response.output_text.delta", output_index=0, delta="Hel"),
        event("response.output_text.delta", output_index=0, delta="lo"),
        completed(usage={"input_tokens": 3, "output_tokens": 2}),
        b"data: [DONE]\n\n",
    )
    assert reply.content == "Hello"
    assert reply.usage is not None
    assert (reply.usage.input_tokens, reply.usage.output_tokens) == (3, 2)


@pytest.mark.parametrize(
    ("body", "reason", "says"),
    [
        (event("response.failed", response={"error": {"code": "server_error", "message": "oh"}}), "server_error", "oh"),
        (event("response.failed", response={"error": None}), "server_error", "failed"),
        (event("error", code="rate_limit_exceeded", message="slow"), "rate_limit", "slow"),
        (event("response.cancelled", response={"id": "r"}), "server_error", "cancelled"),
        (b'{"output": [], "status": "queued"}', "malformed", "still queued"),
        (b'{"output": [], "status": "failed"}', "server_error", "failed"),
        (b'{"output": null}', "malformed", "no list of output items"),
        (b"data: [DONE]\n\n", "truncated", "before the answer did"),
        (completed(status="incomplete", incomplete_details={"reason": "content_filter"}), "content_policy", "filter"),
        (completed(), "malformed", "empty response"),
    ],
)
def test_what_fails(body: bytes, reason: str, says: str) -> None:
    with pytest.raises(ProviderError, match=says) as caught:
        read(body)
    assert caught.value.reason == reason
