"""``hermes_cli.plugins``: the plugin manager, as published plugins use it. ``hermes_cli.middleware`` beside it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, cast

from msgspec.structs import asdict

from hermes.contract.hooks import HOOKS, OBSERVER_SCHEMA
from hermes.contract.middleware import MIDDLEWARE, MIDDLEWARE_SCHEMA
from hermes.hooks.callback import FAILED, LATE, Callback
from hermes.hooks.execution_chain import ExecutionChain
from hermes.hooks.request_chain import RequestChain
from hermes.plugins.compat.names import Names, find_module, home_of
from hermes.plugins.context import PluginContext, PluginToolOverrideError
from hermes.plugins.loading.entry_points import GROUP
from hermes.plugins.loading.manifest import PluginManifest
from hermes.plugins.registry import LoadedPlugin
from hermes.plugins.services import PluginHost

Directive = tuple[str | None, str | None]


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
    """The plugins of one host. Its attributes are copies, for reading."""

    def __init__(self, host: PluginHost) -> None:
        self._host = host
        #: The interactive command line, where there is one that takes messages.
        self._cli_ref: Any = None

    @property
    def home_path(self) -> Path:
        """The home whose plugins these are."""
        return home_of(self._host)

    # -- run ----------------------------------------------------------------------------------------------------

    def invoke_hook(self, hook_name: str, **fields: Any) -> list[Any]:
        """Call every subscriber; their answers, in the order they registered."""
        emit = getattr(self._host.hooks, hook_name) if hook_name in HOOKS else None
        return [] if emit is None else [answer.value for answer in emit.invoke(**fields)]

    def has_hook(self, hook_name: str) -> bool:
        """Whether there are subscribers."""
        return hook_name in HOOKS and self._host.hooks.has(hook_name)

    def invoke_middleware(self, kind: str, **fields: Any) -> list[Any]:
        """Call every callback with the same fields; what they returned, failures left out."""
        payload = middleware_payload(**fields)
        answers = (self._call(callback, payload) for callback in _callbacks(self._host, kind, MIDDLEWARE))
        return [answer for answer in answers if answer is not None]

    def has_middleware(self, kind: str) -> bool:
        """Whether any callback is registered."""
        return kind in MIDDLEWARE and self._host.hooks.has(kind)

    def _call(self, callback: Callback, payload: dict[str, Any]) -> Any:
        session: Any = payload.get("session_id")
        given = callback.arguments(payload)
        value = callback.ask(given, session if type(session) is str else "", "its answer is left out")
        return None if value is FAILED or value is LATE else value

    def discover_and_load(self, force: bool = False) -> None:
        """Nothing is left to do: the host has loaded its plugins when one of them can call this."""

    # -- look ---------------------------------------------------------------------------------------------------

    @property
    def _plugins(self) -> dict[str, LoadedPluginView]:
        return {record.manifest.key: _view(record) for record in self._host.plugins}

    @property
    def _hooks(self) -> dict[str, list[Callable[..., Any]]]:
        return _functions(self._host, HOOKS)

    @property
    def _middleware(self) -> dict[str, list[Callable[..., Any]]]:
        return _functions(self._host, MIDDLEWARE)

    @property
    def _plugin_commands(self) -> dict[str, dict[str, Any]]:
        commands = self._host.plugins.commands.items()
        return {key: {name: value for name, value in asdict(one).items() if name != "name"} for key, one in commands}

    @property
    def _cli_commands(self) -> dict[str, dict[str, Any]]:
        return {command.name: asdict(command) for command in self._host.plugins.cli_commands.values()}

    @property
    def _plugin_tool_names(self) -> set[str]:
        return {name for name, tool in self._host.tools.all().items() if tool.plugin}

    @property
    def _aux_tasks(self) -> dict[str, dict[str, Any]]:
        tasks = self._host.plugins.auxiliary_tasks.values()
        return {task.key: {**asdict(task), "defaults": dict(task.defaults)} for task in tasks}

    def list_plugins(self) -> list[dict[str, Any]]:
        """Every plugin the host considered, sorted by key."""
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
            for key, record in sorted(self._host.plugins.plugins.items())
        ]

    def toolsets(self) -> list[tuple[str, str, str]]:
        """The toolsets that plugins' tools name: key, label, description."""
        first: dict[str, str] = {}
        for tool in self._host.tools.all().values():
            if tool.plugin:
                first.setdefault(tool.toolset, tool.plugin)
        found: list[tuple[str, str, str]] = []
        for toolset, key in sorted(first.items()):
            record = self._host.plugins.get(key)
            label = toolset.replace("_", " ").replace("-", " ").title()
            found.append((toolset, label, record.manifest.description if record else ""))
        return found


