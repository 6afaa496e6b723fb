"""Plugins that make the calls the two contract documents show, and what those calls must do."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hermes.testing.harness import PluginHarness

MIDDLEWARE_PLUGIN = """
import time

durations = []
results = []


def register(ctx):
    ctx.register_middleware("llm_request", on_request)
    ctx.register_middleware("tool_request", on_arguments)
    ctx.register_middleware("llm_execution", on_provider_call)
    ctx.register_middleware("tool_execution", on_tool)


def on_request(**kwargs):
    request = dict(kwargs["request"])
    extra = dict(request.get("extra_body") or {})
    extra.setdefault("metadata", {})["tagged"] = True
    request["extra_body"] = extra
    return {"request": request, "source": "demo", "reason": "tagged the request"}


def on_arguments(**kwargs):
    if kwargs.get("tool_name") != "terminal":
        return None
    args = dict(kwargs["args"])
    args.setdefault("workdir", "/tmp/demo")
    return {"args": args, "source": "demo", "reason": "defaulted the directory"}


def on_provider_call(**kwargs):
    started = time.monotonic()
    response = kwargs["next_call"](kwargs["request"])
    durations.append(time.monotonic() - started)
    return response


def on_tool(**kwargs):
    result = kwargs["next_call"](kwargs["args"])
    results.append((kwargs["tool_name"], result))
    return result
"""

OBSERVER_PLUGIN = """
spans = {}


def register(ctx):
    ctx.register_hook("pre_api_request", start_request)
    ctx.register_hook("post_api_request", finish_request)
    ctx.register_hook("pre_tool_call", start_tool)
    ctx.register_hook("post_tool_call", finish_tool)


def start_request(**kwargs):
    spans[kwargs.get("api_request_id")] = {"request": kwargs.get("request"), "model": kwargs.get("model")}


def finish_request(**kwargs):
    spans[kwargs.get("api_request_id")].update(
        response=kwargs.get("response"), usage=kwargs.get("usage"), duration=kwargs.get("api_duration")
    )


def start_tool(**kwargs):
    spans[kwargs.get("tool_call_id")] = {"name": kwargs.get("tool_name"), "args": kwargs.get("args")}


def finish_tool(**kwargs):
    spans[kwargs.get("tool_call_id")].update(
        result=kwargs.get("result"), status=kwargs.get("status"), duration_ms=kwargs.get("duration_ms")
    )
"""


@pytest.fixture
def load(tmp_path: Path) -> Any:
    """Writes a plugin into a folder and loads it; everything is closed afterwards."""
    open_: list[PluginHarness] = []

    def load_source(source: str, name: str = "demo") -> PluginHarness:
        folder = tmp_path / name
        folder.mkdir()
        (folder / "plugin.yaml").write_text(f"name: {name}\n")
        (folder / "__init__.py").write_text(source)
        open_.append(PluginHarness(folder))
        return open_[-1]

    yield load_source
    for harness in open_:
        harness.close()


Load = Callable[..., PluginHarness]


def module_of(harness: PluginHarness) -> Any:
    import sys

    return sys.modules[f"hermes_plugins.{harness.plugin.manifest.key}"]


def test_request_middleware_tags_the_provider_request(load: Load) -> None:
    harness = load(MIDDLEWARE_PLUGIN)
    metadata: dict[str, Any] = {"kept": 1}
    request: dict[str, Any] = {"model": "m", "messages": [], "extra_body": {"metadata": metadata}}
    outcome = harness.rewrite("llm_request", request, session_id="s")
    assert outcome.payload["extra_body"] == {"metadata": {"kept": 1, "tagged": True}}
    assert outcome.trace == [{"source": "demo", "reason": "tagged the request"}]
    assert metadata == {"kept": 1}, "the plugin changed a nested dictionary in place; that stays with it"


def test_tool_request_middleware_constrains_one_tool(load: Load) -> None:
    harness = load(MIDDLEWARE_PLUGIN)
    outcome = harness.rewrite("tool_request", {"command": "ls"}, tool_name="terminal")
    assert outcome.payload == {"command": "ls", "workdir": "/tmp/demo"}
    untouched = {"path": "x"}
    assert harness.rewrite("tool_request", untouched, tool_name="read_file").payload is untouched


def test_execution_middleware_wraps_and_keeps_the_result(load: Load) -> None:
    harness = load(MIDDLEWARE_PLUGIN)
    response = object()

    def provider(_request: Any) -> object:
        time.sleep(0.001)
        return response

    assert harness.execute("llm_execution", {"model": "m"}, provider) is response
    assert harness.execute("tool_execution", {"a": 1}, lambda args: f"ran {args}", tool_name="t") == "ran {'a': 1}"
    module = module_of(harness)
    assert module.durations[0] >= 0.001
    assert module.results == [("t", "ran {'a': 1}")]


def test_an_observer_joins_starts_and_ends_by_their_ids(load: Load) -> None:
    harness = load(OBSERVER_PLUGIN)
    harness.fire("pre_api_request", api_request_id="r1", model="m", request={"method": "POST"})
    harness.fire("pre_tool_call", tool_call_id="c1", tool_name="terminal", args={"command": "ls"})
    harness.fire("post_tool_call", tool_call_id="c1", result="{}", status="ok", duration_ms=3)
    harness.fire("post_api_request", api_request_id="r1", response={"model": "m"}, usage=None, api_duration=0.5)
    assert module_of(harness).spans == {
        "r1": {"request": {"method": "POST"}, "model": "m", "response": {"model": "m"}, "usage": None, "duration": 0.5},
        "c1": {"name": "terminal", "args": {"command": "ls"}, "result": "{}", "status": "ok", "duration_ms": 3},
    }


def test_the_four_answers_that_count_come_back(load: Load) -> None:
    harness = load(
        """
def register(ctx):
    ctx.register_hook("pre_llm_call", lambda **kwargs: {"context": "today is Monday"})
    ctx.register_hook("pre_tool_call", lambda tool_name, args: {"action": "block", "message": "not today"})
    ctx.register_hook("transform_tool_result", lambda result: result.upper())
    ctx.register_hook("transform_llm_output", lambda **kwargs: kwargs["response_text"] + "!")
"""
    )
    assert harness.fire("pre_llm_call", user_message="hi") == [{"context": "today is Monday"}]
    blocked = harness.fire("pre_tool_call", tool_name="terminal", args={}, task_id="t", middleware_trace=[])
    assert blocked == [{"action": "block", "message": "not today"}]
    assert harness.fire("transform_tool_result", result="ok") == ["OK"]
    assert harness.fire("transform_llm_output", response_text="hello") == ["hello!"]
