"""MCP tools in conversations: the one pipeline, no cost while unused, nothing left behind by a kill."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from hermes.base.config.schema.sections import ApprovalsConfig, DelegationConfig
from hermes.testing import ScriptedProvider, text, tool_call
from support.configured import configured_host, tool_answers
from support.mcp_rig import FAULTY, faulty, wait_for_state
from support.surfaces import Prompt
from support.waiting import HANG, wait_until, wait_until_gone


def test_a_call_passes_the_pipeline_and_its_result_is_marked(home: Path, workdir: Path) -> None:
    seen: list[tuple[str, str]] = []

    class Watcher:
        def register(self, ctx: Any) -> None:
            ctx.register_hook("pre_tool_call", self.before)
            ctx.register_hook("post_tool_call", self.after)

        def before(self, **event: Any) -> None:
            seen.append(("pre", event["tool_name"]))

        def after(self, **event: Any) -> None:
            seen.append(("post", event["status"]))

    with ScriptedProvider([tool_call("mcp__f__echo", {"text": "hi"}), text("done")]) as provider:
        with configured_host(
            *(home, workdir, provider),
            mcp_servers={"f": faulty()},
            mcp_discovery_timeout=HANG,
            options={"plugin_objects": [Watcher()]},
        ) as host:
            session = host.new_session()
            session.run("go")
            assert tool_answers(host, session.id) == [{"result": "echo: hi"}]
            assert "<untrusted" in session.messages()[-2]["content"]
        names = {tool["function"]["name"] for tool in provider.requests[0].body["tools"]}
    assert {"mcp__f__echo", "mcp__f__die"} <= names
    assert seen == [("pre", "mcp__f__echo"), ("post", "ok")]


def test_rules_of_approvals_reach_mcp_tools(home: Path, workdir: Path) -> None:
    with (
        ScriptedProvider([tool_call("mcp__f__echo", {"text": "hi"}), text("done")]) as provider,
        configured_host(
            *(home, workdir, provider),
            mcp_servers={"f": faulty()},
            mcp_discovery_timeout=HANG,
            approvals=ApprovalsConfig(tools={"mcp__*": "ask"}),
        ) as host,
    ):
        session = host.new_session()
        session.run("go")
        assert "error" in tool_answers(host, session.id)[0]


@pytest.mark.parametrize("inherits", [True, False])
def test_children_have_the_tools_of_their_parent_unless_that_is_off(home: Path, workdir: Path, inherits: bool) -> None:
    replies = [tool_call("delegate_task", {"goal": "look"}), text("seen"), text("done")]
    with ScriptedProvider(replies) as provider:
        with configured_host(
            *(home, workdir, provider),
            mcp_servers={"f": faulty()},
            mcp_discovery_timeout=HANG,
            delegation=DelegationConfig(inherit_mcp_toolsets=inherits),
        ) as host:
            host.new_session().run("go")
        names = {tool["function"]["name"] for tool in provider.requests[1].body["tools"]}
    assert ("mcp__f__echo" in names) is inherits


def test_a_late_server_joins_at_the_next_turn(home: Path, workdir: Path) -> None:
    with ScriptedProvider([text("one"), text("two")]) as provider:
        with configured_host(*(home, workdir, provider), mcp_servers={"f": faulty()}, mcp_discovery_timeout=0) as host:
            session = host.new_session()
            session.run("first")
            wait_for_state(host, "f", "ready")
            wait_until(lambda: any(tool.name == "mcp__f__echo" for tool in session.offered), "the tools")
            session.run("second")
        first, second = ({tool["function"]["name"] for tool in sent.body["tools"]} for sent in provider.requests)
    assert "mcp__f__echo" in second
    assert first <= second


def test_toolsets_and_patterns_name_mcp_tools_also_before_they_are_known(home: Path, workdir: Path) -> None:
    for options, expected in (
        ({"toolsets": ["mcp-f"]}, 15),
        ({"toolsets": ["f"]}, 15),
        ({"allowed_tools": ["mcp__f__e*"]}, 2),
        ({"toolsets": ["file"]}, 0),
    ):
        with (
            ScriptedProvider([]) as provider,
            configured_host(
                *(home, workdir, provider), mcp_servers={"f": faulty()}, mcp_discovery_timeout=HANG, options=options
            ) as host,
        ):
            assert len([tool for tool in host.offered_tools() if tool.toolset == "mcp-f"]) == expected


def test_the_prompt_shows_the_servers_and_reloads_them(home: Path, workdir: Path) -> None:
    home.mkdir()
    entry = f"{{command: {sys.executable}, args: [-S, {FAULTY}, many=1]}}"
    with ScriptedProvider([]) as provider, configured_host(*(home, workdir, provider)) as host:
        prompt = Prompt(host)
        assert "no MCP servers" in prompt.type("/mcp")
        (home / "config.yaml").write_text(f"mcp_discovery_timeout: {HANG}\nmcp_servers:\n  f: {entry}\n")
        assert "1 tool" in prompt.type("/reload-mcp").replace("5 tools", "1 tool")
        assert "prompt greet(who)" in prompt.type("/mcp f")
        assert "mcp__f__tool_0_lists_things" in {tool.name for tool in prompt.session.offered}
        (home / "config.yaml").write_text("mcp_servers: {}\n")
        assert "no MCP servers" in prompt.type("/reload-mcp")
        assert not [tool for tool in prompt.session.offered if tool.toolset == "mcp-f"]


_UNUSED = """
import sys
from pathlib import Path
from hermes.base.config import load_config
from hermes.host import Host
home = Path(sys.argv[1])
with Host(home, load_config(home).config) as host:
    session = host.new_session()
    assert any(tool.toolset == "mcp-f" for tool in session.offered)
    session.run("go")
