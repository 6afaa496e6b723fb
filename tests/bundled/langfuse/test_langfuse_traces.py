"""What Langfuse gets of a turn: the tree, what is in it, and that everything in it ends."""

from __future__ import annotations

import json
import threading
from typing import Any

import pytest

from hermes.hooks.table import Hooks
from hermes.testing.otlp import ReceivedSpan
from support import trace_runs
from support.langfuse_rig import PATH, LangfuseRig
from support.waiting import HANG

TYPE = "langfuse.observation.type"
INPUT, OUTPUT = "langfuse.observation.input", "langfuse.observation.output"
LEVEL, MESSAGE = "langfuse.observation.level", "langfuse.observation.status_message"
USAGE, COST = "langfuse.observation.usage_details", "langfuse.observation.cost_details"
PARAMETERS = "langfuse.observation.model.parameters"


def kinds(spans: list[ReceivedSpan]) -> list[tuple[str, str]]:
    return [(span.attributes[TYPE], span.name) for span in spans]


def metadata(span: ReceivedSpan) -> dict[str, Any]:
    prefix = "langfuse.observation.metadata."
    return {
        name.removeprefix(prefix): json.loads(value)
        for name, value in span.attributes.items()
        if name.startswith(prefix)
    }


def inside(span: ReceivedSpan, spans: list[ReceivedSpan]) -> list[ReceivedSpan]:
    return [one for one in spans if one.parent_id == span.span_id]


def fire(hooks: Hooks, name: str, **payload: Any) -> None:
    assert getattr(hooks, name).invoke(**payload) == []


def test_a_turn_is_a_trace_with_generations_and_tools(rig: LangfuseRig) -> None:
    run = trace_runs.one_tool(rig)
    server = rig.collect()
    turn, asked, tool, answered = server.spans
    assert kinds(server.spans) == [
        ("agent", "hermes turn"),
        ("generation", "chat scripted"),
        ("tool", "read_file"),
        ("generation", "chat scripted"),
    ]
    assert turn.parent_id == "" and inside(turn, server.spans) == [asked, tool, answered]
    assert all(turn.started <= span.started <= span.ended <= turn.ended for span in server.spans)
    for span in server.spans:
        assert span.attributes["session.id"] == run.live.id
        assert span.attributes["langfuse.trace.name"] == "hermes turn"
        assert span.attributes["langfuse.trace.tags"] == ["hermes", "cli"]
        assert span.resource == {"service.name": "hermes"}
    assert metadata(turn) == {
        "session_id": run.live.id,
        "turn_id": run.live.turns[0].id,
        "platform": "cli",
        "model": "scripted",
        "status": "completed",
        "model_calls": 2,
        "tool_calls": 1,
    }
    step = run.live.turns[0].steps[0]
    assert metadata(tool)["tool_call_id"] == step.tools[0].tool_call_id
    assert metadata(tool)["api_request_id"] == step.attempts[0].api_request_id == metadata(asked)["api_request_id"]
    assert metadata(tool)["status"] == "ok" and metadata(answered)["finish_reason"] == "stop"


def test_what_was_said_is_there_without_the_secrets_in_it(rig: LangfuseRig) -> None:
    trace_runs.one_tool(rig)
    spans = rig.collect().spans
    turn, asked, tool, answered = spans
    assert (turn.attributes[INPUT], turn.attributes[OUTPUT]) == ("Read a with <redacted>.", "ok")
    roles = [[message["role"] for message in json.loads(span.attributes[INPUT])] for span in (asked, answered)]
    assert roles == [["system", "user"], ["system", "user", "assistant", "tool"]]
    (call,) = json.loads(asked.attributes[OUTPUT])["tool_calls"]
    assert (call["function"]["name"], json.loads(call["function"]["arguments"])) == ("read_file", {"path": "a"})
    assert json.loads(answered.attributes[OUTPUT]) == {"role": "assistant", "content": "ok"}
    assert json.loads(tool.attributes[INPUT]) == {"path": "a"} and "<redacted>" in tool.attributes[OUTPUT]
    assert trace_runs.SECRET not in json.dumps([span.attributes for span in spans])


