"""Every hook on every path: what fires is exactly what the table says, and every start has its one end."""

from __future__ import annotations

import os
import signal
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hermes.base.config.schema.gateway import GatewayPlatformConfig
from hermes.base.config.schema.sections import FallbackConfig
from hermes.base.scope import Interrupt, Scope
from hermes.contract.events import ToolStarted
from hermes.contract.hooks import HOOKS
from hermes.contract.middleware import MIDDLEWARE
from hermes.host import Host
from hermes.testing import (
    EventRecorder,
    ScriptedProvider,
    ScriptedResponder,
    by_step,
    failure,
    hanging,
    text,
    tool_call,
    tool_calls,
)
from support import HostFactory, run_hermes, start_hermes, write_config
from support.approval_rig import RISKY, says
from support.chat_servers import free_port
from support.delivery import EXPECTED, PENDING, Counts
from support.event_files import ENABLED, EventFile
from support.gateway_rig import GatewayRig
from support.signed_posts import post_signed
from support.surfaces import Prompt

#: A scenario drives one session of a host and closes it.
Scenario = Callable[[Host, EventRecorder], None]


def _converse(host: Host, *messages: str, interrupt: Interrupt | None = None, listener: Any = None) -> None:
    session = host.new_session()
    for message in messages:
        options = {} if listener is None else {"listener": listener}
        session.run(message, interrupt=interrupt, **options)
    session.close()


def _ask(host: Host, _recorder: EventRecorder) -> None:
    _converse(host, "go")


def _ask_twice(host: Host, _recorder: EventRecorder) -> None:
    _converse(host, "go", "and again")


def _block(host: Host, _recorder: EventRecorder) -> None:
    def verdict(**_: Any) -> dict[str, str]:
        return {"action": "block", "message": "no"}

    host.hooks.subscribe("pre_tool_call", "policy", verdict)
    _converse(host, "go")


def _want_approval(host: Host, _recorder: EventRecorder) -> None:
    def verdict(**_: Any) -> dict[str, str]:
        return {"action": "approve"}

    host.hooks.subscribe("pre_tool_call", "policy", verdict)
    _converse(host, "go")


def _answer_with(choice: str) -> Scenario:
    def ask(host: Host, _recorder: EventRecorder) -> None:
        session = host.new_session()
        host.responders.attach(session.id, ScriptedResponder(says(choice)))
        session.run("go")
        session.close()

    return ask


def _interrupt_model(host: Host, _recorder: EventRecorder) -> None:
    interrupt = Interrupt()

    def stop(**_: Any) -> None:
        threading.Timer(0.1, interrupt.cancel, ["stop"]).start()

    host.hooks.subscribe("pre_api_request", "stopper", stop)
    _converse(host, "go", interrupt=interrupt)


def _interrupt_tool(host: Host, _recorder: EventRecorder) -> None:
    interrupt = Interrupt()

    def stop(event: object) -> None:
        if isinstance(event, ToolStarted):
            threading.Timer(0.1, interrupt.cancel, ["stop"]).start()

    _converse(host, "go", interrupt=interrupt, listener=stop)


def _fall_back_with(key: str) -> Scenario:
    def ask(host: Host, _recorder: EventRecorder) -> None:
        url = host.config.model.base_url
        host.config.fallback_providers.append(
            FallbackConfig(provider="custom", model="second", base_url=url, api_key=key)
        )
        _converse(host, "go")

    return ask


def _resume(host: Host, recorder: EventRecorder) -> None:
    session = host.new_session()
    session.run("first")
    session.close()
    recorder.clear()
    resumed = host.resume_session(session.id)
    resumed.run("second")
    resumed.close()


def _overrule(host: Host, _recorder: EventRecorder) -> None:
    """A plugin knows better what a failure is."""

    def judge(**_: Any) -> dict[str, str]:
        return {"reason": "overloaded"}

    host.hooks.subscribe("transform_api_error_classification", "judge", judge)
    _converse(host, "go")


