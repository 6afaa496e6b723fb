"""ATOF streams: valid under the published models and under the stricter rules of a whole run."""

from __future__ import annotations

from typing import Any

from nat.atof.events import Event
from pydantic import TypeAdapter

from hermes.trace.formats.atof import events, lines
from hermes.trace.records import AttemptRecord, ModelStep, SessionRecord, ToolStep, TurnRecord
from hermes.trace.verify.atof import check_atof
from support.trace_runs import (
    SECRET,
    Rig,
    Run,
    approval,
    delegated_children,
    error_and_retry,
    parallel_tools_reversed,
    plugin_asks_a_model,
)

EVENT = TypeAdapter[Event](Event)


def named(stream: list[dict[str, Any]], name: str) -> list[dict[str, Any]]:
    return [event for event in stream if event["name"] == name]


def test_every_run_is_valid(run: Run) -> None:
    for record in (run.live, run.stored):
        stream = list(lines(record))
        assert check_atof(stream) == []
        for line in stream:
            EVENT.validate_json(line)
        assert SECRET.encode() not in b"".join(stream)


def test_events_are_in_order_of_time_and_the_same_each_time(run: Run) -> None:
    stream = events(run.stored)
    moments = [event["timestamp"] for event in stream]
    assert moments == sorted(moments)
    assert stream == events(run.stored)


def test_what_a_plugin_asked_is_told_as_that(rig: Rig) -> None:
    record = plugin_asks_a_model(rig).stored
    asked = [event for event in events(record) if event["metadata"].get("purpose") == "plugin:acme"]
    assert [(event["scope_category"], "turn_id" in event["metadata"]) for event in asked] == [
        *[("start", True), ("end", True)],
        *[("start", False), ("end", False)],
    ]
    assert asked[1]["data"] == {"usage": {**asked[3]["data"]["usage"], "total_tokens": 107}}
    assert asked[0]["data"] is None and asked[3]["metadata"]["status"] == "ok"


def test_tools_end_in_the_order_in_which_they_ended(rig: Rig) -> None:
    stream = events(parallel_tools_reversed(rig).stored)
    ends = [event["name"] for event in stream if event.get("category") == "tool" and event["scope_category"] == "end"]
    assert ends == ["hurry", "wait"]


def test_a_child_is_a_scope_inside_its_parents(rig: Rig) -> None:
    run = delegated_children(rig)
    stream = events(run.live)
    starts = [event for event in stream if event.get("category") == "agent" and event["scope_category"] == "start"]
    parent, *children = starts
    assert [child["parent_uuid"] for child in children] == [parent["uuid"]] * 2
    for mark, child in zip(named(stream, "hermes.subagent.start"), children, strict=True):
        metadata = mark["metadata"]
        assert metadata["session_id"] == metadata["child_session_id"] == child["metadata"]["session_id"]
        assert metadata["parent_session_id"] == run.live.id and metadata["tool_call_id"] == "call_d"
        assert metadata["child_role"] == "leaf" and metadata["subagent_id"].startswith("sa-")


def test_every_attempt_is_a_scope(rig: Rig) -> None:
    stream = events(error_and_retry(rig).stored)
    ends = [event for event in stream if event.get("category") == "llm" and event["scope_category"] == "end"]
    assert [end["metadata"]["status"] for end in ends] == ["error", "ok"]
    assert "503" in ends[0]["data"]["error"] and ends[1]["data"]["assistant_message"]["content"] == "ok"


def test_approvals_are_marks(rig: Rig) -> None:
    stream = events(approval(rig).stored)
    [asked], [answered] = named(stream, "hermes.approval.request"), named(stream, "hermes.approval.response")
    assert asked["data"]["rules"] == ["recursive-delete"] and answered["metadata"]["choice"] == "once"


def test_what_has_no_end_is_ended_as_unfinished() -> None:
    tool = ToolStep("c", "terminal", {}, 3.0)
    step = ModelStep(1, [AttemptRecord("r", "p", "m", 2.0, None, "running")], tools=[tool])
    record = SessionRecord("s", started_at=1.0, turns=[TurnRecord("t", "", "go", 1.5, steps=[step])])
    stream = list(lines(record))
    assert check_atof(stream) == []
    assert b"".join(stream).count(b'"unfinished"') == 2


def test_a_call_never_starts_before_the_answer_that_asked_for_it() -> None:
    tool = ToolStep("c", "terminal", {}, 1.9, 1.95, "ok", "{}")
    step = ModelStep(1, [AttemptRecord("r", "p", "m", 1.6, 2.0, "ok")], tools=[tool])
    record = SessionRecord("s", started_at=1.0, turns=[TurnRecord("t", "", "go", 1.5, 3.0, steps=[step])])
    assert check_atof(lines(record)) == []
