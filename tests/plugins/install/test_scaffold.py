"""The plugin that ``hermes plugins new`` writes keeps the contract, and does its work in a real conversation."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
from pathlib import Path

import pytest

from hermes.base.config.schema.sections import PluginsConfig
from hermes.plugins.check import check_folder
from hermes.plugins.install.scaffold import write_scaffold
from hermes.plugins.loading.discovery import manifest_in
from hermes.plugins.loading.manifest import read_manifest
from hermes.testing import RecordedRequest, ScriptedProvider, ScriptedReply, text, tool_call
from hermes.testing.conformance.check import check_plugin
from support import HostFactory


def test_it_passes_the_check_its_own_tests_and_the_kit(tmp_path: Path) -> None:
    folder = write_scaffold("my-first_plugin2", tmp_path)
    assert check_folder(folder) == []
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert done.returncode == 0 and "3 passed" in done.stdout, done.stdout + done.stderr
    assert check_plugin(folder).findings == []


def test_its_manifest_shows_what_a_plugin_may_have(tmp_path: Path) -> None:
    file = manifest_in(write_scaffold("tool-log", tmp_path))
    assert file is not None
    manifest = read_manifest(file, "user")
    assert (manifest.problem, manifest.remarks) == ("", ())
    assert (manifest.provides_hooks, manifest.provides_tools) == (("post_tool_call",), ("tool_log_calls",))
    assert manifest.requires_hermes and list(manifest.config_schema) == ["slow_ms"]


def test_the_model_uses_its_tool_and_its_setting_counts(
    home: Path, make_host: HostFactory, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    write_scaffold("tool-log", home / "plugins")
    steps = [tool_call("todo", {}), tool_call("tool_log_calls", {}), text("done")]

    def reply(request: RecordedRequest) -> ScriptedReply:
        return steps[request.step]

    with ScriptedProvider(reply) as provider:
        limits = PluginsConfig(entries={"tool-log": {"settings": {"slow_ms": 0}}})
        host = make_host(provider, plugins=["tool-log"], limits=limits)
        host.new_session().run("count")
        results = [message["content"] for message in provider.requests[-1].messages if message["role"] == "tool"]
    assert json.loads(results[-1]) == {"calls": {"todo": 1}}
    assert any(message.startswith("todo took ") for message in caplog.messages)