def manager_of(host: PluginHost) -> PluginManager:
    """The host's one manager."""
    return vars(find_module(host, "hermes_cli.plugins"))["get_plugin_manager"]()


def plugins(host: PluginHost) -> Names:
    """``hermes_cli.plugins``: the manager, its classes, and its methods as functions."""
    manager = PluginManager(host)

    def get_plugin_command_handler(name: str) -> Callable[[str], Any] | None:
        command = host.plugins.commands.get(name)
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
        **_directive_functions(manager.invoke_hook),
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


def _functions(host: PluginHost, sites: dict[str, Any]) -> dict[str, list[Callable[..., Any]]]:
    found = {site: [callback.function for callback in _callbacks(host, site, sites)] for site in sites}
    return {site: functions for site, functions in found.items() if functions}


def _callbacks(host: PluginHost, site: str, sites: dict[str, Any]) -> tuple[Callback, ...]:
    holder: Any = getattr(host.hooks, site) if site in sites else None
    if holder is None:
        return ()
    return cast("tuple[Callback, ...]", holder.subscribers if site in HOOKS else holder.callbacks)


# -- what pre_tool_call callbacks answer about a call, without running it ---------------------------------------------


def _directive_functions(invoke_hook: Callable[..., list[Any]]) -> Names:
    """The three questions a plugin may ask, answered by the callbacks that ``invoke_hook`` reaches."""

    def get_pre_tool_call_directive(
        tool_name: str,
        args: dict[str, Any] | None,
        task_id: str = "",
        session_id: str = "",
        tool_call_id: str = "",
        turn_id: str = "",
        api_request_id: str = "",
        middleware_trace: list[dict[str, Any]] | None = None,
    ) -> Directive:
        answers = invoke_hook(
            "pre_tool_call",
            tool_name=tool_name,
            args=args if isinstance(args, dict) else {},
            task_id=task_id,
            session_id=session_id,
            tool_call_id=tool_call_id,
            turn_id=turn_id,
            api_request_id=api_request_id,
            middleware_trace=list(middleware_trace or ()),
        )
        return _directive(answers)

    def get_pre_tool_call_block_message(tool_name: str, args: dict[str, Any] | None, *ids: Any, **more: Any) -> Any:
        action, message = get_pre_tool_call_directive(tool_name, args, *ids, **more)
        return message if action == "block" else None

    def resolve_pre_tool_block(tool_name: str, args: dict[str, Any] | None, *ids: Any, **more: Any) -> str | None:
        action, message = get_pre_tool_call_directive(tool_name, args, *ids, **more)
        if action != "approve":
            return message
        # No one can be asked from here, and that must not mean yes. dispatch_tool asks.
        return f"{tool_name} needs approval ({message or 'a plugin asks for it'}) and no one can be asked here"

    return {
        "get_pre_tool_call_block_message": get_pre_tool_call_block_message,
        "get_pre_tool_call_directive": get_pre_tool_call_directive,
        "resolve_pre_tool_block": resolve_pre_tool_block,
    }


