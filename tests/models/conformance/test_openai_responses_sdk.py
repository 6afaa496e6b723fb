"""The Responses wire against the official SDK: answers built from its types, read by it and by us."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import openai
import pytest
from openai.types.responses import (
    Response,
    ResponseCompletedEvent,
    ResponseCreatedEvent,
    ResponseErrorEvent,
    ResponseFailedEvent,
    ResponseFunctionCallArgumentsDeltaEvent,
    ResponseFunctionToolCall,
    ResponseIncompleteEvent,
    ResponseOutputItem,
    ResponseOutputItemAddedEvent,
    ResponseOutputItemDoneEvent,
    ResponseOutputMessage,
    ResponseOutputRefusal,
    ResponseOutputText,
    ResponseReasoningItem,
    ResponseReasoningSummaryPartAddedEvent,
    ResponseReasoningSummaryTextDeltaEvent,
    ResponseRefusalDeltaEvent,
    ResponseTextDeltaEvent,
    ResponseUsage,
)
from openai.types.responses.response import IncompleteDetails
from openai.types.responses.response_create_params import (
    ResponseCreateParamsNonStreaming,
    ResponseCreateParamsStreaming,
)
from openai.types.responses.response_error import ResponseError
from openai.types.responses.response_reasoning_item import Summary
from openai.types.responses.response_reasoning_summary_part_added_event import Part
from openai.types.responses.response_usage import InputTokensDetails, OutputTokensDetails

from hermes.base.errors import FailureReason, ProviderError
from hermes.base.scope import Interrupt
from hermes.models.driver import Driver
from hermes.models.reply import IncompleteReply, Reply
from hermes.models.wires.wire import ModelRequest
from hermes.testing import ScriptedProvider, raw
from support.sdk_agreement import TOOL, Ours, Readers, Theirs, given_back, halves
from support.sdk_types import Model, as_document, as_stream, endpoint_at, refuse_what_the_sdk_does_not_know

MODEL = "gpt-6"


def usage(cached: int = 0, written: int = 0, reasoning: int = 0) -> ResponseUsage:
    return ResponseUsage(
        input_tokens=100,
        input_tokens_details=InputTokensDetails(cached_tokens=cached, cache_write_tokens=written),
        output_tokens=40,
        output_tokens_details=OutputTokensDetails(reasoning_tokens=reasoning),
        total_tokens=140,
    )


def response(*output: ResponseOutputItem, counted: ResponseUsage | None = None, **fields: Any) -> Response:
    return Response(
        id="resp_01",
        created_at=1.0,
        model=MODEL,
        object="response",
        output=list(output),
        parallel_tool_calls=True,
        tool_choice="auto",
        tools=[],
        status=fields.pop("status", "completed"),
        usage=counted or usage(),
        **fields,
    )


def said(words: str, phase: Any = None, item_id: str = "msg_1") -> ResponseOutputMessage:
    part = ResponseOutputText(type="output_text", text=words, annotations=[])
    return ResponseOutputMessage(
        id=item_id, type="message", role="assistant", status="completed", content=[part], phase=phase
    )


def called(call_id: str, name: str, arguments: str) -> ResponseFunctionToolCall:
    return ResponseFunctionToolCall(
        id=f"fc_{call_id}", type="function_call", call_id=call_id, name=name, arguments=arguments, status="completed"
    )


def thought(item_id: str, *summaries: str) -> ResponseReasoningItem:
    return ResponseReasoningItem(
        id=item_id,
        type="reasoning",
        summary=[Summary(type="summary_text", text=summary) for summary in summaries],
        encrypted_content=f"gAAAA-{item_id}",
    )


#: Built from the SDK's types; none is a recording.
ROWS = {
    "text": response(said("Hello there, ✓")),
    "a call": response(called("call_1", "ls", '{"path":"é"}')),
    "text and two calls": response(
        said("I look."), called("call_1", "ls", '{"path":"a"}'), called("call_2", "pwd", "{}")
    ),
    "thoughts": response(thought("rs_1", "First.", "Then."), said("Four."), counted=usage(64, 8, 20)),
    "thoughts between calls": response(
        thought("rs_1"), called("call_1", "ls", "{}"), thought("rs_2", "Next."), called("call_2", "pwd", "{}")
    ),
    "commentary": response(said("I begin.", "commentary"), said("Done.", "final_answer", "msg_2")),
    "one phase": response(thought("rs_1"), said("Done.", "final_answer")),
    "a refusal": response(
        ResponseOutputMessage(
            id="msg_1",
            type="message",
            role="assistant",
            status="completed",
            content=[ResponseOutputRefusal(type="refusal", refusal="I will not do that.")],
        )
    ),
    "cut off": response(
        said("And so"), status="incomplete", incomplete_details=IncompleteDetails(reason="max_output_tokens")
    ),
    "filtered": response(
        said("It is"), status="incomplete", incomplete_details=IncompleteDetails(reason="content_filter")
    ),
}


def events(whole: Response) -> list[Model]:
    """The response as the SDK's types describe its stream."""
    opened = whole.model_copy(update={"output": [], "usage": None, "status": "in_progress", "incomplete_details": None})
    made: list[Model] = [ResponseCreatedEvent(type="response.created", response=opened, sequence_number=0)]
    for index, item in enumerate(whole.output):
        made += item_events(index, item)
    if whole.status == "incomplete":
        made.append(ResponseIncompleteEvent(type="response.incomplete", response=whole, sequence_number=99))
    else:
        made.append(ResponseCompletedEvent(type="response.completed", response=whole, sequence_number=99))
    return made


