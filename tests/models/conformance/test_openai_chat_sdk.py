"""The chat wire against the official SDK: answers built from its types, read by it and by us."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

import openai
import pytest
from openai.types import CompletionUsage
from openai.types.chat import ChatCompletion, ChatCompletionChunk, ChatCompletionMessage
from openai.types.chat.chat_completion import Choice
from openai.types.chat.chat_completion_chunk import Choice as ChunkChoice
from openai.types.chat.chat_completion_chunk import ChoiceDelta, ChoiceDeltaToolCall, ChoiceDeltaToolCallFunction
from openai.types.chat.chat_completion_message_function_tool_call import ChatCompletionMessageFunctionToolCall, Function
from openai.types.chat.completion_create_params import (
    CompletionCreateParamsNonStreaming,
    CompletionCreateParamsStreaming,
)
from openai.types.completion_usage import CompletionTokensDetails, PromptTokensDetails

from hermes.models.driver import Driver
from hermes.models.reply import Reply
from hermes.models.wires.wire import ModelRequest
from hermes.testing import ScriptedProvider
from support.sdk_agreement import TOOL, Ours, Readers, Theirs, halves
from support.sdk_types import as_stream, endpoint_at, refuse_what_the_sdk_does_not_know

MODEL = "gpt-6"
USAGE = CompletionUsage(
    prompt_tokens=100,
    completion_tokens=40,
    total_tokens=140,
    prompt_tokens_details=PromptTokensDetails(cached_tokens=64),
    completion_tokens_details=CompletionTokensDetails(reasoning_tokens=12),
)


def completion(finish_reason: Any = "stop", **message: Any) -> ChatCompletion:
    choice = Choice(index=0, finish_reason=finish_reason, message=ChatCompletionMessage(role="assistant", **message))
    return ChatCompletion(
        id="chatcmpl-1", created=1, model=MODEL, object="chat.completion", choices=[choice], usage=USAGE
    )


def call(call_id: str, name: str, arguments: str) -> ChatCompletionMessageFunctionToolCall:
    function = Function(name=name, arguments=arguments)
    return ChatCompletionMessageFunctionToolCall(id=call_id, type="function", function=function)


#: Built from the SDK's types; none is a recording.
ROWS = {
    "text": completion(content="Hello there, ✓"),
    "a call": completion("tool_calls", content="I look.", tool_calls=[call("call_1", "ls", '{"path":"é"}')]),
    "two calls": completion("tool_calls", tool_calls=[call("call_1", "ls", "{}"), call("call_2", "pwd", "{}")]),
    "a refusal": completion(refusal="I will not do that."),
    "cut off": completion("length", content="And so"),
    "filtered": completion("content_filter", content="It is"),
}


def chunks(whole: ChatCompletion) -> Iterator[ChatCompletionChunk]:
    """The completion as the SDK's types describe its stream."""
    message = whole.choices[0].message
    yield chunk(ChoiceDelta(role="assistant", content=""))
    for piece in halves(message.content or ""):
        yield chunk(ChoiceDelta(content=piece))
    for piece in halves(message.refusal or ""):
        yield chunk(ChoiceDelta(refusal=piece))
    for index, made in enumerate(message.tool_calls or ()):
        assert made.type == "function"
        opened = ChoiceDeltaToolCallFunction(name=made.function.name, arguments="")
        yield tool_chunk(ChoiceDeltaToolCall(index=index, id=made.id, type="function", function=opened))
        for piece in halves(made.function.arguments):
            more = ChoiceDeltaToolCallFunction(arguments=piece)
            yield tool_chunk(ChoiceDeltaToolCall(index=index, function=more))
    yield chunk(ChoiceDelta(), whole.choices[0].finish_reason)
    yield ChatCompletionChunk(
        id=whole.id, created=1, model=MODEL, object="chat.completion.chunk", choices=[], usage=whole.usage
    )


def tool_chunk(piece: ChoiceDeltaToolCall) -> ChatCompletionChunk:
    return chunk(ChoiceDelta(tool_calls=[piece]))


