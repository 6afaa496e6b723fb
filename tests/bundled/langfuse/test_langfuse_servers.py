"""Servers that are slow, ill or away, and others who trace in the same process."""

from __future__ import annotations

import logging
import os
import socket
import threading
from contextlib import ExitStack
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
from langfuse import Langfuse
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from hermes.bundled.observability.otel.pipeline import OtelTracing, OwnPipeline
from hermes.bundled.observability.otel.settings import read_settings as read_otel_settings
from hermes.testing import OtlpReceiver
from support import trace_runs
from support.langfuse_rig import LangfuseRig, LangfuseServer
from support.otel_rig import HookContext, env_redactor
from support.waiting import finish


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name.startswith("hermes.")]


def counts(rig: LangfuseRig) -> tuple[int, int, int]:
    assert rig.tracing.pipeline is not None
    health = rig.tracing.pipeline.health
    return health.events_in, health.events_out, health.events_failed


def last_error(rig: LangfuseRig) -> str:
    assert rig.tracing.pipeline is not None
    return rig.tracing.pipeline.health.last_error


def test_what_is_sent_is_counted(rig: LangfuseRig) -> None:
    trace_runs.one_tool(rig)
    rig.collect()
    assert counts(rig) == (4, 4, 0) and last_error(rig) == ""


def test_a_server_that_never_answers_costs_a_turn_nothing_and_the_end_only_so_much(
    home: Path, workdir: Path, monkeypatch: pytest.MonkeyPatch, keys: tuple[str, str]
) -> None:
    # With 35 sessions, waiting so long for each of them would be taken for a hang.
    monkeypatch.setenv("HERMES_LANGFUSE_FLUSH_SECONDS", "2")
    monkeypatch.setenv("LANGFUSE_FLUSH_INTERVAL", "0.02")
    with LangfuseServer(*keys, 0) as server, ExitStack() as stack:
        monkeypatch.setenv("LANGFUSE_HOST", server.url)
        rig = LangfuseRig(home, workdir, stack, server)
        host = rig.host("fine")
        session = host.new_session()
        session.run("one")
        server.wait_for_request()  # the thread that sends hangs from here on
        for _ in range(5):
            assert finish(lambda: session.run("more")).answer == "fine"
        for _ in range(34):
            finish(lambda: host.new_session().run("hello"))
        finish(host.close)  # it waits once for all sessions
        assert counts(rig) == (80, 0, 80) and "not sent within 2 s" in last_error(rig)
        server.release()


