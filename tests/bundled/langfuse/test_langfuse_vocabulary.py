"""The vocabulary against Langfuse's own SDK: both describe the same observation with the same attributes."""

from __future__ import annotations

import json
import uuid
from typing import Any, cast

import pytest
from langfuse import Langfuse, LangfuseOtelSpanAttributes
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from hermes.base.sanitize import Redactor
from hermes.bundled.observability.langfuse.content import ObservationContent
from hermes.bundled.observability.langfuse.observations import LangfuseSpans
from hermes.bundled.observability.langfuse.pipeline import SDK_VERSION
from hermes.bundled.observability.langfuse.settings import LangfuseSettings
from hermes.contract.events import (
    AttemptAnswered,
    AttemptFailed,
    AttemptStarted,
    Event,
    ToolEnded,
    ToolStarted,
    TurnAnswered,
    TurnEnded,
    TurnStarted,
)
from hermes.trace.otel.spans import SpanSink
from hermes.trace.tracker import Tracker
from support.events import some

IDS: dict[str, Any] = {"session_id": "s", "turn_id": "t"}
#: Attributes of the trace are propagated by the SDK, and written by us on every observation.
OF_THE_TRACE = ("langfuse.trace.", "session.id", "langfuse.environment")


def ours(*events: Event) -> list[dict[str, Any]]:
    memory, provider = InMemorySpanExporter(), TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(memory))
    settings = LangfuseSettings(environment="test")
    vocabulary = LangfuseSpans(settings, ObservationContent(settings, Redactor()))
    tracker = Tracker(SpanSink(provider.get_tracer("langfuse-sdk"), vocabulary))
    for event in events:
        tracker.take(event)
    return [described(span) for span in memory.get_finished_spans()]


def theirs(kind: Any, name: str, **what: Any) -> dict[str, Any]:
    memory = InMemorySpanExporter()
    client = Langfuse(
        public_key=f"pk-lf-{uuid.uuid4()}",
        secret_key="sk-lf-x",
        base_url="http://127.0.0.1:9",
        environment="test",
        tracer_provider=TracerProvider(shutdown_on_exit=False),
        span_exporter=memory,
    )
    observation = cast("Any", client).start_observation(name=name, as_type=kind, **what)
    observation.end()
    client.flush()
    [span] = memory.get_finished_spans()
    client.shutdown()
    return described(span)


def described(span: Any) -> dict[str, Any]:
    """Everything that the server reads, JSON as the data that it is."""
    attributes = {
        name: decoded(value)
        for name, value in dict(span.attributes).items()
        if not name.startswith(OF_THE_TRACE) and name != LangfuseOtelSpanAttributes.IS_APP_ROOT
    }
    return {"name": span.name, "status": span.status.status_code, "message": span.status.description, **attributes}


def decoded(value: Any) -> Any:
    try:
        return json.loads(value) if isinstance(value, str) else value
    except ValueError:
        return value


def test_the_version_is_that_of_the_sdk_it_is_compared_with() -> None:
    import langfuse

    assert SDK_VERSION.partition(".")[0] == langfuse.__version__.partition(".")[0]


def test_a_generation() -> None:
    started = some(
        AttemptStarted,
        **IDS,
        api_request_id="a",
        model="m",
        provider="p",
        api_call_count=1,
        request={"body": {"seed": 7}},
    )
    usage = {"input_tokens": 60, "output_tokens": 7, "cache_read_tokens": 40}
    answered = some(
        AttemptAnswered,
        **IDS,
        api_request_id="a",
        response_model="m-2",
        finish_reason="stop",
        usage=usage,
        cost_usd=0.5,
    )
    generation, _ = ours(started, answered, some(TurnEnded, **IDS, completed=True))
    assert generation == theirs(
        "generation",
        "chat m",
        model="m-2",
        model_parameters={"seed": 7},
        usage_details={"input": 60, "output": 7, "total": 107, "input_cached_tokens": 40},
        cost_details={"total": 0.5},
        metadata={"api_request_id": "a", "provider": "p", "attempt": 1, "finish_reason": "stop"},
    )


@pytest.mark.parametrize(("reason", "level"), [("overloaded", "ERROR"), ("interrupted", "WARNING")])
def test_a_generation_that_failed(reason: str, level: Any) -> None:
    started = some(AttemptStarted, **IDS, api_request_id="a", model="m", api_call_count=2)
    error = {"message": "busy"}
    failed = some(AttemptFailed, **IDS, api_request_id="a", reason=reason, error=error, status_code=503, retryable=True)
    generation, _ = ours(started, failed, some(TurnEnded, **IDS, completed=True))
    about = {"api_request_id": "a", "attempt": 2, "error_type": reason, "status_code": 503}
    assert generation == theirs(
        "generation",
        "chat m",
        model="m",
        level=level,
        status_message=f"{reason}: busy",
        metadata={**about, "retry_count": 0, "retryable": True},
    )


def test_a_tool_and_its_turn() -> None:
    call: dict[str, Any] = {**IDS, "tool_call_id": "c", "tool_name": "read_file", "args": {"path": "ä"}}
    tool, turn = ours(
        some(TurnStarted, **IDS, user_message="Read.", model="m", platform="cli"),
        some(ToolStarted, **call),
        some(ToolEnded, **call, result="text", duration_ms=12),
        some(TurnAnswered, **IDS, assistant_response="Done."),
        some(TurnEnded, **IDS, completed=True),
    )
    about = {"tool_call_id": "c", "status": "ok", "duration_ms": 12}
    assert tool == theirs("tool", "read_file", input={"path": "ä"}, output="text", metadata=about)
    whole = {"session_id": "s", "turn_id": "t", "platform": "cli", "model": "m", "status": "completed"}
    counts = {"model_calls": 0, "tool_calls": 1}
    assert turn == theirs("agent", "hermes turn", input="Read.", output="Done.", metadata={**whole, **counts})
