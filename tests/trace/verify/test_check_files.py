"""The checkers of files: what is taken out of a whole one, doubled or changed, is named."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from hermes.trace.formats.atif import document
from hermes.trace.formats.atof import events
from hermes.trace.verify.atif import check_atif
from hermes.trace.verify.atof import check_atof
from hermes.trace.verify.session import verify_file
from support.trace_runs import Run

Document = dict[str, Any]
Change = Callable[[Any], Any]


def plain(value: object) -> Any:
    return msgspec.json.decode(msgspec.json.encode(value))


def delegating(made: Document) -> Document:
    return made["steps"][2]


def result_of(made: Document) -> Document:
    return delegating(made)["observation"]["results"][0]


TRAJECTORY_CHANGES: list[tuple[Change, str]] = [
    (lambda made: made.pop("agent"), "agent is missing"),
    (lambda made: made["agent"].pop("version"), "version is missing"),
    (lambda made: made.update(schema_version="ATIF-v1.6"), "expected 'ATIF-v1.7'"),
    (lambda made: made.update(colour="red"), "'colour' is not a field"),
    (lambda made: made["steps"].clear(), "steps: there is none"),
    (lambda made: delegating(made).update(step_id=9), "step_id is 9, expected 3"),
    (lambda made: made["steps"][1].update(source="robot"), "source is 'robot'"),
    (lambda made: made["steps"][1].update(model_name="m"), "model_name belongs to steps of the agent only"),
    (lambda made: delegating(made).update(llm_call_count=0), "no model was called"),
    (lambda made: delegating(made)["tool_calls"][0].update(arguments="{}"), "arguments are not an object"),
    (lambda made: delegating(made)["tool_calls"].clear(), "the result of call_d belongs to no call"),
    (lambda made: delegating(made)["tool_calls"].append(delegating(made)["tool_calls"][0]), "is there 2 times"),
    (lambda made: delegating(made).pop("observation"), "call call_d has 0 results"),
    (lambda made: result_of(made).pop("subagent_trajectory_ref"), "is referenced 0 times"),
    (lambda made: result_of(made)["subagent_trajectory_ref"][0].pop("trajectory_id"), "neither trajectory_id"),
    (lambda made: made["subagent_trajectories"].pop(), "is referenced and not embedded"),
    (lambda made: made["subagent_trajectories"][0].pop("trajectory_id"), "has no trajectory_id"),
    (lambda made: made["subagent_trajectories"][0]["steps"].clear(), "steps: there is none"),
    (lambda made: made["final_metrics"].update(total_steps=1), "total_steps is 1, there are 4"),
    (lambda made: made["final_metrics"].update(total_prompt_tokens=1), "the steps have 200"),
    (lambda made: made["final_metrics"].update(total_cost_usd=3.0), "total_cost_usd is 3.0"),
]


@pytest.mark.parametrize(("change", "complaint"), TRAJECTORY_CHANGES)
def test_what_is_wrong_with_a_trajectory_is_named(family_run: Run, change: Change, complaint: str) -> None:
    made = plain(document(family_run.stored))
    assert check_atif(made) == []
    change(made)
    found = check_atif(made)
    assert any(complaint in line for line in found), found


def of(stream: list[Document], category: str, phase: str) -> Document:
    return next(one for one in stream if one.get("category") == category and one["scope_category"] == phase)


STREAM_CHANGES: list[tuple[Change, str]] = [
    (lambda stream: stream.remove(of(stream, "tool", "end")), "has a start and no end"),
    (lambda stream: stream.remove(of(stream, "tool", "start")), "has an end and no start"),
    (lambda stream: stream.append(copy.deepcopy(of(stream, "llm", "end"))), "end is there twice"),
    (lambda stream: of(stream, "llm", "end").update(name="x"), "start and end differ in name"),
    (lambda stream: of(stream, "llm", "start").update(timestamp="2999-01-01T00:00:00Z"), "does not end later"),
    (lambda stream: of(stream, "tool", "end").update(timestamp="2999-01-01T00:00:00Z"), "is not within"),
    (lambda stream: of(stream, "tool", "start").update(timestamp=1), "starts before the answer"),
    (lambda stream: stream.remove(of(stream, "agent", "start")), "is not in the stream"),
    (lambda stream: stream[0].update(kind="span"), "kind is 'span'"),
    (lambda stream: stream[0].update(atof_version="1.0"), "atof_version is '1.0'"),
    (lambda stream: stream[0].pop("uuid"), "uuid is missing"),
    (lambda stream: stream[0].pop("parent_uuid"), "parent_uuid is missing"),
    (lambda stream: stream[0].update(timestamp="2026-01-01T00:00:00"), "timestamp is '2026-01-01T00:00:00'"),
    (lambda stream: stream[0].update(timestamp=True), "timestamp is True"),
    (lambda stream: stream[0].update(scope_category="middle"), "scope_category is 'middle'"),
    (lambda stream: stream[0].update(attributes=["b", "a"]), "are not a sorted list"),
    (lambda stream: stream[0].update(category="custom"), "needs category_profile.subtype"),
    (lambda stream: stream[1].update(attributes=[]), "a mark has neither"),
]


@pytest.mark.parametrize(("change", "complaint"), STREAM_CHANGES)
def test_what_is_wrong_with_a_stream_is_named(family_run: Run, change: Change, complaint: str) -> None:
    stream = plain(events(family_run.stored))
    assert check_atof(map(msgspec.json.encode, stream)) == []
    change(stream)
    found = check_atof(map(msgspec.json.encode, stream))
    assert any(complaint in line for line in found), found


def test_two_scopes_of_one_request_are_named(family_run: Run) -> None:
    stream = plain(events(family_run.stored))
    for event in stream:
        if event.get("category") == "llm":
            event["metadata"]["api_request_id"] = "same"
    assert any("model call same has 2 scopes" in line for line in check_atof(map(msgspec.json.encode, stream)))


@pytest.mark.parametrize(
    ("data", "form", "complaint"),
    [
        (b"{", "", "no JSON document"),
        (b'{"resourceSpans": []}', "", "neither an ATIF document"),
        (b"[]", "atif", "is not a JSON object"),
        (b"{", "atif", "no JSON document"),
        (b"{", "atof", "line 1: no JSON"),
        (b"[]", "atof", "line 1: no JSON object"),
        (b'{"atof_version": "0.1"}', "", "line 1: kind is None"),
        (b'{"schema_version": "ATIF-v1.7"}', "", "agent is missing"),
        (b"\xff\xfe", "atof", "no JSON"),
    ],
)
def test_files_are_told_apart(data: bytes, form: str, complaint: str) -> None:
    found = verify_file(data, form)
    assert any(complaint in line for line in found), found
