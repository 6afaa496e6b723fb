"""MCP servers that others wrote: from PyPI, and from npm where HERMES_TEST_MCP_SERVERS names their folder."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from hermes.base.config.schema.mcp import McpServerConfig
from support.mcp_rig import call, mcp_host
from support.waiting import wait_until

_NPM = os.environ.get("HERMES_TEST_MCP_SERVERS", "")
needs_npm = pytest.mark.skipif(not _NPM, reason="HERMES_TEST_MCP_SERVERS is not set")


def module(name: str, *args: str) -> McpServerConfig:
    return McpServerConfig(command=sys.executable, args=["-m", name, *args])


@pytest.mark.slow
def test_time_git_and_fetch_from_pypi(tmp_path: Path) -> None:
    repository = tmp_path / "repository"
    repository.mkdir()
    subprocess.run(["git", "init", "-q", repository], check=True)
    (repository / "a.txt").write_text("a\n")
    entries = {
        "time": module("mcp_server_time"),
        "git": module("mcp_server_git", "--repository", str(repository)),
        "fetch": module("mcp_server_fetch"),
    }
    with mcp_host(tmp_path / "home", entries) as host:
        assert host.mcp is not None
        assert {found.name: found.state for found in host.mcp.status()} == dict.fromkeys(entries, "ready")
        assert "UTC" in call(host, "mcp__time__get_current_time", timezone="UTC")["result"]
        assert "a.txt" in call(host, "mcp__git__git_status", repo_path=str(repository))["result"]
        assert "mcp__fetch__fetch" in host.tools.all()
        assert "error" in call(host, "mcp__fetch__fetch", url="http://127.0.0.1:9/")


@pytest.mark.slow
@needs_npm
def test_everything_and_filesystem_from_npm(tmp_path: Path) -> None:
    home = tmp_path / "home"
    shared = tmp_path / "shared"
    shared.mkdir()
    (shared / "note.txt").write_text("water the plants\n")
    entries = {
        "everything": McpServerConfig(command=f"{_NPM}/mcp-server-everything"),
        "files": McpServerConfig(command=f"{_NPM}/mcp-server-filesystem", args=[str(shared)]),
    }
    with mcp_host(home, entries) as host:
        assert host.mcp is not None
        assert {found.name: found.state for found in host.mcp.status()} == dict.fromkeys(entries, "ready")
        assert "hello" in call(host, "mcp__everything__echo", message="hello")["result"]
        assert "image/png" in call(host, "mcp__everything__get_tiny_image")["result"]
        assert "mcp__everything__simulate_research_query" not in host.tools.all()
        read = call(host, "mcp__files__read_text_file", path=str(shared / "note.txt"))
        assert "water the plants" in str(read)
    # With roots that server has the folder of the run instead of the one in its arguments.
    entry = McpServerConfig(command=f"{_NPM}/mcp-server-filesystem", args=[str(shared)], roots=True)
    with mcp_host(home, {"files": entry}) as host:
        allowed = "mcp__files__list_allowed_directories"
        wait_until(lambda: str(home) in call(host, allowed)["result"], "the server to ask for the roots")