unwanted = ("mcp", "mcp_types", "pydantic", "anyio", "hermes.service.mcp.loop", "hermes.service.mcp.connection")
loaded = [name for name in unwanted if name in sys.modules]
print(loaded, host.runtime.processes.supervisor._pid)
"""


def test_a_run_that_calls_no_mcp_tool_starts_no_server_and_imports_no_sdk(home: Path, workdir: Path) -> None:
    with ScriptedProvider([text("hello")]) as provider:
        home.mkdir()
        config = f"model: {{provider: custom, base_url: '{provider.base_url}', default: m, api_key: k}}\n"
        config += f"mcp_servers: {{f: {{command: {sys.executable}, args: [-S, {FAULTY}]}}}}\n"
        (home / "config.yaml").write_text(config)
        from hermes.surfaces.cli.main import main

        assert main(["mcp", "test", "f"]) == 0
        run = subprocess.run([sys.executable, "-c", _UNUSED, home], cwd=workdir, capture_output=True, text=True)
    assert run.stdout == "[] 0\n", run.stderr


_KILLED = """
import sys, time
from pathlib import Path
from hermes.base.config import load_config
from hermes.host import Host
home = Path(sys.argv[1])
with Host(home, load_config(home).config) as host:
    host.services.dispatch_tool("mcp__f__echo", {"text": "hi"})
    print(host.mcp.status()[0].pid, flush=True)
    time.sleep(600)
"""


def test_no_server_outlives_a_killed_process(home: Path, workdir: Path) -> None:
    home.mkdir()
    settings = f"{{command: {sys.executable}, args: [-S, {FAULTY}]}}"
    (home / "config.yaml").write_text(f"mcp_servers: {{f: {settings}}}\n")
    from hermes.surfaces.cli.main import main

    assert main(["mcp", "test", "f"]) == 0
    with subprocess.Popen(
        [sys.executable, "-c", _KILLED, home], cwd=workdir, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        server = int(process.stdout.readline())
        os.kill(process.pid, signal.SIGKILL)
    wait_until_gone(server)
