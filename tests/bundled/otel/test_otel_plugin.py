"""The plugin as people meet it: enabled in a configuration, run by the real command."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from hermes.testing import OtlpReceiver, ScriptedProvider, text, tool_call
from support import hermes_environment, run_hermes, write_config

ENABLED = "plugins:\n  enabled: [observability/otel]\n"
PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def chat(home: Path, cwd: Path, endpoint: str, **env: str) -> subprocess.CompletedProcess[str]:
    variables = {"OTEL_EXPORTER_OTLP_ENDPOINT": endpoint, **env}
    return run_hermes("chat", "-q", "Read a.", "-Q", home=home, cwd=cwd, env=variables)


def log_of(home: Path) -> str:
    path = home / "logs" / "agent.log"
    return path.read_text() if path.exists() else ""


def test_a_one_shot_chat_arrives_whole_and_doctor_says_so(home: Path, workdir: Path, receiver: OtlpReceiver) -> None:
    (workdir / "a").write_text("a")
    with ScriptedProvider([tool_call("read_file", {"path": "a"}), text("It says a.")]) as provider:
        write_config(home, provider.base_url, ENABLED)
        done = chat(home, workdir, receiver.url, TRACEPARENT=PARENT)
    assert (done.returncode, done.stdout) == (0, "It says a.\n")
    assert [span.name for span in receiver.spans] == [
        "invoke_agent hermes",
        "chat scripted",
        "execute_tool read_file",
        "chat scripted",
    ]
    assert {span.trace_id for span in receiver.spans} == {PARENT.split("-")[1]}
    assert {path for path, _ in receiver.requests} == {"/v1/traces", "/v1/metrics"}
    assert "WARNING" not in log_of(home)
    checked = run_hermes("doctor", home=home, cwd=workdir).stdout
    assert f"{receiver.url}: 4 events in, 4 out" in checked and "(metrics): 1 event in, 1 out" in checked


def test_it_can_be_seen_without_a_collector(home: Path, workdir: Path) -> None:
    with ScriptedProvider("Fine.") as provider:
        write_config(home, provider.base_url, ENABLED)
        env = {"OTEL_TRACES_EXPORTER": "console", "OTEL_METRICS_EXPORTER": "console"}
        done = chat(home, workdir, "http://127.0.0.1:9", **env)
    assert done.stdout == "Fine.\n"
    assert '"name": "invoke_agent hermes"' in done.stderr and '"name": "gen_ai.client.token.usage"' in done.stderr


def test_a_dead_collector_leaves_the_answer_alone(home: Path, workdir: Path) -> None:
    with ScriptedProvider("Fine.") as provider:
        write_config(home, provider.base_url, ENABLED)
        done = chat(home, workdir, "http://127.0.0.1:9", HERMES_OTEL_FLUSH_SECONDS="0.2")
    assert (done.returncode, done.stdout) == (0, "Fine.\n")
    assert done.stderr.startswith("session_id: ") and done.stderr.count("\n") == 1
    assert "opentelemetry: " in log_of(home)


def test_switched_off_by_the_standard_variable(home: Path, workdir: Path, receiver: OtlpReceiver) -> None:
    with ScriptedProvider("Fine.") as provider:
        write_config(home, provider.base_url, ENABLED)
        done = chat(home, workdir, receiver.url, OTEL_SDK_DISABLED="true")
    assert done.stdout == "Fine.\n" and receiver.requests == []


def test_without_the_wheel_there_is_one_line(home: Path, workdir: Path, tmp_path: Path) -> None:
    hidden = tmp_path / "site" / "opentelemetry"
    hidden.mkdir(parents=True)
    (hidden / "__init__.py").write_text("raise ModuleNotFoundError('hidden', name='opentelemetry')\n")
    with ScriptedProvider(["Fine.", "Fine."]) as provider:
        write_config(home, provider.base_url, ENABLED)
        env = {"PYTHONPATH": f"{hidden.parent}:{hermes_environment(home)['PYTHONPATH']}"}
        done = chat(home, workdir, "http://127.0.0.1:9", **env)
    assert (done.returncode, done.stdout) == (0, "Fine.\n")
    lines = [line for line in log_of(home).splitlines() if "hermes install otel" in line]
    assert len(lines) == 1 and "Traceback" not in log_of(home)


APPLICATION = """
import sys
from pathlib import Path
from opentelemetry import trace
from hermes.base.config import Config, ModelConfig, PluginsConfig
from hermes.host import Host

own = sys.argv[2] == "own"
if own:
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    memory = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(memory))
    trace.set_tracer_provider(provider)
model = ModelConfig(provider="custom", default="scripted", base_url=sys.argv[1], api_key="test-key")
config = Config(model=model, plugins=PluginsConfig(enabled=["observability/otel"]))
for _ in range(2):
    with Host(Path.cwd() / "home", config, cwd=Path.cwd(), env={}) as host:
        with trace.get_tracer("application").start_as_current_span("handle"):
            host.new_session().run("hello")
if own:
    spans = memory.get_finished_spans()
    print(sorted(span.name for span in spans), len({span.context.trace_id for span in spans}))
"""


@pytest.mark.parametrize("whose", ["own", "ours"])
def test_an_application_and_its_hosts_share_one_provider(
    home: Path, workdir: Path, receiver: OtlpReceiver, whose: str
) -> None:
    with ScriptedProvider("Fine.") as provider:
        done = subprocess.run(
            [sys.executable, "-W", "error", "-c", APPLICATION, provider.base_url, whose],
            cwd=workdir,
            env=hermes_environment(home, {"OTEL_EXPORTER_OTLP_ENDPOINT": receiver.url}),
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    assert (done.returncode, done.stderr) == (0, "")
    if whose == "own":
        names = ["chat scripted", "chat scripted", "handle", "handle", "invoke_agent hermes", "invoke_agent hermes"]
        assert done.stdout == f"{names} 2\n" and receiver.requests == []
    else:
        # The application's second span begins in the provider that the first host set up.
        names = sorted(span.name for span in receiver.spans)
        assert names.count("invoke_agent hermes") == names.count("chat scripted") == 2
        assert len({span.trace_id for span in receiver.spans}) == 2
