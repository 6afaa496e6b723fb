"""The built-in tools: what a model is told about them, and what they really answer."""

from __future__ import annotations

import re
import tempfile
from pathlib import Path
from typing import Any, cast

import msgspec

from hermes.base.config import Config
from hermes.base.scope import Scope
from hermes.host import Host
from hermes.tools.builtin import builtin_tools
from hermes.tools.files.guard import FileGuard
from hermes.tools.registry import Tool, ToolContext
from hermes.tools.terminal.background import ProcessTable
from hermes.tools.toolsets import toolsets

from .markdown import code, table

_NOTES = "Water the plants on Tuesday.\nFeed the cat.\n"

#: The call shown for each tool. They run in this order in one folder.
_CALLS: dict[str, dict[str, Any]] = {
    "terminal": {"command": "grep -c cat notes.txt"},
    "read_file": {"path": "notes.txt"},
    "search_files": {"pattern": "cat"},
    "write_file": {"path": "todo/today.txt", "content": "Feed the cat.\n"},
    "patch": {"mode": "replace", "path": "notes.txt", "old_string": "Tuesday", "new_string": "Friday"},
    "process": {"action": "poll"},
}

#: What differs from run to run, and what the page shows instead.
_VARYING: dict[str, Any] = {"pid": 4711, "uptime_seconds": 0.1, "session_id": "proc_1f0c9a2b7d3e"}


def toolset_table() -> str:
    """Every toolset of a host without plugins, and the tools in it."""
    with tempfile.TemporaryDirectory() as folder, Host(Path(folder), Config(), cwd=Path(folder)) as host:
        members = toolsets(host.tools)
    order = sorted(members, key=lambda name: (len(members[name]), name))
    return table(("toolset", "tools"), [(code(name), ", ".join(map(code, sorted(members[name])))) for name in order])


def tool_text(name: str) -> str:
    """What a model is told about a tool, its arguments, and a real result."""
    tool = next(tool for tool in builtin_tools() if tool.name == name)
    facts = f"Toolset {code(tool.toolset)}, effect {code(tool.effect)}, {_company(tool)}."
    call = msgspec.json.encode(_CALLS[name]).decode()
    return (
        f"> {tool.description}\n\n{facts}\n\n{_arguments(tool)}\n"
        f"The call `{call}` answered:\n\n```json\n{_result(tool)}\n```\n"
    )


def _company(tool: Tool) -> str:
    if tool.parallel:
        return "runs beside other calls that only read"
    return "runs beside calls that write other files" if tool.parallel_by_file else "runs alone"


def _arguments(tool: Tool) -> str:
    required = tool.parameters["required"]
    properties = cast("dict[str, dict[str, Any]]", tool.parameters["properties"])
    rows = [
        (code(name), _type(schema), "required" if name in required else _default(schema), schema.get("description", ""))
        for name, schema in properties.items()
    ]
    return table(("argument", "type", "default", "meaning"), rows)


def _type(schema: dict[str, Any]) -> str:
    return " or ".join(map(code, schema["enum"])) if "enum" in schema else schema["type"]


def _default(schema: dict[str, Any]) -> str:
    return code(msgspec.json.encode(schema["default"]).decode()) if "default" in schema else ""


def _result(tool: Tool) -> str:
    processes = ProcessTable()
    try:
        with tempfile.TemporaryDirectory() as folder:
            place = Path(folder).resolve()
            (place / "notes.txt").write_text(_NOTES)
            context = ToolContext(Scope(), place, processes, FileGuard())
            args = dict(_CALLS[tool.name])
            if tool.name == "process":
                confinement = context.confinements.of_command(Scope(), place)
                args["session_id"] = processes.start("sleep 60", folder, confinement).id
            shown = _shown(tool.run(args, context), place)
    finally:
        processes.close()
    return shown


def _shown(result: str, place: Path) -> str:
    fields: dict[str, Any] = msgspec.json.decode(result.replace(str(place), "/home/you/desk"))
    fields.update({name: value for name, value in _VARYING.items() if name in fields})
    pretty = msgspec.json.format(msgspec.json.encode(fields), indent=2).decode()
    # Short lists read better on one line.
    return re.sub(r"\[\s+([^\[\]{}]{1,60}?)\s+\]", r"[\1]", pretty)
