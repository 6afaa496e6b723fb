"""The attributes of the GenAI conventions: the names they really have, and values that fit."""

from __future__ import annotations

import json
from typing import Any

import opentelemetry.semconv._incubating.attributes.gen_ai_attributes as names
import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.semconv.schemas import Schemas

from hermes.trace.formats import genai
from hermes.trace.formats.genai import AgentSubject, InferenceSubject, ToolSubject
from hermes.trace.records import ToolCallRecord, UsageRecord

KNOWN = {getattr(names, name) for name in dir(names) if name.startswith("GEN_AI_")}
USAGE = UsageRecord(10, 5, 3, 2, 1, 0.5)


def everything() -> dict[str, Any]:
    ids = {"session_id": "s", "turn_id": "t"}
    asked = {"api_request_id": "a", "provider": "mistral", "model": "m"}
    return {
        **genai.agent(AgentSubject(**ids, model="m", platform="cli", subagent_id="x", role="leaf", user_id="u")),
        **genai.inference(InferenceSubject(**ids, **asked, base_url="https://h/v1", max_tokens=9, attempt=1)),
        **genai.tool(ToolSubject(**ids, tool_call_id="c", name="terminal", api_request_id="a", description="runs")),
        **genai.answer(model="m2", finish_reason="stop", usage=USAGE),
        **genai.turn_end(status="completed", model_calls=1, tool_calls=0, usage=USAGE),
        **genai.failure(error_type="timeout"),
        **genai.turn_content("hello", "hi"),
        **genai.instructions("be kind", [{"type": "function", "function": {"name": "f"}}]),
        **genai.asked([{"role": "user", "content": "hello"}]),
        **genai.answered("hi", "hm", [], "stop"),
        **genai.called({"a": 1}, "{}"),
    }


def test_the_names_are_those_of_the_conventions() -> None:
    standard = {name for name in everything() if name.startswith("gen_ai.")}
    assert standard <= KNOWN and len(standard) > 20
    others = {name.partition(".")[0] for name in everything()} - {"gen_ai"}
    assert others == {"hermes", "server", "user", "error"}
    assert genai.SCHEMA_URL in {schema.value for schema in Schemas}


def test_what_was_read_from_the_cache_counts_as_input() -> None:
    answer = genai.answer(model="m", finish_reason="stop", usage=USAGE)
    assert answer["gen_ai.usage.input_tokens"] == 15
    assert answer["gen_ai.usage.cache_read.input_tokens"] == 3
    assert answer["hermes.cost_usd"] == 0.5
    assert genai.answer(model="m", finish_reason="", usage=None) == {"gen_ai.response.model": "m"}


@pytest.mark.parametrize(
    ("url", "server"),
    [
        ("https://api.example/v1", ("api.example", 443)),
        ("http://127.0.0.1:8000/v1", ("127.0.0.1", 8000)),
        ("http://[::1]/v1", ("::1", 80)),
        ("", None),
        ("http://host:port/", None),
        ("not an address", None),
    ],
)
def test_where_a_request_goes(url: str, server: tuple[str, int] | None) -> None:
    found = genai.server(url)
    assert found == ({} if server is None else {"server.address": server[0], "server.port": server[1]})


def test_messages_have_roles_and_parts() -> None:
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": '{"a": 1}'}}
    image = {"type": "image_url", "image_url": {"url": "https://pictures.example/cat.png"}}
    messages: list[dict[str, Any]] = [
        {"role": "system", "content": "be kind"},
        {"role": "user", "content": [{"type": "text", "text": "look"}, image]},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c", "content": "done"},
    ]
    told = genai.asked(messages)
    assert json.loads(str(told["gen_ai.system_instructions"])) == [{"type": "text", "content": "be kind"}]
    assert json.loads(str(told["gen_ai.input.messages"])) == [
        {
            "role": "user",
            "parts": [
                {"type": "text", "content": "look"},
                {"type": "uri", "modality": "image", "uri": "https://pictures.example/cat.png"},
            ],
        },
        {"role": "assistant", "parts": [{"type": "tool_call", "id": "c", "name": "f", "arguments": {"a": 1}}]},
        {"role": "tool", "parts": [{"type": "tool_call_response", "id": "c", "response": "done"}]},
    ]


def test_an_answer_with_thoughts_and_calls() -> None:
    told = genai.answered("hi", "hm", [ToolCallRecord("c", "f", {"a": 1})], "tool_calls")
    (message,) = json.loads(str(told["gen_ai.output.messages"]))
    assert message["finish_reason"] == "tool_calls"
    assert [part["type"] for part in message["parts"]] == ["reasoning", "text", "tool_call"]


_scalars = st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.text(max_size=20)
_wild = st.recursive(
    _scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3)
)
_messages = st.fixed_dictionaries(
    {"role": st.sampled_from(["system", "user", "assistant", "tool", "odd"])},
    optional={
        "content": st.text() | st.none() | st.lists(st.dictionaries(st.sampled_from(["text", "type", "x"]), _scalars)),
        "tool_call_id": st.text(),
    },
)


@given(st.lists(_messages, max_size=5), _wild)
def test_whatever_was_said_becomes_attributes(messages: list[dict[str, Any]], value: Any) -> None:
    for told in (genai.asked(messages), genai.turn_content(value), genai.called({"x": value}, "r")):
        assert all(isinstance(text, str) for text in told.values())
