"""MCP servers as tools of a host: calls, faults, manifests, processes."""

from __future__ import annotations

import os
import signal
import sys
import threading
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from hermes.base.config.schema.mcp import McpLifecycleConfig, McpServerConfig, McpToolFilterConfig
from hermes.base.errors import Interrupted
from hermes.base.scope import Scope, current_scope
from hermes.host import Host
from hermes.service.mcp.server import McpServer
from hermes.service.mcp.servers import ServerStatus
from support import is_running
from support.mcp_rig import FAULTY, call, faulty, mcp_host, wait_for_state
from support.sandbox_rig import real_backend
from support.waiting import wait_until, wait_until_gone


def status(host: Host, name: str = "f") -> ServerStatus:
    assert host.mcp is not None
    return next(found for found in host.mcp.status() if found.name == name)


def server(host: Host, name: str = "f") -> McpServer:
    assert host.mcp is not None
    found = host.mcp.get(name)
    assert found is not None
    return found


def test_calls_resources_prompts_errors_and_pictures(tmp_path: Path) -> None:
    with mcp_host(tmp_path, {"f": faulty()}) as host:
        assert call(host, "mcp__f__echo", text="hi") == {"result": "echo: hi"}
        assert call(host, "mcp__f__fail") == {"error": "it went wrong", "error_type": "mcp_tool_error"}
        assert call(host, "mcp__f__read_resource", uri="memo://one") == {"contents": "[memo://one]\na memo"}
        assert call(host, "mcp__f__list_resources")["resources"] == [{"uri": "memo://one", "name": "one"}]
        assert call(host, "mcp__f__list_prompts")["prompts"][0]["arguments"] == ["who"]
        assert "Greet Ann." in call(host, "mcp__f__get_prompt", name="greet", arguments={"who": "Ann"})["messages"]
        picture = call(host, "mcp__f__picture")["result"]
        assert Path(picture.rpartition(": ")[2].rstrip("]")).read_bytes().startswith(b"\x89PNG")
        assert len(call(host, "mcp__f__big", bytes=1_000_000)["result"]) < 60_000


def test_the_environment_of_a_server_is_minimal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-not-for-servers-1234567890")
    monkeypatch.setenv("SOME_SETTING", "not for servers")
    with mcp_host(tmp_path, {"f": faulty(env={"MINE": "yes"})}) as host:
        variables = msgspec.json.decode(call(host, "mcp__f__environment")["result"])
    assert variables["MINE"] == "yes"
    assert variables["PATH"]
    assert not {"OPENAI_API_KEY", "SOME_SETTING"} & variables.keys()


def test_a_known_server_is_started_by_its_first_call(tmp_path: Path) -> None:
    entries = {"f": faulty()}
    with mcp_host(tmp_path, entries):
        pass
    with mcp_host(tmp_path, entries) as host:
        assert status(host).state == "idle"
        assert status(host).tools == 15
        assert server(host).connection.starts == 0
        assert call(host, "mcp__f__echo", text="a") == {"result": "echo: a"}
        assert status(host).state == "ready"
        process = status(host).pid
        assert process is not None
        assert is_running(process)
    wait_until_gone(process)


def test_other_settings_make_a_stored_manifest_useless(tmp_path: Path) -> None:
    with mcp_host(tmp_path, {"f": faulty()}):
        pass
    with mcp_host(tmp_path, {"f": faulty("many=2")}) as host:
        assert "mcp__f__tool_1_lists_things" in host.tools.all()
        assert "mcp__f__echo" not in host.tools.all()


def test_a_call_in_flight_when_the_server_dies_is_unknown_and_the_next_one_runs(tmp_path: Path) -> None:
    log = tmp_path / "calls"
    with mcp_host(tmp_path, {"f": faulty(f"log={log}")}) as host:
        lost = call(host, "mcp__f__die")
        assert lost["outcome"] == "unknown"
        assert lost["error_type"] == "unknown_outcome"
        assert call(host, "mcp__f__echo", text="again") == {"result": "echo: again"}
        assert [line.split()[1] for line in log.read_text().splitlines()] == ["die", "echo"]
        assert server(host).connection.starts == 2


