"""A recorded session as OTLP/JSON: readable by OTLP's own reader, the same every time, and as a tree."""

from __future__ import annotations

import base64
import json
from collections.abc import Generator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import msgspec
import pytest
from google.protobuf.json_format import Parse
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from hermes.testing.otlp import ReceivedSpan, received_spans
from hermes.trace.formats import openinference, otlp
from hermes.trace.records import AttemptRecord, ModelStep, SessionRecord, ToolStep, TurnRecord, UsageRecord
from support import trace_runs
from support.trace_runs import Rig, Scenario

ERROR = 2


@pytest.fixture
def rig(home: Path, workdir: Path) -> Generator[Rig]:
    with ExitStack() as stack:
        yield Rig(home, workdir, stack)


def read(document: dict[str, Any]) -> list[ReceivedSpan]:
    """The spans of a document, read the way a collector reads it."""
    request = ExportTraceServiceRequest()
    # Ids are hexadecimal digits in OTLP/JSON, where the general mapping of bytes has base64.
    text = json.dumps(_with_base64_ids(document))
    Parse(text, request)
    return sorted(received_spans(request), key=lambda span: span.started)


def _with_base64_ids(document: dict[str, Any]) -> dict[str, Any]:
    copy: dict[str, Any] = json.loads(json.dumps(document))
    for span in copy["resourceSpans"][0]["scopeSpans"][0]["spans"]:
        for name in {"traceId", "spanId", "parentSpanId"} & span.keys():
            span[name] = base64.b64encode(bytes.fromhex(span[name])).decode()
    return copy


@pytest.mark.parametrize("scenario", trace_runs.SCENARIOS, ids=lambda scenario: scenario.__name__)
def test_every_run_is_a_tree_of_valid_spans_without_secrets(rig: Rig, scenario: Scenario) -> None:
    run = scenario(rig)
    for record in (run.live, run.stored):
        for export in (otlp.export, openinference.export):
            document = export(record)
            spans = read(document)
            assert len({span.span_id for span in spans}) == len(spans)
            assert {span.parent_id for span in spans} <= {"", *(span.span_id for span in spans)}
            assert all(len(span.trace_id) == 32 and len(span.span_id) == 16 for span in spans)
            assert all(span.ended >= span.started > 0 for span in spans)
            assert trace_runs.SECRET not in msgspec.json.encode(document).decode()
            assert export(record) == document
    seen, kept = ({(one.name, one.span_id) for one in read(otlp.export(record))} for record in (run.live, run.stored))
    assert seen <= kept  # and the journal knows of side calls


def test_a_turn_with_a_tool(rig: Rig) -> None:
    run = trace_runs.one_tool(rig)
    turn, first, tool, second = read(otlp.export(run.stored))
    assert [span.name for span in (turn, first, tool, second)] == [
        "invoke_agent hermes",
        "chat scripted",
        "execute_tool read_file",
        "chat scripted",
    ]
    assert {first.parent_id, tool.parent_id, second.parent_id} == {turn.span_id}
    assert turn.resource["service.name"] == "hermes"
    assert turn.attributes["hermes.turn.input_tokens"] == 200 and turn.attributes["hermes.turn.model_calls"] == 2
    assert first.attributes["gen_ai.usage.input_tokens"] == 100
    assert first.attributes["gen_ai.response.finish_reasons"] == ["tool_calls"]
    assert json.loads(tool.attributes["gen_ai.tool.call.arguments"]) == {"path": "a"}
    # A request has only what is new, so that a long session does not grow with the square.
    assert [one["role"] for one in json.loads(first.attributes["gen_ai.input.messages"])] == ["user"]
    assert [one["role"] for one in json.loads(second.attributes["gen_ai.input.messages"])] == ["tool"]
    assert json.loads(turn.attributes["gen_ai.system_instructions"])[0]["content"] == run.stored.system_prompt


def test_content_can_be_left_out(rig: Rig) -> None:
    run = trace_runs.one_tool(rig)
    for export in (otlp.export, openinference.export):
        seen = json.dumps(export(run.stored, content=False))
        assert "Read a with" not in seen and "key <redacted>" not in seen and run.stored.system_prompt[:40] not in seen


def test_what_a_plugin_asked_between_turns_is_a_trace_of_its_own(rig: Rig) -> None:
    record = trace_runs.plugin_asks_a_model(rig).stored
    for export in (otlp.export, openinference.export):
        spans = read(export(record))
        inside, between = [span for span in spans if span.attributes.get("hermes.purpose") == "plugin:acme"]
        turns = [span for span in spans if span.name.startswith("invoke_agent")]
        assert (inside.trace_id, inside.parent_id) == (turns[0].trace_id, turns[0].span_id)
        assert between.parent_id == "" and between.trace_id not in {turn.trace_id for turn in turns}