def item_events(index: int, item: ResponseOutputItem) -> Iterator[Model]:
    place: dict[str, Any] = {"output_index": index, "sequence_number": 0}
    empty: dict[str, Any] = {"content": []} if item.type == "message" else {}
    if item.type == "function_call":
        empty = {"arguments": ""}
    elif item.type == "reasoning":
        empty = {"summary": [], "encrypted_content": None}
    yield ResponseOutputItemAddedEvent(type="response.output_item.added", item=item.model_copy(update=empty), **place)
    if isinstance(item, ResponseOutputMessage):
        yield from content_events(item, place)
    elif isinstance(item, ResponseFunctionToolCall):
        for piece in halves(item.arguments):
            yield ResponseFunctionCallArgumentsDeltaEvent(
                type="response.function_call_arguments.delta", item_id=str(item.id), delta=piece, **place
            )
    elif isinstance(item, ResponseReasoningItem):
        yield from summary_events(item, place)
    yield ResponseOutputItemDoneEvent(type="response.output_item.done", item=item, **place)


def content_events(item: ResponseOutputMessage, place: dict[str, Any]) -> Iterator[Model]:
    place = {**place, "content_index": 0, "item_id": item.id}
    for part in item.content:
        if isinstance(part, ResponseOutputRefusal):
            for piece in halves(part.refusal):
                yield ResponseRefusalDeltaEvent(type="response.refusal.delta", delta=piece, **place)
        else:
            for piece in halves(part.text):
                yield ResponseTextDeltaEvent(type="response.output_text.delta", delta=piece, logprobs=[], **place)


def summary_events(item: ResponseReasoningItem, place: dict[str, Any]) -> Iterator[Model]:
    for index, summary in enumerate(item.summary):
        where: dict[str, Any] = {**place, "item_id": item.id, "summary_index": index}
        yield ResponseReasoningSummaryPartAddedEvent(
            type="response.reasoning_summary_part.added", part=Part(type="summary_text", text=""), **where
        )
        for piece in halves(summary.text):
            yield ResponseReasoningSummaryTextDeltaEvent(
                type="response.reasoning_summary_text.delta", delta=piece, **where
            )


@pytest.fixture
def ours(driver: Driver) -> Ours:
    return Ours(driver, "codex_responses", MODEL)


@pytest.fixture
def theirs(openai_sdk: openai.OpenAI) -> Theirs[Response]:
    def ask(server: ScriptedProvider, *, stream: bool) -> Response:
        client = openai_sdk.with_options(base_url=server.base_url)
        if not stream:
            return client.responses.create(model=MODEL, input="hi")
        with client.responses.create(model=MODEL, input="hi", stream=True) as found:
            last = list(found)[-1]
        assert isinstance(last, ResponseCompletedEvent | ResponseIncompleteEvent)
        return last.response

    return ask


