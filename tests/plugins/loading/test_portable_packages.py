"""Portable packages: skills and MCP servers in a folder with a ``plugin.json``."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from hermes.base.config.schema.sections import PluginsConfig
from hermes.plugins.check import check_folder
from hermes.plugins.loading.portable import SCHEMA
from hermes.testing import ScriptedProvider, text, tool_call
from support.configured import configured_host, tool_answers
from support.mcp_rig import FAULTY
from support.plugin_rig import Rig
from support.waiting import HANG


def package(rig: Rig, servers: object = None, **fields: Any) -> Path:
    folder = rig.write("helper", source=None, manifest=None)
    manifest = {"$schema": SCHEMA, "name": "helper", "version": "1.2", "author": {"name": "Ann"}, **fields}
    (folder / "plugin.json").write_text(json.dumps(manifest))
    (folder / "skills" / "greet").mkdir(parents=True)
    (folder / "skills" / "greet" / "SKILL.md").write_text("---\nname: greet\ndescription: Greets.\n---\nSay hello.\n")
    if servers is not None:
        (folder / "mcp.json").write_text(json.dumps({"mcpServers": servers}))
    return folder


def test_skills_and_servers_are_registered(rig: Rig) -> None:
    servers = {
        "own": {"command": "./run", "args": ["--in", "${PLUGIN_DATA}/x"], "env": {"A": "${PLUGIN_ROOT}"}},
        "named": {"type": "stdio", "command": "uvx", "args": ["tool"]},
        "remote": {"type": "streamable-http", "url": "https://example.test/mcp", "headers": {"X": "1"}},
    }
    folder = package(rig, servers)
    assert check_folder(folder) == []
    plugins = rig.load(enabled=["helper"])
    record = plugins.plugins["helper"]
    assert (record.status, record.manifest.version, record.manifest.author) == ("loaded", "1.2", "Ann")
    assert list(plugins.skills) == ["helper:greet"]
    data = plugins.mcp_servers["own"].env["PLUGIN_DATA"]
    own, named, remote = (plugins.mcp_servers[name] for name in servers)
    assert (own.command, own.args, own.cwd) == (str(folder / "run"), ["--in", f"{data}/x"], str(folder))
    assert own.env == {"A": str(folder), "PLUGIN_ROOT": str(folder), "PLUGIN_DATA": data}
    assert Path(data).is_dir()
    assert (named.command, remote.url, remote.headers) == ("uvx", "https://example.test/mcp", {"X": "1"})


@pytest.mark.parametrize(
    ("entry", "why"),
    [
        (5, "a mapping is expected"),
        ({"command": "sh -c 'x'"}, "one program is expected"),
        ({"command": "../run"}, "a name, or a path that starts with ./"),
        ({"command": "./../../run"}, "leads out of the package"),
        ({"command": "x", "cwd": "/etc"}, "/etc leads out of the package"),
        ({"command": "x", "shell": True}, "there is no field 'shell'"),
        ({"command": "x", "args": "y"}, "Expected `array`"),
        ({"type": "sse", "url": "https://x.test"}, "its type is 'sse'"),
        ({"url": "http://x.test"}, "https without a name"),
        ({"url": "https://me:secret@x.test"}, "https without a name"),
    ],
)
def test_a_server_that_is_wrong_is_left_out_and_the_others_stay(rig: Rig, entry: object, why: str) -> None:
    package(rig, {"bad": entry, "good": {"url": "http://localhost:1/mcp"}})
    plugins = rig.load(enabled=["helper"])
    assert list(plugins.mcp_servers) == ["good"]
    [problem] = plugins.plugins["helper"].problems
    assert "MCP server 'bad' is left out: " in problem
    assert why in problem


def test_a_package_of_another_format_is_not_loaded(rig: Rig) -> None:
    folder = package(rig, **{"$schema": "https://example.test/other"})
    record = rig.load(enabled=["helper"]).plugins["helper"]
    assert "its $schema is 'https://example.test/other'" in record.error
    assert [finding.rule for finding in check_folder(folder)] == ["manifest-format"]


def test_a_turn_uses_the_server_of_a_package(home: Path, workdir: Path) -> None:
    folder = home / "plugins" / "helper"
    folder.mkdir(parents=True)
    (folder / "plugin.json").write_text(json.dumps({"$schema": SCHEMA, "name": "helper"}))
    (folder / "serve").write_text(f"#!/bin/sh\nexec {sys.executable} -S {FAULTY}\n")
    (folder / "serve").chmod(0o755)
    (folder / "mcp.json").write_text(json.dumps({"mcpServers": {"f": {"type": "stdio", "command": "./serve"}}}))
    with (
        ScriptedProvider([tool_call("mcp__f__echo", {"text": "hi"}), text("done")]) as provider,
        configured_host(
            *(home, workdir, provider), plugins=PluginsConfig(enabled=["helper"]), mcp_discovery_timeout=HANG
        ) as host,
    ):
        session = host.new_session()
        session.run("go")
        assert tool_answers(host, session.id) == [{"result": "echo: hi"}]
