"""Portable packages: ``plugin.json`` with skills and MCP servers, in the format Agent Plugins 1.0.0, without code."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import msgspec

from hermes.base.config.schema.mcp import McpServerConfig
from hermes.plugins.ctx.state import data_folder

if TYPE_CHECKING:
    from hermes.plugins.loading.manifest import PluginManifest
    from hermes.plugins.services import PluginHost

SCHEMA = "https://agent-plugins.org/schemas/1.0.0/plugin.schema.json"

_PLACES = re.compile(r"\$\{(PLUGIN_ROOT|PLUGIN_DATA)\}")
_LOOPBACK = ("localhost", "127.0.0.1", "::1")
#: The fields of an entry of ``mcp.json``, by its type.
_FIELDS = {"stdio": {"type", "command", "args", "env", "cwd"}, "streamable-http": {"type", "url", "headers"}}


def format_problem(fields: dict[str, Any]) -> str:
    """Why a ``plugin.json`` is none of this format; empty when it is."""
    return "" if fields.get("$schema") == SCHEMA else f"its $schema is {fields.get('$schema')!r}; {SCHEMA} is expected"


def portable_register(manifest: PluginManifest, host: PluginHost) -> Callable[[Any], None]:
    """Registers the skills and MCP servers of a package. One that is wrong is left out, and the others stay."""
    assert manifest.path is not None
    root = manifest.path.resolve()
    data = data_folder(host, manifest)

    def register(context: Any) -> None:
        for skill in _skills(root):
            try:
                context.register_skill(skill.name, skill)
            except (ValueError, OSError) as error:
                context.note_problem(f"skill {skill.name!r} is left out: {error}")
        for name, entry in _entries(root, context.note_problem):
            try:
                server = _server(entry, root, data)
            except (ValueError, msgspec.ValidationError) as error:
                context.note_problem(f"MCP server {name!r} is left out: {error}")
                continue
            if server.command:
                data.mkdir(parents=True, exist_ok=True, mode=0o700)
            context.add_mcp_server(name, server)

    return register


def _skills(root: Path) -> Iterator[Path]:
    folder = root / "skills"
    for child in sorted(folder.iterdir()) if folder.is_dir() else ():
        if (child / "SKILL.md").is_file() and child.resolve().is_relative_to(root):
            yield child


def _entries(root: Path, problem: Callable[[str], None]) -> list[tuple[str, dict[str, Any]]]:
    file = root / "mcp.json"
    if not file.is_file():
        return []
    try:
        document: Any = json.loads(file.read_text("utf-8-sig"))
        servers: Any = document["mcpServers"]
        return [(str(name), cast("dict[str, Any]", entry)) for name, entry in servers.items()]
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        problem(f"mcp.json is left out: it has no mcpServers that can be read ({type(error).__name__}: {error})")
        return []


def _server(entry: object, root: Path, data: Path) -> McpServerConfig:
    if not isinstance(entry, dict):
        raise ValueError("a mapping is expected")
    fields = cast("dict[str, Any]", entry)
    kind = fields.get("type") or ("stdio" if "command" in fields else "streamable-http")
    if kind not in _FIELDS:
        raise ValueError(f"its type is {kind!r}; {' and '.join(_FIELDS)} are supported")
    if unknown := set(fields) - _FIELDS[kind]:
        raise ValueError(f"there is no field {min(unknown)!r}")
    places = {"PLUGIN_ROOT": str(root), "PLUGIN_DATA": str(data)}
    given = {name: _expanded(value, places) for name, value in fields.items() if name != "type"}
    if kind == "stdio":
        given["command"] = _command(fields.get("command"), root)
        given["env"] = {**given.get("env", {}), **places}
        given["cwd"] = str(_inside(given.get("cwd") or root, root, data))
    else:
        _check_address(given.get("url"))
    return msgspec.convert(given, McpServerConfig)


def _expanded(value: Any, places: dict[str, str]) -> Any:
    if isinstance(value, str):
        return _PLACES.sub(lambda found: places[found[1]], value)
    if isinstance(value, list):
        return [_expanded(one, places) for one in cast("list[Any]", value)]
    if isinstance(value, dict):
        return {name: _expanded(one, places) for name, one in cast("dict[str, Any]", value).items()}
    return value


def _command(command: object, root: Path) -> str:
    """A program by its name, or one of the package's own. Never a line for a shell."""
    if not isinstance(command, str) or not command or any(character.isspace() for character in command):
        raise ValueError(f"command is {command!r}; one program is expected, with its arguments in args")
    if command.startswith("./"):
        return str(_inside(root / command, root))
    if "/" in command:
        raise ValueError(f"command is {command!r}; a name, or a path that starts with ./, is expected")
    return command


def _inside(path: str | Path, *places: Path) -> Path:
    resolved = (places[0] / path).resolve()
    if not any(resolved.is_relative_to(place.resolve()) for place in places):
        raise ValueError(f"{path} leads out of the package")
    return resolved


def _check_address(url: object) -> None:
    from urllib.parse import urlsplit

    parts = urlsplit(url if isinstance(url, str) else "")
    is_safe = parts.scheme == "https" or (parts.scheme == "http" and parts.hostname in _LOOPBACK)
    if not is_safe or not parts.hostname or parts.username or parts.fragment:
        raise ValueError(f"url is {url!r}; https without a name, or http of this machine, is expected")
