"""The reasoning of a turn as a span of the process's own tracer."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from hermes.testing import ScriptedProvider
from support import write_config

pytest.importorskip("opentelemetry.sdk.trace")

TESTS = Path(__file__).parents[2]


def run(*arguments: str, **env: str) -> bytes:
    path = os.pathsep.join(filter(None, (os.environ.get("PYTHONPATH"), str(TESTS))))
    command = [sys.executable, "-W", "error", str(TESTS / "surfaces" / "a2a" / "spans_run.py"), *arguments]
    return subprocess.run(
        command, env={**os.environ, **env, "PYTHONPATH": path}, capture_output=True, check=True
    ).stdout


def test_the_attributes_of_the_span() -> None:
    spans: dict[str, list[dict[str, Any]]] = msgspec.json.decode(run(WORKSPACE_ID="desk-7"))
    common = {"workspace.id": "desk-7", "a2a.task_id": "context-1", "hermes.model": "hermes-4"}
    assert spans == {
        "reasoning": [{**common, "hermes.reasoning_length": 600, "hermes.reasoning_preview": "r" * 512}],
        "details": [{**common, "hermes.reasoning_length": 0, "hermes.has_reasoning_details": True}],
        "both": [
            {
                **common,
                "hermes.reasoning_length": 2,
                "hermes.reasoning_preview": "hm",
                "hermes.has_reasoning_details": True,
            }
        ],
        "inline": [{**common, "hermes.reasoning_length": 2, "hermes.reasoning_preview": "hm"}],
        "nothing": [],
    }


def test_a_workspace_without_a_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WORKSPACE_ID", raising=False)
    spans: dict[str, list[dict[str, Any]]] = msgspec.json.decode(run())
    assert {span["workspace.id"] for found in spans.values() for span in found} == {"unknown"}


def test_failures_of_the_tracer_do_not_fail_the_reply() -> None:
    run("failing")


def test_the_otel_plugin_of_the_same_process_exports_it(home: Path) -> None:
    pytest.importorskip("opentelemetry.exporter.otlp.proto.http")
    from hermes.testing import OtlpReceiver

    with ScriptedProvider("Hello.") as provider, OtlpReceiver() as receiver:
        write_config(home, provider.base_url, "plugins:\n  enabled: [observability/otel]\n")
        run("plugin", OTEL_EXPORTER_OTLP_ENDPOINT=receiver.url, HERMES_HOME=str(home))
        turn, span = receiver.span("invoke_agent hermes"), receiver.span("hermes.reasoning")
    assert span.attributes["hermes.reasoning_preview"] == "r" * 512 and span.attributes["hermes.model"] == "hermes-4"
    assert span.resource["service.name"] == turn.resource["service.name"]
    assert span.trace_id != turn.trace_id  # the executor has no part in the turn
