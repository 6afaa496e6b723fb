"""Checks of a plugin's tools and commands."""

from __future__ import annotations

import argparse
from typing import Any, cast

import msgspec

from hermes.hooks.callback import describe
from hermes.plugins.registry import CliCommand, Command
from hermes.testing.conformance.guarded_calls import CallGuard, PluginFunction, severity_in, turn
from hermes.testing.conformance.host import ConformanceHost, plugin_function, raised_at, source_line_of
from hermes.testing.conformance.payloads import HUGE_TEXT, ODD_TEXT, SampleSession
from hermes.tools.files.guard import FileGuard
from hermes.tools.registry import Tool, ToolContext
from hermes.tools.terminal.background import ProcessTable

_TYPES = frozenset({"object", "array", "string", "number", "integer", "boolean", "null"})

#: How deep schemas are looked at, and sample arguments are made.
_DEPTH = 8


def check_tool(host: ConformanceHost, guard: CallGuard, name: str, *, call: bool) -> None:
    """Look at a tool's schema, then call it with good and with bad arguments."""
    tool = host.tools.get(name)
    if tool is None:
        return
    handler = plugin_function(tool.run)
    subject = PluginFunction(f"tool {name}", cast("Any", handler), source_line_of(handler))
    problem = schema_problem(tool.parameters)
    if problem:
        guard.note("tool-schema", subject, "", f"tool {name}: {problem}")
    if not tool.description.strip():
        guard.note("tool-description", subject, "", f"tool {name} has no description")
    if _is_available(host, guard, tool, subject) and call:
        _call_tool(host, guard, tool, subject)


def _is_available(host: ConformanceHost, guard: CallGuard, tool: Tool, subject: PluginFunction) -> bool:
    """Whether the tool says that it works here; one that does not is not called, as in a session."""
    if tool.available is None:
        return True
    check = plugin_function(tool.available)
    if check is not tool.available:
        # The runtime takes an exception for a no; here it is what we want to see.
        asked = PluginFunction(subject.site, cast("Any", check), source_line_of(check))
        result = guard.call(asked, "complete", cast("Any", check), host)
        if result.error is not None:
            guard.failed(asked, "complete", result.error, "a check_fn answers yes or no")
        if not result.finished or result.error is not None:
            return False
    result = guard.call(subject, "complete", tool.available, host)
    return result.finished and bool(result.value)


def _call_tool(host: ConformanceHost, guard: CallGuard, tool: Tool, subject: PluginFunction) -> None:
    sample = sample_arguments(tool.parameters)
    texts = [name for name, value in sample.items() if isinstance(value, str)]
    variants: list[tuple[str, dict[str, Any]]] = [
        ("complete", sample),
        ("repeated", sample),
        ("unicode", {**sample, **dict.fromkeys(texts, ODD_TEXT)}),
        ("huge", {**sample, **dict.fromkeys(texts, "x" * HUGE_TEXT)}),
        ("bad arguments", {}),
        ("bad arguments", dict.fromkeys(sample, None)),
        ("bad arguments", {name: [{"not": "expected"}] for name in sample}),
        ("cancelled turn", sample),
    ]
    for order, args in variants:
        if not subject.given_up:
            _call_once(host, guard, tool, subject, order, args)


def _call_once(
    host: ConformanceHost, guard: CallGuard, tool: Tool, subject: PluginFunction, order: str, args: dict[str, Any]
) -> None:
    session = SampleSession("t")
    ids = {"session_id": session.session_id, "task_id": "task-t", "turn_id": session.turn_id, "tool_call_id": "call_t"}

    def work() -> str:
        processes = ProcessTable()
        try:
            with turn(ids, cancelled=order == "cancelled turn") as scope:
                return tool.run(args, ToolContext(scope, host.cwd, processes, FileGuard()))
        finally:
            processes.close()

    result = guard.call(subject, order, work, host)
    error = result.error
    if error is not None and not isinstance(error, Exception):
        if order != "cancelled turn":
            guard.failed(subject, order, error)
    elif error is not None:
        shown = "valid arguments" if severity_in(order) == "error" else "arguments a model might make up"
        text = f"{tool.name} raised {describe(error)} at {raised_at(error)} for {shown}; return errors as JSON"
        cause = (type(error).__qualname__, raised_at(error))
        guard.note("tool-raises", subject, order, text, cause=cause, severity=severity_in(order))
    elif result.finished:
        _check_result(guard, subject, order, result.value)


def _check_result(guard: CallGuard, subject: PluginFunction, order: str, result: str) -> None:
    try:
        decoded: object = msgspec.json.decode(result)
    except (msgspec.DecodeError, UnicodeEncodeError):
        text = f"{subject.site} returned text that is not JSON, such as {result[:40]!r}"
        guard.note("tool-result-text", subject, order, text, cause="not JSON")
        return
    fields = cast("dict[str, Any]", decoded) if isinstance(decoded, dict) else {}
    if fields.get("error_type") == "tool_result_contract":
        guard.note("tool-result", subject, order, str(fields.get("error")))


