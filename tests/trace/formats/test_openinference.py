"""The attributes of OpenInference: kinds, messages one field at a time, tokens and cost."""

from __future__ import annotations

import inspect
import json
from typing import Any

import pytest

from hermes.trace.formats import genai, openinference
from hermes.trace.formats.genai import AgentSubject, InferenceSubject, ToolSubject
from hermes.trace.records import ToolCallRecord, UsageRecord


@pytest.mark.parametrize(
    "name",
    [
        *("agent", "inference", "tool", "answer", "turn_end", "failure"),
        *("turn_content", "instructions", "asked", "answered", "called"),
    ],
)
def test_both_vocabularies_take_the_same(name: str) -> None:
    assert inspect.signature(getattr(openinference, name)) == inspect.signature(getattr(genai, name))


def test_kinds() -> None:
    ids = {"session_id": "s", "turn_id": "t"}
    agent = openinference.agent(AgentSubject(**ids, platform="cli", user_id="u"))
    asked = {"api_request_id": "a", "provider": "xai", "model": "m"}
    request = openinference.inference(InferenceSubject(**ids, **asked, base_url="https://h", max_tokens=9, attempt=2))
    tool = openinference.tool(ToolSubject(**ids, tool_call_id="c", name="terminal", description="runs"))
    kinds = [one["openinference.span.kind"] for one in (agent, request, tool)]
    assert kinds == ["AGENT", "LLM", "TOOL"]
    assert [one["session.id"] for one in (agent, request, tool)] == ["s", "s", "s"]
    assert (agent["user.id"], json.loads(str(agent["metadata"]))) == ("u", {"turn_id": "t", "platform": "cli"})
    assert (request["llm.provider"], request["llm.system"]) == ("xai", "x_ai")
    assert json.loads(str(request["llm.invocation_parameters"])) == {"max_tokens": 9}
    assert (tool["tool.name"], tool["tool.id"], tool["tool.description"]) == ("terminal", "c", "runs")


def test_tokens_and_cost() -> None:
    answer = openinference.answer(model="m2", finish_reason="stop", usage=UsageRecord(10, 5, 3, 2, 1, 0.5))
    assert answer == {
        "llm.model_name": "m2",
        "llm.response.model_name": "m2",
        "llm.finish_reason": "stop",
        "llm.token_count.prompt": 15,
        "llm.token_count.completion": 5,
        "llm.token_count.total": 20,
        "llm.token_count.prompt_details.cache_read": 3,
        "llm.token_count.prompt_details.cache_write": 2,
        "llm.token_count.completion_details.reasoning": 1,
        "llm.cost.total": 0.5,
    }
    assert openinference.answer(model="", finish_reason="", usage=None) == {}


def test_messages_are_flat() -> None:
    call = {"id": "c", "function": {"name": "f", "arguments": '{"a": 1}'}}
    image = {"type": "image_url", "image_url": {"url": "https://pictures.example/cat.png"}}
    messages: list[dict[str, Any]] = [
        {"role": "user", "content": [{"type": "text", "text": "look"}, image]},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c", "content": "done"},
    ]
    prefix = "llm.input_messages"
    assert openinference.asked(messages) == {
        f"{prefix}.0.message.role": "user",
        f"{prefix}.0.message.contents.0.message_content.type": "text",
        f"{prefix}.0.message.contents.0.message_content.text": "look",
        f"{prefix}.0.message.contents.1.message_content.type": "image",
        f"{prefix}.0.message.contents.1.message_content.image.image.url": "https://pictures.example/cat.png",
        f"{prefix}.1.message.role": "assistant",
        f"{prefix}.1.message.tool_calls.0.tool_call.id": "c",
        f"{prefix}.1.message.tool_calls.0.tool_call.function.name": "f",
        f"{prefix}.1.message.tool_calls.0.tool_call.function.arguments": '{"a": 1}',
        f"{prefix}.2.message.role": "tool",
        f"{prefix}.2.message.content": "done",
        f"{prefix}.2.message.tool_call_id": "c",
    }


def test_an_answer() -> None:
    told = openinference.answered("hi", "hm", [ToolCallRecord("c", "f", {"a": 1})], "tool_calls")
    prefix = "llm.output_messages.0.message"
    assert told[f"{prefix}.content"] == told["output.value"] == "hi"
    assert told[f"{prefix}.contents.0.message_content.type"] == "reasoning"
    assert told[f"{prefix}.tool_calls.0.tool_call.function.arguments"] == '{"a":1}'


def test_what_goes_in_and_comes_out() -> None:
    called = openinference.called({"a": 1}, '{"ok": true}')
    assert (called["input.value"], called["input.mime_type"]) == ('{"a":1}', "application/json")
    assert called["output.mime_type"] == "application/json"
    assert openinference.called({}, "plain words")["output.mime_type"] == "text/plain"
    assert openinference.turn_content("hello", "hi") == {
        "input.value": "hello",
        "input.mime_type": "text/plain",
        "output.value": "hi",
        "output.mime_type": "text/plain",
    }
    assert openinference.turn_content([{"type": "text", "text": "x"}])["input.mime_type"] == "application/json"