def test_only_a_trusted_server_has_lost_calls_repeated_and_tools_that_are_not_unsafe(tmp_path: Path) -> None:
    log = tmp_path / "calls"
    with mcp_host(tmp_path, {"f": faulty(f"log={log}", trust=True)}) as host:
        assert host.tools.all()["mcp__f__echo"].effect == "pure"
        assert host.tools.all()["mcp__f__die"].effect == "unsafe"
        assert call(host, "mcp__f__die_once", text="b") == {"result": "die_once: b"}
        assert log.read_text().count("die_once") == 2
    with mcp_host(tmp_path / "other", {"f": faulty()}) as host:
        assert host.tools.all()["mcp__f__echo"].effect == "unsafe"


def test_a_server_that_is_killed_between_calls_is_started_again(tmp_path: Path) -> None:
    with mcp_host(tmp_path, {"f": faulty()}) as host:
        process = status(host).pid
        assert process is not None
        os.kill(process, signal.SIGKILL)
        wait_for_state(host, "f", "failed")
        assert status(host).pid is None
        assert call(host, "mcp__f__echo", text="c") == {"result": "echo: c"}
        assert status(host).state == "ready"


def test_a_server_that_dies_at_its_start_is_reported_with_its_last_words_and_not_started_at_every_call(
    tmp_path: Path,
) -> None:
    with mcp_host(tmp_path, {"f": faulty()}):
        pass
    stored = next((tmp_path / "cache" / "mcp").glob("*.json"))
    with mcp_host(tmp_path, {"f": faulty("dies")}) as host:
        assert status(host).state == "failed"
        assert "exit code 4" in status(host).error
        assert "fatal: no database" in status(host).error
        assert status(host).tools is None
        starts = server(host).connection.starts
        server(host).connection._next_try += 1_000  # pyright: ignore[reportPrivateUsage]
        with pytest.raises(Exception, match="started again in"):
            server(host).start().result()
        assert server(host).connection.starts == starts
    assert stored.exists()


def test_a_silent_server_and_one_that_does_not_exist_do_not_hold_up_the_others(tmp_path: Path) -> None:
    from hermes.base.config.schema.mcp import McpServerConfig
    from hermes.base.config.schema.sections import Config

    entries = {"s": faulty("silent"), "n": McpServerConfig(command="no-such-program-here"), "f": faulty()}
    with Host(tmp_path, Config(mcp_servers=entries, mcp_discovery_timeout=0), cwd=tmp_path) as host:
        host.tools.settle()  # pyright: ignore[reportOptionalCall]
        wait_for_state(host, "f", "ready")
        wait_for_state(host, "n", "failed")
        assert "no such program" in status(host, "n").error
        assert status(host, "s").state == "connecting"
        assert call(host, "mcp__f__echo", text="d") == {"result": "echo: d"}


def test_a_silent_server_fails_at_its_connect_timeout(tmp_path: Path) -> None:
    with mcp_host(tmp_path, {"s": faulty("silent", connect_timeout=0.2)}) as host:
        assert "did not answer within 0.2 s" in status(host, "s").error


def test_a_program_that_is_no_server_is_reported(tmp_path: Path) -> None:
    from hermes.base.config.schema.mcp import McpServerConfig

    with mcp_host(tmp_path, {"s": McpServerConfig(command="true")}) as host:
        assert status(host, "s").state == "failed"
        assert "exit code 0" in status(host, "s").error


def test_noise_on_stdout_and_floods_of_changes_do_no_harm(tmp_path: Path) -> None:
    with mcp_host(tmp_path, {"f": faulty("banner", "garbage", "flood")}) as host:
        for number in range(3):
            assert call(host, "mcp__f__echo", text=str(number)) == {"result": f"echo: {number}"}
        assert status(host).state == "ready"


def test_an_answer_that_is_too_long_is_an_error_and_the_connection_stays(tmp_path: Path) -> None:
    with mcp_host(tmp_path, {"f": faulty()}) as host:
        assert "bytes; at most" in call(host, "mcp__f__big", bytes=34_000_000)["error"]
        assert call(host, "mcp__f__echo", text="e") == {"result": "echo: e"}
        assert server(host).connection.starts == 1


def test_odd_names_and_schemas_are_made_usable(tmp_path: Path) -> None:
    with mcp_host(tmp_path, {"odd": faulty("odd-names")}) as host:
        tools = {name: tool for name, tool in host.tools.all().items() if tool.toolset == "mcp-odd"}
        assert len([name for name in tools if "get_weather" in name]) == 2
        assert all(tool.parameters["type"] == "object" for tool in tools.values())
        assert tools["mcp__odd__get_weather"].parameters["properties"]["place"] == {"type": "string"}
        assert host.tools.all()["terminal"].toolset == "terminal"
        assert call(host, "mcp__odd__terminal") == {"result": "terminal: "}