def _directive(answers: list[Any]) -> Directive:
    """What the answers come to: the first ``block`` with a message, else the first ``approve``."""
    approve: Directive = (None, None)
    for answer in answers:
        if not isinstance(answer, dict):
            continue
        fields = cast("dict[str, Any]", answer)
        action, message = fields.get("action"), fields.get("message")
        reason = message if isinstance(message, str) and message else None
        if action == "block" and reason:
            return action, reason
        if action == "approve" and approve[0] is None:
            approve = (action, reason)
    return approve


# -- hermes_cli.middleware --------------------------------------------------------------------------------------------

Payload = dict[str, Any]


@dataclass
class RequestMiddlewareResult:
    """What request middleware made of a payload."""

    payload: Any
    original_payload: Any
    changed: bool = False
    trace: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])


def middleware(host: PluginHost) -> Names:
    """``hermes_cli.middleware``: constants, and four ways to run the host's middleware around a plugin's own call."""
    hooks = host.hooks

    def apply_llm_request_middleware(request: Payload, **context: Any) -> RequestMiddlewareResult:
        return _rewrite(hooks.llm_request, request, context)

    def apply_tool_request_middleware(tool_name: str, args: Payload, **context: Any) -> RequestMiddlewareResult:
        return _rewrite(hooks.tool_request, args, {**context, "tool_name": tool_name})

    def run_llm_execution_middleware(request: Payload, next_call: Callable[[Any], Any], **context: Any) -> Any:
        return _wrap(hooks.llm_execution, request, next_call, context)

    def run_tool_execution_middleware(
        tool_name: str, args: Payload, next_call: Callable[[Any], Any], **context: Any
    ) -> Any:
        return _wrap(hooks.tool_execution, args, next_call, {**context, "tool_name": tool_name})

    return {
        "API_EXECUTION_MIDDLEWARE": "llm_execution",
        "API_REQUEST_MIDDLEWARE": "llm_request",
        "LLM_EXECUTION_MIDDLEWARE": "llm_execution",
        "LLM_REQUEST_MIDDLEWARE": "llm_request",
        "MIDDLEWARE_SCHEMA_VERSION": MIDDLEWARE_SCHEMA,
        "OBSERVER_SCHEMA_VERSION": OBSERVER_SCHEMA,
        "TOOL_EXECUTION_MIDDLEWARE": "tool_execution",
        "TOOL_REQUEST_MIDDLEWARE": "tool_request",
        "VALID_MIDDLEWARE": set(MIDDLEWARE),
        "RequestMiddlewareResult": RequestMiddlewareResult,
        "apply_api_request_middleware": apply_llm_request_middleware,
        "apply_llm_request_middleware": apply_llm_request_middleware,
        "apply_tool_request_middleware": apply_tool_request_middleware,
        "middleware_payload": middleware_payload,
        "observer_payload": observer_payload,
        "run_api_execution_middleware": run_llm_execution_middleware,
        "run_llm_execution_middleware": run_llm_execution_middleware,
        "run_tool_execution_middleware": run_tool_execution_middleware,
    }


def observer_payload(**fields: Any) -> Payload:
    """The fields with the version that every hook carries."""
    return {"telemetry_schema_version": OBSERVER_SCHEMA, **fields}


def middleware_payload(**fields: Any) -> Payload:
    """The fields with the versions that every middleware callback is given."""
    return observer_payload(**{"middleware_schema_version": MIDDLEWARE_SCHEMA, **fields})


def _rewrite(chain: RequestChain | None, payload: Payload, context: Payload) -> RequestMiddlewareResult:
    if chain is None:
        return RequestMiddlewareResult(payload, payload)
    outcome = chain.run(payload, context)
    return RequestMiddlewareResult(outcome.payload, outcome.original, outcome.changed, list(outcome.trace))


def _wrap(chain: ExecutionChain | None, payload: Payload, base: Callable[[Any], Any], context: Payload) -> Any:
    return base(payload) if chain is None else chain.run(payload, base, context)
