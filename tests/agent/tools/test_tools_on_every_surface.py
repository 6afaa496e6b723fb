"""The same tools on every surface: a single run, the prompt, the A2A server, an editor, a program, and child agents."""

from __future__ import annotations

import io
import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from hermes.base.config import load_config
from hermes.base.config.schema.mcp import McpServerConfig, McpToolFilterConfig
from hermes.host import Host
from hermes.service.mcp.manifest import Manifest, ManifestCache, ManifestTool
from hermes.service.mcp.settings import entry_digest
from hermes.surfaces.acp.server import AcpServer
from hermes.surfaces.cli.main import main
from hermes.surfaces.embedding.agent import Agent
from hermes.testing import ScriptedProvider, text, tool_call
from support import write_config
from support.a2a_rig import served, wire_message
from support.configured import configured_host
from support.repl_terminal import ReplTerminal

TOOLSETS = ["hermes-cli", "web", "code_execution", "vision", "mcp-f"]

EVERYWHERE = {
    *("terminal", "process", "read_file", "write_file", "patch", "search_files", "todo", "session_search"),
    *("skills_list", "skill_view", "web_fetch", "vision_analyze", "delegate_task", "clarify", "memory", "execute_code"),
}
#: The tools of the MCP server of these tests that are offered.
MCP = {"mcp__f__echo", "mcp__f__where"}
#: Only its parent talks to a child, and decides what outlives the task.
NOT_FOR_CHILDREN = {"delegate_task", "clarify", "memory", "execute_code"}

Surface = Callable[[ScriptedProvider, Path, Path], None]


def single_run(provider: ScriptedProvider, home: Path, workdir: Path) -> None:
    assert main(["chat", "-Q", "-t", ",".join(TOOLSETS), "-q", "hello"]) == 0


def prompt(provider: ScriptedProvider, home: Path, workdir: Path) -> None:
    with ReplTerminal(home, workdir, "chat", "-t", ",".join(TOOLSETS)) as terminal:
        terminal.send("hello")
        terminal.wait_for("answered")


def a2a_server(provider: ScriptedProvider, home: Path, workdir: Path) -> None:
    servers = load_config(home).config.mcp_servers
    with served(home, workdir, provider, toolsets=TOOLSETS, mcp_servers=servers) as server:
        server.rpc("SendMessage", wire_message("hello"))


def editor(provider: ScriptedProvider, home: Path, workdir: Path) -> None:
    def make_host(cwd: Path) -> Host:
        return configured_host(
            *(home, cwd, provider),
            mcp_servers=load_config(home).config.mcp_servers,
            options={"platform": "acp", "toolsets": TOOLSETS},
        )

    lines = Lines()
    sink = io.BytesIO()
    thread = threading.Thread(target=AcpServer(lines, sink, make_host).run)  # pyright: ignore[reportArgumentType]
    thread.start()
    lines.put(1, "session/new", {"cwd": str(workdir), "mcpServers": []})
    answer = _answer(sink, 1)
    blocks = [{"type": "text", "text": "hello"}]
    lines.put(2, "session/prompt", {"sessionId": answer["sessionId"], "prompt": blocks})
    _answer(sink, 2)
    lines.close()
    thread.join(60)


class Lines:
    """A stream of lines that a test writes."""

    def __init__(self) -> None:
        self._lines: list[bytes] = []
        self._changed = threading.Condition()

    def put(self, number: int, method: str, params: dict[str, Any]) -> None:
        message = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
        self._add(msgspec.json.encode(message) + b"\n")

    def close(self) -> None:
        self._add(b"")

    def _add(self, line: bytes) -> None:
        with self._changed:
            self._lines.append(line)
            self._changed.notify()

    def readline(self, _size: int = -1) -> bytes:
        with self._changed:
            assert self._changed.wait_for(lambda: self._lines, 60)
            return self._lines.pop(0)


def _answer(sink: io.BytesIO, number: int) -> dict[str, Any]:
    from support.waiting import wait_until

    def found() -> list[dict[str, Any]]:
        messages = [json.loads(line) for line in sink.getvalue().splitlines(keepends=True) if line.endswith(b"\n")]
        return [message for message in messages if message.get("id") == number]

    wait_until(found)
    return found()[0]["result"]


def program(provider: ScriptedProvider, home: Path, workdir: Path) -> None:
    with Agent(home=home, toolsets=TOOLSETS, cwd=workdir) as agent:
        agent.run("hello")


@pytest.mark.parametrize("surface", [single_run, prompt, a2a_server, editor, program])
def test_the_model_has_the_same_tools(
    home: Path, workdir: Path, monkeypatch: pytest.MonkeyPatch, surface: Surface
) -> None:
    monkeypatch.chdir(workdir)
    _write_skill(workdir)
    with ScriptedProvider([text("answered")]) as provider:
        write_config(home, provider.base_url, _with_known_server(home))
        surface(provider, home, workdir)
    assert _offered(provider, 0) == EVERYWHERE | MCP
    assert "- sheep: Counts sheep." in str(provider.requests[0].messages[0]["content"])


def test_a_child_has_them_too_but_for_those_of_its_parent(home: Path, workdir: Path) -> None:
    _write_skill(workdir)
    write_config(home, "http://127.0.0.1:9/v1", _with_known_server(home))
    servers = load_config(home).config.mcp_servers
    script = [tool_call("delegate_task", {"goal": "count"}), text("three"), text("done")]
    with (
        ScriptedProvider(script) as provider,
        configured_host(home, workdir, provider, mcp_servers=servers, options={"toolsets": TOOLSETS}) as host,
    ):
        host.new_session().run("go")
    assert _offered(provider, 1) == (EVERYWHERE | MCP) - NOT_FOR_CHILDREN


def _with_known_server(home: Path) -> str:
    """Settings with an MCP server whose tools are stored, so that none is started."""
    entry = McpServerConfig(command="no-such-program", tools=McpToolFilterConfig(include=["echo", "where"]))
    tools = [ManifestTool(name, f"The tool {name}", {"type": "object"}) for name in ("echo", "where", "hidden")]
    ManifestCache(home).put("f", Manifest(digest=entry_digest(entry), server="f 1", protocol="1", tools=tools))
    return "mcp_servers: {f: {command: no-such-program, tools: {include: [echo, where]}}}\n"


def _write_skill(workdir: Path) -> None:
    place = workdir / ".hermes/skills/sheep"
    place.mkdir(parents=True)
    (place / "SKILL.md").write_text("---\nname: sheep\ndescription: Counts sheep.\n---\nCount.\n")


def _offered(provider: ScriptedProvider, number: int) -> set[str]:
    return {tool["function"]["name"] for tool in provider.requests[number].body["tools"]}
