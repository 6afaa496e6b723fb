"""The toolset ``a2a``: a model that calls other agents, as far as it is allowed to."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Generator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from hermes.base.config import A2AAgentConfig, A2AConfig, Config
from hermes.base.config.schema.sections import AgentConfig, ModelConfig, SecurityConfig
from hermes.base.errors import Interrupted
from hermes.base.scope import Interrupt, Scope
from hermes.host import Host, HostOptions
from hermes.testing import ScriptedProvider, by_step, text, tool_calls
from hermes.tools.peers.hops import hops_scope
from hermes.tools.registry import ToolContext
from support.a2a_echo import Remote, serving_echo
from support.waiting import HANG, finish


class Desk:
    """A host whose model may call other agents."""

    def __init__(self, host: Host) -> None:
        self.host = host
        self.interrupt = Interrupt()

    def call(self, name: str, **args: Any) -> dict[str, Any]:
        tool = self.host.tools.get(name)
        assert tool is not None
        scope = Scope(interrupt=self.interrupt)
        context = ToolContext(scope, self.host.cwd, self.host.runtime.processes, self.host.runtime.guard)
        return msgspec.json.decode(tool.run(args, context))


@pytest.fixture
def provider() -> Generator[ScriptedProvider]:
    with ScriptedProvider(text("hello")) as made:
        yield made


def config(provider: ScriptedProvider, remote: Remote | None = None, **options: Any) -> Config:
    known = (
        {}
        if remote is None
        else {"echo": A2AAgentConfig(url=remote.url, token_env="ECHO_TOKEN" if remote.token else "")}
    )
    return Config(
        model=ModelConfig(provider="custom", default="scripted", base_url=provider.base_url, api_key="test-key"),
        agent=AgentConfig(api_max_retries=0),
        toolsets=["a2a"],
        a2a=A2AConfig(agents=known, **options),
    )


@pytest.fixture
def remote() -> Generator[Remote]:
    with serving_echo() as made:
        yield made


@pytest.fixture
def desk(home: Path, workdir: Path, provider: ScriptedProvider, remote: Remote) -> Generator[Desk]:
    with Host(home, config(provider, remote), cwd=workdir, env={}) as host:
        yield Desk(host)


def test_an_agent_tells_what_it_can_do(desk: Desk, remote: Remote) -> None:
    assert desk.call("a2a_discover") == {"agents": [{"agent": "echo", "url": remote.url}]}
    found = desk.call("a2a_discover", agent="echo")
    assert (found["name"], found["needs_token"]) == ("Echo", False)
    assert found["skills"] == [{"name": "Echo", "description": "Says it again.", "tags": ["talk"]}]


def test_a_message_is_answered(desk: Desk) -> None:
    first = desk.call("a2a_send", agent="echo", message="echo hello")
    assert (first["agent"], first["state"], first["text"]) == ("echo", "completed", "hello ")
    assert first["progress"] == ["thinking"]
    second = desk.call("a2a_send", agent="echo", message="echo more", context_id=first["context_id"])
    assert second["context_id"] == first["context_id"] and second["task_id"] != first["task_id"]


def test_a_question_is_answered(desk: Desk, remote: Remote) -> None:
    asked = desk.call("a2a_send", agent="echo", message="approval")
    assert (asked["state"], asked["question"], asked["options"]) == ("input-required", "May I?", ["approve", "deny"])
    answered = desk.call("a2a_answer", agent="echo", task_id=asked["task_id"], answer="deny")
    assert (answered["state"], answered["text"]) == ("completed", "you said deny ")
    assert remote.answers == [("deny", {"approval_id": "a-1", "choice": "deny"})]


def test_a_task_is_cancelled(desk: Desk) -> None:
    asked = desk.call("a2a_send", agent="echo", message="ask what?")
    assert desk.call("a2a_cancel", agent="echo", task_id=asked["task_id"])["state"] == "canceled"
    assert "refused" in desk.call("a2a_cancel", agent="echo", task_id=asked["task_id"])["error"]


def test_an_interrupt_ends_the_call_and_the_remote_task(desk: Desk, remote: Remote) -> None:
    def interrupt() -> None:
        remote.working.wait(60)
        desk.interrupt.cancel("enough")

    thread = threading.Thread(target=interrupt)
    thread.start()
    with pytest.raises(Interrupted, match="enough"):
        desk.call("a2a_send", agent="echo", message="wait")
    thread.join()
    assert remote.cancelled.is_set()


def test_an_interrupted_turn_ends_the_remote_task(
    home: Path, workdir: Path, remote: Remote, provider: ScriptedProvider
) -> None:
    script = by_step(tool_calls([("a2a_send", {"agent": "echo", "message": "wait"})]), text("done"))
    with ScriptedProvider(script) as model, Host(home, config(model, remote), cwd=workdir, env={}) as host:
        interrupt = Interrupt()

        def stop() -> None:
            remote.working.wait(60)
            interrupt.cancel("enough")

        thread = threading.Thread(target=stop)
        thread.start()
        result = finish(lambda: host.new_session().run("ask echo", interrupt=interrupt))
        thread.join()
        assert result.status == "interrupted"
        assert remote.cancelled.wait(HANG)


def test_a_whole_turn_carries_hops_and_answers(home: Path, workdir: Path, remote: Remote) -> None:
    script = by_step(tool_calls([("a2a_send", {"agent": "echo", "message": "echo green"})]), text("It said green."))
    with ScriptedProvider(script) as model, Host(home, config(model, remote), cwd=workdir, env={}) as host:
        with hops_scope(2):
            result = host.new_session().run("ask echo")
        assert result.answer == "It said green." and remote.hops == [3]
        assert [tool["function"]["name"] for tool in model.requests[0].body["tools"]] == [
            "a2a_answer",
            "a2a_cancel",
            "a2a_discover",
            "a2a_send",
        ]


def test_a_circle_of_agents_ends(desk: Desk, remote: Remote) -> None:
    with hops_scope(4):
        failure = desk.call("a2a_send", agent="echo", message="echo hi")
    assert "a2a.max_hops allows 4" in failure["error"] and remote.hops == []


def test_the_toolset_is_off_unless_it_is_asked_for(home: Path, workdir: Path, provider: ScriptedProvider) -> None:
    settings = config(provider)
    settings.toolsets = ["hermes-cli"]
    with Host(home, settings, cwd=workdir, env={}) as host:
        assert not [tool for tool in host.new_session().offered if tool.toolset == "a2a"]
    with Host(home, settings, HostOptions(toolsets=["hermes-cli", "a2a"]), cwd=workdir, env={}) as host:
        assert len([tool for tool in host.new_session().offered if tool.toolset == "a2a"]) == 4


@pytest.mark.parametrize(("allowed", "expected"), [(False, "is in a private network"), (True, "")])
def test_a_url_of_the_models_own_must_be_public(
    home: Path, workdir: Path, provider: ScriptedProvider, remote: Remote, allowed: bool, expected: str
) -> None:
    settings = config(provider)
    settings.security = SecurityConfig(allow_private_urls=allowed)
    with Host(home, settings, cwd=workdir, env={}) as host:
        answer = Desk(host).call("a2a_send", agent=remote.url, message="echo hi")
    assert expected in answer.get("error", "") and bool(remote.headers) is allowed


@pytest.mark.parametrize("agent", ["nobody", "file:///etc/passwd", "http://me:secret@127.0.0.1", ""])
def test_what_cannot_be_called_is_told(desk: Desk, agent: str) -> None:
    failure = desk.call("a2a_send", agent=agent, message="hi")
    assert failure["error"] and "secret" not in failure["error"]


def test_a_token_is_sent_and_never_shown(
    home: Path, workdir: Path, provider: ScriptedProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ECHO_TOKEN", "open-sesame-123")
    with (
        serving_echo(Remote(token="open-sesame-123")) as remote,
        Host(home, config(provider, remote), cwd=workdir, env={}) as host,
    ):
        answer = Desk(host).call("a2a_send", agent="echo", message="echo open-sesame-123 yes")
        assert answer["text"] == "<redacted:ECHO_TOKEN> yes "
        monkeypatch.setenv("ECHO_TOKEN", "wrong-token-123")
        assert "echo wants a token" in Desk(host).call("a2a_send", agent="echo", message="hi")["error"]


def test_without_the_sdk_the_tools_say_what_is_missing(workdir: Path) -> None:
    script = f"""
import sys
from pathlib import Path
sys.modules["a2a"] = sys.modules["httpx"] = None
from hermes.base.config import Config
from hermes.host import Host
from hermes.base.scope import Scope
from hermes.tools.registry import ToolContext
with Host(Path({str(workdir)!r}) / "home", Config(), env={{}}) as host:
    context = ToolContext(Scope(), host.cwd, host.runtime.processes, host.runtime.guard)
    print(host.tools.get("a2a_send").run({{"agent": "https://a.example.org", "message": "x"}}, context))
"""
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True)
    assert "hermes install a2a" in msgspec.json.decode(ran.stdout)["error"]
