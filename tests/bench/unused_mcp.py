"""How much CPU MCP servers cost a run that is offered their tools and calls none."""

from __future__ import annotations

from dataclasses import replace

from .measure import alternate
from .server import Plan
from .table import Row
from .workspace import Workspace

BUDGET_MS = 20.0
SERVERS = 2
TOOLS = 12
REPEAT = 15


def measure(workspace: Workspace) -> list[Row]:
    """One row: the run with servers whose tools are stored, beside the same run without any."""
    plan, configured = Plan(), _with_servers(workspace)
    runs = alternate(workspace.repeat or REPEAT, lambda: configured.chat(plan), lambda: workspace.chat(plan))
    ours, floor = (min(child.cpu for child in children) * 1e3 for children in runs)
    what = f"one-shot chat with {SERVERS} MCP servers that are not called, CPU"
    budget = f"≤ {BUDGET_MS:g} ms more than without"
    return [Row(what, ours, floor, "ms", budget, ours <= floor + BUDGET_MS, f"{TOOLS} tools each, from stored lists")]


def _with_servers(workspace: Workspace) -> Workspace:
    from hermes.base.config.schema.mcp import McpServerConfig
    from hermes.service.mcp.manifest import Manifest, ManifestCache, ManifestTool
    from hermes.service.mcp.settings import entry_digest

    made = replace(workspace, folder=workspace.folder / "mcp")
    made.home.mkdir(parents=True)
    made.notes.symlink_to(workspace.notes)
    config = (workspace.home / "config.yaml").read_text(encoding="utf-8") + "mcp_servers:\n"
    names = [f"server{number}" for number in range(SERVERS)]
    text = {"type": "string", "description": "Something that takes some words to describe, as real servers do it"}
    schema = {"type": "object", "properties": {"first": text, "second": text}, "required": ["first"]}
    for name in names:
        entry = McpServerConfig(command="no-such-program", args=[name])
        tools = [ManifestTool(f"tool_{number}", "Does something useful. " * 5, schema) for number in range(TOOLS)]
        ManifestCache(made.home).put(name, Manifest(digest=entry_digest(entry), server=name, tools=tools))
        config += f"  {name}: {{command: no-such-program, args: [{name}]}}\n"
    toolsets = ", ".join(["terminal", "file", *(f"mcp-{name}" for name in names)])
    config = config.replace("toolsets: [terminal, file]", f"toolsets: [{toolsets}]")
    (made.home / "config.yaml").write_text(config, encoding="utf-8")
    return made
