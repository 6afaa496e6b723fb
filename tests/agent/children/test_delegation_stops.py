"""Children that do not come to an end by themselves: too slow, stuck, or cancelled with their parent."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from hermes.agent.children import child as child_module
from hermes.agent.children import delegate as delegate_module
from hermes.base.scope import Interrupt
from hermes.contract.events import ChildStarted, TextDelta, TurnEvent
from hermes.host import Host
from hermes.models.driver import Driver
from hermes.testing import EventRecorder, ScriptedProvider, by_step, hanging, text, tool_call, tool_calls
from hermes.tools.registry import Tool
from support import HostFactory, is_running, run_hermes, start_hermes, write_config
from support.waiting import HANG, StoppedClock, finish, read_pid, wait_until, wait_until_gone

Payload = dict[str, Any]
StopClock = Callable[..., None]


@pytest.fixture
def stop_clock(monkeypatch: pytest.MonkeyPatch) -> StopClock:
    """``stop_clock(condition)``: children have all the time in the world until the condition holds, then none."""

    def stop(condition: Callable[[], object], *, runs_on: bool = False) -> None:
        clock = StoppedClock(condition, runs_on=runs_on)
        for module in (child_module, delegate_module):
            monkeypatch.setattr(module, "time", clock)

    return stop


def _delegating(**args: Any) -> Any:
    return by_step(tool_call("delegate_task", args, call_id="call_d"), text("done"))


def _result(provider: ScriptedProvider) -> Payload:
    return msgspec.json.decode(provider.requests[-1].messages[-1]["content"])


def _recorded_result(host: Host, session_id: str) -> Payload:
    [message] = [message for message in host.sessions.messages(session_id) if message["role"] == "tool"]
    return msgspec.json.decode(message["content"])


def _is_plugin_tool(name: str, run: Any) -> Tool:
    return Tool(name, name, "", {"type": "object", "properties": {}}, run, "pure", plugin="stranger")


# -- time ------------------------------------------------------------------------------------------------------------


def test_a_child_that_takes_too_long_is_stopped(make_host: HostFactory, stop_clock: StopClock) -> None:
    with ScriptedProvider({"go": _delegating(goal="work"), "work": hanging()}) as provider:
        stop_clock(lambda: len(provider.requests) == 2)
        host = make_host(provider)
        host.config.delegation.child_timeout_seconds = 0.4
        recorder = EventRecorder().attach(host.hooks)
        outcome = host.new_session().run("go")
        result = _result(provider)
    [child] = result["results"]
    assert (child["status"], child["exit_reason"]) == ("timeout", "timeout")
    assert child["error"] == "timed out after 0.4 s"
    assert result["error_type"] == "tool_timeout"
    assert (outcome.answer, [call.status for call in outcome.tool_calls]) == ("done", ["timeout"])
    assert [stop["child_status"] for stop in recorder.of("subagent_stop")] == ["timeout"]
    assert recorder.pairs_unbalanced() == []


def test_what_a_stopped_child_had_said_is_its_report(
    make_host: HostFactory, stop_clock: StopClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = text("Half of the answer" + "." * 2000, chunks=["Half ", "of the answer" + "." * 2000], hang_after=1000)
    with ScriptedProvider({"go": _delegating(goal="work"), "work": slow}) as provider:
        host = make_host(provider)
        host.config.delegation.child_timeout_seconds = 0.4
        arrived: list[str] = []
        send = Driver.send

        def noting(driver: Driver, *args: Any, on_delta: Callable[[Any], object], **options: Any) -> Any:
            def note(delta: Any) -> None:
                on_delta(delta)
                if isinstance(delta, TextDelta):
                    arrived.append(delta.text)

            return send(driver, *args, on_delta=note, **options)

        monkeypatch.setattr(Driver, "send", noting)
        stop_clock(lambda: arrived)
        host.new_session().run("go")
        [child] = _result(provider)["results"]
    assert child["status"] == "timeout"
    assert child["summary"] == "Half "


def test_one_slow_child_does_not_hold_up_the_rest(make_host: HostFactory, stop_clock: StopClock) -> None:
    tasks = [{"goal": "slow"}, {"goal": "a"}, {"goal": "b"}]
    script = {"go": _delegating(tasks=tasks), "slow": hanging(), "a": text("A"), "b": text("B")}
    with ScriptedProvider(script) as provider:
        host = make_host(provider)
        host.config.delegation.child_timeout_seconds = 0.5
        host.config.delegation.max_concurrent_children = 2
        recorder = EventRecorder().attach(host.hooks)
        stop_clock(lambda: len(recorder.of("subagent_stop")) == 2)  # the others are done
        host.new_session().run("go")
        results = _result(provider)["results"]
    assert [child["status"] for child in results] == ["timeout", "completed", "completed"]
    assert "error" not in _result(provider)


def test_a_child_stuck_in_a_plugins_tool_ends_without_it(make_host: HostFactory, stop_clock: StopClock) -> None:
    entered, release = threading.Event(), threading.Event()
    stop_clock(entered.is_set)

    def stubborn(*_: Any) -> str:
        entered.set()
        release.wait(HANG)
        return "{}"

    script = {"go": _delegating(goal="work"), "work": tool_calls([("stubborn", {})], content="Trying.")}
    with ScriptedProvider(script) as provider:
        host = make_host(provider)
        host.tools.add(_is_plugin_tool("stubborn", stubborn))
        host.config.delegation.child_timeout_seconds = 0.2
        recorder = EventRecorder().attach(host.hooks)
        host.new_session().run("go")
        [child] = _result(provider)["results"]
        release.set()
    assert (child["status"], child["summary"]) == ("timeout", "Trying.")
    assert [line["status"] for line in child["tool_trace"]] == ["cancelled"]
    assert recorder.pairs_unbalanced() == []


def test_a_child_that_cannot_be_stopped_is_left_behind_and_said_to_be(
    make_host: HostFactory, stop_clock: StopClock
) -> None:
    release, seen = threading.Event(), threading.Event()
    stop_clock(seen.is_set, runs_on=True)

    def stuck(user_message: str, **_: Any) -> None:
        if user_message == "work":
            seen.set()
            release.wait(HANG)

    with ScriptedProvider({"go": _delegating(goal="work"), "work": text("never asked")}) as provider:
        host = make_host(provider)
        host.hooks.subscribe("pre_llm_call", "stranger", stuck, own_thread=False)
        stops: list[Payload] = []

        def stop(**payload: Any) -> None:
            stops.append(payload)

        host.hooks.subscribe("subagent_stop", "watcher", stop)
        host.config.delegation.child_timeout_seconds = 0.2
        outcome = host.new_session().run("go")
        [child] = _result(provider)["results"]
        release.set()
    assert seen.is_set()
    assert outcome.answer == "done"
    assert child["status"] == "timeout"
    assert child["error"] == "timed out after 0.2 s; it did not stop in time and was abandoned"
    assert [payload["child_status"] for payload in stops] == ["timeout"]


# -- cancelling the parent -------------------------------------------------------------------------------------------


def test_cancelling_the_parent_cancels_its_children_and_keeps_what_they_have(
    make_host: HostFactory, workdir: Path, stop_clock: StopClock
) -> None:
    stop_clock(lambda: False)  # the children may take as long to stop as they need on this machine
    command = f"echo $$ > {workdir}/pid; exec sleep 600"
    work = tool_calls([("terminal", {"command": command})], content="On it.")
    tasks = [{"goal": "quick"}, {"goal": "work"}, {"goal": "asked"}, {"goal": "waits"}]
    script = {"go": _delegating(tasks=tasks), "quick": text("quick"), "work": work, "asked": hanging()}
    interrupt = Interrupt()
    with ScriptedProvider(script) as provider:
        host = make_host(provider, sandbox="off")  # in which the command has another number
        host.config.delegation.max_concurrent_children = 2
        recorder = EventRecorder().attach(host.hooks)
        watcher = threading.Thread(target=_cancel_at_work, args=(workdir / "pid", provider, interrupt))
        watcher.start()
        session = host.new_session()
        outcome = finish(lambda: session.run("go", interrupt=interrupt))
        watcher.join()
        result = _recorded_result(host, session.id)
    pid = int((workdir / "pid").read_text())
    assert outcome.status == "interrupted"
    assert not is_running(pid)
    assert [child["status"] for child in result["results"]] == ["completed", *("interrupted",) * 3]
    assert result["results"][1]["summary"] == "On it."
    assert result["results"][3]["error"] == "not started (stop)"
    assert result["results"][3]["session_id"] == ""
    assert len(recorder.of("subagent_start")) == len(recorder.of("subagent_stop")) == 3
    assert recorder.pairs_unbalanced() == []


def _cancel_at_work(pid_file: Path, provider: ScriptedProvider, interrupt: Interrupt) -> None:
    try:
        provider.wait_for_request(4, HANG)
        read_pid(pid_file)
    finally:
        interrupt.cancel("stop")


def test_a_turn_resumed_after_that_knows_what_its_children_did(make_host: HostFactory) -> None:
    interrupt = Interrupt()
    script = {"go": _delegating(goal="work"), "work": hanging()}
    with ScriptedProvider(script) as provider:
        host = make_host(provider)

        def stop(event: TurnEvent) -> None:
            if isinstance(event, ChildStarted):
                threading.Thread(target=_cancel_at_request, args=(provider, interrupt), daemon=True).start()

        session = host.new_session()
        assert session.run("go", interrupt=interrupt, listener=stop).status == "interrupted"
        resumed = session.finish_open_turn()
        [child] = _result(provider)["results"]
    assert resumed is not None and resumed.answer == "done"
    assert (child["status"], len(provider.requests)) == ("interrupted", 3)


def _cancel_at_request(provider: ScriptedProvider, interrupt: Interrupt) -> None:
    provider.wait_for_request(2)
    interrupt.cancel("stop")


def test_grandchildren_stop_with_the_rest(make_host: HostFactory) -> None:
    interrupt = Interrupt()
    script = {"go": _delegating(goal="middle", role="orchestrator"), "middle": _delegating(goal="bottom")}
    with ScriptedProvider({**script, "bottom": hanging()}) as provider:
        host = make_host(provider)
        host.config.delegation.max_spawn_depth = 2
        recorder = EventRecorder().attach(host.hooks)

        def cancel() -> None:
            provider.wait_for_request(3)
            interrupt.cancel("stop")

        threading.Thread(target=cancel, daemon=True).start()
        assert host.new_session().run("go", interrupt=interrupt).status == "interrupted"
    assert [stop["child_status"] for stop in recorder.of("subagent_stop")] == ["interrupted", "interrupted"]
    assert recorder.pairs_unbalanced() == []


def test_children_do_not_outlive_a_surface_that_fails(make_host: HostFactory) -> None:
    def fail(event: TurnEvent) -> None:
        if isinstance(event, ChildStarted) and event.task_index == 1:
            raise RuntimeError("the screen is gone")

    tasks = [{"goal": "work"}, {"goal": "other"}]
    with ScriptedProvider({"go": _delegating(tasks=tasks), "work": hanging(), "other": hanging()}) as provider:
        host = make_host(provider)
        recorder = EventRecorder().attach(host.hooks)
        outcome = host.new_session().run("go", listener=fail)
        wait_until(lambda: recorder.pairs_unbalanced() == [], "an end for every start")
    assert [call.status for call in outcome.tool_calls] == ["error"]
    assert len(recorder.of("subagent_stop")) == 2


# -- real processes --------------------------------------------------------------------------------------------------


def test_ctrl_c_ends_the_commands_of_children(home: Path, workdir: Path) -> None:
    def work(name: str) -> Any:
        return tool_call("terminal", {"command": f"echo $$ > {workdir}/{name}.pid; exec sleep 600"})

    script = {"go": _delegating(tasks=[{"goal": "a"}, {"goal": "b"}]), "a": work("a"), "b": work("b")}
    with ScriptedProvider(script) as provider:
        write_config(home, provider.base_url)
        process = start_hermes("chat", "-q", "go", "-Q", home=home, cwd=workdir, stderr=subprocess.PIPE)
        pids = [read_pid(workdir / f"{name}.pid") for name in ("a", "b")]
        os.kill(process.pid, signal.SIGINT)
        wait_until_gone(*pids)
        _, errors = process.communicate(timeout=HANG)
    assert process.returncode == 130, errors
    shown = run_hermes("trace", "verify", "--all", home=home, cwd=workdir)
    assert shown.returncode == 0, shown.stdout