def _ask_beside(host: Host, _recorder: EventRecorder) -> None:
    """A plugin asks a model, from a hook of a turn."""
    access = host.services.llm("p")

    def ask(**_: Any) -> None:
        access.complete([{"role": "user", "content": "beside"}])

    host.hooks.subscribe("post_llm_call", "p", ask)
    _converse(host, "go")


def _summarise(host: Host, _recorder: EventRecorder) -> None:
    """A side job whose first attempt fails."""
    session = host.new_session()
    session.run("go")
    messages = [{"role": "user", "content": "beside"}]
    host.side.ask("compression", messages, scope=Scope(session_id=session.id), main=session.models.endpoints)
    session.close()


def _interrupt_beside(host: Host, _recorder: EventRecorder) -> None:
    """The turn is stopped while a plugin's callback waits for a model."""
    interrupt = Interrupt()
    access = host.services.llm("p")

    def ask(**_: Any) -> None:
        access.complete([{"role": "user", "content": "beside"}])

    def stop(**_: Any) -> None:
        threading.Timer(0.1, interrupt.cancel, ["stop"]).start()

    host.hooks.subscribe("pre_llm_call", "p", ask)
    host.hooks.subscribe("pre_auxiliary_call", "stopper", stop)
    _converse(host, "go", interrupt=interrupt)


def _command(host: Host, _recorder: EventRecorder) -> None:
    from hermes.plugins.loading.manifest import PluginManifest
    from hermes.plugins.registry import Command, LoadedPlugin
    from hermes.surfaces.commands.conversation import Conversation
    from hermes.surfaces.commands.dispatch import run_command
    from hermes.surfaces.commands.surface import OneShotSurface

    plugin = LoadedPlugin(PluginManifest(key="p", name="p", source="user"))
    plugin.commands["hello"] = Command("hello", lambda raw: f"hello {raw}", "", "", "p")
    host.plugins.plugins["p"] = plugin
    conversation = Conversation(host, None, OneShotSurface())
    assert run_command(conversation, "/hello you").text == "hello you"
    assert "/hello" in run_command(conversation, "/help").text
    assert "there is no command /hallo" in run_command(conversation, "/hallo").error


def _start_anew(host: Host, _recorder: EventRecorder) -> None:
    prompt = Prompt(host)
    prompt.session.run("go")
    prompt.type("/new")
    prompt.session.close()


def _ask_impatiently(host: Host, _recorder: EventRecorder) -> None:
    host.config.delegation.child_timeout_seconds = 0.3
    _converse(host, "go")


def _with_child(answer: Any) -> dict[str, Any]:
    """The script of a parent that delegates, and of its child."""
    return {"go": by_step(tool_call("delegate_task", {"goal": "work"}), text("ok")), "work": answer}


