"""Whatever goes wrong with an export, the conversation does not notice, and what is on disk is whole."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from hermes.testing import RecordedRequest, ScriptedProvider, by_step, failure, hanging, text, tool_call
from hermes.trace.claims import claim, give_back
from hermes.trace.verify.atof import check_atof
from support import hermes_command, hermes_environment, start_hermes
from support.relay_rig import (
    PREFIX,
    HostMaker,
    events,
    problems,
    relay_chat,
    relay_env,
    relay_host,
    relay_path,
    scopes,
    trajectories,
    write_relay_config,
)
from support.small_disk import small_disk

TOML = """\
version = 1
[[components]]
kind = "observability"
enabled = true
[components.config]
version = 1
[components.config.atof]
enabled = true
output_directory = "{folder}/atof"
filename = "events.jsonl"
mode = "append"
[[components]]
kind = "adaptive"
enabled = true
[components.config.tool_parallelism]
mode = "observe_only"
"""

Fault = Callable[[Path], dict[str, str]]


def _log(home: Path) -> list[str]:
    """What the plugin had to say, but for what it says of old releases anyway."""
    lines = (home / "logs" / "agent.log").read_text().splitlines()
    said = [line for line in lines if "nemo_relay" in line or "nemo-relay" in line]
    return [line for line in said if "does not keep the ids" not in line]


def _absent(tmp_path: Path) -> dict[str, str]:
    stand_in = tmp_path / "absent"
    stand_in.mkdir()
    (stand_in / "nemo_relay.py").write_text("raise ImportError('it is not installed')\n")
    path = relay_path()["PYTHONPATH"]
    return {**relay_env(tmp_path), "PYTHONPATH": f"{stand_in}{os.pathsep}{path}"}


def _broken_toml(tmp_path: Path) -> dict[str, str]:
    (tmp_path / "plugins.toml").write_text("version = \n[[")
    return {f"{PREFIX}PLUGINS_TOML": str(tmp_path / "plugins.toml")}


def _no_toml(tmp_path: Path) -> dict[str, str]:
    return {f"{PREFIX}PLUGINS_TOML": str(tmp_path / "none.toml")}


def _no_directory(tmp_path: Path) -> dict[str, str]:
    (tmp_path / "atof").write_text("a file")
    return relay_env(tmp_path, ATIF_ENABLED="0")


def _no_directory_for_trajectories(tmp_path: Path) -> dict[str, str]:
    (tmp_path / "atif").write_text("a file")
    return relay_env(tmp_path, ATOF_ENABLED="0")


def _no_directory_in_toml(tmp_path: Path) -> dict[str, str]:
    (tmp_path / "atof").write_text("a file")
    (tmp_path / "plugins.toml").write_text(TOML.format(folder=tmp_path))
    return {f"{PREFIX}PLUGINS_TOML": str(tmp_path / "plugins.toml")}


def _link(tmp_path: Path) -> dict[str, str]:
    (tmp_path / "atof").mkdir()
    (tmp_path / "precious.txt").write_text("precious")
    (tmp_path / "atof" / "events.jsonl").symlink_to(tmp_path / "precious.txt")
    return relay_env(tmp_path, ATIF_ENABLED="0", ATOF_MODE="overwrite")


@pytest.mark.parametrize(
    "fault",
    [_absent, _broken_toml, _no_toml, _no_directory, _no_directory_for_trajectories, _no_directory_in_toml, _link],
)
def test_the_conversation_goes_on(home: Path, workdir: Path, tmp_path: Path, fault: Fault) -> None:
    env = fault(tmp_path)
    with ScriptedProvider([tool_call("terminal", {"command": "printf x"}), text("done")]) as provider:
        done = relay_chat(home, workdir, "--query", "go", "--quiet", env=env, base_url=provider.base_url)
    assert (done.returncode, done.stdout) == (0, "done\n")
    [line] = _log(home)
    assert "WARNING" in line
    if fault is _link:
        assert (tmp_path / "precious.txt").read_text() == "precious"


def test_dots_in_a_path_lead_where_they_lead(home: Path, workdir: Path, tmp_path: Path) -> None:
    env = relay_env(tmp_path, ATOF_OUTPUT_DIRECTORY="deeper/../../atof", ATIF_OUTPUT_DIRECTORY="../atif")
    with ScriptedProvider("done") as provider:
        done = relay_chat(home, workdir, "--query", "go", "--quiet", env=env, base_url=provider.base_url)
    assert (done.returncode, done.stdout) == (0, "done\n")
    assert _log(home) == [] and problems(tmp_path) == []
    assert len(trajectories(tmp_path)) == 1


def test_a_full_disk(home: Path, workdir: Path, tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", "64k"), ScriptedProvider("x" * 200_000) as provider:
        env = relay_env(tmp_path / "disk")
        done = relay_chat(home, workdir, "--query", "go", "--quiet", env=env, base_url=provider.base_url)
        assert (done.returncode, len(done.stdout)) == (0, 200_001)
        assert any("No space left" in line or "may be missing" in line for line in _log(home))
        assert [path.name for path in (tmp_path / "disk" / "atif").glob("*.json")] == []


@pytest.mark.parametrize("route", ["env", "toml"])
def test_killed_in_the_middle(home: Path, workdir: Path, tmp_path: Path, route: str) -> None:
    def script(request: RecordedRequest) -> Any:
        return by_step(*[tool_call("terminal", {"command": "printf x"})] * 5, hanging())(request)

    (tmp_path / "plugins.toml").write_text(TOML.format(folder=tmp_path))
    toml = {f"{PREFIX}PLUGINS_TOML": str(tmp_path / "plugins.toml")} if route == "toml" else {}
    with ScriptedProvider(script) as provider:
        write_relay_config(home, provider.base_url)
        process = subprocess.Popen(
            hermes_command("chat", "--query", "go", "--quiet"),
            cwd=workdir,
            env=hermes_environment(home, {**relay_path(), **relay_env(tmp_path), **toml}),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        provider.wait_for_request(6, timeout=60)
        process.send_signal(signal.SIGKILL)
        assert process.wait(60) == -signal.SIGKILL
    data = (tmp_path / "atof" / "events.jsonl").read_bytes()
    assert data.endswith(b"\n")
    lines = [msgspec.json.decode(line) for line in data.splitlines()]
    assert sum(one.get("category") == "tool" for one in lines) >= 4
    # Starts without an end are all that may be missing.
    unpaired = [problem for problem in check_atof(data.splitlines()) if "has a start and no end" not in problem]
    assert unpaired == []


def test_two_processes_and_one_folder(home: Path, workdir: Path, tmp_path: Path) -> None:
    long = "x" * 20_000
    steps = [tool_call("terminal", {"command": f"printf {long}"})] * 8
    with ScriptedProvider(by_step(*steps, text("done"))) as provider:
        write_relay_config(home, provider.base_url)
        env = {**relay_path(), **relay_env(tmp_path)}
        started = [start_hermes("chat", "--query", "go", "--quiet", home=home, cwd=workdir, env=env) for _ in range(2)]
        assert [process.wait(60) for process in started] == [0, 0]
    names = sorted(path.name for path in (tmp_path / "atof").iterdir())
    assert names in (["events.jsonl"], ["events-2.jsonl", "events.jsonl"])  # one, when they were not there together
    assert [problem for name in names for problem in problems(tmp_path, name)] == []
    told = [event for name in names for event in events(tmp_path, name)]
    assert len(trajectories(tmp_path)) == len(scopes(told, "agent")) == 2
    assert len(scopes(told, "tool", "end")) == 16


@pytest.mark.parametrize("route", ["env", "toml"])
def test_a_file_that_another_process_writes_is_left_alone(
    home: Path, workdir: Path, tmp_path: Path, route: str
) -> None:
    (tmp_path / "plugins.toml").write_text(TOML.format(folder=tmp_path))
    toml = {f"{PREFIX}PLUGINS_TOML": str(tmp_path / "plugins.toml")} if route == "toml" else {}
    env = {**relay_env(tmp_path, ATOF_MODE="overwrite"), **toml}
    taken = claim(tmp_path / "atof", "events.jsonl")
    try:
        taken.write_text("somebody's\n")
        with ScriptedProvider("hello") as provider:
            done = relay_chat(home, workdir, "--query", "go", "--quiet", env=env, base_url=provider.base_url)
    finally:
        give_back(taken)
    assert (done.returncode, done.stdout) == (0, "hello\n")
    assert taken.read_text() == "somebody's\n"
    assert problems(tmp_path, "events-2.jsonl") == []
    assert "another process writes to" in "".join(_log(home))


def test_ended_by_a_signal(home: Path, workdir: Path, tmp_path: Path) -> None:
    with ScriptedProvider(hanging()) as provider:
        write_relay_config(home, provider.base_url)
        process = subprocess.Popen(
            hermes_command("chat", "--query", "go", "--quiet"),
            cwd=workdir,
            env=hermes_environment(home, {**relay_path(), **relay_env(tmp_path)}),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        provider.wait_for_request(timeout=60)
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 143
    assert problems(tmp_path) == []
    assert scopes(events(tmp_path), "llm", "end")[0]["metadata"]["status"] == "cancelled"


@pytest.mark.slow
def test_thirty_exits(home: Path, workdir: Path, tmp_path: Path) -> None:
    """A process that ends right after the runtime's work must not crash in it."""
    (tmp_path / "plugins.toml").write_text(TOML.format(folder=tmp_path))
    env = {f"{PREFIX}PLUGINS_TOML": str(tmp_path / "plugins.toml")}
    with ScriptedProvider("done") as provider:
        codes = [
            relay_chat(home, workdir, "--query", "go", "--quiet", env=env, base_url=provider.base_url).returncode
            for _ in range(30)
        ]
    assert codes == [0] * 30
    assert check_atof((tmp_path / "atof" / "events.jsonl").read_bytes().splitlines()) == []