def check_command(host: ConformanceHost, guard: CallGuard, command: Command, *, call: bool) -> None:
    """Run a slash command with nothing, something and something odd."""
    subject = PluginFunction(f"command /{command.name}", command.handler, source_line_of(command.handler))
    for order, raw in (("complete", ""), ("repeated", "some words"), ("unicode", ODD_TEXT)):
        if not call or subject.given_up:
            return
        result = guard.call(subject, order, lambda raw=raw: host.run_command(command.name, raw), host)
        if result.error is not None:
            guard.failed(subject, order, result.error)
        elif result.finished and not (result.value is None or isinstance(result.value, str)):
            text = f"/{command.name} answered with a {type(result.value).__name__}; text or None is expected"
            guard.note("command-answer", subject, order, text)


def check_cli_command(host: ConformanceHost, guard: CallGuard, command: CliCommand) -> None:
    """Let a subcommand of ``hermes`` declare its arguments. Its handler is not run: it may do anything."""
    subject = PluginFunction(f"command hermes {command.name}", command.setup_fn, source_line_of(command.setup_fn))
    result = guard.call(subject, "complete", lambda: command.setup_fn(argparse.ArgumentParser()), host)
    if result.error is not None:
        guard.failed(subject, "complete", result.error, f"hermes {command.name} would not start")


# -- schemas ------------------------------------------------------------------------------------------------------


def schema_problem(parameters: dict[str, Any]) -> str:
    """Why a provider would refuse these parameters; empty when it would not."""
    try:
        msgspec.json.encode(parameters)
    except Exception as error:
        return f"its schema is not JSON: {error}"
    if parameters.get("type", "object") != "object":
        return f"its parameters have type {parameters.get('type')!r}; 'object' is expected"
    return _problem_in(parameters, "parameters", 0)


def _problem_in(schema: Any, path: str, depth: int) -> str:
    if depth > _DEPTH or isinstance(schema, bool):
        return ""
    if not isinstance(schema, dict):
        return f"{path} is a {type(schema).__name__}; a schema is a dict"
    fields = cast("dict[str, Any]", schema)
    kinds: Any = fields.get("type", [])
    for kind in cast("list[Any]", kinds) if isinstance(kinds, list) else [kinds]:
        if not isinstance(kind, str) or kind not in _TYPES:
            return f"{path} has type {kind!r}; types are {', '.join(sorted(_TYPES))}"
    properties: object = fields.get("properties", {})
    if not isinstance(properties, dict):
        return f"{path}.properties is a {type(properties).__name__}; a dict is expected"
    named = cast("dict[str, Any]", properties)
    required: object = fields.get("required", [])
    if not isinstance(required, list):
        return f"{path}.required is a {type(required).__name__}; a list of names is expected"
    for name in cast("list[Any]", required):
        if not isinstance(name, str) or (named and name not in named):
            return f"{path}.required names {name!r}, which is not among its properties"
    if not isinstance(fields.get("enum", []), list):
        return f"{path}.enum is a {type(fields['enum']).__name__}; a list is expected"
    inner = [(f"{path}.properties.{name}", value) for name, value in named.items()]
    if "items" in fields:
        inner.append((f"{path}.items", fields["items"]))
    return next((found for where, value in inner if (found := _problem_in(value, where, depth + 1))), "")


def sample_arguments(parameters: dict[str, Any]) -> dict[str, Any]:
    """Arguments that fit a schema."""
    made = _sample({"type": "object", "properties": parameters.get("properties")}, 0)
    return cast("dict[str, Any]", made)


def _sample(schema: Any, depth: int) -> Any:
    if not isinstance(schema, dict) or depth > _DEPTH:
        return None
    fields = cast("dict[str, Any]", schema)
    for given in ("default", "const"):
        if given in fields:
            return fields[given]
    for several in ("examples", "enum"):
        if isinstance(fields.get(several), list) and fields[several]:
            return fields[several][0]
    for choice in ("anyOf", "oneOf"):
        if isinstance(fields.get(choice), list) and fields[choice]:
            return _sample(fields[choice][0], depth + 1)
    kind: Any = fields.get("type", "string")
    if isinstance(kind, list):
        kind = next(iter(cast("list[Any]", kind)), "string")
    if kind == "object":
        properties: Any = fields.get("properties")
        named = cast("dict[str, Any]", properties) if isinstance(properties, dict) else {}
        return {name: _sample(value, depth + 1) for name, value in named.items()}
    if kind == "array":
        return [_sample(fields["items"], depth + 1)] if "items" in fields else []
    plain: dict[str, Any] = {"integer": 1, "number": 1.0, "boolean": True, "null": None}
    if kind in ("integer", "number"):
        return fields.get("minimum", plain[kind])
    return plain.get(str(kind), "sample")
