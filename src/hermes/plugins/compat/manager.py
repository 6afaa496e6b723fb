"""``hermes_cli.plugins``: the host's plugins as plugins for other hosts of the contract reach them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from hermes.contract.hooks import HOOKS
from hermes.contract.middleware import MIDDLEWARE
from hermes.hooks.callback import Callback, is_awaitable
from hermes.plugins.compat.middleware import middleware_payload
from hermes.plugins.compat.names import find_module
from hermes.plugins.entry_points import GROUP

if TYPE_CHECKING:
    from hermes.plugins.compat.host import Names
    from hermes.plugins.context import Parts
    from hermes.plugins.manifest import PluginManifest
    from hermes.plugins.registry import LoadedPlugin


class LoadedPluginView(NamedTuple):
    """One plugin, whether or not it runs."""

    manifest: PluginManifest
    enabled: bool
    error: str | None
    tools_registered: list[str]
    hooks_registered: list[str]
    middleware_registered: list[str]
    commands_registered: list[str]


class PluginManager:
    """The plugins of one host. Its attributes are made anew at each look: they are for reading."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        #: The interactive command line, where there is one that takes messages.
        self._cli_ref: Any = None

    # -- run ----------------------------------------------------------------------------------------------------

    def invoke_hook(self, hook_name: str, **fields: Any) -> list[Any]:
        """Tell every subscriber; what they answered, in the order they registered."""
        emit = getattr(self._parts.hooks, hook_name) if hook_name in HOOKS else None
        return [] if emit is None else [answer.value for answer in emit.invoke(**fields)]

    def has_hook(self, hook_name: str) -> bool:
        """Whether anybody subscribed."""
        return hook_name in HOOKS and self._parts.hooks.has(hook_name)

    def invoke_middleware(self, kind: str, **fields: Any) -> list[Any]:
        """Call every callback with the same fields; what they returned, failures left out."""
        payload = middleware_payload(**fields)
        answers = (self._call(callback, payload) for callback in _callbacks(self._parts, kind, MIDDLEWARE))
        return [answer for answer in answers if answer is not None]

    def has_middleware(self, kind: str) -> bool:
        """Whether any callback is registered."""
        return kind in MIDDLEWARE and self._parts.hooks.has(kind)

    def _call(self, callback: Callback, payload: dict[str, Any]) -> Any:
        try:
            value = callback.function(**callback.arguments(payload))
            if is_awaitable(value):
                value = self._parts.hooks.loop.run(value, f"plugin {callback.plugin!r} in {callback.site}")
        except Exception as error:
            callback.failed(error, "its answer is left out")
            return None
        return value

    def discover_and_load(self, force: bool = False) -> None:
        """Nothing is left to do: the host has loaded its plugins when one of them can call this."""

    # -- look ---------------------------------------------------------------------------------------------------

    @property
    def _plugins(self) -> dict[str, LoadedPluginView]:
        return {record.manifest.key: _view(record) for record in self._parts.plugins}

    @property
    def _hooks(self) -> dict[str, list[Callable[..., Any]]]:
        return _functions(self._parts, HOOKS)

    @property
    def _middleware(self) -> dict[str, list[Callable[..., Any]]]:
        return _functions(self._parts, MIDDLEWARE)

    @property
    def _plugin_commands(self) -> dict[str, dict[str, Any]]:
        return {
            command.name: {
                "handler": command.handler,
                "description": command.description,
                "args_hint": command.args_hint,
                "plugin": command.plugin,
            }
            for command in self._parts.plugins.commands.values()
        }

    @property
    def _cli_commands(self) -> dict[str, dict[str, Any]]:
        return {
            command.name: {
                "name": command.name,
                "help": command.help,
                "description": command.description,
                "setup_fn": command.setup_fn,
                "handler_fn": command.handler_fn,
                "plugin": command.plugin,
            }
            for command in self._parts.plugins.cli_commands.values()
        }

    @property
    def _plugin_tool_names(self) -> set[str]:
        return {name for name, tool in self._parts.tools.all().items() if tool.plugin}

    @property
    def _aux_tasks(self) -> dict[str, dict[str, Any]]:
        return {
            task.key: {
                "key": task.key,
                "display_name": task.display_name,
                "description": task.description,
                "defaults": dict(task.defaults),
                "plugin": task.plugin,
            }
            for task in self._parts.plugins.auxiliary_tasks.values()
        }

    def list_plugins(self) -> list[dict[str, Any]]:
        """Every plugin the host looked at, sorted by key."""
        return [
            {
                "name": record.manifest.name,
                "key": key,
                "version": record.manifest.version,
                "description": record.manifest.description,
                "source": record.manifest.source,
                "enabled": record.status == "loaded",
                "tools": len(record.tools),
                "hooks": len(record.hooks),
                "middleware": len(record.middleware),
                "commands": len(record.commands),
                "error": record.error or None,
            }
            for key, record in sorted(self._parts.plugins.plugins.items())
        ]

    def toolsets(self) -> list[tuple[str, str, str]]:
        """The toolsets that plugins' tools name: key, label, description."""
        first: dict[str, str] = {}
        for tool in self._parts.tools.all().values():
            if tool.plugin:
                first.setdefault(tool.toolset, tool.plugin)
        found: list[tuple[str, str, str]] = []
        for toolset, key in sorted(first.items()):
            record = self._parts.plugins.get(key)
            label = toolset.replace("_", " ").replace("-", " ").title()
            found.append((toolset, label, record.manifest.description if record else ""))
        return found


