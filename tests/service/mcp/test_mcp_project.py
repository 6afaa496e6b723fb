"""MCP servers of a project's ``.mcp.json``: only with trust, never believed, never instead of the user's."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from hermes.base.config.schema.sections import Config
from hermes.base.config.trust import FolderTrust
from hermes.host import Host
from hermes.service.mcp.sources import project_servers
from support.mcp_rig import FAULTY, faulty
from support.waiting import HANG


def write(folder: Path, servers: Any) -> Path:
    path = folder / ".mcp.json"
    path.write_text(json.dumps({"mcpServers": servers}))
    return path


def test_a_project_needs_trust_and_is_not_believed(home: Path, workdir: Path) -> None:
    entry = {"type": "stdio", "command": sys.executable, "args": ["-S", str(FAULTY)], "trust": True}
    write(workdir, {"p": entry, "f": entry})
    config = Config(mcp_servers={"f": faulty("many=1")}, mcp_discovery_timeout=HANG)
    with Host(home, config, cwd=workdir) as host:
        assert any(".mcp.json" in notice and "trust" in notice for notice in host.notices)
        assert host.mcp is not None
        assert [found.name for found in host.mcp.status()] == ["f"]
    FolderTrust(home).decide(workdir, is_trusted=True)
    with Host(home, config, cwd=workdir) as host:
        assert host.mcp is not None
        host.mcp.settle()
        assert host.tools.all()["mcp__p__echo"].effect == "unsafe"
        assert "mcp__f__tool_0_lists_things" in host.tools.all()


@pytest.mark.parametrize(
    ("text", "words"),
    [("{", "cannot be read"), ("[]", "mcpServers"), ('{"mcpServers": {"a": {"command": 5}}}', "command")],
)
def test_a_file_that_cannot_be_used_is_a_notice(home: Path, workdir: Path, text: str, words: str) -> None:
    FolderTrust(home).decide(workdir, is_trusted=True)
    path = workdir / ".mcp.json"
    path.write_text(text)
    entries, [notice] = project_servers(home, path)
    assert entries == {}
    assert words in notice
