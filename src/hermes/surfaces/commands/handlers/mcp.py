"""Commands about MCP servers: their state, and a reload of their settings."""

from __future__ import annotations

from hermes.base.errors import HermesError
from hermes.surfaces.commands.conversation import Conversation
from hermes.surfaces.commands.text import columns, plural


def mcp(conversation: Conversation, arguments: str) -> str:
    """The MCP servers and their state, or the resources and prompts of one."""
    servers = conversation.host.mcp
    states = [] if servers is None else servers.status()
    if not states:
        return "There are no MCP servers. Add one with: hermes mcp add NAME -- COMMAND, then /reload-mcp"
    if arguments:
        return _one(conversation, arguments)
    rows: list[tuple[str, str, str, str]] = []
    for found in states:
        tools = "not seen yet" if found.tools is None else plural(found.tools, "tool")
        process = f"process {found.pid}" if found.pid else ""
        rows.append((found.name, found.state, tools, found.error or process))
    return "\n".join([*columns(rows), "", "/mcp NAME shows the prompts of one, /reload-mcp reads the settings again."])


def _one(conversation: Conversation, name: str) -> str:
    servers = conversation.host.mcp
    server = None if servers is None else servers.get(name)
    if server is None:
        raise HermesError(f"there is no MCP server {name!r} in use")
    manifest = server.manifest
    if manifest is None:
        return f"{name} has not answered yet."
    lines = [f"{manifest.server}, protocol {manifest.protocol}"]
    lines += [f"  {tool.name}" for tool in manifest.tools]
    lines += [f"  prompt {prompt.name}({', '.join(prompt.arguments)})" for prompt in manifest.prompts]
    return "\n".join(lines)


def reload_mcp(conversation: Conversation, _arguments: str) -> str:
    """Read the settings of the MCP servers again, and use them from the next message on."""
    host = conversation.host
    if host.config.approvals.mcp_reload_confirm and not conversation.surface.confirm("Reload the MCP servers?"):
        return "The MCP servers stay as they are."
    problems = host.mcp_sources.reload()
    assert host.mcp is not None
    host.mcp.settle()
    return "\n".join([*problems, mcp(conversation, "")])