def test_wrong_keys_are_told_once_and_never_shown(
    rig: LangfuseRig, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("LANGFUSE_SECRET_KEY", "sk-lf-of-another-project")
    with caplog.at_level(logging.WARNING, "hermes"):
        for _ in range(2):
            trace_runs.thinking(rig)
            rig.collect()
    assert counts(rig) == (4, 0, 4)
    (told,) = warnings(caplog)
    assert "the keys are not accepted; check LANGFUSE_PUBLIC_KEY" in told and "401" in told
    assert "sk-lf-of-another-project" not in caplog.text + last_error(rig)


def test_a_server_that_is_away_is_told_of_once_and_not_on_the_terminal(
    home: Path,
    workdir: Path,
    monkeypatch: pytest.MonkeyPatch,
    keys: tuple[str, str],
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    monkeypatch.setenv("LANGFUSE_BASE_URL", f"http://me:hunter2hunter2@127.0.0.1:{port}")
    monkeypatch.setenv("LANGFUSE_TIMEOUT", "1")
    with ExitStack() as stack, caplog.at_level(logging.WARNING, "hermes"), LangfuseServer(*keys) as unused:
        rig = LangfuseRig(home, workdir, stack, unused)
        for _ in range(2):
            trace_runs.thinking(rig)
            rig.collect()
        assert counts(rig) == (4, 0, 4)
    (told,) = warnings(caplog)
    assert f"http://127.0.0.1:{port}" in told and "hunter2" not in told + last_error(rig)
    assert capfd.readouterr().err == ""


def test_a_server_that_was_busy_gets_everything_later(
    home: Path, workdir: Path, monkeypatch: pytest.MonkeyPatch, keys: tuple[str, str]
) -> None:
    with LangfuseServer(*keys, 503, 200) as server, ExitStack() as stack:
        monkeypatch.setenv("LANGFUSE_HOST", server.url)
        rig = LangfuseRig(home, workdir, stack, server)
        trace_runs.thinking(rig)
        rig.collect()
        assert len(server.spans) == 2 and counts(rig) == (2, 2, 0)


def test_a_redirection_is_no_success(
    home: Path, workdir: Path, monkeypatch: pytest.MonkeyPatch, keys: tuple[str, str]
) -> None:
    class Elsewhere(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["content-length"]))
            self.send_response(308)
            self.send_header("location", "https://elsewhere.example/")
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002  (the library's name)
            del format, args

    with HTTPServer(("127.0.0.1", 0), Elsewhere) as http, ExitStack() as stack, LangfuseServer(*keys) as unused:
        thread = threading.Thread(target=http.serve_forever, args=(0.05,))
        thread.start()
        stack.callback(thread.join)
        stack.callback(http.shutdown)
        monkeypatch.setenv("LANGFUSE_HOST", f"http://127.0.0.1:{http.server_port}")
        rig = LangfuseRig(home, workdir, stack, unused)
        trace_runs.thinking(rig)
        rig.collect()
        assert counts(rig) == (2, 0, 2)
        assert "redirects to https://elsewhere.example/; set LANGFUSE_BASE_URL" in last_error(rig)


def test_it_and_the_otel_plugin_do_not_see_each_other(rig: LangfuseRig, monkeypatch: pytest.MonkeyPatch) -> None:
    with OtlpReceiver() as collector:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
        monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "team=blue")
        monkeypatch.setenv("OTEL_TRACES_SAMPLER", "always_on")
        monkeypatch.setenv("OTEL_SPAN_ATTRIBUTE_VALUE_LENGTH_LIMIT", "200")
        settings = read_otel_settings(os.environ, {})
        other = OwnPipeline(settings, "observability/otel", "1.0")
        outer = trace.SpanContext(7, 8, is_remote=False, trace_flags=trace.TraceFlags(1))
        join = rig.host_for

        def with_both(config: object, **options: object) -> object:
            host = join(config, **options)  # pyright: ignore[reportArgumentType]
            OtelTracing(lambda: other, settings, env_redactor()).join(HookContext(host.hooks))
            return host

        monkeypatch.setattr(rig, "host_for", with_both)
        with trace.use_span(trace.NonRecordingSpan(outer)):  # the code that runs the turn has a trace of its own
            trace_runs.delegated_children(rig)
        other.flush(10)
        other.close()
        spans, others = rig.collect().spans, collector.spans
    assert len(spans) == len(others) == 12
    assert {span.span_id for span in spans}.isdisjoint(span.span_id for span in others)
    assert {span.trace_id for span in others} == {f"{7:032x}"} and len({span.trace_id for span in spans}) == 1
    assert [span.name for span in spans if not span.parent_id] == ["hermes turn"]
    assert {span.parent_id for span in spans} <= {"", *(span.span_id for span in spans)}
    assert all(span.resource == {"service.name": "hermes"} for span in spans)
    assert not any(name.startswith("gen_ai") for span in spans for name in span.attributes)
    assert spans[0].attributes["langfuse.trace.name"] == "hermes turn"


def test_an_application_keeps_its_own_client_for_the_same_keys(rig: LangfuseRig, keys: tuple[str, str]) -> None:
    memory, provider = InMemorySpanExporter(), TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(memory))
    client = Langfuse(
        public_key=keys[0],
        secret_key=keys[1],
        base_url=rig.server.url,
        tracer_provider=provider,
        span_exporter=InMemorySpanExporter(),
    )
    rig.stack.callback(client.shutdown)
    trace_runs.thinking(rig)
    assert [span.name for span in rig.collect().spans] == ["hermes turn", "chat scripted"]
    assert counts(rig) == (2, 2, 0) and memory.get_finished_spans() == ()
    client.start_observation(name="own").end()
    assert [span.name for span in memory.get_finished_spans()] == ["own"]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_fork_sends_its_own_turns(rig: LangfuseRig) -> None:
    hooks = rig.hooks()
    assert hooks.pre_llm_call and hooks.on_session_end
    hooks.pre_llm_call.invoke(session_id="parent", turn_id="p")
    hooks.on_session_end.invoke(session_id="parent", turn_id="p", completed=True)
    rig.collect()
    pid = os.fork()
    if pid == 0:
        hooks.pre_llm_call.invoke(session_id="child", turn_id="c")
        hooks.on_session_end.invoke(session_id="child", turn_id="c", completed=True)
        rig.tracing.flush(10)
        os._exit(0)
    assert os.waitpid(pid, 0)[1] == 0
    assert sorted(span.attributes["session.id"] for span in rig.server.spans) == ["child", "parent"]