def manager_of(parts: Parts) -> PluginManager:
    """The host's one manager."""
    return vars(find_module(parts, "hermes_cli.plugins"))["get_plugin_manager"]()


def names(parts: Parts) -> Names:
    """The manager, its classes, and its methods as functions."""
    from hermes.plugins.compat.directives import directive_functions
    from hermes.plugins.context import PluginContext, PluginToolOverrideError
    from hermes.plugins.manifest import PluginManifest

    manager = PluginManager(parts)

    def get_plugin_command_handler(name: str) -> Callable[[str], Any] | None:
        command = parts.plugins.commands.get(name)
        return None if command is None else command.handler

    def get_plugin_auxiliary_tasks() -> list[dict[str, Any]]:
        return [task for _, task in sorted(manager._aux_tasks.items())]  # pyright: ignore[reportPrivateUsage]

    return {
        "ENTRY_POINTS_GROUP": GROUP,
        "VALID_HOOKS": set(HOOKS),
        "VALID_MIDDLEWARE": set(MIDDLEWARE),
        "LoadedPlugin": LoadedPluginView,
        "PluginContext": PluginContext,
        "PluginManager": PluginManager,
        "PluginManifest": PluginManifest,
        "PluginToolOverrideError": PluginToolOverrideError,
        "discover_plugins": manager.discover_and_load,
        "get_plugin_auxiliary_tasks": get_plugin_auxiliary_tasks,
        "get_plugin_cli_commands": lambda: manager._cli_commands,  # pyright: ignore[reportPrivateUsage]
        "get_plugin_command_handler": get_plugin_command_handler,
        "get_plugin_commands": lambda: manager._plugin_commands,  # pyright: ignore[reportPrivateUsage]
        "get_plugin_manager": lambda: manager,
        "get_plugin_tool_names": lambda: manager._plugin_tool_names,  # pyright: ignore[reportPrivateUsage]
        "get_plugin_toolsets": manager.toolsets,
        "has_hook": manager.has_hook,
        "has_middleware": manager.has_middleware,
        "invoke_hook": manager.invoke_hook,
        "invoke_middleware": manager.invoke_middleware,
        **directive_functions(manager.invoke_hook),
    }


def _view(record: LoadedPlugin) -> LoadedPluginView:
    return LoadedPluginView(
        manifest=record.manifest,
        enabled=record.status == "loaded",
        error=record.error or None,
        tools_registered=list(record.tools),
        hooks_registered=list(record.hooks),
        middleware_registered=list(record.middleware),
        commands_registered=list(record.commands),
    )


def _functions(parts: Parts, sites: dict[str, Any]) -> dict[str, list[Callable[..., Any]]]:
    found = {site: [callback.function for callback in _callbacks(parts, site, sites)] for site in sites}
    return {site: functions for site, functions in found.items() if functions}


def _callbacks(parts: Parts, site: str, sites: dict[str, Any]) -> tuple[Callback, ...]:
    holder: Any = getattr(parts.hooks, site) if site in sites else None
    if holder is None:
        return ()
    return cast("tuple[Callback, ...]", holder.subscribers if site in HOOKS else holder.callbacks)