def agree(reply: Reply, found: Response) -> None:
    """Field by field."""
    refusals = [
        part.refusal
        for item in found.output
        if item.type == "message"
        for part in item.content
        if part.type == "refusal"
    ]
    assert reply.content == (found.output_text or "".join(refusals))
    calls = [item for item in found.output if item.type == "function_call"]
    expected = [(call.call_id, call.name, call.arguments) for call in calls]
    assert [(call.id, call.name, call.arguments) for call in reply.tool_calls] == expected
    summaries = [part.text for item in found.output if item.type == "reasoning" for part in item.summary]
    assert reply.reasoning == "\n\n".join(summaries)
    assert (reply.response_id, reply.model) == (found.id, found.model)
    assert reply.finish_reason == finish_reason(found)
    assert reply.usage is not None
    assert found.usage is not None
    assert reply.usage.prompt_tokens == found.usage.input_tokens
    assert reply.usage.output_tokens == found.usage.output_tokens
    assert reply.usage.total_tokens == found.usage.total_tokens
    assert reply.usage.cache_read_tokens == found.usage.input_tokens_details.cached_tokens
    assert reply.usage.cache_write_tokens == found.usage.input_tokens_details.cache_write_tokens
    assert reply.usage.reasoning_tokens == found.usage.output_tokens_details.reasoning_tokens


def finish_reason(found: Response) -> str:
    if found.status == "incomplete":
        assert found.incomplete_details is not None
        return {"max_output_tokens": "length", "content_filter": "content_filter"}[str(found.incomplete_details.reason)]
    if any(item.type == "function_call" for item in found.output):
        return "tool_calls"
    parts = [part for item in found.output if item.type == "message" for part in item.content]
    return "refusal" if parts and all(part.type == "refusal" for part in parts) else "stop"


@pytest.mark.parametrize("name", ROWS)
def test_both_read_the_same_document(name: str, ours: Ours, theirs: Theirs[Response]) -> None:
    Readers(ours, theirs, agree).agree_on_document(ROWS[name])


@pytest.mark.parametrize("name", ROWS)
def test_both_read_the_same_stream(name: str, ours: Ours, theirs: Theirs[Response]) -> None:
    Readers(ours, theirs, agree).agree_on_stream(as_stream(events(ROWS[name])), ROWS[name])


@pytest.mark.parametrize("name", ["thoughts", "thoughts between calls", "commentary", "one phase"])
def test_what_goes_back_has_the_reasoning_where_it_was(name: str, ours: Ours) -> None:
    whole = ROWS[name]
    with ScriptedProvider(as_stream(events(whole))) as server:
        conversation = given_back(ours(server, stream=True))
    endpoint, wire = endpoint_at("http://h", "codex_responses", MODEL)
    sent = wire.kwargs(endpoint, ModelRequest(conversation))["input"][1:]
    assert sent == [returned(item) for item in whole.output]


def returned(item: ResponseOutputItem) -> dict[str, Any]:
    """What of an item goes back: the server's own ids only where they belong to something encrypted."""
    fields = item.model_dump(exclude_none=True)
    if isinstance(item, ResponseOutputMessage):
        fields = {"type": "message", "role": "assistant", "content": item.content[0].to_dict()["text"]}
        return fields | ({"phase": item.phase} if item.phase else {})
    if item.type == "function_call":
        del fields["id"], fields["status"]
    return fields


# -- requests ---------------------------------------------------------------------------------------------------------

