"""Hosts with MCP servers for tests, and the entries of the servers that come with the tests."""

from __future__ import annotations

import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hermes.base.config.schema.mcp import McpServerConfig
from hermes.base.config.schema.sections import Config, ModelConfig
from hermes.host import Host, HostOptions
from support.configured import decode_result
from support.waiting import HANG, wait_until

FAULTY = Path(__file__).with_name("mcp_faulty_server.py")


def faulty(*faults: str, **settings: Any) -> McpServerConfig:
    """An entry for the server that does wrong what it is told to."""
    return McpServerConfig(command=sys.executable, args=["-S", str(FAULTY), *faults], **settings)


@contextmanager
def mcp_host(
    home: Path, entries: dict[str, McpServerConfig], options: HostOptions | None = None, **config: Any
) -> Generator[Host]:
    """A host with these servers, which all have been seen or have failed when it is returned."""
    config.setdefault("model", ModelConfig(provider="custom", base_url="http://127.0.0.1:9/v1", default="none"))
    settings = Config(mcp_servers=entries, mcp_discovery_timeout=HANG, **config)
    home.mkdir(exist_ok=True)
    with Host(home, settings, options, cwd=home) as host:
        assert host.mcp is not None
        if all(entry.enabled for entry in entries.values()):
            host.mcp.settle()
        yield host


def call(host: Host, tool: str, **args: Any) -> dict[str, Any]:
    """The result of a call through the tool pipeline."""
    return decode_result(host.services.dispatch_tool(tool, args))


def wait_for_state(host: Host, server: str, state: str) -> None:
    """Wait until a server has that state."""
    assert host.mcp is not None
    servers = host.mcp
    wait_until(lambda: {s.name: s.state for s in servers.status()}.get(server) == state, f"{server} to be {state}")
