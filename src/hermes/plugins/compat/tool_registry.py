"""``tools.registry``: the host's tools, as published plugins use them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, NamedTuple

import msgspec

from hermes.base.errors import PluginError
from hermes.base.sanitize.surrogates import encodable
from hermes.hooks.copies import isolate
from hermes.plugins.context import PluginContext
from hermes.plugins.services import PluginHost
from hermes.plugins.tool_handler import run_wrapped
from hermes.tools.registry import Tool
from hermes.tools.results import tool_error
from hermes.tools.results import tool_result as fields_result
from hermes.tools.toolsets import toolset_name, toolsets

log = logging.getLogger("hermes.plugins")


class ToolEntry(NamedTuple):
    """One tool. ``handler(args, **keywords)`` runs it as the model's own call would."""

    name: str
    toolset: str
    schema: dict[str, Any]
    handler: Callable[..., str]
    check_fn: Callable[[], bool] | None
    requires_env: list[str]
    is_async: bool
    description: str
    emoji: str


class Registry:
    """The tools of one host."""

    def __init__(self, host: PluginHost) -> None:
        self._host = host

    # -- change -------------------------------------------------------------------------------------------------

    def register(
        self,
        name: str,
        toolset: str,
        schema: dict[str, Any],
        handler: Callable[..., Any],
        check_fn: Callable[[], Any] | None = None,
        requires_env: list[Any] | None = None,
        is_async: bool = False,
        description: str = "",
        emoji: str = "",
        max_result_size_chars: float | None = None,
        dynamic_schema_overrides: Callable[[], Any] | None = None,
        override: bool = False,
    ) -> None:
        """``ctx.register_tool`` of the plugin that defined the handler, under the same rules."""
        owner = _owner(self._host, handler)
        if owner is None:
            raise PluginError(
                f"registry.register({name!r}): it is not known which plugin the tool belongs to; use ctx.register_tool"
            )
        owner.register_tool(
            name, toolset, schema, handler, check_fn, requires_env, is_async, description, emoji, override
        )

    def deregister(self, name: str) -> None:
        """Take a plugin's tool out. The runtime's own stay."""
        tool = self._host.tools.get(name)
        if tool is None:
            return
        record = self._host.plugins.get(tool.plugin)
        if record is None:
            log.warning("a plugin wanted to remove tool %r, which is the runtime's own; it stays", name)
            return
        self._host.tools.remove(name)
        if name in record.tools:
            record.tools.remove(name)

    # -- use ----------------------------------------------------------------------------------------------------

    def dispatch(self, name: str, args: dict[str, Any] | None = None, **kwargs: Any) -> str:
        """Run a tool with everything a call of the model's goes through, and return its result."""
        if self._host.tools.get(name) is None:
            return tool_error(f"Unknown tool: {name}")
        return self._host.services.dispatch_tool(name, args or {}, **kwargs)

    def _run(self, tool: Tool, args: dict[str, Any] | None = None, **kwargs: Any) -> str:
        """Run a tool that was looked up. Since then a plugin may have put one of its own around it."""
        if self._host.tools.get(tool.name) is tool:
            return self.dispatch(tool.name, args, **kwargs)
        return run_wrapped(tool, args or {})

    # -- look ---------------------------------------------------------------------------------------------------

    @property
    def _tools(self) -> Mapping[str, ToolEntry]:
        return {name: self._entry(tool) for name, tool in self._host.tools.all().items()}

    def get_entry(self, name: str) -> ToolEntry | None:
        """One tool, or ``None``."""
        tool = self._host.tools.get(name)
        return None if tool is None else self._entry(tool)

    def get_schema(self, name: str) -> dict[str, Any] | None:
        """A tool's name, description and parameters."""
        tool = self._host.tools.get(name)
        return None if tool is None else isolate(tool.definition()["function"])

    def get_definitions(self, tool_names: Iterable[str], quiet: bool = False) -> list[dict[str, Any]]:
        """The definitions, as a model gets them, of those tools that can work here."""
        tools = (self._host.tools.get(name) for name in sorted(tool_names))
        usable = (tool for tool in tools if tool is not None and self._host.tools.is_available(tool))
        return [isolate(tool.definition()) for tool in usable]

    def get_all_tool_names(self) -> list[str]:
        """Every tool, sorted."""
        return sorted(self._host.tools.all())

    def get_toolset_for_tool(self, name: str) -> str | None:
        """The toolset a tool belongs to."""
        tool = self._host.tools.get(name)
        return None if tool is None else tool.toolset

    def get_emoji(self, name: str, default: str = "⚡") -> str:
        """A tool's picture."""
        tool = self._host.tools.get(name)
        return default if tool is None else tool.emoji or default

    def get_tool_to_toolset_map(self) -> dict[str, str]:
        """Every tool with its toolset."""
        return {name: tool.toolset for name, tool in self._host.tools.all().items()}

    def get_registered_toolset_names(self) -> list[str]:
        """Every toolset that some tool names, sorted."""
        return sorted({tool.toolset for tool in self._host.tools.all().values()})

    def get_tool_names_for_toolset(self, toolset: str) -> list[str]:
        """The tools of a toolset, sorted."""
        return sorted(toolsets(self._host.tools).get(toolset_name(toolset), ()))

    def is_toolset_available(self, toolset: str) -> bool:
        """Whether some tool of it can work here."""
        tools = (self._host.tools.get(name) for name in self.get_tool_names_for_toolset(toolset))
        return any(tool is not None and self._host.tools.is_available(tool) for tool in tools)

    def _entry(self, tool: Tool) -> ToolEntry:
        schema = isolate(tool.definition()["function"])
        handler = partial(self._run, tool)
        return ToolEntry(
            tool.name, tool.toolset, schema, handler, tool.available, [], False, tool.description, tool.emoji
        )


def tool_result(data: Any = None, **fields: Any) -> str:
    """``data``, or else the fields, as a JSON string."""
    if data is None:
        return fields_result(**fields)
    return msgspec.json.encode(encodable(data)).decode()


def _owner(host: PluginHost, handler: Any) -> PluginContext | None:
    """The plugin whose module defined the handler; for one that does not tell, the plugin that is being loaded."""
    from hermes.plugins.loading.modules import root_module

    while isinstance(handler, partial):
        handler = handler.func
    module = getattr(handler, "__module__", None) or ""
    loading = [context for context in host.contexts.values() if context.loading]
    inside = [
        context for context in host.contexts.values() if f"{module}.".startswith(f"{root_module(context.manifest)}.")
    ]
    # Two plugins may share a package; then it is the one that is being loaded.
    candidates = [context for context in inside if context.loading] or inside or loading
    return candidates[-1] if candidates else None
