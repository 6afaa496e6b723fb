"""A ``plugins.toml``: read once, its trajectories taken over, the rest translated for the installed runtime."""

from __future__ import annotations

import copy
import tomllib
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

from .settings import AGENT_NAME, AtifFiles, absolute, checked_template

Table = dict[str, Any]

_MAX_BYTES = 1024 * 1024
#: From these versions of the observability schema on, events go to ``sinks`` and endpoints have a type.
_SINKS_SINCE = 2
_TYPED_ENDPOINTS_SINCE = 3
_FLAT_ATOF = ("output_directory", "filename", "mode")
_OLD_ENDPOINTS = {"opentelemetry": "full", "openinference": "openinference"}
#: What an old section has beside its endpoint, and keeps inside it.
_SECTION_KEYS = ("enabled", "endpoints")


class PluginsTomlError(Exception):
    """The file cannot be used; the message says why."""


@dataclass(frozen=True, slots=True)
class PluginsToml:
    """A file in the words of the runtime, without the trajectories, which the plugin writes itself."""

    document: Table
    #: The trajectories it asks for.
    atif: AtifFiles | None = None
    #: How an enabled ``adaptive`` component is to go about tools; empty when there is none.
    adaptive_mode: str = ""
    #: Whether spans go to places where each is looked at by itself.
    has_endpoints: bool = False
    remarks: tuple[str, ...] = ()


def read_plugins_toml(path: Path, cwd: Path) -> PluginsToml:
    """Read a file. Raises ``PluginsTomlError``."""
    try:
        if path.stat().st_size > _MAX_BYTES:
            raise PluginsTomlError(f"{path} is larger than {_MAX_BYTES // 1024} kB")
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise PluginsTomlError(f"{path} cannot be read: {error.strerror or error}") from error
    except (ValueError, RecursionError) as error:
        raise PluginsTomlError(f"{path} is not valid TOML: {error}") from error
    components = document.get("components", [])
    if not isinstance(components, list) or not all(isinstance(one, dict) for one in cast("list[Any]", components)):
        raise PluginsTomlError(f"{path}: components must be a list of tables, each begun with [[components]]")
    return _take_over(document, cast("list[Table]", components), path, cwd)


def _take_over(document: Table, components: list[Table], path: Path, cwd: Path) -> PluginsToml:
    found = PluginsToml(document)
    remarks: list[str] = []
    for component in components:
        config = component.get("config", {})
        if not component.get("enabled", True) or not isinstance(config, dict):
            continue
        config = cast("Table", config)
        if component.get("kind") == "observability":
            for section in _atof_files(config):
                section["output_directory"] = str(absolute(str(section.get("output_directory") or "."), cwd))
            found = replace(
                found,
                atif=_taken_atif(config, path, cwd, remarks) or found.atif,
                has_endpoints=found.has_endpoints or any(_is_on(config.get(name)) for name in _OLD_ENDPOINTS),
            )
        elif component.get("kind") == "adaptive":
            parallelism = config.get("tool_parallelism")
            mode = cast("Table", parallelism).get("mode") if isinstance(parallelism, dict) else None
            found = replace(found, adaptive_mode=str(mode or "observe_only"))
    return replace(found, remarks=tuple(remarks))


def _taken_atif(config: Table, path: Path, cwd: Path, remarks: list[str]) -> AtifFiles | None:
    """Take the block out of the configuration: the runtime would name sessions after its own ids."""
    block = config.pop("atif", None)
    if not isinstance(block, dict) or not _is_on(cast("Table", block)):
        return None
    block = cast("Table", block)
    if block.get("storage"):
        remarks.append(f"{path}: atif.storage is not used; trajectories are written to atif.output_directory only")
    folder = str(block.get("output_directory") or ".")
    template = checked_template(str(block.get("filename_template") or ""), f"{path}: filename_template", remarks)
    return AtifFiles(
        absolute(folder, cwd),
        template,
        str(block.get("agent_name") or AGENT_NAME),
        str(block.get("agent_version") or ""),
        str(block.get("model_name") or ""),
        children_too=str(block.get("subagent_export_mode", "")).lower() == "all",
    )


def _atof_files(config: Table) -> list[Table]:
    """The tables that name a file for events, in either shape."""
    atof = config.get("atof")
    if not isinstance(atof, dict) or not _is_on(cast("Table", atof)):
        return []
    atof = cast("Table", atof)
    sinks = atof.get("sinks")
    if not isinstance(sinks, list):
        return [atof]
    tables = [cast("Table", sink) for sink in cast("list[Any]", sinks) if isinstance(sink, dict)]
    return [sink for sink in tables if sink.get("type") == "file"]


def with_files(document: Table, choose: Callable[[Path, str], str], *, again: bool) -> Table:
    """The document for a start: ``choose`` says what the file for events in a folder is called instead.

    A name that the runtime chooses is empty. When it starts ``again`` in this process, what was written before stays.
    """
    chosen = copy.deepcopy(document)
    for table in (table for config in _observability(chosen) for table in _atof_files(config)):
        name = choose(Path(table["output_directory"]), str(table.get("filename") or ""))
        if name:
            table["filename"] = name
        if again:
            table["mode"] = "append"
    return chosen


def translated(document: Table, schema: int) -> Table:
    """The document for a runtime whose observability schema is ``schema``."""
    new = copy.deepcopy(document)
    for config in _observability(new):
        config["version"] = schema
        _translate_atof(config, schema >= _SINKS_SINCE)
        if schema >= _TYPED_ENDPOINTS_SINCE:
            _translate_endpoints(config)
    return new


def _translate_atof(config: Table, has_sinks: bool) -> None:
    atof = config.get("atof")
    if not isinstance(atof, dict):
        return
    atof = cast("Table", atof)
    if has_sinks and "sinks" not in atof:
        file = {name: atof.pop(name) for name in _FLAT_ATOF if name in atof}
        atof["sinks"] = [{"type": "file", **file}]
    elif not has_sinks and "sinks" in atof:
        files = _atof_files(config)
        del atof["sinks"]
        atof.update({name: files[0][name] for name in _FLAT_ATOF if files and name in files[0]})


def _translate_endpoints(config: Table) -> None:
    """Two sections with one endpoint each became one section with a list."""
    endpoints: list[Table] = []
    for name, kind in _OLD_ENDPOINTS.items():
        section = config.get(name)
        if not isinstance(section, dict) or "endpoints" in section:
            continue
        section = cast("Table", config.pop(name))
        if _is_on(section):
            rest = {key: value for key, value in section.items() if key not in _SECTION_KEYS}
            endpoints.append({"type": kind, **rest})
    if endpoints:
        section = cast("Table", config.setdefault("opentelemetry", {"enabled": True}))
        section["endpoints"] = [*cast("list[Table]", section.get("endpoints", [])), *endpoints]


def _observability(document: Table) -> list[Table]:
    components = cast("list[Table]", document.get("components", []))
    return [
        cast("Table", component["config"])
        for component in components
        if component.get("kind") == "observability" and isinstance(component.get("config"), dict)
    ]


def _is_on(section: Any) -> bool:
    return isinstance(section, dict) and bool(cast("Table", section).get("enabled", False))