def test_children_are_inside_the_call_that_delegated(rig: Rig) -> None:
    run = trace_runs.delegated_children(rig)
    spans = read(otlp.export(run.stored))
    (call,) = [span for span in spans if span.name == "execute_tool delegate_task"]
    children = [span for span in spans if span.parent_id == call.span_id]
    assert [span.name for span in children] == ["invoke_agent hermes"] * 2
    assert {span.attributes["gen_ai.conversation.id"] for span in children} == {one.id for one in run.stored.children}
    assert len({span.trace_id for span in spans}) == 1


def test_endings(rig: Rig) -> None:
    turn, failed, answered = read(otlp.export(trace_runs.error_and_retry(rig).stored))
    assert (turn.status, failed.status, answered.status) == (0, ERROR, 0)
    assert failed.attributes["error.type"] and "503" in failed.message
    turn, request = read(otlp.export(trace_runs.interrupted_turn(rig).stored))
    assert (turn.status, request.status, turn.attributes["hermes.turn.status"]) == (0, 0, "interrupted")
    turn, _ = read(otlp.export(trace_runs.final_error(rig).stored))
    assert turn.status == ERROR and "no such thing" in turn.message
    (_, _, call, _) = read(otlp.export(trace_runs.denied(rig).stored))
    assert call.status == 0 and call.attributes["error.type"] == "approval_denied"
    assert [name for name, _ in call.events] == ["hermes.approval.request", "hermes.approval.response"]


def test_compactions_are_events_of_their_turn(rig: Rig) -> None:
    spans = read(otlp.export(trace_runs.compaction(rig).stored))
    assert "hermes.compacted" in [name for span in spans for name, _ in span.events]
    assert [span.attributes["hermes.purpose"] for span in spans if "hermes.purpose" in span.attributes]


def test_a_run_that_is_not_over_has_spans_that_end_where_it_was_last_seen() -> None:
    attempt = AttemptRecord("a", "custom", "m", 10.0, 12.0, "ok")
    tool = ToolStep("c", "terminal", {}, 13.0)
    turn = TurnRecord("t", "", "go", 9.0, steps=[ModelStep(1, [attempt], tools=[tool])])
    root, request, call = read(otlp.export(SessionRecord("s", turns=[turn])))
    assert [span.ended / 1e9 for span in (root, request, call)] == [13.0, 12.0, 13.0]
    assert root.attributes["hermes.turn.status"] == "running"


def test_turns_that_a_branch_took_over_are_not_told_again() -> None:
    old = TurnRecord("old", "", "go", 1.0, 2.0, "completed", copied=True)
    new = TurnRecord("new", "", "on", 3.0, 4.0, "completed")
    (span,) = read(otlp.export(SessionRecord("branch", turns=[old, new])))
    assert span.attributes["hermes.turn.id"] == "new"


def test_parents_carry_sums_under_names_of_their_own() -> None:
    step = ModelStep(1, [AttemptRecord("a", "p", "m", 1.0, 2.0, "ok")], usage=UsageRecord(5, 2, cost_usd=0.25))
    turn = TurnRecord("t", "", "go", 1.0, 2.0, "completed", steps=[step])
    root, request = read(otlp.export(SessionRecord("s", turns=[turn])))
    assert not [name for name in root.attributes if name.startswith("gen_ai.usage")]
    assert (root.attributes["hermes.turn.cost_usd"], request.attributes["hermes.cost_usd"]) == (0.25, 0.25)
    root, request = read(openinference.export(SessionRecord("s", turns=[turn])))
    assert not [name for name in root.attributes if name.startswith("llm.")]
    assert request.attributes["llm.cost.total"] == 0.25


def test_a_long_session_is_linear() -> None:
    def size(steps: int) -> int:
        made = [
            ModelStep(
                number,
                [AttemptRecord(f"a{number}", "p", "m", float(number), number + 0.5, "ok")],
                text="said",
                tools=[ToolStep(f"c{number}", "terminal", {"command": "ls"}, number + 0.5, number + 0.9, "ok", "x")],
            )
            for number in range(1, steps + 1)
        ]
        turn = TurnRecord("t", "", "go", 1.0, 1e6, "completed", steps=made)
        return len(msgspec.json.encode(otlp.export(SessionRecord("s", turns=[turn]))))

    assert size(400) < 4.2 * size(100)