def test_keys_of_the_environment_are_masked_whatever_they_look_like(
    rig: LangfuseRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ACME_API_KEY", "plain-words-as-a-key")
    hooks, ids = rig.hooks(), {"session_id": "s", "turn_id": "t"}
    fire(hooks, "pre_llm_call", **ids, user_message="Use plain-words-as-a-key.", platform="cli")
    fire(hooks, "on_session_end", **ids, completed=True, interrupted=False)
    [turn] = rig.collect().spans
    assert turn.attributes[INPUT] == "Use <redacted:ACME_API_KEY>."


def test_generations_have_model_parameters_usage_and_cost(rig: LangfuseRig) -> None:
    hooks, ids = rig.hooks(), {"session_id": "s", "turn_id": "t"}
    body = {"model": "m", "temperature": 0.5, "reasoning": {"effort": "low"}, "system": "Be kind.", "stop": ["."]}
    fire(hooks, "pre_llm_call", **ids, sender_id="ann", platform="telegram")
    fire(hooks, "pre_api_request", **ids, api_request_id="a", model="m", max_tokens=9, request={"body": body})
    usage = {
        "input_tokens": 60,
        "output_tokens": 7,
        "cache_read_tokens": 40,
        "cache_write_tokens": 5,
        "reasoning_tokens": 3,
    }
    answer = {"api_request_id": "a", "usage": usage, "cost_usd": 0.25, "response_model": "m-2026"}
    fire(hooks, "post_api_request", **ids, **answer)
    fire(hooks, "on_session_end", **ids, completed=True)
    turn, generation = rig.collect().spans
    assert generation.attributes["langfuse.observation.model.name"] == "m-2026"
    assert json.loads(generation.attributes[PARAMETERS]) == {
        "max_tokens": 9,
        "temperature": 0.5,
        "reasoning.effort": "low",
        "stop": ["."],
    }
    assert json.loads(generation.attributes[USAGE]) == {
        "input": 60,
        "input_cached_tokens": 40,
        "input_cache_creation": 5,
        "output": 4,
        "output_reasoning_tokens": 3,
        "total": 112,
    }
    assert json.loads(generation.attributes[COST]) == {"total": 0.25}
    assert not {USAGE, COST} & turn.attributes.keys()  # the server adds up those of the generations
    assert {span.attributes["user.id"] for span in (turn, generation)} == {"ann"}


def test_the_parameters_of_real_requests(rig: LangfuseRig) -> None:
    trace_runs.thinking(rig)
    _, generation = rig.collect().spans
    assert json.loads(generation.attributes[PARAMETERS])["stream"] is True
    assert json.loads(generation.attributes[USAGE])["output_reasoning_tokens"] == 3
    assert COST not in generation.attributes  # nobody knows the price


def test_children_are_inside_the_call_and_in_the_session_of_the_trace(rig: LangfuseRig) -> None:
    run = trace_runs.delegated_children(rig)
    spans = rig.collect().spans
    assert len({span.trace_id for span in spans}) == 1
    assert {span.attributes["session.id"] for span in spans} == {run.live.id}
    (call,) = [span for span in spans if span.name == "delegate_task"]
    children = inside(call, spans)
    assert kinds(children) == [("agent", "hermes sub-agent")] * 2
    assert {metadata(child)["session_id"] for child in children} == {child.id for child in run.live.children}
    assert {metadata(child)["role"] for child in children} == {"leaf"}
    for child in children:
        names = [span.name for span in inside(child, spans)]
        assert names == ["chat scripted", "terminal", "chat scripted"]


def test_parallel_calls_stay_apart(rig: LangfuseRig) -> None:
    trace_runs.parallel_tools_reversed(rig)
    by_name = {span.name: span for span in rig.collect().spans}
    first, second = by_name["wait"], by_name["hurry"]
    assert first.parent_id == second.parent_id and second.ended <= first.ended
    assert (json.loads(first.attributes[OUTPUT]), json.loads(second.attributes[OUTPUT])) == (
        {"who": "first"},
        {"who": "second"},
    )
    assert metadata(first)["tool_call_id"] != metadata(second)["tool_call_id"]


@pytest.mark.parametrize("restarts", [False, True])
def test_a_call_that_waits_is_one_observation(rig: LangfuseRig, restarts: bool) -> None:
    trace_runs.answered_later(rig, restarts=restarts)
    spans = rig.collect().spans
    [turn], [call] = ([span for span in spans if span.name == name] for name in ("hermes turn", "terminal"))
    assert {span.trace_id for span in spans} == {turn.trace_id} and call.parent_id == turn.span_id
    assert [span.name for span in spans if span.attributes.get("langfuse.observation.level") == "ERROR"] == []
    answers = [span for span in spans if span.name == "approval response"]
    assert [span.attributes["langfuse.observation.output"] for span in answers] == ["once"]


@pytest.mark.parametrize(("scenario", "choice", "level"), [("approval", "once", None), ("denied", "deny", "WARNING")])
def test_approvals_are_events_of_the_call(rig: LangfuseRig, scenario: str, choice: str, level: str | None) -> None:
    getattr(trace_runs, scenario)(rig)
    spans = rig.collect().spans
    (call,) = [span for span in spans if span.name == "terminal"]
    asked, answered = inside(call, spans)
    assert kinds([asked, answered]) == [("event", "approval request"), ("event", "approval response")]
    assert asked.started == asked.ended <= answered.started == answered.ended
    assert metadata(answered)["choice"] == choice and metadata(asked)["rule"] == metadata(answered)["rule"]
    assert call.attributes.get(LEVEL) == level and call.status == 0  # nothing failed: somebody said no
    assert answered.attributes[LEVEL] == (level or "DEFAULT")


def test_every_attempt_is_a_generation(rig: LangfuseRig) -> None:
    trace_runs.error_and_retry(rig)
    turn, failed, answered = rig.collect().spans
    assert kinds([failed, answered]) == [("generation", "chat scripted")] * 2
    assert failed.attributes[LEVEL] == "ERROR" and failed.attributes[MESSAGE].startswith("overloaded: ")
    assert "<redacted>" in failed.attributes[MESSAGE] and trace_runs.SECRET not in failed.attributes[MESSAGE]
    assert (metadata(failed)["status_code"], metadata(failed)["attempt"]) == (503, 1)
    assert USAGE not in failed.attributes and USAGE in answered.attributes
    assert LEVEL not in turn.attributes


@pytest.mark.parametrize(
    ("scenario", "level", "message"),
    [("final_error", "ERROR", "no such thing"), ("interrupted_turn", "WARNING", "stop"), ("compaction", None, "")],
)
def test_the_root_always_ends_and_says_how(rig: LangfuseRig, scenario: str, level: str | None, message: str) -> None:
    getattr(trace_runs, scenario)(rig)
    spans = rig.collect().spans
    roots = [span for span in spans if not span.parent_id]
    assert roots and {root.attributes.get(LEVEL) for root in roots} == {level}
    assert message in roots[0].attributes.get(MESSAGE, "")
    assert {span.parent_id for span in spans} <= {"", *(span.span_id for span in spans)}


def test_what_never_ends_is_closed_with_its_session(rig: LangfuseRig) -> None:
    hooks, ids = rig.hooks(), {"session_id": "s", "turn_id": "t"}
    fire(hooks, "pre_llm_call", **ids)
    fire(hooks, "pre_tool_call", **ids, tool_call_id="c", tool_name="terminal")
    fire(hooks, "on_session_finalize", session_id="s", reason="session_boundary")
    turn, tool = rig.collect().spans
    assert (turn.attributes[LEVEL], metadata(turn)["status"]) == ("ERROR", "abandoned")
    assert tool.attributes[MESSAGE] == "the turn ended first"


def test_a_child_that_crashes_leaves_nothing_open(rig: LangfuseRig) -> None:
    hooks, ids = rig.hooks(), {"session_id": "s", "turn_id": "t"}
    fire(hooks, "pre_llm_call", **ids)
    fire(hooks, "pre_tool_call", **ids, tool_call_id="c", tool_name="delegate_task")
    fire(hooks, "subagent_start", **ids, tool_call_id="c", child_session_id="child", child_role="leaf")
    fire(hooks, "pre_llm_call", session_id="child", turn_id="u")
    fire(hooks, "pre_api_request", session_id="child", turn_id="u", api_request_id="a", model="m")
    fire(hooks, "subagent_stop", **ids, tool_call_id="c", child_session_id="child", child_status="error")
    fire(hooks, "post_tool_call", **ids, tool_call_id="c", tool_name="delegate_task", status="error")
    fire(hooks, "on_session_end", **ids, completed=True)
    turn, tool, child, request = rig.collect().spans
    assert (tool.parent_id, child.parent_id, request.parent_id) == (turn.span_id, tool.span_id, child.span_id)
    assert child.attributes[MESSAGE] == "the child agent ended first: error" and LEVEL not in turn.attributes


def test_a_process_that_exits_in_the_middle_of_a_turn_ends_it(rig: LangfuseRig) -> None:
    hooks = rig.hooks()
    fire(hooks, "pre_llm_call", session_id="s", turn_id="t")
    rig.tracing.finish()  # what the interpreter calls when it exits
    assert rig.server.span("hermes turn").attributes[MESSAGE] == "the process ended first"


def test_a_turn_that_another_process_began_has_a_root_too(rig: LangfuseRig) -> None:
    hooks, ids = rig.hooks(), {"session_id": "s", "turn_id": "t"}
    fire(hooks, "post_tool_call", **ids, tool_call_id="c", tool_name="terminal", status="timeout", duration_ms=50)
    fire(hooks, "on_session_end", **ids, completed=True)
    turn, tool = sorted(rig.collect().spans, key=lambda span: span.parent_id)
    assert tool.parent_id == turn.span_id and tool.attributes[LEVEL] == "ERROR"
    assert 40e6 < tool.ended - tool.started < 1e9


def test_two_sessions_at_once_do_not_mix(rig: LangfuseRig) -> None:
    sessions = trace_runs.two_at_once(rig)
    spans = rig.collect().spans
    assert len(spans) == 8 and len({span.trace_id for span in spans}) == 2
    for session in sessions:
        own = [span for span in spans if span.attributes["session.id"] == session.id]
        assert len({span.trace_id for span in own}) == 1
        assert [span.name for span in inside(own[0], own)] == ["chat scripted", "wait", "chat scripted"]


def test_it_speaks_the_protocol(rig: LangfuseRig, keys: tuple[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "x-collector-key=for-another-one")
    trace_runs.thinking(rig)
    path, headers = rig.collect().requests[0]
    assert path == PATH and headers["content-encoding"] == "gzip"
    assert headers["x-langfuse-public-key"] == keys[0] and headers["x-langfuse-ingestion-version"] == "4"
    assert "x-collector-key" not in headers


def test_events_are_taken_at_once(rig: LangfuseRig) -> None:
    hooks = rig.hooks()
    history = [{"role": "user", "content": f"key {trace_runs.SECRET} " * 20_000}]
    held = threading.Event()
    vars(rig.tracing)["_queue"].put(lambda: held.wait(HANG))
    fire(hooks, "pre_api_request", session_id="s", turn_id="t", api_request_id="a", conversation_history=history)
    fire(hooks, "on_session_end", session_id="s", turn_id="t", completed=True)
    held.set()  # all events were taken while the thread that sends them could do nothing
    generation = rig.collect().span("chat")
    assert generation.attributes[INPUT].count("<redacted>") == 20_000