#: Scenario name -> (what the model says, how the host is driven, host options).
SCENARIOS: dict[str, tuple[Any, Scenario, dict[str, Any]]] = {
    "ok": ([text("hi")], _ask, {}),
    "tool ok": ([tool_call("terminal", {"command": "true"}), text("ok")], _ask, {}),
    "words beside a tool call": (
        [tool_calls([("terminal", {"command": "true"})], content="I look."), text("ok")],
        _ask,
        {},
    ),
    "tool error": ([tool_call("read_file", {"path": "missing"}), text("sorry")], _ask, {}),
    "unknown tool": ([tool_call("fly", {}), text("sorry")], _ask, {}),
    "bad arguments": ([tool_call("read_file", "{"), text("sorry")], _ask, {}),
    "provider error then retry": ([failure(503, headers={"retry-after": "0"}), text("ok")], _ask, {"retries": 1}),
    "refusal that a plugin calls overload": ([failure(400), text("ok")], _overrule, {"retries": 1}),
    "provider error final": ([failure(400)], _ask, {}),
    "fallback after a failure": ([failure(503), text("ok")], _fall_back_with("test-key"), {}),
    "fallback with a bad key": ([failure(401), text("ok")], _fall_back_with("another-key"), {}),
    "fallback behind the same bad key": ([failure(401)], _fall_back_with("test-key"), {}),
    "blocked by hook": ([tool_call("terminal", {"command": "true"}), text("ok")], _block, {}),
    "headless denial": ([tool_call("terminal", {"command": "true"}), text("ok")], _want_approval, {}),
    "approved approval": ([tool_call("terminal", {"command": RISKY}), text("ok")], _answer_with("once"), {}),
    "denied approval": ([tool_call("terminal", {"command": RISKY}), text("ok")], _answer_with("deny"), {}),
    "approval timeout": ([tool_call("terminal", {"command": RISKY}), text("ok")], _answer_with("timeout"), {}),
    "interrupt during model call": ([hanging()], _interrupt_model, {}),
    "interrupt during tool": ([tool_call("terminal", {"command": "sleep 30"})], _interrupt_tool, {}),
    "max turns": ([tool_call("terminal", {"command": "true"}), text("ok")], _ask, {"max_turns": 1}),
    "parallel batch": ([tool_calls([("search_files", {"pattern": "x"})] * 3), text("ok")], _ask, {}),
    "pre_verify": ([tool_call("write_file", {"path": "a.py", "content": ""}), text("ok")], _ask, {}),
    "second turn": ([text("one"), text("two")], _ask_twice, {}),
    "resumed session": ([text("one"), text("two")], _resume, {}),
    "child agent": (_with_child(text("done")), _ask, {}),
    "child failure": (_with_child(failure(400)), _ask, {}),
    "child timeout": (_with_child(hanging()), _ask_impatiently, {}),
    "reset session": ([text("one")], _start_anew, {}),
    "slash command": ([], _command, {}),
    "question of a plugin": ({"go": text("ok"), "beside": text("yes")}, _ask_beside, {}),
    "summary that is repeated": (
        [text("ok"), failure(503, headers={"retry-after": "0"}), text("a summary")],
        _summarise,
        {},
    ),
    "side call interrupted": ({"beside": hanging()}, _interrupt_beside, {}),
}


