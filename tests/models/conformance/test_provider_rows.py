"""Every provider of the table over a round of tools: requests the official SDK could send, answers of its types.

What a provider adds to the format is taken from its documentation; none of the answers is a recording.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import msgspec
import pytest
from openai.types.chat import ChatCompletion
from openai.types.chat.completion_create_params import CompletionCreateParamsNonStreaming

from hermes.agent.context.transcript import assistant_message
from hermes.base.config.schema.sections import Config, ModelConfig
from hermes.base.scope import Interrupt
from hermes.models.driver import Driver
from hermes.models.endpoint import Endpoint
from hermes.models.profiles import CUSTOM, PROFILES
from hermes.models.reply import Reply, normalise
from hermes.models.routing import endpoint_for
from hermes.models.wires.choice import wire_for
from hermes.models.wires.wire import ModelRequest
from hermes.testing import ScriptedProvider, ScriptedReply, raw
from support.sdk_types import KEY, refuse_what_the_sdk_does_not_know

THOUGHTS = "There may be files."
CALL_ID = "call_0123456789"
TOOL: dict[str, Any] = {
    "type": "function",
    "function": {"name": "ls", "description": "List files", "parameters": {"type": "object", "properties": {}}},
}


@dataclass(frozen=True)
class Row:
    """What is special about a provider, as its documentation has it."""

    #: Added to the message, to its call, to the usage and to the answer as a whole.
    message: dict[str, Any] = field(default_factory=dict[str, Any])
    call: dict[str, Any] = field(default_factory=dict[str, Any])
    usage: dict[str, Any] = field(default_factory=dict[str, Any])
    answer: dict[str, Any] = field(default_factory=dict[str, Any])
    #: What is to be read of it.
    reasoning: str = THOUGHTS
    cached: int = 0
    cost: float | None = None
    #: The fields of the request that the SDK does not have, and how the limit of the answer is called.
    own_fields: frozenset[str] = frozenset()
    limit: str = "max_tokens"
    effort: bool = True
    merges_system: bool = False
    model: str = ""


REASONING_CONTENT = {"reasoning_content": THOUGHTS}
REASONING = {"reasoning": THOUGHTS}
SIGNATURE = {"extra_content": {"google": {"thought_signature": "c2ln"}}}

ROWS = {
    "openrouter": Row(
        message={**REASONING, "reasoning_details": [{"type": "reasoning.text", "text": THOUGHTS, "index": 0}]},
        usage={"cost": 0.0125},
        cost=0.0125,
        own_fields=frozenset({"reasoning"}),
        effort=False,
    ),
    "nous": Row(
        message={"content": f"<think>{THOUGHTS}</think>I look."},
        own_fields=frozenset({"reasoning"}),
        effort=False,
        merges_system=True,
    ),
    "groq": Row(message=REASONING, answer={"x_groq": {"id": "req_1"}}, limit="max_completion_tokens"),
    "mistral": Row(
        message={
            "content": [
                {"type": "thinking", "thinking": [{"type": "text", "text": THOUGHTS}]},
                {"type": "text", "text": "I look."},
            ]
        },
        effort=False,
        merges_system=True,
    ),
    "deepseek": Row(
        message=REASONING_CONTENT, usage={"prompt_cache_hit_tokens": 64, "prompt_cache_miss_tokens": 36}, cached=64
    ),
    "gemini": Row(call=SIGNATURE, reasoning=""),
    "xai": Row(message=REASONING_CONTENT, limit="max_completion_tokens"),
    "together": Row(message=REASONING, merges_system=True),
    "fireworks": Row(message=REASONING_CONTENT, merges_system=True),
    "ollama": Row(message=REASONING, merges_system=True, model="qwen4"),
    "vllm": Row(message=REASONING_CONTENT, merges_system=True, model="glm"),
    "llamacpp": Row(
        message=REASONING_CONTENT, answer={"timings": {"predicted_n": 40}}, merges_system=True, model="gemma"
    ),
    "lmstudio": Row(message=REASONING_CONTENT, answer={"stats": {}}, merges_system=True, model="phi"),
    CUSTOM: Row(reasoning="", model="m"),
}
#: Spoken to in formats of their own (see the other files here), and our own server.
ELSEWHERE = {"openai", "anthropic", "local"}


def answer(row: Row) -> ScriptedReply:
    """An answer of the SDK's type with what this provider adds to it."""
    call = {"id": CALL_ID, "type": "function", "function": {"name": "ls", "arguments": "{}"}}
    message = {"role": "assistant", "content": "I look.", "tool_calls": [call]}
    usage = {"prompt_tokens": 100, "completion_tokens": 40, "total_tokens": 140}
    choice = {"index": 0, "finish_reason": "tool_calls", "message": message}
    whole = {"id": "1", "created": 1, "model": "m", "object": "chat.completion", "choices": [choice], "usage": usage}
    ChatCompletion.model_validate(whole, strict=True)
    call |= row.call
    message |= row.message
    usage |= row.usage
    return raw(msgspec.json.encode({**whole, **row.answer}), content_type="application/json")