def test_a_list_that_changes_is_read_again(tmp_path: Path) -> None:
    with mcp_host(tmp_path, {"f": faulty("changes")}) as host:
        session = host.new_session()
        assert "mcp__f__new_tool" not in host.tools.all()
        call(host, "mcp__f__echo", text="f")
        wait_until(lambda: "mcp__f__new_tool" in host.tools.all(), "the new tool")
        wait_until(lambda: "mcp__f__new_tool" in {tool.name for tool in session.offered}, "the new tool in the session")


def test_a_call_that_takes_too_long_ends_as_a_timeout_of_unknown_outcome(tmp_path: Path) -> None:
    with mcp_host(tmp_path, {"f": faulty(timeout=0.2)}) as host:
        lost = call(host, "mcp__f__sleep", seconds=60)
        assert lost["error_type"] == "tool_timeout"
        assert lost["outcome"] == "unknown"


def test_cancelling_ends_a_call_at_once(tmp_path: Path) -> None:
    log = tmp_path / "calls"
    with mcp_host(tmp_path, {"f": faulty(f"log={log}")}) as host:
        scope, ended = Scope(), threading.Event()

        def work() -> None:
            current_scope.set(scope)
            try:
                call(host, "mcp__f__sleep", seconds=600)
            except Interrupted:
                pass
            ended.set()

        thread = threading.Thread(target=work, daemon=True)
        thread.start()
        wait_until(lambda: log.exists() and "sleep" in log.read_text(), "the call to reach the server")
        scope.interrupt.cancel("stop")
        assert ended.wait(60)


def test_an_idle_server_is_stopped_and_started_again(tmp_path: Path) -> None:
    entry = faulty(lifecycle=McpLifecycleConfig(idle_timeout_seconds=0.1))
    with mcp_host(tmp_path, {"f": entry}) as host:
        wait_for_state(host, "f", "idle")
        assert status(host).error == ""
        assert call(host, "mcp__f__echo", text="g") == {"result": "echo: g"}


def test_filters_choose_the_tools_and_include_wins(tmp_path: Path) -> None:
    tools = McpToolFilterConfig(include=["e*"], exclude=["echo"], resources=False, prompts=False)
    with mcp_host(tmp_path, {"f": faulty(tools=tools)}) as host:
        assert {name for name in host.tools.all() if name.startswith("mcp__")} == {
            "mcp__f__echo",
            "mcp__f__environment",
        }


def test_a_broken_entry_is_a_notice_and_the_others_work(tmp_path: Path) -> None:
    with mcp_host(tmp_path, {"f": faulty(), "bad": faulty(env={"X": "${NOT_SET_ANYWHERE}"})}) as host:
        assert any("NOT_SET_ANYWHERE" in notice for notice in host.notices)
        assert status(host, "bad").state == "broken"
        assert call(host, "mcp__f__echo", text="h") == {"result": "echo: h"}


def test_a_reload_stops_what_is_gone_and_keeps_what_is_unchanged(tmp_path: Path) -> None:
    with mcp_host(tmp_path, {"f": faulty(), "g": faulty("many=1")}) as host:
        session = host.new_session()
        kept, gone = status(host, "f").pid, status(host, "g").pid
        assert gone is not None
        assert host.mcp is not None
        host.mcp.load({"f": faulty(), "h": faulty("many=1")})
        host.mcp.settle()
        wait_until_gone(gone)
        assert status(host, "f").pid == kept
        names = {tool.name for tool in session.offered}
        assert "mcp__h__tool_0_lists_things" in names
        assert "mcp__g__tool_0_lists_things" not in names


def test_a_server_runs_in_the_sandbox_on_request(tmp_path: Path) -> None:
    real_backend("bubblewrap")
    home = tmp_path / "home"
    # Neither a file nor an environment below /tmp, of which the sandbox has its own.
    program = McpServerConfig(command=os.path.realpath(sys.executable), args=["-S", "-c", FAULTY.read_text()])
    with mcp_host(home, {"f": replace(program, sandbox=True), "g": program}) as host:
        variables = [msgspec.json.decode(call(host, f"mcp__{name}__environment")["result"]) for name in "fg"]
    assert variables[0]["XDG_CACHE_HOME"].startswith(variables[0]["TMPDIR"])
    assert "XDG_CACHE_HOME" not in variables[1]
