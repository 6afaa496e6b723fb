"""What the variables and the configuration mean, and what they leave out."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest

from hermes.bundled.observability.langfuse.settings import LangfuseSettings, read_settings
from support import trace_runs
from support.langfuse_rig import LangfuseRig

CONTENT = ("langfuse.observation.input", "langfuse.observation.output")


def test_the_defaults() -> None:
    settings = read_settings({}, {})
    assert settings == LangfuseSettings() and settings.base_url == "https://cloud.langfuse.com"
    assert settings.capture_content and settings.capture_reasoning and settings.sample_rate == 1.0


@pytest.mark.parametrize(
    ("env", "entries", "name", "value"),
    [
        ({"LANGFUSE_HOST": "http://a/"}, {}, "base_url", "http://a"),
        ({"LANGFUSE_HOST": "http://a", "LANGFUSE_BASE_URL": "http://b"}, {}, "base_url", "http://b"),
        ({"HERMES_LANGFUSE_HOST": "http://c", "LANGFUSE_BASE_URL": "http://b"}, {}, "base_url", "http://c"),
        ({"LANGFUSE_HOST": " "}, {"base_url": "http://d"}, "base_url", "http://d"),
        ({"HERMES_LANGFUSE_PUBLIC_KEY": "pk", "LANGFUSE_PUBLIC_KEY": "other"}, {}, "public_key", "pk"),
        ({"LANGFUSE_SECRET_KEY": "sk"}, {"secret_key": "other"}, "secret_key", "sk"),
        ({"LANGFUSE_SAMPLE_RATE": "0.5"}, {}, "sample_rate", 0.5),
        ({"HERMES_LANGFUSE_SAMPLE_RATE": "0", "LANGFUSE_SAMPLE_RATE": "0.5"}, {}, "sample_rate", 0.0),
        ({"LANGFUSE_ENVIRONMENT": "staging"}, {}, "environment", "staging"),
        ({"LANGFUSE_TRACING_ENVIRONMENT": "test"}, {}, "environment", "test"),
        ({}, {"capture_content": False}, "capture_content", False),
        ({"HERMES_LANGFUSE_CAPTURE_CONTENT": "yes"}, {"capture_content": False}, "capture_content", True),
        ({"HERMES_LANGFUSE_CAPTURE_REASONING": "0"}, {}, "capture_reasoning", False),
        ({"HERMES_LANGFUSE_TAGS": "a, b,"}, {}, "tags", ("a", "b")),
        ({}, {"tags": ["a", 2]}, "tags", ("a", "2")),
        ({"LANGFUSE_TRACING_ENABLED": "false"}, {}, "is_disabled", True),
        ({"OTEL_SDK_DISABLED": "true"}, {}, "is_disabled", True),
        ({"LANGFUSE_BASE_URL": "https://me:hunter2@host:1/x?y=z"}, {}, "target", "https://host:1"),
    ],
)
def test_settings(env: dict[str, str], entries: dict[str, Any], name: str, value: object) -> None:
    assert getattr(read_settings(env, entries), name) == value


@pytest.mark.parametrize(
    ("env", "problem"),
    [
        ({}, "LANGFUSE_PUBLIC_KEY and LANGFUSE_SECRET_KEY are not set"),
        ({"LANGFUSE_PUBLIC_KEY": "pk"}, "LANGFUSE_SECRET_KEY is not set"),
        ({"LANGFUSE_PUBLIC_KEY": "p", "LANGFUSE_SECRET_KEY": "s", "LANGFUSE_HOST": "here"}, "is not an address"),
        ({"LANGFUSE_PUBLIC_KEY": "p", "LANGFUSE_SECRET_KEY": "s", "LANGFUSE_HOST": "http://[x"}, "is not an address"),
    ],
)
def test_why_nothing_can_be_sent(env: dict[str, str], problem: str) -> None:
    assert problem in read_settings(env, {}).problem


def test_mistakes_are_named_and_do_no_harm(caplog: pytest.LogCaptureFixture) -> None:
    env = {
        "LANGFUSE_SAMPLE_RATE": "2",
        "HERMES_LANGFUSE_FLUSH_SECONDS": "soon",
        "HERMES_LANGFUSE_CAPTURE_CONTENT": "perhaps",
        "LANGFUSE_ENVIRONMENT": "Langfuse Test",
        "LANGFUSE_SECRET_KEY": "sk-lf-hidden",
    }
    settings = read_settings(env, {})
    assert (settings.sample_rate, settings.flush_seconds, settings.environment) == (1.0, 3.0, "")
    assert settings.capture_content
    told = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert len(told) == 4 and "from 0 to 1" in str(told) and "'soon'" in str(told) and "'perhaps'" in str(told)
    assert "sk-lf-hidden" not in repr(settings) + caplog.text


def test_content_can_be_left_out(rig: LangfuseRig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HERMES_LANGFUSE_CAPTURE_CONTENT", "0")
    trace_runs.one_tool(rig)
    trace_runs.approval(rig)
    spans = rig.collect().spans
    assert [span.name for span in spans].count("chat scripted") == 4
    # The word by which somebody answered is a decision, not content.
    said = [span for span in spans if span.name != "approval response" and span.attributes.keys() & set(CONTENT)]
    assert said == [] and "langfuse.observation.usage_details" in spans[1].attributes


@pytest.mark.parametrize("wanted", [True, False])
def test_reasoning_is_on_the_generation_or_nowhere(
    rig: LangfuseRig, monkeypatch: pytest.MonkeyPatch, wanted: bool
) -> None:
    monkeypatch.setenv("HERMES_LANGFUSE_CAPTURE_REASONING", str(wanted))
    trace_runs.thinking(rig)
    spans = rig.collect().spans
    said = json.loads(spans[1].attributes[CONTENT[1]])
    assert said["content"] == "Four." and said.get("reasoning") == ("Let me think." if wanted else None)
    assert ("Let me think." in str([span.attributes for span in spans])) is wanted


def test_the_environment_and_the_tags_are_on_everything(rig: LangfuseRig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HERMES_LANGFUSE_ENVIRONMENT", "staging")
    monkeypatch.setenv("HERMES_LANGFUSE_TAGS", "desk")
    trace_runs.thinking(rig)
    for span in rig.collect().spans:
        assert span.attributes["langfuse.environment"] == span.resource["langfuse.environment"] == "staging"
        assert span.attributes["langfuse.trace.tags"] == ["hermes", "cli", "desk"]


def test_what_is_not_in_the_sample_is_not_sent(rig: LangfuseRig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LANGFUSE_SAMPLE_RATE", "0")
    trace_runs.delegated_children(rig)
    assert rig.collect().requests == []
    assert rig.tracing.pipeline is not None and rig.tracing.pipeline.health.events_in == 0


def test_a_sample_is_made_of_whole_traces(rig: LangfuseRig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LANGFUSE_SAMPLE_RATE", "0.5")
    hooks = rig.hooks()
    assert hooks.pre_llm_call and hooks.pre_tool_call and hooks.post_tool_call and hooks.on_session_end
    for number in range(60):
        ids = {"session_id": f"s{number}", "turn_id": "t"}
        hooks.pre_llm_call.invoke(**ids)
        hooks.pre_tool_call.invoke(**ids, tool_call_id="c", tool_name="terminal")
        hooks.post_tool_call.invoke(**ids, tool_call_id="c")
        hooks.on_session_end.invoke(**ids, completed=True)
    spans = rig.collect().spans
    roots = {span.trace_id for span in spans if not span.parent_id}
    assert 0 < len(roots) < 60 and len(spans) == 2 * len(roots)
    assert {span.trace_id for span in spans} == roots
