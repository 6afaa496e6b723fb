"""Metrics: tokens, durations and errors, with few and meaningful attributes."""

from __future__ import annotations

import pytest

from hermes.testing.otlp import ReceivedPoint
from support import trace_runs
from support.otel_rig import TracedRig


def points(rig: TracedRig, name: str) -> list[ReceivedPoint]:
    return [point for point in rig.collect().points if point.name == name]


def test_tokens_and_durations(rig: TracedRig) -> None:
    trace_runs.one_tool(rig)
    tokens = {point.attributes["gen_ai.token.type"]: point for point in points(rig, "gen_ai.client.token.usage")}
    assert (tokens["input"].sum, tokens["input"].count) == (200, 2)
    assert (tokens["output"].sum, tokens["output"].count) == (14, 2)
    assert (
        tokens["input"].attributes.items()
        >= {
            "gen_ai.operation.name": "chat",
            "gen_ai.provider.name": "custom",
            "gen_ai.request.model": "scripted",
        }.items()
    )
    names = [point.name for point in rig.receiver.points]
    assert names.count("gen_ai.client.operation.duration") == names.count("gen_ai.execute_tool.duration") == 1
    assert "hermes.errors" not in names


def test_no_ids_among_the_attributes(rig: TracedRig) -> None:
    run = trace_runs.delegated_children(rig)
    seen = str([point.attributes for point in rig.collect().points])
    assert run.live.id not in seen and run.live.turns[0].id not in seen and "call_d" not in seen


@pytest.mark.parametrize(
    ("scenario", "errors"),
    [
        ("error_and_retry", {("chat", "overloaded")}),
        ("final_error", {("chat", "bad_request"), ("invoke_agent", "bad_request")}),
        ("interrupted_turn", set[tuple[str, str]]()),
        ("denied", set[tuple[str, str]]()),
    ],
)
def test_errors_are_counted_by_class(rig: TracedRig, scenario: str, errors: set[tuple[str, str]]) -> None:
    getattr(trace_runs, scenario)(rig)
    found = points(rig, "hermes.errors")
    assert {(one.attributes["gen_ai.operation.name"], one.attributes["error.type"]) for one in found} == errors


def test_metrics_can_be_switched_off(rig: TracedRig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_METRICS_EXPORTER", "none")
    trace_runs.thinking(rig)
    assert len(rig.collect().spans) == 2
    assert {path for path, _ in rig.receiver.requests} == {"/v1/traces"}
