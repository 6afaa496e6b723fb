"""Traces that begin elsewhere or go on elsewhere: ``traceparent``, and the application that Hermes is part of."""

from __future__ import annotations

import pytest
from opentelemetry import trace

from hermes.testing import ScriptedProvider, text
from hermes.trace.parent import incoming, joined
from support import trace_runs
from support.otel_rig import TracedRig
from support.trace_runs import USAGE

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
PARENT = f"00-{TRACE}-{SPAN}-01"


def test_a_process_that_was_started_in_a_trace_goes_on_with_it(rig: TracedRig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRACEPARENT", PARENT)
    trace_runs.delegated_children(rig)
    spans = rig.collect().spans
    assert {span.trace_id for span in spans} == {TRACE}
    assert [span.name for span in spans if span.parent_id == SPAN] == ["invoke_agent hermes"]


def test_a_trace_that_was_sampled_out_elsewhere_stays_so(rig: TracedRig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRACEPARENT", f"00-{TRACE}-{SPAN}-00")
    trace_runs.thinking(rig)
    assert rig.collect().spans == []


@pytest.mark.parametrize("broken", ["hello", f"00-{'0' * 32}-{SPAN}-01", f"00-{TRACE}-{SPAN}", ""])
def test_a_parent_that_is_not_valid_is_as_good_as_none(
    rig: TracedRig, monkeypatch: pytest.MonkeyPatch, broken: str
) -> None:
    monkeypatch.setenv("TRACEPARENT", broken)
    trace_runs.thinking(rig)
    root = rig.collect().spans[0]
    assert root.parent_id == "" and root.trace_id != TRACE


def test_a_served_request_brings_its_own_parent(rig: TracedRig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRACEPARENT", f"00-{'1' * 32}-{'2' * 16}-01")
    host = rig.host("fine")
    session = host.new_session()
    with joined(PARENT, "vendor=x"):
        session.run("one")
    with joined(""):
        session.run("two")
    assert incoming() == {}
    roots = [span for span in rig.collect().spans if span.name == "invoke_agent hermes"]
    assert [(span.trace_id, span.parent_id) for span in roots] == [(TRACE, SPAN), ("1" * 32, "2" * 16)]


def test_a_turn_is_inside_the_span_of_the_code_that_runs_it(rig: TracedRig) -> None:
    host = rig.host("fine")
    outer = trace.SpanContext(int(TRACE, 16), int(SPAN, 16), is_remote=False, trace_flags=trace.TraceFlags(1))
    with trace.use_span(trace.NonRecordingSpan(outer)):
        host.new_session().run("one")
    root = rig.collect().span("invoke_agent hermes")
    assert (root.trace_id, root.parent_id) == (TRACE, SPAN)


@pytest.mark.parametrize("wanted", ["1", "0"])
def test_requests_carry_the_trace_only_when_asked_to(
    rig: TracedRig, monkeypatch: pytest.MonkeyPatch, wanted: str
) -> None:
    monkeypatch.setenv("HERMES_OTEL_PROPAGATE", wanted)
    provider = rig.stack.enter_context(ScriptedProvider([text("fine", usage=USAGE)]))
    from hermes.base.config import Config, ModelConfig

    model = ModelConfig(provider="custom", default="scripted", base_url=provider.base_url, api_key="test-key")
    rig.host_for(Config(model=model)).new_session().run("one")
    request = rig.collect().span("chat scripted")
    carried = provider.requests[0].headers.get("traceparent")
    assert (carried or "")[:-2] == (f"00-{request.trace_id}-{request.span_id}-" if wanted == "1" else "")
