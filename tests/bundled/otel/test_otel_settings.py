"""What the variables and the configuration mean."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from hermes.bundled.observability.otel.settings import OtelSettings, check_protocol, read_settings


def test_the_defaults() -> None:
    settings = read_settings({}, {})
    assert settings == OtelSettings(metrics_target="http://localhost:4318 (metrics)")
    assert not settings.capture_content and not settings.propagate


@pytest.mark.parametrize(
    ("env", "entries", "captures"),
    [
        ({"OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT": "true"}, {}, True),
        ({"OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT": "SPAN_AND_EVENT"}, {}, True),
        ({"OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT": "event_only"}, {}, False),
        ({"OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT": "no_content"}, {"capture_content": True}, False),
        ({"HERMES_OTEL_CAPTURE_CONTENT": "1"}, {}, True),
        (
            {"HERMES_OTEL_CAPTURE_CONTENT": "0", "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT": "true"},
            {},
            False,
        ),
        ({}, {"capture_content": True}, True),
    ],
)
def test_content(env: dict[str, str], entries: dict[str, Any], captures: bool) -> None:
    assert read_settings(env, entries).capture_content is captures


def test_the_environment_comes_before_the_configuration() -> None:
    entries = {"endpoint": "http://from-config:4318/", "propagate": True, "flush_seconds": 5}
    settings = read_settings({}, entries)
    assert settings.traces_target == "http://from-config:4318"
    assert (settings.endpoint, settings.propagate, settings.flush_seconds) == ("http://from-config:4318/", True, 5.0)
    env = {
        "OTEL_EXPORTER_OTLP_ENDPOINT": "https://me:secret@collector.example/otlp?key=secret",
        "HERMES_OTEL_PROPAGATE": "0",
        "HERMES_OTEL_FLUSH_SECONDS": "0.5",
    }
    settings = read_settings(env, entries)
    assert (settings.endpoint, settings.propagate, settings.flush_seconds) == ("", False, 0.5)
    assert settings.traces_target == "https://collector.example"


def test_mistakes_are_named_and_do_no_harm(caplog: pytest.LogCaptureFixture) -> None:
    env = {
        "OTEL_TRACES_EXPORTER": "zipkin",
        "OTEL_EXPORTER_OTLP_ENDPOINT": "http://[broken",
        "HERMES_OTEL_FLUSH_SECONDS": "soon",
        "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc",
    }
    with caplog.at_level(logging.WARNING):
        settings = read_settings(env, {})
        check_protocol(env)
    assert (settings.traces_exporter, settings.flush_seconds) == ("otlp", 2.0)
    assert settings.traces_target == "an address that cannot be read"
    told = caplog.text
    assert "'zipkin'" in told and "'soon'" in told and "'grpc'" in told and "http/protobuf" in told


def test_the_trace_that_the_process_was_started_in() -> None:
    assert read_settings({"TRACEPARENT": " "}, {}).parent is None
    assert read_settings({"TRACEPARENT": "00-a", "TRACESTATE": "x=1"}, {}).parent == {
        "traceparent": "00-a",
        "tracestate": "x=1",
    }
