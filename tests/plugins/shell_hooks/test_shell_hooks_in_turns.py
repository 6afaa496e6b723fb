"""Hook commands in real turns: what they block, add and see, on a host that talks to a scripted model."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Generator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from hermes.base.config import Config
from hermes.base.config.schema.sections import AgentConfig, HooksConfig, ModelConfig, ShellHookConfig
from hermes.base.scope import Interrupt
from hermes.host import Host, HostOptions
from hermes.testing import EventRecorder, ScriptedProvider, text, tool_call
from support.waiting import read_pid, wait_until_gone

HookedHost = Callable[..., Host]


@pytest.fixture
def hooked_host(home: Path, workdir: Path) -> Generator[HookedHost]:
    """Builds hosts with hook commands; each is closed when the test ends."""
    with ExitStack() as stack:

        def build(
            provider: ScriptedProvider,
            events: dict[str, list[ShellHookConfig]],
            *,
            env: dict[str, str] | None = None,
            **more: Any,
        ) -> Host:
            config = Config(
                model=ModelConfig(
                    provider="custom", default="scripted", base_url=provider.base_url, api_key="test-key"
                ),
                agent=AgentConfig(api_max_retries=0),
                hooks=HooksConfig(events=events),
                **more,
            )
            return stack.enter_context(
                Host(home, config, HostOptions(accept_hooks=env is None), cwd=workdir, env=env or {})
            )

        yield build


def script(folder: Path, source: str, name: str = "hook.sh") -> str:
    (folder / name).write_text(source)
    return f"sh {folder / name}"


def test_a_blocked_call_is_closed_as_blocked_and_the_model_is_told(
    hooked_host: HookedHost, workdir: Path, tmp_path: Path
) -> None:
    guard = ShellHookConfig(command=script(tmp_path, "echo 'not on my machine' >&2; exit 2"), matcher="terminal")
    with ScriptedProvider([tool_call("terminal", {"command": "touch harm"}), text("Then not.")]) as provider:
        host = hooked_host(provider, {"pre_tool_call": [guard]})
        recorder = EventRecorder().attach(host.hooks)
        result = host.new_session().run("go")
    assert (result.status, result.answer) == ("completed", "Then not.")
    [closed] = recorder.of("post_tool_call")
    assert (closed["status"], closed["error_type"], closed["error_message"]) == (
        *("blocked", "plugin_block"),
        "not on my machine",
    )
    assert json.loads(provider.requests[1].messages[-1]["content"])["error"] == "not on my machine"
    assert not (workdir / "harm").exists()
    assert recorder.pairs_unbalanced() == []


def test_a_policy_that_fails_closed_blocks_the_call(hooked_host: HookedHost, workdir: Path, tmp_path: Path) -> None:
    guard = ShellHookConfig(command=script(tmp_path, "exit 1"), on_error="deny")
    with ScriptedProvider([tool_call("terminal", {"command": "touch harm"}), text("Then not.")]) as provider:
        result = hooked_host(provider, {"pre_tool_call": [guard]}).new_session().run("go")
    [call] = result.tool_calls
    assert call.status == "blocked" and "shell:1" in str(call.error_message) and not (workdir / "harm").exists()


def test_context_reaches_the_model_and_the_answer_can_be_changed(hooked_host: HookedHost, tmp_path: Path) -> None:
    events = {
        "pre_llm_call": [ShellHookConfig(command=script(tmp_path, """echo '{"context": "It is Monday."}'"""))],
        "transform_llm_output": [ShellHookConfig(command=script(tmp_path, "echo '\"Bonjour.\"'", "french.sh"))],
    }
    with ScriptedProvider([text("Hello.")]) as provider:
        result = hooked_host(provider, events).new_session().run("hi")
    assert provider.requests[0].messages[-1]["content"] == "hi\n\nIt is Monday."
    assert result.answer == "Bonjour."


def test_every_event_of_a_turn_reaches_its_command(hooked_host: HookedHost, workdir: Path, tmp_path: Path) -> None:
    note = ShellHookConfig(command=script(tmp_path, f"cat >> {tmp_path}/events; echo >> {tmp_path}/events"))
    names = ["on_session_start", "pre_api_request", "post_api_request", "pre_tool_call", "post_tool_call"]
    names += ["post_llm_call", "on_session_end", "on_session_finalize"]
    with ScriptedProvider([tool_call("terminal", {"command": "true"}), text("done")]) as provider:
        host = hooked_host(provider, {name: [note] for name in names})
        session = host.new_session()
        session.run("go")
        session.close()
    told = [json.loads(line) for line in (tmp_path / "events").read_text().splitlines()]
    assert [one["hook_event_name"] for one in told] == [
        *("on_session_start", "pre_api_request", "post_api_request", "pre_tool_call", "post_tool_call"),
        *("pre_api_request", "post_api_request", "post_llm_call", "on_session_end", "on_session_finalize"),
    ]
    assert {one["session_id"] for one in told} == {session.id}
    assert {one["cwd"] for one in told} == {str(workdir)}
    assert told[4]["tool_input"] == {"command": "true"} and told[4]["extra"]["status"] == "ok"
    assert "test-key" not in (tmp_path / "events").read_text()


def test_a_resumed_conversation_runs_its_commands_where_it_works(
    hooked_host: HookedHost, workdir: Path, tmp_path: Path, home: Path
) -> None:
    note = ShellHookConfig(command=script(tmp_path, f"pwd > {tmp_path}/where; cat > /dev/null"))
    with ScriptedProvider([text("one"), text("two")]) as provider:
        host = hooked_host(provider, {})
        session = host.new_session()
        session.run("hi")
        host.close()
        config = Config(model=host.config.model, hooks=HooksConfig(events={"on_session_end": [note]}))
        with Host(home, config, HostOptions(accept_hooks=True), cwd=tmp_path, env={}) as other:
            other.resume_session(session.id).run("again")
    assert (tmp_path / "where").read_text().strip() == str(workdir)


def test_cancelling_a_turn_ends_the_command_it_waits_for(hooked_host: HookedHost, tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    slow = ShellHookConfig(command=script(tmp_path, f"echo $$ > {tmp_path}/pid; echo here > {fifo}; sleep 600"))
    interrupt = Interrupt()

    def cancel() -> None:
        with fifo.open() as opened:
            opened.read()
        interrupt.cancel("keyboard interrupt")

    with ScriptedProvider([tool_call("terminal", {"command": "true"})]) as provider:
        host = hooked_host(provider, {"pre_tool_call": [slow]})
        recorder = EventRecorder().attach(host.hooks)
        thread = threading.Thread(target=cancel)
        thread.start()
        result = host.new_session().run("go", interrupt=interrupt)
        thread.join()
    assert result.status == "interrupted"
    wait_until_gone(read_pid(tmp_path / "pid"))
    assert [one["interrupted"] for one in recorder.of("on_session_end")] == [True]


@pytest.mark.parametrize(
    ("env", "more", "runs"),
    [
        ({"HERMES_ACCEPT_HOOKS": "0"}, {}, False),
        ({"HERMES_ACCEPT_HOOKS": "1"}, {}, True),
        ({"X": ""}, {"hooks_auto_accept": True}, True),
    ],
)
def test_settings_that_accept_every_command(
    hooked_host: HookedHost, tmp_path: Path, env: dict[str, str], more: dict[str, bool], runs: bool
) -> None:
    events = {"pre_llm_call": [ShellHookConfig(command=script(tmp_path, "echo '\"context\"'"))]}
    with ScriptedProvider([text("ok")]) as provider:
        host = hooked_host(provider, events, env=env, **more)
        host.new_session().run("hi")
    assert provider.requests[0].messages[-1]["content"] == ("hi\n\ncontext" if runs else "hi")
    assert [("hermes hooks accept" in notice) for notice in host.notices] == ([] if runs else [True])