@pytest.fixture
def driver() -> Iterator[Driver]:
    driver = Driver()
    yield driver
    driver.close()


def endpoint_of(name: str, row: Row, base_url: str) -> Endpoint:
    own = ModelConfig(base_url=base_url, api_key=KEY, api_mode="chat_completions")
    profile = PROFILES.get(name)
    model = row.model or (profile.default_model if profile else "")
    return endpoint_for(Config(), {}, name, model, own, PROFILES)


def ask(driver: Driver, endpoint: Endpoint, messages: list[dict[str, Any]]) -> Reply:
    wire = wire_for(endpoint)
    kwargs = wire.kwargs(
        endpoint, ModelRequest(messages, [TOOL], stream=False, max_tokens=500, temperature=0.5, reasoning_effort="high")
    )
    return normalise(driver.send(endpoint, wire, kwargs, interrupt=Interrupt()))


def test_every_provider_has_its_row() -> None:
    assert ROWS.keys() | ELSEWHERE == {*PROFILES, CUSTOM}


@pytest.mark.parametrize("name", ROWS)
def test_a_round_of_tools(name: str, driver: Driver) -> None:
    row = ROWS[name]
    messages: list[dict[str, Any]] = [
        {"role": "system", "content": "Be brief."},
        {"role": "system", "content": "Be kind."},
        {"role": "user", "content": "What is here?"},
    ]
    with ScriptedProvider([answer(row), answer(row)]) as server:
        endpoint = endpoint_of(name, row, server.base_url)
        reply = ask(driver, endpoint, messages)
        messages += [
            assistant_message(reply),
            {"role": "tool", "tool_call_id": reply.tool_calls[0].id, "content": "a.txt"},
        ]
        ask(driver, endpoint, messages)
        first, second = (request.body for request in server.requests)
    assert (reply.content, reply.reasoning or "") == ("I look.", row.reasoning)
    assert [(call.name, call.arguments) for call in reply.tool_calls] == [("ls", "{}")]
    assert reply.usage is not None
    assert (reply.usage.prompt_tokens, reply.usage.output_tokens) == (100, 40)
    assert (reply.usage.cache_read_tokens, reply.usage.cost_usd) == (row.cached, row.cost)
    for body in (first, second):
        accept(row, body)
    keep_what_they_want_back(name, second["messages"])


def accept(row: Row, body: dict[str, Any]) -> None:
    """Read a request as the provider would: nothing unknown, and what it wants otherwise is otherwise."""
    assert body[row.limit] == 500
    assert ("reasoning_effort" in body) is row.effort
    assert sum(message["role"] == "system" for message in body["messages"]) == (1 if row.merges_system else 2)
    own = {"reasoning", "reasoning_content", "reasoning_details", "extra_content"}
    known = {name: value for name, value in body.items() if name not in row.own_fields}
    known["messages"] = [without(message, own) for message in body["messages"]]
    refuse_what_the_sdk_does_not_know(CompletionCreateParamsNonStreaming, msgspec.json.encode(known))


def without(message: dict[str, Any], own: set[str]) -> dict[str, Any]:
    """A message as the format has it."""
    plain = {name: value for name, value in message.items() if name not in own}
    if "tool_calls" in plain:
        plain["tool_calls"] = [without(call, own) for call in plain["tool_calls"]]
    return plain


def keep_what_they_want_back(name: str, messages: list[dict[str, Any]]) -> None:
    said, result = messages[-2:]
    [call] = said["tool_calls"]
    assert call["id"] == result["tool_call_id"]
    assert len(call["id"]) == (9 if name == "mistral" else len(CALL_ID))
    assert said.get("reasoning_content") == (THOUGHTS if name == "deepseek" else None)
    assert ("reasoning_details" in said) is (name == "openrouter")
    assert call.get("extra_content") == (SIGNATURE["extra_content"] if name == "gemini" else None)