@pytest.mark.parametrize("kind", ["sqlite", pytest.param("postgres", marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", SCENARIOS)
def test_a_path_fires_exactly_what_the_table_says(
    name: str, kind: str, make_host: HostFactory, request: pytest.FixtureRequest
) -> None:
    script, drive, options = SCENARIOS[name]
    url: str = request.getfixturevalue("postgres_url") if kind == "postgres" else ""
    with ScriptedProvider(script) as provider:
        host = make_host(provider, journal_url=url, **options)
        recorder = EventRecorder().attach(host.hooks)
        drive(host, recorder)
    _compare(name, _counts(recorder))
    assert recorder.breaches() == []


def _counts(recorder: EventRecorder) -> Counter[str]:
    """How often each site fired; of the pieces of streams, how many attempts had any."""
    with_pieces = {one["api_request_id"] for one in recorder.of("on_stream_delta")}
    fired = Counter(recorder.names(middleware=True, streams=True))
    if with_pieces:
        fired["on_stream_delta"] = len(with_pieces)
    return fired


def _compare(name: str, fired: Counter[str], *, of_queued: bool = True) -> None:
    """``of_queued``: whether the process lived to deliver what was queued."""
    wanted = {site for site in EXPECTED[name] if of_queued or site in MIDDLEWARE or not HOOKS[site].is_queued}
    expected: Counts = {site: count for site, count in EXPECTED[name].items() if count and site in wanted}
    assert {site: count for site, count in fired.items() if of_queued or site in wanted} == expected


@pytest.mark.parametrize("name", ["chat message", "chat message of an unknown sender", "webhook delivery"])
def test_a_message_to_the_gateway_fires_exactly_what_the_table_says(
    home: Path, workdir: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret, port = "secret-of-the-build-route", free_port()
    monkeypatch.setenv("WEBHOOK_SECRET_BUILD", secret)
    route = {"prompt": "go", "deliver": "line:alice"}
    webhook = GatewayPlatformConfig(extra={"port": port, "routes": {"build": route}})
    with ScriptedProvider([text("hi")]) as provider:
        rig = GatewayRig(home, workdir, provider)
        running = rig.start(
            platforms=("line", "webhook"), line={"allowed_users": ["alice"]}, others={"webhook": webhook}
        )
        recorder = EventRecorder().attach(running.host.hooks)
        client = rig.client()
        try:
            if name == "webhook delivery":
                for _ in range(2):  # the second one is the same delivery
                    assert post_signed(port, b"{}", secret) == 202
                client.hear()
            elif name == "chat message":
                assert client.ask("go") == "hi"
            else:
                assert "I do not know you yet" in client.ask("go", "bob")
        finally:
            rig.close()
    _compare(name, _counts(recorder))
    assert recorder.breaches() == []


@pytest.fixture
def event_file(home: Path, tmp_path: Path) -> EventFile:
    """A home with a plugin that writes every event of every process to one file."""
    return EventFile(home, tmp_path / "events.jsonl")


def test_a_one_shot_process_fires_everything_before_it_exits(home: Path, workdir: Path, event_file: EventFile) -> None:
    with ScriptedProvider([tool_call("terminal", {"command": "true"}), text("ok")]) as provider:
        write_config(home, provider.base_url, ENABLED)
        run_hermes("chat", "-q", "go", "-Q", home=home, cwd=workdir)
    [fired] = event_file.fired().values()
    _compare("one-shot exit", fired)


def test_a_terminated_process_closes_what_it_started(home: Path, workdir: Path, event_file: EventFile) -> None:
    with ScriptedProvider([hanging()]) as provider:
        write_config(home, provider.base_url, ENABLED)
        process = start_hermes("chat", "-q", "go", "-Q", home=home, cwd=workdir)
        provider.wait_for_request()
        os.kill(process.pid, signal.SIGTERM)
        process.wait(60)
    [fired] = event_file.fired().values()
    _compare("SIGTERM", fired)


@pytest.mark.parametrize(
    ("killed", "resumed", "script", "at"),
    [
        ("killed in a model call", "resumed after that", by_step(text("ok")), 5),
        (
            "killed in a tool",
            "resumed after that tool",
            by_step(tool_call("terminal", {"command": "true"}), text("ok")),
            11,
        ),
    ],
)
def test_a_killed_turn_that_is_resumed_fires_nothing_twice(
    home: Path, workdir: Path, event_file: EventFile, killed: str, resumed: str, script: Any, at: int
) -> None:
    with ScriptedProvider(script) as provider:
        write_config(home, provider.base_url, ENABLED)
        dead = run_hermes("chat", "-q", "go", "-Q", home=home, cwd=workdir, env={"HERMES_CRASH_AT": str(at)})
        assert dead.returncode == -signal.SIGKILL
        run_hermes("chat", "--continue", "-Q", home=home, cwd=workdir)
        whole = run_hermes("trace", "verify", "--all", home=home, cwd=workdir)
    first, second = event_file.fired().values()
    _compare(killed, first, of_queued=False)
    _compare(resumed, second)
    assert whole.returncode == 0, whole.stdout
    ids = [event["api_request_id"] for event in event_file.events("pre_api_request")]
    assert len(set(ids)) == len(ids)  # a new attempt has a new id


def test_the_table_names_only_hooks_there_are_and_says_what_is_pending() -> None:
    sites = {*HOOKS, *MIDDLEWARE}
    assert {site for row in EXPECTED.values() for site in row} <= sites
    assert not PENDING.keys() & EXPECTED.keys()
    processes = {"one-shot exit", "SIGTERM", "killed in a model call", "resumed after that"}
    gateway = {"chat message", "chat message of an unknown sender", "webhook delivery"}
    later = {"answered later", "answered after a restart", "timed out", "client gone"}  # in test_late_answers.py
    rest = {"killed in a tool", "resumed after that tool"}
    assert EXPECTED.keys() == SCENARIOS.keys() | processes | gateway | later | rest
