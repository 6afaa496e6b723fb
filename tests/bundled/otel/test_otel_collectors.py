"""Collectors that are slow, ill or away: no turn waits for them, and somebody is told."""

from __future__ import annotations

import logging
import os
import socket
from contextlib import ExitStack
from pathlib import Path

import pytest

from hermes.testing import OtlpReceiver
from support import trace_runs
from support.otel_rig import TracedRig
from support.waiting import finish


def test_a_collector_that_never_answers_costs_a_turn_nothing_and_the_end_only_so_much(
    home: Path, workdir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # With 35 sessions, waiting so long for each of them would be taken for a hang.
    monkeypatch.setenv("HERMES_OTEL_FLUSH_SECONDS", "2")
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "20")
    with ExitStack() as stack:
        receiver = stack.enter_context(OtlpReceiver(0))
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", receiver.url)
        inner = stack.enter_context(ExitStack())
        rig = TracedRig(home, workdir, inner, receiver)
        host = rig.host("fine")
        session = host.new_session()
        session.run("one")
        receiver.wait_for_request()  # the worker hangs from here on
        for _ in range(5):
            assert finish(lambda: session.run("more")).answer == "fine"
        for _ in range(34):
            finish(lambda: host.new_session().run("hello"))
        finish(host.close)  # it waits once for all sessions
        pipeline = rig.pipeline
        assert pipeline is not None
        (traces, _) = pipeline.health
        assert traces.events_in == 80 and traces.events_out == 0 and traces.events_failed == 80
        assert "not sent within 2 s" in traces.last_error
        receiver.release()


def test_a_collector_that_is_away_is_told_of_once_and_not_on_the_terminal(
    home: Path,
    workdir: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://user:hunter2hunter2@127.0.0.1:{port}")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "1")
    monkeypatch.setenv("OTEL_METRICS_EXPORTER", "none")
    with ExitStack() as stack, caplog.at_level(logging.WARNING, "hermes.trace"), OtlpReceiver() as unused:
        rig = TracedRig(home, workdir, stack, unused)
        trace_runs.thinking(rig)
        rig.collect()
        assert rig.pipeline is not None
        (traces,) = rig.pipeline.health
        assert (traces.events_in, traces.events_out, traces.events_failed) == (2, 0, 2)
        assert traces.target == f"http://127.0.0.1:{port}"
        trace_runs.thinking(rig)
        rig.collect()
    told = [record.getMessage() for record in caplog.records if record.name.startswith("hermes.trace")]
    assert told and len(told) == len(set(told))
    assert all(line.endswith(".") for line in told), "whole, and not cut in a word"
    assert "hunter2" not in str(told) + traces.last_error
    assert capfd.readouterr().err == ""


def test_a_collector_that_was_busy_gets_everything_later(
    home: Path, workdir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_METRICS_EXPORTER", "none")
    with OtlpReceiver(503, 200) as receiver, ExitStack() as stack:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", receiver.url)
        rig = TracedRig(home, workdir, stack, receiver)
        trace_runs.thinking(rig)
        rig.collect()
        assert len(receiver.wait_for_spans(2)) == 2
        assert rig.pipeline is not None
        assert rig.pipeline.health[0].events_out == 2 and rig.pipeline.health[0].events_failed == 0


def test_what_a_collector_refuses_counts_as_lost(home: Path, workdir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with OtlpReceiver(400) as receiver, ExitStack() as stack:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", receiver.url)
        rig = TracedRig(home, workdir, stack, receiver)
        trace_runs.thinking(rig)
        rig.collect()
        assert rig.pipeline is not None
        traces, metrics = rig.pipeline.health
        assert (traces.events_in, traces.events_failed) == (2, 2) and "400" in traces.last_error
        assert metrics.events_failed == 1 and metrics.target.endswith("(metrics)")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_fork_sends_its_own_spans_and_no_others(rig: TracedRig) -> None:
    hooks = rig.hooks()
    assert hooks.pre_llm_call is not None and hooks.on_session_end is not None
    hooks.pre_llm_call.invoke(session_id="parent", turn_id="p")
    hooks.on_session_end.invoke(session_id="parent", turn_id="p", completed=True)
    child = os.fork()
    if child == 0:
        try:
            hooks.pre_llm_call.invoke(session_id="child", turn_id="c")
            hooks.on_session_end.invoke(session_id="child", turn_id="c", completed=True)
            rig.collect()
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    sessions = [span.attributes["session.id"] for span in rig.collect().spans]
    assert sorted(sessions) == ["child", "parent"]
