"""Toolsets: named groups of tools, and the selection of a session's tools."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from hermes.base.errors import HermesError, did_you_mean
from hermes.tools.registry import Tool, ToolRegistry

#: What a session is offered unless the settings say otherwise: every tool that is not opt-in. A caller has less of it.
DEFAULT = "default"
#: Every tool, opt-in ones too. Those of the tool search are no capability of their own and stay out.
ALL = "all"
#: Other names of toolsets that are accepted; those of hermes-agent mean the default.
ALIASES = {
    "*": ALL,
    "hermes-cli": DEFAULT,
    "hermes-gateway": DEFAULT,
    "hermes-acp": DEFAULT,
    "hermes-api-server": DEFAULT,
}

#: Opt-in toolsets, only enabled by name: they contact others on the user's behalf, or stand for tools in a request.
_ON_REQUEST = ("a2a", "tool_search")
_SEARCH = "tool_search"

#: Toolsets made of other toolsets. Members without tools are omitted; an empty group does not exist.
_GROUPS = {
    "coding": ("terminal", "file", "code_execution", "todo", "delegation"),
    "debugging": ("terminal", "file", "web"),
    "safe": ("web", "vision", "image_gen"),
}


def select_tools(
    registry: ToolRegistry, names: Iterable[str], disabled: Iterable[str] = (), *, is_owner: bool = True
) -> list[Tool]:
    """The tools of the toolsets ``names``, sorted by name, without unavailable ones.

    ``disabled`` names toolsets or single tools to leave out. Raises HermesError for a toolset that does not exist.
    """
    known = toolsets(registry)
    if not is_owner:
        known[DEFAULT] -= {tool.name for tool in registry.all().values() if tool.declares and tool.declares.for_owner}
    chosen: set[str] = set()
    for name in map(toolset_name, names):
        if name not in known:
            raise HermesError(_unknown(name, known, registry))
        chosen |= known[name]
    for name in map(toolset_name, disabled):
        chosen -= known.get(name, frozenset({name}))
    tools = (registry.get(name) for name in sorted(chosen))
    return [tool for tool in tools if tool is not None and registry.is_available(tool)]


def why_not_offered(registry: ToolRegistry, tool: Tool, disabled: Iterable[str] = ()) -> str:
    """Why a session does not offer a tool, in a few words for people. ``disabled`` is what the settings leave out."""
    if not registry.is_available(tool):
        if tool.needs:
            return f"needs {tool.needs}"
        return "its plugin says that it cannot work here" if tool.plugin else "cannot work here"
    known = toolsets(registry)
    if any(tool.name in known.get(name, (name,)) for name in map(toolset_name, disabled)):
        return "agent.disabled_toolsets leaves it out"
    if tool.name in known[DEFAULT]:
        return "not among the toolsets of this session"
    if tool.toolset == _SEARCH:
        return "stands for the tools that a long list leaves out of requests"
    return f"on request: hermes config set toolsets '[{DEFAULT}, {tool.toolset}]'"


def only_allowed(tools: Sequence[Tool], allowed: Iterable[str]) -> list[Tool]:
    """The tools whose name fits a pattern of ``allowed``. Raises HermesError for a pattern that fits none."""
    from fnmatch import fnmatchcase

    chosen: set[str] = set()
    for pattern in allowed:
        fitting = {tool.name for tool in tools if fnmatchcase(tool.name, pattern)}
        if not fitting:
            names = ", ".join(tool.name for tool in tools) or "none"
            raise HermesError(f"allowed tools: {pattern!r} fits no tool; those that are offered: {names}")
        chosen |= fitting
    return [tool for tool in tools if tool.name in chosen]


def toolset_name(written: str) -> str:
    """The one name of a toolset that a person, a model or a file wrote."""
    return ALIASES.get(written.strip(), written.strip())


def toolsets(registry: ToolRegistry) -> dict[str, frozenset[str]]:
    """Every toolset by its one name, with the names of its tools. A plugin's tools join a toolset by naming it."""
    members: dict[str, set[str]] = {}
    for tool in registry.all().values():
        members.setdefault(toolset_name(tool.toolset), set()).add(tool.name)
    found = {name: frozenset(tools) for name, tools in members.items()}
    for group, parts in _GROUPS.items():
        tools = frozenset[str]().union(*(members.get(part, ()) for part in (*parts, group)))
        if tools:
            found[group] = tools
    for name, alias in registry.declared.items():
        found.setdefault(alias, found.setdefault(name, frozenset()))
    everything = [tool for tool in registry.all().values() if tool.toolset != _SEARCH]
    by_default = frozenset(tool.name for tool in everything if not _is_on_request(tool))
    return found | {ALL: frozenset(tool.name for tool in everything), DEFAULT: by_default}


def _is_on_request(tool: Tool) -> bool:
    return tool.toolset in _ON_REQUEST or (tool.declares is not None and tool.declares.on_request)


def _unknown(name: str, known: dict[str, frozenset[str]], registry: ToolRegistry) -> str:
    tool = registry.get(name)
    if tool is not None:
        return f"there is no toolset {name!r}; it is a tool of the toolset {tool.toolset!r}"
    return f"there is no toolset {name!r}{did_you_mean(name, sorted(known))}"
