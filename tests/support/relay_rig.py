"""Hosts and processes that export through NeMo Relay, and what they left on disk."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import msgspec
from nat.atif import Trajectory

from hermes.base.config import Config
from hermes.base.config.schema.sections import AgentConfig, ModelConfig, PluginsConfig
from hermes.host import Host, HostOptions
from hermes.testing import ScriptedProvider
from hermes.tools.registry import Tool
from hermes.trace.verify.atif import check_atif
from hermes.trace.verify.atof import check_atof
from support import SOURCES, run_hermes

KEY = "observability/nemo_relay"
PREFIX = "HERMES_NEMO_RELAY_"
VERSION = tuple(int(part) for part in metadata.version("nemo-relay").split(".")[:2])
#: Releases before it lose the ids of managed tool calls.
KEEPS_CALL_IDS = VERSION >= (0, 8)
#: Metadata can be added to the runtime's own events.
ADDS_METADATA = find_spec("nemo_relay.event_metadata") is not None

HostMaker = Callable[..., Host]
Event = dict[str, Any]
Document = dict[str, Any]


def relay_env(folder: Path, **more: str) -> dict[str, str]:
    """The environment that has both kinds of files written to ``folder``; ``more`` without the common prefix."""
    settings = {
        "ATOF_ENABLED": "1",
        "ATOF_OUTPUT_DIRECTORY": str(folder / "atof"),
        "ATIF_ENABLED": "1",
        "ATIF_OUTPUT_DIRECTORY": str(folder / "atif"),
        **more,
    }
    return {PREFIX + name: value for name, value in settings.items()}


def relay_host(
    home: Path,
    cwd: Path,
    provider: ScriptedProvider,
    *,
    retries: int = 0,
    options: dict[str, Any] | None = None,
    **sections: Any,
) -> Host:
    """A host with the plugin, which the caller closes."""
    config = Config(
        model=ModelConfig(provider="custom", default="scripted", base_url=provider.base_url, api_key="test-key"),
        agent=AgentConfig(api_max_retries=retries),
        plugins=PluginsConfig(enabled=[KEY]),
        **sections,
    )
    return Host(home, config, HostOptions(**(options or {})), cwd=cwd, env={})


def add_tool(host: Host, name: str, run: Callable[[Any, Any], str]) -> None:
    """A tool without arguments in toolset ``race``, which may run beside others."""
    host.tools.add(Tool(name, "race", "", {"type": "object", "properties": {}}, run, "pure", parallel=True))


def forbid(tool_name: str, **_: Any) -> dict[str, str] | None:
    """A policy that blocks the tool named ``forbidden``."""
    return {"action": "block", "message": "no"} if tool_name == "forbidden" else None


def relay_chat(
    home: Path, cwd: Path, *arguments: str, env: dict[str, str], base_url: str, config: str = ""
) -> subprocess.CompletedProcess[str]:
    """Run ``hermes chat`` to its end, as a person does who enabled the plugin."""
    write_relay_config(home, base_url, config)
    return run_hermes("chat", *arguments, home=home, cwd=cwd, env={**relay_path(), **env})


def relay_path() -> dict[str, str]:
    """What has a process find the same release of the runtime as this one."""
    return {"PYTHONPATH": os.pathsep.join(filter(None, [os.environ.get("PYTHONPATH", ""), str(SOURCES)]))}


def write_relay_config(home: Path, base_url: str, extra: str = "") -> None:
    home.mkdir(parents=True, exist_ok=True)
    (home / "config.yaml").write_text(
        "model:\n  provider: custom\n  default: qwen3.6:35b\n"
        f"  base_url: {base_url}\n  api_key: test-key\n"
        f"agent:\n  api_max_retries: 0\nplugins:\n  enabled:\n    - {KEY}\n{extra}"
    )


def events(folder: Path, filename: str = "events.jsonl") -> list[Event]:
    """The events of a stream by time, as readers take them."""
    lines = (folder / "atof" / filename).read_bytes().splitlines()
    return sorted((msgspec.json.decode(line) for line in lines), key=lambda event: str(event["timestamp"]))


def scopes(found: list[Event], category: str, edge: str = "start") -> list[Event]:
    return [one for one in found if one.get("category") == category and one.get("scope_category") == edge]


def marks(found: list[Event], name: str = "") -> list[Event]:
    return [one for one in found if one["kind"] == "mark" and (not name or one["name"] == name)]


def trajectories(folder: Path) -> dict[str, Document]:
    """The documents by session."""
    documents = [msgspec.json.decode(path.read_bytes()) for path in sorted((folder / "atif").glob("*.json"))]
    return {document["session_id"]: document for document in documents}


def problems(folder: Path, filename: str = "events.jsonl") -> list[str]:
    """What is wrong with everything that was written, by our rules and by those of the format's authors."""
    lines = (folder / "atof" / filename).read_bytes().splitlines()
    found = check_atof(lines)
    for document in trajectories(folder).values():
        Trajectory.model_validate(document)
        found += check_atif(document)
    return found


def agree(folder: Path, filename: str = "events.jsonl") -> list[tuple[str, str]]:
    """Calls that only one of stream and trajectories tells of, as (session, call)."""
    told = {
        (one["metadata"]["session_id"], one["metadata"]["tool_call_id"])
        for one in scopes(events(folder, filename), "tool")
    }
    shown = {call for document in trajectories(folder).values() for call in _calls(document)}
    return sorted(told ^ shown)


def _calls(document: Document) -> set[tuple[str, str]]:
    own = {
        (str(document["session_id"]), str(call["tool_call_id"]))
        for step in document["steps"]
        for call in step.get("tool_calls", ())
    }
    return own.union(*(_calls(child) for child in document.get("subagent_trajectories", ())))
