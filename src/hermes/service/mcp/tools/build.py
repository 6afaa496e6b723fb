"""Tools of the registry for what an MCP server offers: its tools, its resources and its prompts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, cast

from hermes.service.mcp.manifest import Manifest, ManifestTool
from hermes.service.mcp.tools.names import registry_names, toolset_name
from hermes.tools.arguments import fields, text
from hermes.tools.registry import Args, Effect, Tool, ToolContext

if TYPE_CHECKING:
    from hermes.base.config.schema.mcp import McpServerConfig, McpToolFilterConfig
    from hermes.service.mcp.server import McpServer

_EMOJI = "🔌"
_MAX_SCHEMA_DEPTH = 24
_DROPPED = frozenset({"$schema", "$defs", "definitions", "$id", "$comment"})

Schema = dict[str, Any]

#: Description, arguments and code of a tool.
_Extra = tuple[str, dict[str, Any], Callable[[Args, ToolContext], str]]


def build_tools(server: McpServer, manifest: Manifest) -> list[Tool]:
    """The tools of a server, as far as its settings offer them."""
    chosen = [tool for tool in manifest.tools if _is_offered(tool.name, server.entry.tools) and not tool.needs_task]
    extra = _extra_tools(server, manifest)
    names = registry_names(server.name, [*(tool.name for tool in chosen), *extra])
    tools = [_tool(server, tool, names[tool.name]) for tool in chosen]
    taken = {tool.name for tool in chosen}
    for name, parts in extra.items():
        if name not in taken:
            toolset = toolset_name(server.name)
            tools.append(Tool(names[name], toolset, *parts, "pure", emoji=_EMOJI, untrusted=True))
    return tools


def offered_names(server: str, manifest: Manifest, entry: McpServerConfig) -> dict[str, str]:
    """The tools of a manifest that are offered, with their names in the registry."""
    chosen = [tool.name for tool in manifest.tools if _is_offered(tool.name, entry.tools) and not tool.needs_task]
    return registry_names(server, chosen)


def unavailable_tools(manifest: Manifest) -> list[str]:
    """Tools that are not offered because they can only run as a task of the protocol."""
    return [tool.name for tool in manifest.tools if tool.needs_task]


def _is_offered(name: str, wanted: McpToolFilterConfig) -> bool:
    if wanted.include:
        return _fits(name, wanted.include)
    return not _fits(name, wanted.exclude)


def _fits(name: str, patterns: Sequence[str]) -> bool:
    if not patterns:
        return False
    from fnmatch import fnmatchcase  # most entries filter nothing

    return any(fnmatchcase(name, pattern) for pattern in patterns)


def _tool(server: McpServer, tool: ManifestTool, name: str) -> Tool:
    entry = server.entry
    effect: Effect = "unsafe"
    if entry.trust and tool.idempotent:
        effect = "pure" if tool.read_only else "idempotent"
    original, repeatable = tool.name, effect != "unsafe"

    def run(args: Args, context: ToolContext) -> str:
        return server.call_tool(original, args, context, repeatable=repeatable)

    return Tool(
        name,
        toolset_name(server.name),
        tool.description or f"{tool.name} of the MCP server {server.name}",
        _request_schema(tool.parameters),
        run,
        effect,
        parallel=entry.supports_parallel_tool_calls or effect == "pure",
        emoji=_EMOJI,
        untrusted=True,
    )


def _extra_tools(server: McpServer, manifest: Manifest) -> dict[str, _Extra]:
    """Tools that read what is no tool, by the end of their names: description, arguments and code."""
    wanted, label = server.entry.tools, f"the MCP server {server.name}"
    extra: dict[str, _Extra] = {}
    if wanted.resources and manifest.has_resources:
        extra["list_resources"] = f"The resources of {label}.", fields([]), server.list_resources
        extra["read_resource"] = f"Read a resource of {label}.", fields(["uri"], uri=text()), server.read_resource
    if wanted.prompts and manifest.has_prompts:
        extra["list_prompts"] = f"The prompts of {label}, with their arguments.", fields([]), server.list_prompts
        schema = fields(["name"], name=text(), arguments={"type": "object", "description": "Texts by name"})
        extra["get_prompt"] = f"A prompt of {label}.", schema, server.get_prompt
    return extra


# -- schemas, made fit for a request to a model: an object, without references -----------------------------------------


def _request_schema(schema: Schema) -> Schema:
    """The schema of a tool's arguments with its references resolved. What cannot be resolved accepts anything."""
    plain = _resolve(schema, schema, (), 0)
    fitting: Schema = cast("Schema", plain) if isinstance(plain, dict) else {}
    if fitting.get("type") != "object":
        fitting["type"] = "object"
    if not isinstance(fitting.get("properties"), dict):
        fitting["properties"] = {}
    return fitting


def _resolve(node: Any, root: Schema, seen: tuple[str, ...], depth: int) -> Any:
    if isinstance(node, list):
        return [_resolve(item, root, seen, depth + 1) for item in cast("list[Any]", node)]
    if not isinstance(node, dict):
        return node
    schema = cast("Schema", node)
    reference = schema.get("$ref")
    if isinstance(reference, str):
        target = None if reference in seen else _target(root, reference)
        rest = {key: value for key, value in schema.items() if key != "$ref"}
        if target is None or depth > _MAX_SCHEMA_DEPTH:
            return {key: value for key, value in rest.items() if key == "description"}
        return _resolve({**target, **rest}, root, (*seen, reference), depth + 1)
    if depth > _MAX_SCHEMA_DEPTH:
        return {}
    return {key: _resolve(value, root, seen, depth + 1) for key, value in schema.items() if key not in _DROPPED}


def _target(root: Schema, reference: str) -> Schema | None:
    """The definition that ``#/$defs/name`` refers to; None for anything else."""
    if not reference.startswith("#/"):
        return None
    node: Any = root
    for part in reference[2:].split("/"):
        node = cast("Schema", node).get(part.replace("~1", "/").replace("~0", "~")) if isinstance(node, dict) else None
    return cast("Schema", node) if isinstance(node, dict) else None
