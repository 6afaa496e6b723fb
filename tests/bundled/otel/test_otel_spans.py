"""What a collector gets of a turn: the right tree, with the right ids, attributes and endings."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from opentelemetry import trace

from hermes.hooks.table import Hooks
from hermes.testing import text, tool_call
from hermes.testing.otlp import OtlpReceiver, ReceivedSpan
from hermes.tools.registry import Tool
from support import trace_runs
from support.otel_rig import TracedRig

ERROR = 2
CLIENT, INTERNAL = 3, 1


def tree(spans: list[ReceivedSpan]) -> list[tuple[int, str]]:
    """The names of spans with their depth, in the order in which they began."""
    by_id = {span.span_id: span for span in spans}

    def depth(span: ReceivedSpan) -> int:
        return 1 + depth(by_id[span.parent_id]) if span.parent_id in by_id else 0

    return [(depth(span), span.name) for span in spans]


def test_a_turn_with_a_tool_is_a_tree_with_both_vocabularies(rig: TracedRig) -> None:
    run = trace_runs.one_tool(rig)
    receiver = rig.collect()
    assert tree(receiver.spans) == [
        (0, "invoke_agent hermes"),
        (1, "chat scripted"),
        (1, "execute_tool read_file"),
        (1, "chat scripted"),
    ]
    turn, request, tool, _ = receiver.spans
    assert (turn.kind, request.kind, tool.kind) == (INTERNAL, CLIENT, INTERNAL)
    assert len({span.trace_id for span in receiver.spans}) == 1 and turn.parent_id == ""
    assert all(span.status == 0 and "error.type" not in span.attributes for span in receiver.spans)
    assert (
        turn.attributes.items()
        >= {
            "gen_ai.operation.name": "invoke_agent",
            "gen_ai.agent.name": "hermes",
            "gen_ai.conversation.id": run.live.id,
            "openinference.span.kind": "AGENT",
            "session.id": run.live.id,
            "hermes.turn.id": run.live.turns[0].id,
            "hermes.turn.status": "completed",
            "hermes.turn.input_tokens": 200,
        }.items()
    )
    assert (
        request.attributes.items()
        >= {
            "gen_ai.operation.name": "chat",
            "gen_ai.provider.name": "custom",
            "gen_ai.request.model": "scripted",
            "gen_ai.usage.input_tokens": 100,
            "gen_ai.usage.output_tokens": 7,
            "gen_ai.usage.cache_read.input_tokens": 40,
            "server.address": "127.0.0.1",
            "openinference.span.kind": "LLM",
            "llm.token_count.total": 107,
        }.items()
    )
    assert request.attributes["gen_ai.response.finish_reasons"] == ["tool_calls"]
    assert (
        tool.attributes.items()
        >= {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": "read_file",
            "gen_ai.tool.call.id": run.live.turns[0].steps[0].tools[0].tool_call_id,
            "openinference.span.kind": "TOOL",
            "tool.name": "read_file",
            "hermes.tool.status": "ok",
        }.items()
    )
    assert turn.started <= request.started <= request.ended <= tool.ended <= turn.ended


def test_nothing_that_was_said_leaves_unless_asked_for(rig: TracedRig) -> None:
    trace_runs.one_tool(rig)
    seen = json.dumps([span.attributes for span in rig.collect().spans])
    assert "Read a with" not in seen and trace_runs.SECRET not in seen
    assert not any(
        "messages" in name or name.endswith(".value") for span in rig.receiver.spans for name in span.attributes
    )


def test_keys_of_the_environment_are_masked_whatever_they_look_like(
    rig: TracedRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HERMES_OTEL_CAPTURE_CONTENT", "true")
    monkeypatch.setenv("ACME_API_KEY", "Read a with")
    trace_runs.one_tool(rig)
    spans = rig.collect().spans
    assert spans[0].attributes["input.value"] == "<redacted:ACME_API_KEY> <redacted>."
    assert "Read a with" not in json.dumps([span.attributes for span in spans])


@pytest.mark.parametrize(
    "variable", ["HERMES_OTEL_CAPTURE_CONTENT", "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"]
)
def test_content_is_there_when_asked_for_and_has_no_secrets(
    rig: TracedRig, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    monkeypatch.setenv(variable, "true")
    trace_runs.one_tool(rig)
    turn, first, tool, second = rig.collect().spans
    assert trace_runs.SECRET not in json.dumps([span.attributes for span in rig.receiver.spans])
    assert turn.attributes["input.value"] == "Read a with <redacted>."
    assert turn.attributes["output.value"] == "ok"
    (said,) = json.loads(first.attributes["gen_ai.output.messages"])
    assert said["parts"][0]["type"] == "tool_call" and said["parts"][0]["arguments"] == {"path": "a"}
    asked = json.loads(second.attributes["gen_ai.input.messages"])
    assert [message["role"] for message in asked] == ["user", "assistant", "tool"]
    assert second.attributes["llm.input_messages.0.message.role"] == "system"
    assert json.loads(tool.attributes["gen_ai.tool.call.arguments"]) == {"path": "a"}
    assert "<redacted>" in tool.attributes["gen_ai.tool.call.result"]
    assert second.attributes["llm.output_messages.0.message.content"] == "ok"
    assert second.attributes["gen_ai.system_instructions"]


def test_reasoning_is_part_of_the_answer(rig: TracedRig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HERMES_OTEL_CAPTURE_CONTENT", "1")
    trace_runs.thinking(rig)
    (said,) = json.loads(rig.collect().span("chat scripted").attributes["gen_ai.output.messages"])
    assert said["parts"] == [
        {"type": "reasoning", "content": "Let me think."},
        {"type": "text", "content": "Four."},
    ]


def test_children_are_inside_the_call_that_delegated(rig: TracedRig) -> None:
    run = trace_runs.delegated_children(rig)
    spans = rig.collect().spans
    assert len({span.trace_id for span in spans}) == 1
    call = rig.receiver.span("execute_tool delegate_task")
    children = [span for span in spans if span.parent_id == call.span_id]
    assert {span.attributes["session.id"] for span in children} == {child.id for child in run.live.children}
    assert {span.attributes["hermes.agent.role"] for span in children} == {"leaf"}
    for child in children:
        inside = [span for span in spans if span.parent_id == child.span_id]
        assert [span.name for span in inside] == ["chat scripted", "execute_tool terminal", "chat scripted"]
        assert {span.attributes["session.id"] for span in inside} == {child.attributes["session.id"]}
    assert sorted(name for name, _ in call.events) == ["hermes.subagent.start"] * 2 + ["hermes.subagent.stop"] * 2


def test_parallel_calls_stay_apart(rig: TracedRig) -> None:
    trace_runs.parallel_tools_reversed(rig)
    first, second = rig.collect().span("execute_tool wait"), rig.receiver.span("execute_tool hurry")
    assert first.parent_id == second.parent_id and first.started <= second.started
    assert second.ended <= first.ended
    assert first.attributes["gen_ai.tool.call.id"] != second.attributes["gen_ai.tool.call.id"]


@pytest.mark.parametrize(("scenario", "choice", "status"), [("approval", "once", "ok"), ("denied", "deny", "blocked")])
def test_approvals_are_events_of_the_call(rig: TracedRig, scenario: str, choice: str, status: str) -> None:
    getattr(trace_runs, scenario)(rig)
    call = rig.collect().span("execute_tool terminal")
    (asked, _), (answered, details) = call.events
    assert (asked, answered) == ("hermes.approval.request", "hermes.approval.response")
    assert details["hermes.approval.choice"] == choice
    assert call.attributes["hermes.tool.status"] == status
    assert call.status == 0  # nothing failed: somebody said no
    assert call.attributes.get("error.type") == (None if status == "ok" else "approval_denied")


@pytest.mark.parametrize("restarts", [False, True])
def test_a_call_that_waits_is_one_span(rig: TracedRig, restarts: bool) -> None:
    """Also when another process goes on with it: that one ends the turn, which the first request is inside of."""
    trace_runs.answered_later(rig, restarts=restarts)
    spans = rig.collect().spans
    turn, call = rig.receiver.span("invoke_agent hermes"), rig.receiver.span("execute_tool terminal")
    requests = [span for span in spans if span.name == "chat scripted"]
    assert len(spans) == 4 and {span.trace_id for span in spans} == {turn.trace_id}
    assert [span.parent_id for span in (call, *requests)] == [turn.span_id] * 3
    assert [span.status for span in spans] == [0] * 4
    assert call.attributes["hermes.tool.status"] == "ok"
    told = [(name, about.get("hermes.approval.choice")) for span in (turn, call) for name, about in span.events]
    assert ("hermes.approval.response", "once") in told


def test_every_attempt_is_a_span(rig: TracedRig) -> None:
    trace_runs.error_and_retry(rig)
    turn, failed, answered = rig.collect().spans
    assert (failed.status, failed.attributes["error.type"]) == (ERROR, "overloaded")
    assert failed.attributes["http.response.status_code"] == 503
    assert "<redacted>" in failed.message and trace_runs.SECRET not in failed.message
    assert (failed.attributes["hermes.attempt"], answered.attributes["hermes.attempt"]) == (1, 2)
    assert answered.status == turn.status == 0
    assert turn.attributes["hermes.turn.model_calls"] == 2


def test_a_fallback_shows_both_providers(rig: TracedRig) -> None:
    trace_runs.fallback(rig)
    _, first, second = rig.collect().spans
    assert (first.name, first.attributes["gen_ai.provider.name"]) == ("chat large", "one")
    assert (second.name, second.attributes["gen_ai.provider.name"]) == ("chat scripted", "two")
    assert second.attributes["gen_ai.response.model"] == "scripted-2"


def test_a_turn_that_fails_says_why(rig: TracedRig) -> None:
    trace_runs.final_error(rig)
    turn, request = rig.collect().spans
    assert turn.status == request.status == ERROR
    assert turn.attributes["error.type"] == "bad_request" and "no such thing" in turn.message


def test_a_turn_that_was_stopped_is_no_error(rig: TracedRig) -> None:
    trace_runs.interrupted_turn(rig)
    turn, request = rig.collect().spans
    assert turn.status == request.status == 0
    assert turn.attributes["hermes.turn.status"] == turn.attributes["error.type"] == "interrupted"


def test_calls_that_a_tool_makes_are_inside_it(rig: TracedRig, workdir: Path) -> None:
    (workdir / "a").write_text("a")
    host = rig.host([tool_call("outer", {}), text("done")], toolsets=["nest", "file"])

    def outer(_args: object, _context: object) -> str:
        with trace.get_tracer_provider().get_tracer("none").start_as_current_span("ignored"):
            return host.services.dispatch_tool("read_file", {"path": "a"})

    host.tools.add(Tool("outer", "nest", "", {"type": "object", "properties": {}}, outer, "pure"))
    host.new_session().run("go")
    assert tree(rig.collect().spans)[2:4] == [(1, "execute_tool outer"), (2, "execute_tool read_file")]


def test_code_in_a_tool_joins_the_calls_span(rig: TracedRig) -> None:
    host = rig.host([tool_call("job", {}), text("done")], toolsets=["own"])
    seen: list[int] = []

    def job(_args: object, _context: object) -> str:
        seen.append(trace.get_current_span().get_span_context().span_id)
        return "{}"

    host.tools.add(Tool("job", "own", "", {"type": "object", "properties": {}}, job, "pure"))
    host.new_session().run("go")
    assert [f"{span_id:016x}" for span_id in seen] == [rig.collect().span("execute_tool job").span_id]
    assert not trace.get_current_span().get_span_context().is_valid


def test_two_sessions_at_once_do_not_mix(rig: TracedRig) -> None:
    sessions = trace_runs.two_at_once(rig)
    spans = rig.collect().spans
    assert len(spans) == 8
    for session in sessions:
        own = [span for span in spans if span.attributes["session.id"] == session.id]
        assert tree(own)[0] == (0, "invoke_agent hermes") and [depth for depth, _ in tree(own)[1:]] == [1, 1, 1]
        assert len({span.trace_id for span in own}) == 1
    assert len({span.trace_id for span in spans}) == 2


def test_every_scenario_leaves_nothing_open(rig: TracedRig) -> None:
    for scenario in (trace_runs.compaction, trace_runs.steered_and_out_of_steps, trace_runs.plugin_makes_a_call):
        scenario(rig)
    spans = rig.collect().spans
    assert all(span.ended >= span.started for span in spans)
    assert {span.parent_id for span in spans} <= {"", *(span.span_id for span in spans)}


def test_a_turn_that_another_process_began_has_a_root_too(rig: TracedRig) -> None:
    hooks = rig.hooks()
    ids = {"session_id": "s", "turn_id": "t"}
    fire(hooks, "post_tool_call", **ids, tool_call_id="c", tool_name="terminal", status="error", duration_ms=50)
    fire(hooks, "pre_api_request", **ids, api_request_id="a", model="scripted")
    fire(hooks, "post_api_request", **ids, api_request_id="a", model="scripted")
    fire(hooks, "on_session_end", **ids, completed=True)
    call = rig.collect().span("execute_tool terminal")
    assert sorted(depth for depth, _ in tree(rig.receiver.spans)) == [0, 1, 1]
    assert 40e6 < call.ended - call.started < 1e9


def test_what_never_ends_is_closed_with_its_session(rig: TracedRig) -> None:
    hooks = rig.hooks()
    fire(hooks, "pre_llm_call", session_id="s", turn_id="t")
    fire(hooks, "pre_tool_call", session_id="s", turn_id="t", tool_call_id="c", tool_name="terminal")
    fire(hooks, "on_session_finalize", session_id="s", reason="session_boundary")
    assert [span.attributes["error.type"] for span in rig.collect().spans] == ["abandoned", "abandoned"]


def fire(hooks: Hooks, name: str, **payload: Any) -> None:
    assert getattr(hooks, name).invoke(**payload) == []


def test_the_service_has_the_name_that_the_environment_gives(
    rig: TracedRig, receiver: OtlpReceiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_SERVICE_NAME", "my-desk")
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment=test")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "x-team=blue")
    trace_runs.thinking(rig)
    span = rig.collect().spans[0]
    assert (span.resource["service.name"], span.resource["deployment.environment"]) == ("my-desk", "test")
    assert receiver.requests[0][1]["x-team"] == "blue"


def test_without_one_it_is_hermes(rig: TracedRig) -> None:
    trace_runs.thinking(rig)
    assert rig.collect().spans[0].resource["service.name"] == "hermes"


def test_what_is_sampled_out_is_not_sent(rig: TracedRig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_TRACES_SAMPLER", "always_off")
    trace_runs.one_tool(rig)
    receiver = rig.collect()
    assert receiver.spans == []
    assert {point.name for point in receiver.points} >= {"gen_ai.client.token.usage"}  # metrics are not sampled
