"""The public event recorder: what it keeps, and which starts and ends it finds unmatched."""

from __future__ import annotations

import threading
from collections.abc import Generator
from typing import Any

import pytest

from hermes.contract.hooks import HOOKS, PAIRS
from hermes.contract.middleware import MIDDLEWARE
from hermes.hooks.table import Hooks
from hermes.testing.recorder import EventRecorder, Unbalanced


@pytest.fixture
def hooks() -> Generator[Hooks]:
    table = Hooks()
    yield table
    table.close()


def emit(hooks: Hooks, hook: str, **payload: Any) -> None:
    getattr(hooks, hook).invoke(**payload)


def test_every_hook_and_kind_is_recorded_in_order(hooks: Hooks) -> None:
    recorder = EventRecorder().attach(hooks)
    for name in HOOKS:
        emit(hooks, name, session_id="s")
    assert hooks.tool_request is not None
    assert hooks.tool_execution is not None
    assert hooks.tool_request.run({"a": 1}, {}).changed is False
    assert hooks.tool_execution.run({"a": 1}, lambda args: args["a"] + 1, {}) == 2
    in_order = [name for name, spec in HOOKS.items() if not spec.is_queued]
    assert recorder.names() == in_order
    assert recorder.names(middleware=True) == [*in_order, "tool_request", "tool_execution"]
    assert sorted(recorder.names(streams=True)) == sorted(HOOKS)
    assert recorder.of("tool_execution")[0]["args"] == {"a": 1}
    assert recorder.of("on_session_end") == [{"session_id": "s", "telemetry_schema_version": "hermes.observer.v1"}]
    recorder.clear()
    assert recorder.events == []


def test_what_is_recorded_does_not_change_afterwards(hooks: Hooks) -> None:
    recorder = EventRecorder().attach(hooks)
    args: dict[str, Any] = {"list": [1]}
    emit(hooks, "post_tool_call", args=args)
    args["list"].append(2)
    assert recorder.of("post_tool_call")[0]["args"] == {"list": [1]}


def test_balanced_pairs_are_not_reported(hooks: Hooks) -> None:
    recorder = EventRecorder().attach(hooks)
    for pair in PAIRS:
        for end in pair.ends:
            key = {field: f"{end} {field}" for field in pair.key}
            emit(hooks, pair.start, **key)
            emit(hooks, end, **key)
    assert recorder.pairs_unbalanced() == []


def test_missing_double_and_orphaned_ends_are_reported(hooks: Hooks) -> None:
    recorder = EventRecorder().attach(hooks)
    for count, request in ((0, "open"), (1, "fine"), (2, "double")):
        emit(hooks, "pre_api_request", api_request_id=request)
        for _ in range(count):
            emit(hooks, "post_api_request", api_request_id=request)
    emit(hooks, "api_request_error", api_request_id="double")
    emit(hooks, "subagent_stop", child_session_id="orphan")
    assert recorder.pairs_unbalanced() == [
        Unbalanced("pre_api_request", ("open",), 1, 0),
        Unbalanced("pre_api_request", ("double",), 1, 3),
        Unbalanced("subagent_start", ("orphan",), 0, 1),
    ]


def test_payloads_are_held_against_the_contract(hooks: Hooks) -> None:
    recorder = EventRecorder().attach(hooks)
    whole = {field.name: None for field in HOOKS["post_approval_response"].fields if field.name != "decided_by"}
    emit(hooks, "post_approval_response", **whole)
    assert recorder.contract_violations() == []
    emit(hooks, "on_session_start", session_id="s", model="m", mood="good")
    assert recorder.contract_violations() == [
        "on_session_start: mood is not in the contract",
        "on_session_start: platform is missing",
    ]
    assert hooks.tool_execution is not None
    spec = MIDDLEWARE["tool_execution"]
    context = {field.name: None for field in spec.fields if field.name not in ("args", "next_call", "tool_name")}
    hooks.tool_execution.run({}, lambda args: 1, context)
    assert recorder.contract_violations()[2:] == ["tool_execution: tool_name is missing"]


def test_waiting_for_events_of_other_threads(hooks: Hooks) -> None:
    recorder = EventRecorder().attach(hooks)
    workers = [
        threading.Thread(target=emit, args=(hooks, "post_tool_call"), kwargs={"tool_name": str(number)})
        for number in range(8)
    ]
    for worker in workers:
        worker.start()
    assert len(recorder.wait_for("post_tool_call", 8)) == 8
    for worker in workers:
        worker.join()
    with pytest.raises(TimeoutError, match=r"post_tool_call fired 8 times within 0\.01 s, not 9"):
        recorder.wait_for("post_tool_call", 9, timeout=0.01)