FORKING = """
import os, sys
from pathlib import Path
from hermes.testing import ScriptedProvider
from support.relay_rig import relay_host
with ScriptedProvider("done") as provider:
    host = relay_host(Path(sys.argv[1]), Path.cwd(), provider)
    session = host.new_session()
    session.run("go")
    child = os.fork()
    if child == 0:
        ids = {"session_id": "forked", "turn_id": "t", "task_id": ""}
        host.hooks.pre_llm_call.invoke(**ids, user_message="", model="", platform="")
        host.hooks.on_session_finalize.invoke(session_id=session.id)
        sys.exit(7)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    host.close()
"""


def test_a_forked_child_stays_silent(home: Path, workdir: Path, tmp_path: Path) -> None:
    tests = str(Path(__file__).parents[2])
    env = hermes_environment(home, {**relay_path(), **relay_env(tmp_path)})
    env["PYTHONPATH"] += os.pathsep + tests
    command = [sys.executable, "-W", "ignore", "-c", FORKING, str(home)]
    done = subprocess.run(command, env=env, cwd=workdir, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert problems(tmp_path) == []
    assert '"session_id":"forked"' not in (tmp_path / "atof" / "events.jsonl").read_text()


def test_keys_of_the_environment_are_masked_whatever_they_look_like(
    home: Path, workdir: Path, relay_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ACME_API_KEY", "correct horse battery")
    script = [failure(400, "no correct horse battery"), text("It is correct horse battery.")]
    with ScriptedProvider(script) as provider, relay_host(home, workdir, provider) as host:
        host.new_session().run("My key is correct horse battery.")
        host.new_session().run("My key is correct horse battery.")
    written = [path.read_text() for kind in ("atof", "atif") for path in (relay_folder / kind).iterdir()]
    assert len(written) == 3
    assert all("<redacted:" in one and "correct horse battery" not in one for one in written)


def test_what_goes_nowhere_is_not_counted_as_sent(exporting_host: HostMaker, relay_folder: Path) -> None:
    from hermes.trace import health

    (relay_folder / "atof").write_text("a file where the folder should be")
    health.take()
    with exporting_host("hello") as host:
        host.new_session().run("go")
        for session in host.open_sessions:
            session.close()
        counted = {one.site: one for one in health.take() if "nemo_relay" in one.plugin}
    assert counted["export:atof"].calls == counted["export:atof"].failures > 1
    assert counted["export:atof"].last_error.startswith("FileExistsError")
    assert counted["export:atif"].failures == 0


def test_health_is_kept(exporting_host: HostMaker, relay_folder: Path) -> None:
    from hermes.trace import health

    health.take()
    host = exporting_host("hello")
    host.new_session().run("go")
    for session in host.open_sessions:
        session.close()
    counted = {(one.plugin, one.site): one for one in health.take() if "nemo_relay" in one.plugin}
    host.close()
    assert {site.rpartition(":")[2] for _, site in counted} == {"atof", "atif"}
    assert all(one.failures == 0 and one.calls > 0 for one in counted.values())