CONVERSATION: list[dict[str, Any]] = [
    {"role": "system", "content": "Be brief."},
    {
        "role": "user",
        "content": [
            {"type": "text", "text": "What is this?"},
            {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo=", "detail": "low"}},
            {"type": "image_url", "image_url": {"url": "https://example.org/a.jpg"}},
        ],
    },
    {
        "role": "assistant",
        "content": "Let me look.",
        "tool_calls": [
            {"id": "call_1", "type": "function", "function": {"name": "ls", "arguments": '{"path":"a"}'}},
            {"id": "call_2", "type": "function", "function": {"name": "ls", "arguments": ""}},
        ],
        "carry": {
            "api_mode": "codex_responses",
            "provider": "demo",
            "model": MODEL,
            "items": [
                {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAAA"},
                {"type": "text", "phase": "commentary"},
                {"type": "call", "id": "call_1"},
                {"type": "call", "id": "call_2"},
            ],
        },
    },
    {"role": "tool", "tool_call_id": "call_1", "content": "a.txt"},
    {
        "role": "tool",
        "tool_call_id": "call_2",
        "content": [{"type": "text", "text": "this"}, {"type": "image_url", "image_url": {"url": "data:image/png,x"}}],
    },
    {"role": "system", "content": "Be briefer."},
    {"role": "user", "content": "And now?"},
]
SCHEMA: dict[str, Any] = {
    "type": "json_schema",
    "json_schema": {"name": "a", "strict": True, "schema": {"type": "object", "properties": {}}},
}

REQUESTS: dict[str, tuple[str, dict[str, Any]]] = {
    "plain": (MODEL, {}),
    "tools": (MODEL, {"tools": [TOOL], "max_tokens": 5}),
    "effort": (MODEL, {"reasoning_effort": "high", "temperature": 0.3}),
    "an old model": ("gpt-4o", {"temperature": 0.3}),
    "a schema": (MODEL, {"response_format": SCHEMA}),
    "json": (MODEL, {"response_format": {"type": "json_object"}}),
}


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("name", REQUESTS)
def test_the_request_is_one_the_sdk_could_send(name: str, stream: bool) -> None:
    model, options = REQUESTS[name]
    endpoint, wire = endpoint_at("http://h", "codex_responses", model)
    request = wire.http_request(endpoint, wire.kwargs(endpoint, ModelRequest(CONVERSATION, stream=stream, **options)))
    params = ResponseCreateParamsStreaming if stream else ResponseCreateParamsNonStreaming
    refuse_what_the_sdk_does_not_know(params, request.body)


def test_the_sdk_sends_the_same_request(driver: Driver, openai_sdk: openai.OpenAI) -> None:
    """Our keyword arguments given to the SDK make the request that we make of them."""
    with ScriptedProvider(as_document(ROWS["text"])) as server:
        endpoint, wire = endpoint_at(server.base_url, "codex_responses", MODEL)
        kwargs = wire.kwargs(endpoint, ModelRequest(CONVERSATION, [TOOL], stream=False, reasoning_effort="low"))
        driver.send(endpoint, wire, kwargs, interrupt=Interrupt())
        openai_sdk.with_options(base_url=server.base_url).responses.create(**kwargs)
        mine, other = server.requests
    assert mine.body == other.body
    assert (mine.path, mine.headers["authorization"]) == (other.path, other.headers["authorization"])


# -- failures ---------------------------------------------------------------------------------------------------------

FAILURES: list[tuple[int, str, str | None, type[openai.APIStatusError], FailureReason]] = [
    (400, "invalid_request_error", None, openai.BadRequestError, "bad_request"),
    (400, "invalid_request_error", "context_length_exceeded", openai.BadRequestError, "context_too_long"),
    (401, "invalid_request_error", "invalid_api_key", openai.AuthenticationError, "auth"),
    (404, "invalid_request_error", "model_not_found", openai.NotFoundError, "model_missing"),
    (429, "insufficient_quota", "insufficient_quota", openai.RateLimitError, "billing"),
    (429, "requests", "rate_limit_exceeded", openai.RateLimitError, "rate_limit"),
    (500, "server_error", None, openai.InternalServerError, "server_error"),
]


@pytest.mark.parametrize(("status", "kind", "code", "error", "reason"), FAILURES)
def test_failures_are_those_of_the_sdk(
    status: int,
    kind: str,
    code: str | None,
    error: type[openai.APIStatusError],
    reason: FailureReason,
    ours: Ours,
    theirs: Theirs[Response],
) -> None:
    body = json.dumps({"error": {"message": "told so", "type": kind, "param": None, "code": code}}).encode()
    with ScriptedProvider(raw(body, content_type="application/json", status=status)) as server:
        with pytest.raises(error, match="told so") as raised:
            theirs(server, stream=False)
        with pytest.raises(ProviderError, match="told so") as caught:
            ours(server, stream=True)
    assert caught.value.reason == reason
    assert caught.value.status_code == raised.value.status_code


def test_a_response_that_fails_in_the_middle(ours: Ours) -> None:
    whole = ROWS["text"]
    begun = events(whole)[:3]
    error = ResponseError(code="rate_limit_exceeded", message="Slow down.")
    failed = whole.model_copy(update={"status": "failed", "error": error, "output": []})
    endings: list[tuple[Model, FailureReason]] = [
        (ResponseFailedEvent(type="response.failed", response=failed, sequence_number=9), "rate_limit"),
        (ResponseErrorEvent(type="error", code="server_error", message="Sorry.", sequence_number=9), "server_error"),
    ]
    for last, reason in endings:
        with (
            ScriptedProvider(as_stream([*begun, last])) as server,
            pytest.raises(IncompleteReply, match=r"Slow down\.|Sorry\.") as caught,
        ):
            ours(server, stream=True)
        assert caught.value.reason == reason
        assert caught.value.partial.content == "Hello t"
