"""Hermes calls Hermes: a server and its caller as two processes."""

from __future__ import annotations

import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest

from hermes.base.config import A2AAgentConfig, A2AConfig
from hermes.testing import ScriptedProvider, by_step, text, tool_call, tool_calls
from support import run_hermes, start_hermes, write_config
from support.approval_rig import RISKY
from support.configured import configured_host, decode_result

pytestmark = pytest.mark.slow

TOKEN = "a-token-that-is-long-enough"


@contextmanager
def serving(home: Path, workdir: Path, provider: ScriptedProvider, env: dict[str, str] | None = None) -> Generator[str]:
    """The base URL of an agent in a process of its own."""
    trusted = "{scopes: [send, read, cancel, approve], workspace: .}"
    write_config(home, provider.base_url, f"a2a:\n  principals:\n    local: {trusted}\n    token: {trusted}\n")
    process = start_hermes("a2a", "serve", home=home, cwd=workdir, env=env, stdout=subprocess.PIPE)
    assert process.stdout is not None
    try:
        yield process.stdout.readline().strip()
    finally:
        process.terminate()
        process.communicate(timeout=60)


@pytest.mark.slow
def test_a_call_is_answered_and_an_approval_given(home: Path, workdir: Path, tmp_path: Path) -> None:
    script = by_step(tool_call("terminal", {"command": RISKY}), text("It is done."))

    def call(*arguments: str) -> subprocess.CompletedProcess[str]:
        env = {"AGENT_TOKEN": TOKEN}
        return run_hermes("a2a", "call", url, *arguments, home=tmp_path / "caller", cwd=tmp_path, env=env)

    with ScriptedProvider(script) as provider, serving(home, workdir, provider, {"HERMES_A2A_TOKEN": TOKEN}) as url:
        options = ("--token-env", "AGENT_TOKEN", "--json")
        asked = call(*options, "do it")
        assert asked.returncode == 3, asked.stderr
        question = msgspec.json.decode(asked.stdout)
        assert question["state"] == "input-required" and not (workdir / "ran").exists()
        answered = call(*options, "--task", question["task_id"], "approve")
        assert answered.returncode == 0, answered.stderr
        assert msgspec.json.decode(answered.stdout)["text"] == "It is done." and (workdir / "ran").exists()
        refused = call("do it")
        assert refused.returncode == 1 and "wants a token" in refused.stderr
    assert TOKEN not in asked.stdout + answered.stdout + asked.stderr + answered.stderr


@pytest.mark.parametrize("stream", [[], ["--no-stream"]])
def test_the_answer_streams_with_what_the_agent_does(
    home: Path, workdir: Path, tmp_path: Path, stream: list[str]
) -> None:
    script = by_step(tool_call("terminal", {"command": "echo hello"}), text("It says hello.", chunks=4))
    with ScriptedProvider(script) as provider, serving(home, workdir, provider) as url:
        ran = run_hermes("a2a", "call", url, "look", *stream, home=tmp_path / "caller", cwd=tmp_path)
    assert (ran.returncode, ran.stdout) == (0, "It says hello.\n")
    assert stream or "· terminal: echo hello\n" in ran.stderr


def test_a_model_calls_another_agent(home: Path, workdir: Path, tmp_path: Path) -> None:
    ask = tool_calls([("a2a_send", {"agent": "other", "message": "what is the colour of grass?"})])
    with (
        ScriptedProvider(text("green")) as provider,
        serving(home, workdir, provider) as url,
        ScriptedProvider(by_step(ask, text("They say green."))) as own,
        configured_host(
            *(tmp_path / "caller", tmp_path, own),
            toolsets=["a2a"],
            a2a=A2AConfig(agents={"other": A2AAgentConfig(url=url)}),
        ) as host,
    ):
        assert host.new_session().run("ask the other one").answer == "They say green."
        told = own.requests[1].body["messages"][-1]["content"]
        assert decode_result(told)["text"] == "green"
