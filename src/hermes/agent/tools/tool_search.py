"""Tool search: many tools of MCP servers and plugins behind three small ones, instead of in every request.

The model finds a tool with ``tool_search``, reads its arguments with ``tool_describe`` and calls it with ``tool_call``.
That call is the call of the tool that it names: the batch puts it into its place before any stage of the pipeline.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from hermes.models.reply import ToolRequest
from hermes.tools.arguments import bounded_int, fields, number, parse_arguments, text
from hermes.tools.registry import Args, Tool, ToolContext, ToolRegistry
from hermes.tools.results import tool_error, tool_result

if TYPE_CHECKING:
    from hermes.agent.runtime import OpenSession, Runtime
    from hermes.base.config.schema.sections import ToolSearchConfig

SEARCH, DESCRIBE, CALL = "tool_search", "tool_describe", "tool_call"
TOOLSET = "tool_search"

#: Characters of a schema that make about one token.
_CHARS_PER_TOKEN = 4
#: Groups that the description of the search names.
_MOST_GROUPS = 20
_LONGEST_SUMMARY = 160
_WORD = re.compile(r"[a-z0-9]+")


def search_tools(runtime: Runtime) -> list[Tool]:
    """The three tools. They are offered only where they stand for others."""
    settings = runtime.config.tools.tool_search

    def hidden(context: ToolContext) -> list[Tool]:
        session: OpenSession | None = runtime.open_sessions.get(context.scope.session_id)
        return [] if session is None else [tool for tool in session.offered if can_be_deferred(tool)]

    def search(args: Args, context: ToolContext) -> str:
        limit = bounded_int(args, "limit", settings.search_default_limit, 1, settings.max_search_limit)
        found = _best(hidden(context), str(args["query"]))[:limit]
        return tool_result(tools=[{"name": tool.name, "description": _summary(tool)} for tool in found])

    def describe(args: Args, context: ToolContext) -> str:
        for tool in hidden(context):
            if tool.name == args["name"]:
                return tool_result(name=tool.name, description=tool.description, parameters=tool.parameters)
        return tool_error(f"there is no tool {args['name']!r}; find one with {SEARCH}")

    def call(_args: Args, _context: ToolContext) -> str:
        return tool_error("name has to be that of a tool, and arguments an object with its arguments")

    query = fields(["query"], query=text("What it should do"), limit=number())
    name = fields(["name"], name=text())
    arguments = fields(["name", "arguments"], name=text(), arguments={"type": "object"})
    return [
        Tool(SEARCH, TOOLSET, "Find more tools.", query, search, "pure", quick=True, emoji="🧰", untrusted=True),
        Tool(DESCRIBE, TOOLSET, "The arguments of a tool.", name, describe, "pure", quick=True, untrusted=True),
        Tool(CALL, TOOLSET, f"Call a tool that {SEARCH} found.", arguments, call, "pure", quick=True),
    ]


def can_be_deferred(tool: Tool) -> bool:
    """Whether a tool may be left out of requests: those of MCP servers and plugins, never our own."""
    return tool.toolset.startswith("mcp-") or bool(tool.plugin)


def split_offered(
    offered: Sequence[Tool], settings: ToolSearchConfig, window: int, registry: ToolRegistry
) -> tuple[list[dict[str, Any]], list[str]]:
    """The definitions for a request, and the names of the tools that are reached through the search only.

    ``window`` is the context window in tokens; ``registry`` has the tools of the search.
    """
    definitions = [tool.definition() for tool in offered]
    hidden = {tool.name: tool for tool in offered if can_be_deferred(tool)}
    bridge = [tool for name in (SEARCH, DESCRIBE, CALL) if (tool := registry.get(name)) is not None]
    if not hidden or len(bridge) < 3 or not _is_wanted(settings, hidden, window, definitions):
        return definitions, []
    made = {tool.name: tool.definition() for tool in bridge}
    made[SEARCH]["function"]["description"] = f"Find more tools: {_groups(hidden.values())}."
    kept = [definition for definition in definitions if definition["function"]["name"] not in hidden]
    return [*kept, *made.values()], sorted(hidden)


def _is_wanted(
    settings: ToolSearchConfig, hidden: Mapping[str, Tool], window: int, definitions: Sequence[dict[str, Any]]
) -> bool:
    if settings.enabled != "auto":
        return settings.enabled == "on"
    schemas = [definition for definition in definitions if definition["function"]["name"] in hidden]
    return len(msgspec.json.encode(schemas)) / _CHARS_PER_TOKEN > window * settings.threshold_pct / 100


def _groups(tools: Iterable[Tool]) -> str:
    counted = Counter(tool.toolset.removeprefix("mcp-") for tool in tools)
    shown = [f"{name[:40]} ({count})" for name, count in counted.most_common(_MOST_GROUPS)]
    return ", ".join(shown) + (", …" if len(counted) > _MOST_GROUPS else "")


def unwrapped(request: ToolRequest, offered: frozenset[str]) -> ToolRequest:
    """The call inside a ``tool_call``; any other request is returned as it is."""
    if request.name != CALL or CALL not in offered:
        return request
    try:
        args = parse_arguments(request.arguments)
        name, arguments = args.get("name"), args.get("arguments", {})
    except ValueError:
        return request
    if not isinstance(name, str) or name in (SEARCH, DESCRIBE, CALL):
        return request
    if not isinstance(arguments, str):
        arguments = msgspec.json.encode(arguments).decode()
    return ToolRequest(request.id, name, arguments, request.is_last_of_cut_off)


def _best(tools: Sequence[Tool], query: str) -> list[Tool]:
    """The tools that fit, best first. A word in the name counts more than one in the description."""
    wanted = set(_WORD.findall(query.lower()))

    def score(tool: Tool) -> float:
        name, described = (set(_WORD.findall(part.lower())) for part in (tool.name, tool.description))
        partial = sum(any(word in known for known in name) for word in wanted - name)
        return 3 * len(wanted & name) + partial + len(wanted & described)

    scored = sorted(((score(tool), tool) for tool in tools), key=lambda pair: (-pair[0], pair[1].name))
    return [tool for points, tool in scored if points > 0 or not wanted]


def _summary(tool: Tool) -> str:
    line = " ".join(tool.description.split())
    return line if len(line) <= _LONGEST_SUMMARY else f"{line[: _LONGEST_SUMMARY - 1]}…"