def chunk(delta: ChoiceDelta, finish_reason: Any = None) -> ChatCompletionChunk:
    choice = ChunkChoice(index=0, delta=delta, finish_reason=finish_reason)
    return ChatCompletionChunk(
        id="chatcmpl-1", created=1, model=MODEL, object="chat.completion.chunk", choices=[choice]
    )


@pytest.fixture
def ours(driver: Driver) -> Ours:
    return Ours(driver, "chat_completions", MODEL)


@pytest.fixture
def theirs(openai_sdk: openai.OpenAI) -> Theirs[ChatCompletion]:
    def ask(server: ScriptedProvider, *, stream: bool) -> ChatCompletion:
        request: dict[str, Any] = {"model": MODEL, "messages": [{"role": "user", "content": "hi"}]}
        client = openai_sdk.with_options(base_url=server.base_url)
        if not stream:
            return cast("ChatCompletion", client.chat.completions.create(**request))
        with client.chat.completions.stream(**request, stream_options={"include_usage": True}) as found:
            for _ in found:
                pass
            return found.current_completion_snapshot

    return ask


def agree(reply: Reply, found: ChatCompletion) -> None:
    """Field by field."""
    choice = found.choices[0]
    assert reply.content == (choice.message.content or choice.message.refusal or "")
    calls = [made for made in choice.message.tool_calls or () if made.type == "function"]
    expected = [(made.id, made.function.name, made.function.arguments) for made in calls]
    assert [(made.id, made.name, made.arguments) for made in reply.tool_calls] == expected
    refused = choice.message.refusal and not choice.message.content
    finish_reason = "refusal" if refused else choice.finish_reason
    assert (reply.response_id, reply.model, reply.finish_reason) == (found.id, found.model, finish_reason)
    assert reply.usage is not None
    assert found.usage is not None
    assert found.usage.prompt_tokens_details is not None
    assert found.usage.completion_tokens_details is not None
    assert reply.usage.prompt_tokens == found.usage.prompt_tokens
    assert reply.usage.output_tokens == found.usage.completion_tokens
    assert reply.usage.cache_read_tokens == found.usage.prompt_tokens_details.cached_tokens
    assert reply.usage.reasoning_tokens == found.usage.completion_tokens_details.reasoning_tokens


@pytest.mark.parametrize("name", ROWS)
def test_both_read_the_same_document(name: str, ours: Ours, theirs: Theirs[ChatCompletion]) -> None:
    Readers(ours, theirs, agree).agree_on_document(ROWS[name])


@pytest.mark.parametrize("name", ROWS)
def test_both_read_the_same_stream(name: str, ours: Ours, theirs: Theirs[ChatCompletion]) -> None:
    streamed = as_stream(chunks(ROWS[name]), last=b"data: [DONE]\n\n")
    Readers(ours, theirs, agree).agree_on_stream(streamed, ROWS[name])


# -- requests ---------------------------------------------------------------------------------------------------------

CONVERSATION: list[dict[str, Any]] = [
    {"role": "system", "content": "Be brief."},
    {
        "role": "user",
        "content": [
            {"type": "text", "text": "What is this?"},
            {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}},
        ],
    },
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": "call_1", "type": "function", "function": {"name": "ls", "arguments": "{}"}}],
        "carry": {"api_mode": "anthropic_messages", "provider": "x", "model": "y", "items": [{"type": "thinking"}]},
    },
    {"role": "tool", "tool_call_id": "call_1", "content": "a.txt"},
]
OPTIONS: dict[str, dict[str, Any]] = {
    "plain": {},
    "tools": {"tools": [TOOL], "max_tokens": 5, "temperature": 0.3},
    "effort": {"reasoning_effort": "high"},
    "json": {"response_format": {"type": "json_object"}},
}


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("name", OPTIONS)
def test_the_request_is_one_the_sdk_could_send(name: str, stream: bool) -> None:
    endpoint, wire = endpoint_at("http://h", "chat_completions", MODEL)
    request = wire.http_request(
        endpoint, wire.kwargs(endpoint, ModelRequest(CONVERSATION, stream=stream, **OPTIONS[name]))
    )
    params = CompletionCreateParamsStreaming if stream else CompletionCreateParamsNonStreaming
    refuse_what_the_sdk_does_not_know(params, request.body)
