"""Plugins as strangers write them, unmodified: they run in a real host and keep the contract."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from hermes.host import Host
from hermes.testing import EventRecorder, ScriptedProvider, failure, text, tool_call, tool_calls
from hermes.testing.conformance.check import ConformanceLimits, check_plugin
from hermes.testing.conformance.process import check_plugin_in_process
from support import HostFactory

PLUGINS = Path(__file__).parent / "plugins"
PATIENT = ConformanceLimits(deadline=10, slow=2, budget=40)

#: What the kit has to say about each: works, but is fragile.
REMARKS = {
    "span-tracer": set[str](),
    "shell-policy": {"narrow-signature"},
    "path-aliases": set[str](),
    "adaptive-runner": set[str](),
}


@pytest.fixture(autouse=True)
def installed(home: Path) -> None:
    shutil.copytree(PLUGINS, home / "plugins", ignore=shutil.ignore_patterns("__pycache__"))


def test_the_tracer_closes_every_span(make_host: HostFactory, home: Path, workdir: Path) -> None:
    (workdir / "a.txt").write_text("one\n")
    script = [
        failure(500),
        tool_calls([("read_file", {"path": "a.txt"}), ("read_file", {"path": "missing.txt"})]),
        text("Done."),
    ]
    with ScriptedProvider(script) as provider:
        host = make_host(provider, retries=1, plugins=["span-tracer"])
        result = host.new_session().run("Read.")
    assert result.answer == "Done."
    spans = [json.loads(line) for line in (home / "spans.jsonl").read_text().splitlines()]
    outcomes = sorted((span["kind"], span["name"], span["status"]) for span in spans)
    assert outcomes == [
        ("llm", "scripted", "error"),
        ("llm", "scripted", "ok"),
        ("llm", "scripted", "ok"),
        ("tool", "read_file", "error"),
        ("tool", "read_file", "ok"),
    ]
    assert {span["schema"] for span in spans} == {"hermes.observer.v1"}
    assert len({span["turn"] for span in spans}) == 1
    expect_no_failures(host)


def test_the_policy_blocks_and_cleans(make_host: HostFactory, workdir: Path) -> None:
    (workdir / "precious").mkdir()
    script = [
        tool_call("terminal", {"command": "rm -rf precious"}),
        tool_call("terminal", {"command": "echo tok_12345"}),
        text("Could not."),
    ]
    recorder = EventRecorder()
    with ScriptedProvider(script) as provider:
        host = make_host(provider, plugins=["shell-policy"], allow_everything=True)
        recorder.attach(host.hooks)
        host.new_session().run("Clean up.")
    assert (workdir / "precious").is_dir()
    blocked, ran = recorder.of("post_tool_call")
    assert (blocked["status"], blocked["error_type"]) == ("blocked", "plugin_block")
    assert "recursive deletion is not allowed here" in provider.requests[1].messages[-1]["content"]
    assert (ran["status"], "tok_***" in ran["result"]) == ("ok", True)
    assert "12345" not in json.dumps(provider.requests[2].messages[-1])
    refused = host.plugins.commands["refused"].handler("")
    assert refused.startswith("terminal: shell-policy: recursive deletion")
    assert recorder.pairs_unbalanced() == []
    expect_no_failures(host)


def test_arguments_changed_in_place_are_what_runs(make_host: HostFactory, workdir: Path) -> None:
    (workdir / "documentation").mkdir()
    (workdir / "documentation" / "guide.txt").write_text("the guide\n")
    recorder = EventRecorder()
    with ScriptedProvider([tool_call("read_file", {"path": "@docs/guide.txt"}), text("Read it.")]) as provider:
        host = make_host(provider, plugins=["path-aliases"])
        recorder.attach(host.hooks)
        host.new_session().run("Read the guide.")
    assert provider.requests[0].messages[-1]["content"].endswith("Folders have short names: @docs/, @src/")
    assert "the guide" in provider.requests[1].messages[-1]["content"]
    (ended,) = recorder.of("post_tool_call")
    assert ended["args"]["path"] == "documentation/guide.txt"
    assert ended["middleware_trace"] == [{"source": "path-aliases", "reason": "changed args in a hook"}]
    expect_no_failures(host)


def test_the_adaptive_runner_changes_and_skips_calls(make_host: HostFactory, workdir: Path) -> None:
    (workdir / "a.txt").write_text("first\n")
    read = tool_call("read_file", {"path": "a.txt"})
    with ScriptedProvider([failure(500), read, read, text("Same.")]) as provider:
        host = make_host(provider, retries=1, plugins=["adaptive-runner"])
        result = host.new_session().run("Read twice.", listener=rewrite_after_first_read(workdir))
    assert result.answer == "Same."
    assert "temperature" not in provider.requests[0].body
    assert provider.requests[1].body["temperature"] == 0.0
    results = [message["content"] for message in provider.requests[3].messages if message["role"] == "tool"]
    assert len(results) == 2
    assert results[0] == results[1]
    assert "first" in results[1]
    expect_no_failures(host)


def test_all_of_them_together(make_host: HostFactory, home: Path, workdir: Path) -> None:
    (workdir / "source").mkdir()
    (workdir / "source" / "a.py").write_text("x = 1\n")
    script = [
        tool_calls([("read_file", {"path": "@src/a.py"}), ("terminal", {"command": "rm -r source"})]),
        text("Half done."),
    ]
    with ScriptedProvider(script) as provider:
        host = make_host(provider, plugins=list(REMARKS), allow_everything=True)
        result = host.new_session().run("Go.")
    assert result.answer == "Half done."
    contents = [message["content"] for message in provider.requests[1].messages if message["role"] == "tool"]
    assert "x = 1" in contents[0]
    assert "not allowed here" in contents[1]
    assert (workdir / "source" / "a.py").exists()
    spans = [json.loads(line) for line in (home / "spans.jsonl").read_text().splitlines()]
    assert sorted(span["status"] for span in spans) == ["blocked", "ok", "ok", "ok"]
    expect_no_failures(host)


def rewrite_after_first_read(workdir: Path) -> Any:
    """Changes the file behind the runner's back, so that a second real read would show."""

    def listen(event: Any) -> None:
        if type(event).__name__ == "ToolEnded":
            (workdir / "a.txt").write_text("second\n")

    return listen


def expect_no_failures(host: Host) -> None:
    assert [plugin.problems for plugin in host.plugins.loaded] == [[] for _ in host.plugins.loaded]
    assert [(one.plugin, one.last_error) for one in host.hooks.stats() if one.failures] == []


@pytest.mark.slow
@pytest.mark.parametrize("name", REMARKS)
def test_it_keeps_the_contract(name: str) -> None:
    report = check_plugin(PLUGINS / name.replace("-", "_"), limits=PATIENT)
    assert (report.rules, report.ok) == (REMARKS[name], True), [str(finding) for finding in report.findings]
    assert report.calls > 50


@pytest.mark.slow
def test_it_keeps_the_contract_in_a_process_of_its_own() -> None:
    report = check_plugin_in_process(PLUGINS / "adaptive_runner", limits=PATIENT)
    assert report.findings == []


def test_every_plugin_here_is_tried() -> None:
    assert {manifest.parent.name.replace("_", "-") for manifest in PLUGINS.glob("*/plugin.yaml")} == REMARKS.keys()
