"""Runs turns with a global tracer provider, which a process can set only once, and prints the spans they left."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import msgspec
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from hermes.base.config import hermes_home, load_config
from hermes.host import Host, HostOptions
from hermes.surfaces.a2a import HermesA2AExecutor
from support.executor_rig import Answering, ask, completion

ANSWERS: dict[str, Any] = {
    "reasoning": completion("Hello.", reasoning="r" * 600),
    "details": completion("Hello.", reasoning=None, reasoning_details=[{"type": "reasoning.encrypted"}]),
    "both": completion("Hello.", reasoning="hm", reasoning_details=[{"type": "reasoning.text"}]),
    "inline": completion("<think>hm</think>Hello."),
    "nothing": completion("Hello."),
}


class Failing(TracerProvider):
    """A provider that breaks down."""

    def get_tracer(self, *_arguments: Any, **_options: Any) -> Any:
        raise RuntimeError("no tracer today")


def beside_an_agent() -> None:
    """An agent of the configuration has a turn, and then the executor."""
    home = hermes_home()
    with Host(home, load_config(home).config, HostOptions(platform="test"), cwd=Path.cwd()) as host:
        assert host.new_session().run("hello").answer == "Hello."
        assert ask(HermesA2AExecutor("hermes-4", _client=Answering(ANSWERS["reasoning"])), "hello") == "Hello."


def main() -> None:
    if sys.argv[1:] == ["plugin"]:
        beside_an_agent()
        return
    if sys.argv[1:] == ["failing"]:
        trace.set_tracer_provider(Failing())
        assert ask(HermesA2AExecutor("hermes-4", _client=Answering(ANSWERS["both"])), "hello") == "Hello."
        return
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    trace.set_tracer_provider(provider)
    found: dict[str, list[dict[str, Any]]] = {}
    for name, answer in ANSWERS.items():
        assert ask(HermesA2AExecutor("hermes-4", _client=Answering(answer)), "hello") == "Hello."
        spans = [span for span in exporter.get_finished_spans() if span.name == "hermes.reasoning"]
        found[name] = [dict(span.attributes or {}) for span in spans]
        exporter.clear()
    sys.stdout.buffer.write(msgspec.json.encode(found))


if __name__ == "__main__":
    main()
