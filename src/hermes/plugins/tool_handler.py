"""Tool handlers of plugins, wrapped as tools of the runtime."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from typing import Any, cast

from msgspec.structs import replace

from hermes.base.errors import PluginError
from hermes.hooks.answers import plain
from hermes.hooks.callback import accepted_names, describe, is_awaitable
from hermes.hooks.copies import isolate
from hermes.hooks.threads.event_loop import AsyncLoop
from hermes.hooks.threads.runner import OWN_SIGNALS, CallbackRunner
from hermes.hooks.threads.timed_call import TimedCall
from hermes.plugins.loading.manifest import env_names
from hermes.tools.registry import Args, Tool, ToolContext
from hermes.tools.results import tool_error, tool_result

log = logging.getLogger("hermes.plugins")

#: What providers accept as a tool's name.
TOOL_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")

#: The keywords a handler with ``**kwargs`` gets. Others are passed only to handlers that name them, because many
#: pass their ``**kwargs`` straight on.
_ALWAYS = ("task_id", "session_id", "user_task")


#: The call of a plugin's tool that runs here: its name, its arguments as they were judged, and its context.
_running: ContextVar[tuple[str, Args, ToolContext] | None] = ContextVar("running_tool", default=None)


def check_name(name: object) -> str:
    """The name, when a model can call it."""
    if isinstance(name, str) and TOOL_NAME.fullmatch(name):
        return name
    raise PluginError(f"register_tool: {name!r} cannot be a tool's name; use 1 to 64 of A-Z, a-z, 0-9, _ and -")


def read_schema(name: str, schema: object, description: str) -> tuple[str, dict[str, Any]]:
    """Description and parameters from a schema, which may be wrapped as in a provider's tool list."""
    if not isinstance(schema, dict):
        raise PluginError(f"register_tool({name!r}): schema is a {type(schema).__name__}; a dict is expected")
    fields = cast("dict[str, Any]", schema)
    fields = fields.get("function", fields) if fields.get("type") == "function" else fields
    parameters: object = fields.get("parameters", {"type": "object", "properties": {}})
    if not isinstance(parameters, dict):
        found = type(parameters).__name__
        raise PluginError(f"register_tool({name!r}): schema['parameters'] is a {found}; a dict is expected")
    return description or str(fields.get("description") or ""), isolate(parameters)


def runner(name: str, plugin: str, handler: Callable[..., Any], loop: AsyncLoop) -> Callable[[Args, ToolContext], str]:
    """A ``Tool.run`` that calls ``handler(args, **keywords)`` and checks that it returns text."""
    names = accepted_names(handler)
    label = f"tool {name!r} of plugin {plugin!r}"

    def run(args: Args, context: ToolContext) -> str:
        token = _running.set((name, args, context))
        try:
            value = handler(isolate(args), **_keywords(names, context))
            if is_awaitable(value):
                value = loop.run(value, label)
        finally:
            _running.reset(token)
        return _as_text(value, name)

    return run


def wrapping(tool: Tool, wrapped: Tool) -> Tool:
    """A plugin's tool around another one of its name, judged and shown as that one is."""
    return replace(
        wrapped,
        description=tool.description,
        parameters=tool.parameters,
        run=tool.run,
        available=tool.available,
        needs=tool.needs,
        emoji=tool.emoji or wrapped.emoji,
        plugin=tool.plugin,
        untrusted=tool.untrusted or wrapped.untrusted,
        quick=False,
        claims_itself=False,
    )


def run_wrapped(tool: Tool, args: Args) -> str:
    """Run a tool for the one that took its name, as part of that one's call, which was judged."""
    name, judged, context = _running.get() or ("", {}, None)
    if context is None or name != tool.name:
        return tool_error(f"{tool.name} was replaced by a plugin, and runs only in a call of the tool that replaced it")
    if args != judged:
        return tool_error(
            f"{tool.name} was not run: the tool that replaced it changed the arguments after they were judged; "
            "tool_request middleware and pre_tool_call can change them before"
        )
    return tool.run(args, context)


def _keywords(names: frozenset[str] | None, context: ToolContext) -> dict[str, Any]:
    scope = context.scope
    known = {
        "task_id": scope.task_id,
        "session_id": scope.session_id,
        "user_task": context.user_task,
        "turn_id": scope.turn_id,
        "api_request_id": scope.api_request_id,
        "tool_call_id": scope.tool_call_id,
        "platform": scope.platform,
        "principal": scope.principal,
        "cwd": str(context.cwd),
    }
    return {key: known[key] for key in (_ALWAYS if names is None else names) if key in known}


def _as_text(value: Any, name: str) -> str:
    if isinstance(value, str):
        return value
    found: str = value.__class__.__name__
    if isinstance(value, dict):
        fields = cast("dict[str, Any]", value)
        if fields.get("_multimodal") is True:
            return tool_result(**fields)
    return tool_error(
        f"{name} returned {found}; a tool's handler must return a JSON string", error_type="tool_result_contract"
    )


def availability(
    name: str, plugin: str, check: Callable[[], Any] | None, requires_env: Sequence[Any] | None, runner: CallbackRunner
) -> Callable[[], bool] | None:
    """Whether the tool can work here: its variables are set, and its own check says yes, in time."""
    needed = env_names(requires_env or ())
    if check is None and not needed:
        return None

    def available() -> bool:
        if not all(os.environ.get(variable) for variable in needed):
            return False
        if check is None:
            return True
        call = TimedCall(plugin, runner.limits.hook_seconds(plugin))
        found, error = runner.run(check, {}, call, "")
        if isinstance(error, OWN_SIGNALS):
            raise error
        if error is not None:
            log.warning("plugin %r: the check of tool %r failed: %s", plugin, name, describe(error))
        return error is None and bool(plain(found))

    return available
