"""Commands about what the model can do: tools, toolsets, and the state and the settings of MCP servers."""

from __future__ import annotations

from collections.abc import Mapping, Set

from hermes.base.errors import HermesError, did_you_mean
from hermes.surfaces.commands.conversation import Conversation
from hermes.surfaces.commands.text import columns, plural
from hermes.tools.registry import Tool
from hermes.tools.skills.skills import TOOL_NAMES as SKILL_TOOLS
from hermes.tools.toolsets import ALIASES, why_not_offered
from hermes.tools.toolsets import toolsets as all_toolsets


def tools(conversation: Conversation, arguments: str) -> str:
    """List the tools, or change which of them the model has in this session."""
    if arguments:
        return _change(conversation, arguments, "tool", {name: {name} for name in conversation.host.tools.all()})
    host = conversation.host
    offered = {tool.name for tool in conversation.session.offered}
    rows = [
        ("+" if tool.name in offered else "-", tool.name, tool.toolset, _note(conversation, tool, offered))
        for tool in sorted(host.tools.all().values(), key=lambda tool: (tool.toolset, tool.name))
    ]
    signs = "+ the model has it. /tools disable NAME, /tools enable NAME"
    return "\n".join([*columns(rows, width=conversation.width), "", signs])


def _note(conversation: Conversation, tool: Tool, offered: Set[str]) -> str:
    notes = [f"plugin {tool.plugin}"] if tool.plugin else []
    if tool.name not in offered:
        notes.append(_reason(conversation, tool))
    return ", ".join(notes)


def _reason(conversation: Conversation, tool: Tool) -> str:
    """Why the model does not have a tool."""
    host, session = conversation.host, conversation.session
    if tool.name in SKILL_TOOLS and not host.runtime.skills.usable(session.cwd, session.principal):
        return "needs a skill (docs/skills.md)"
    return why_not_offered(host.tools, tool, host.config.agent.disabled_toolsets)


def toolsets(conversation: Conversation, arguments: str) -> str:
    """List the toolsets, or change which of them the model has in this session."""
    if arguments:
        known = all_toolsets(conversation.host.tools)
        return _change(conversation, arguments, "toolset", known | {name: known[ALIASES[name]] for name in ALIASES})
    offered = {tool.name for tool in conversation.session.offered}
    known = all_toolsets(conversation.host.tools)
    rows = [
        ("+" if members <= offered else "~" if members & offered else "-", name, ", ".join(sorted(members)))
        for name, members in sorted(known.items(), key=lambda item: (len(item[1]), item[0]))
    ]
    signs = "+ the model has all of it, ~ some. /toolsets disable NAME, /toolsets enable NAME"
    return "\n".join([*columns(rows, width=conversation.width), "", signs])


def _change(conversation: Conversation, arguments: str, noun: str, known: Mapping[str, Set[str]]) -> str:
    action, *names = arguments.replace(",", " ").split()
    if action not in ("enable", "disable") or not names:
        raise HermesError(f"/{noun}s takes enable or disable and names: /{noun}s disable NAME …")
    conversation.need_prompt(f"changing the {noun}s of a conversation (--toolsets is for one run)")
    registry, session = conversation.host.tools, conversation.session
    for name in names:
        if name not in known:
            raise HermesError(f"there is no {noun} {name!r}{did_you_mean(name, known)}")
    named = frozenset[str]().union(*(known[name] for name in names))
    before = {tool.name for tool in session.offered}
    wanted = before | named if action == "enable" else before - named
    chosen = [tool for name, tool in sorted(registry.all().items()) if name in wanted and registry.is_available(tool)]
    missing = sorted(named - {tool.name for tool in chosen}) if action == "enable" else []
    session.offered = chosen
    reasons = "; ".join(f"{name} {_reason(conversation, registry.all()[name])}" for name in missing)
    note = f" Not these: {reasons}." if missing else ""
    return f"From the next message on the model has {plural(len(chosen), 'tool')}.{note}"


# -- MCP servers -------------------------------------------------------------------------------------------------------


def mcp(conversation: Conversation, arguments: str) -> str:
    """The MCP servers and their state, or the resources and prompts of one."""
    servers = conversation.host.mcp
    states = [] if servers is None else servers.status()
    if not states:
        return "There are no MCP servers. Add one with: hermes mcp add NAME -- COMMAND, then /reload-mcp"
    if arguments:
        return _server_lines(conversation, arguments)
    rows: list[tuple[str, str, str, str]] = []
    for found in states:
        tools = "not seen yet" if found.tools is None else plural(found.tools, "tool")
        process = f"process {found.pid}" if found.pid else ""
        rows.append((found.name, found.state, tools, found.error or process))
    return "\n".join([*columns(rows), "", "/mcp NAME shows the prompts of one, /reload-mcp reads the settings again."])


def _server_lines(conversation: Conversation, name: str) -> str:
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
