"""What plugins see and change on the way through the two pipelines."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import pytest

from hermes.base.errors import ProviderError
from hermes.base.scope import Interrupt
from hermes.testing import ScriptedProvider, failure, hanging, text, tool_call, tool_calls
from support import HostFactory, run_hermes, write_config

Payload = dict[str, Any]

PLUGIN = """
def register(ctx):
    ctx.register_tool(
        "shout", "noise",
        {
            "description": "Shout.",
            "parameters": {"type": "object", "properties": {"words": {"type": "string"}}, "required": ["words"]},
        },
        lambda args, **kw: '{"shouted": "' + args["words"].upper() + '"}',
    )
    ctx.register_hook("pre_llm_call", lambda **kw: {"context": "Be loud."})
    ctx.register_middleware("tool_request", on_tool_request)
    ctx.register_middleware("llm_request", on_llm_request)
    ctx.register_command("noise", lambda raw: "NOISE: " + raw, description="Make noise")


def on_tool_request(**kw):
    if kw["tool_name"] == "shout":
        return {"args": {"words": kw["args"]["words"] + "!"}, "source": "noisy", "reason": "louder"}


def on_llm_request(**kw):
    request = dict(kw["request"])
    request["extra_body"] = {"metadata": {"tagged": True}}
    print("a plugin may print")
    return {"request": request}
"""


@pytest.fixture
def noisy_plugin(home: Path) -> None:
    folder = home / "plugins" / "noisy"
    folder.mkdir(parents=True)
    (folder / "plugin.yaml").write_text("name: noisy\nversion: 1.0.0\n")
    (folder / "__init__.py").write_text(PLUGIN)


@pytest.mark.usefixtures("noisy_plugin")
def test_a_plugin_in_the_plugins_folder_takes_effect_on_both_pipelines(home: Path, workdir: Path) -> None:
    with ScriptedProvider([tool_call("shout", {"words": "hey"}), text("Loud enough.")]) as provider:
        write_config(home, provider.base_url, "plugins:\n  enabled: [noisy]\n")
        done = run_hermes("chat", "-q", "shout", "-Q", home=home, cwd=workdir)
    assert (done.returncode, done.stdout) == (0, "Loud enough.\n")
    assert "a plugin may print" in done.stderr
    assert provider.requests[0].body["metadata"] == {"tagged": True}
    assert provider.requests[0].messages[-1]["content"] == "shout\n\nBe loud."
    assert json.loads(provider.requests[1].messages[-1]["content"]) == {"shouted": "HEY!"}


@pytest.mark.usefixtures("noisy_plugin")
def test_a_plugin_that_is_not_enabled_does_nothing_unless_it_is_named(home: Path, workdir: Path) -> None:
    with ScriptedProvider([text("quiet"), text("loud")]) as provider:
        write_config(home, provider.base_url)
        run_hermes("chat", "-q", "hi", "-Q", home=home, cwd=workdir)
        run_hermes("chat", "-q", "hi", "-Q", "--plugin", "noisy", home=home, cwd=workdir)
    assert "metadata" not in provider.requests[0].body
    assert provider.requests[1].body["metadata"] == {"tagged": True}


@pytest.mark.usefixtures("noisy_plugin")
def test_a_slash_command_of_a_plugin_runs_in_one_shot_mode(home: Path, workdir: Path) -> None:
    with ScriptedProvider([text("not a command")]) as provider:
        write_config(home, provider.base_url, "plugins:\n  enabled: [noisy]\n")
        command = run_hermes("chat", "-q", "/noise at night", "-Q", home=home, cwd=workdir)
        path = run_hermes("chat", "-q", "/etc/hosts what is it?", "-Q", home=home, cwd=workdir)
    assert (command.returncode, command.stdout) == (0, "NOISE: at night\n")
    assert path.stdout == "not a command\n"


class Watch:
    """Subscribes to hooks on a host and keeps what arrives, in order."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, Payload]] = []
        self._lock = threading.Lock()

    def __call__(self, host: Any, *hooks: str) -> Watch:
        for hook in hooks:
            host.hooks.subscribe(hook, "watch", self._recorder(hook))
        return self

    def _recorder(self, hook: str) -> Any:
        def record(**payload: Any) -> None:
            with self._lock:
                self.seen.append((hook, payload))

        return record

    def names(self) -> list[str]:
        return [name for name, _ in self.seen]

    def of(self, hook: str) -> list[Payload]:
        return [payload for name, payload in self.seen if name == hook]


TURN_HOOKS = (
    *("on_session_start", "pre_llm_call", "pre_api_request", "post_api_request", "api_request_error"),
    *("pre_tool_call", "post_tool_call", "post_llm_call", "on_session_end", "on_session_finalize"),
)


def test_hooks_fire_in_order_with_joined_ids(make_host: HostFactory, workdir: Path) -> None:
    (workdir / "f").write_text("content\n")
    with ScriptedProvider([tool_call("read_file", {"path": "f"}, call_id="call_x"), text("read")]) as provider:
        host = make_host(provider)
        watch = Watch()(host, *TURN_HOOKS)
        session = host.new_session()
        session.run("read f")
        session.close()
    assert watch.names() == [
        *("on_session_start", "pre_llm_call", "pre_api_request", "post_api_request"),
        *("pre_tool_call", "post_tool_call", "pre_api_request", "post_api_request"),
        *("post_llm_call", "on_session_end", "on_session_finalize"),
    ]
    turn_ids = {payload["turn_id"] for _, payload in watch.seen if "turn_id" in payload}
    assert len(turn_ids) == 1
    first, second = watch.of("post_api_request")
    assert first["api_request_id"] != second["api_request_id"]
    assert (first["finish_reason"], first["assistant_tool_call_count"]) == ("tool_calls", 1)
    assert first["request"]["body"]["model"] == "scripted"
    assert second["response"]["assistant_message"]["content"] == "read"
    [before] = watch.of("pre_tool_call")
    [after] = watch.of("post_tool_call")
    assert before["tool_call_id"] == after["tool_call_id"] == "call_x"
    assert before["api_request_id"] == first["api_request_id"]
    assert (after["status"], after["args"]) == ("ok", {"path": "f"}) and "content" in after["result"]
    [end] = watch.of("on_session_end")
    assert (end["completed"], end["interrupted"]) == (True, False)


def test_two_reads_both_start_before_either_ends(make_host: HostFactory, workdir: Path) -> None:
    (workdir / "a").write_text("a")
    (workdir / "b").write_text("b")
    script = [tool_calls([("read_file", {"path": "a"}), ("read_file", {"path": "b"})]), text("both")]
    with ScriptedProvider(script) as provider:
        host = make_host(provider)
        watch = Watch()(host, "pre_tool_call", "post_tool_call")
        host.new_session().run("read")
    assert watch.names() == ["pre_tool_call", "pre_tool_call", "post_tool_call", "post_tool_call"]


def test_slow_readers_really_run_at_the_same_time(make_host: HostFactory) -> None:
    both_inside = threading.Barrier(2, timeout=60)

    def slow(args: Payload, **_: Any) -> str:
        both_inside.wait()
        return '{"ok": true}'

    with ScriptedProvider([tool_calls([("slow", {}), ("slow", {})]), text("met")]) as provider:
        host = make_host(provider)
        _add_tool(host, "slow", slow, parallel=True)
        result = host.new_session().run("go")
    assert [call.status for call in result.tool_calls] == ["ok", "ok"]


def test_writers_of_one_file_wait_for_each_other(make_host: HostFactory, workdir: Path) -> None:
    calls = [("write_file", {"path": "same", "content": str(number)}) for number in range(5)]
    with ScriptedProvider([tool_calls(calls), text("written")]) as provider:
        host = make_host(provider)
        watch = Watch()(host, "pre_tool_call", "post_tool_call")
        host.new_session().run("go")
    assert (workdir / "same").read_text() == "4"
    assert watch.names() == ["pre_tool_call", "post_tool_call"] * 5


def test_a_hook_blocks_a_call_and_the_call_is_still_closed(make_host: HostFactory, workdir: Path) -> None:
    def no_shell(tool_name: str, **_: Any) -> Payload | None:
        return {"action": "block", "message": "no shell today"} if tool_name == "terminal" else None

    with ScriptedProvider([tool_call("terminal", {"command": "touch made"}), text("fine")]) as provider:
        host = make_host(provider)
        host.hooks.subscribe("pre_tool_call", "policy", no_shell)
        watch = Watch()(host, "post_tool_call")
        host.new_session().run("go")
    assert not (workdir / "made").exists()
    [after] = watch.of("post_tool_call")
    assert (after["status"], after["error_type"]) == ("blocked", "plugin_block")
    assert after["error_message"] == "no shell today"
    assert json.loads(provider.requests[1].messages[-1]["content"]) == {"error": "no shell today"}


@pytest.mark.parametrize(("yolo", "ran"), [(False, False), (True, True)])
def test_an_approval_nobody_can_give_is_a_denial_unless_everything_is_allowed(
    make_host: HostFactory, workdir: Path, yolo: bool, ran: bool
) -> None:
    def ask(**_: Any) -> Payload:
        return {"action": "approve", "message": "touches files"}

    with ScriptedProvider([tool_call("terminal", {"command": "touch made"}), text("fine")]) as provider:
        host = make_host(provider, allow_everything=yolo)
        host.hooks.subscribe("pre_tool_call", "policy", ask)
        watch = Watch()(host, "post_tool_call")
        host.new_session().run("go")
    assert (workdir / "made").exists() is ran
    assert watch.of("post_tool_call")[0]["error_type"] == (None if ran else "headless_denied")


def test_arguments_changed_in_place_are_honoured_and_traced(make_host: HostFactory, workdir: Path) -> None:
    def redirect(args: Payload, **_: Any) -> None:
        args["path"] = "other"

    (workdir / "other").write_text("the other one")
    with ScriptedProvider([tool_call("read_file", {"path": "f"}), text("fine")]) as provider:
        host = make_host(provider)
        host.hooks.subscribe("pre_tool_call", "redirector", redirect)
        watch = Watch()(host, "post_tool_call")
        host.new_session().run("go")
    [after] = watch.of("post_tool_call")
    assert after["args"] == {"path": "other"} and "the other one" in after["result"]
    assert after["middleware_trace"][0]["source"] == "redirector"


def test_execution_middleware_may_change_what_runs_and_the_record_says_so(make_host: HostFactory) -> None:
    def louder(args: Payload, next_call: Any, **_: Any) -> str:
        return next_call({"command": args["command"] + " changed"})

    with ScriptedProvider([tool_call("terminal", {"command": "echo"}), text("fine")]) as provider:
        host = make_host(provider)
        host.hooks.add_middleware("tool_execution", "louder", louder)
        watch = Watch()(host, "post_tool_call")
        session = host.new_session()
        session.run("go")
        events = host.sessions.events(session.id)
    [after] = watch.of("post_tool_call")
    assert after["args"] == {"command": "echo changed"} and '"output":"changed"' in after["result"]
    [done] = [event for event in events if event["key"] == "tool:1.0" and event["kind"] == "step_done"]
    assert done["body"]["args"] == {"command": "echo changed"}


def test_execution_middleware_may_answer_instead_of_the_model(make_host: HostFactory) -> None:
    def canned(**_: Any) -> Payload:
        return {"choices": [{"message": {"content": "from the cache"}, "finish_reason": "stop"}]}

    with ScriptedProvider([]) as provider:
        host = make_host(provider)
        host.hooks.add_middleware("llm_execution", "cache", canned)
        result = host.new_session().run("hi")
    assert (result.answer, provider.requests) == ("from the cache", [])


def test_a_response_no_plugin_should_return_is_not_used(
    make_host: HostFactory, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(**_: Any) -> int:
        return 42

    with ScriptedProvider([text("from the model")]) as provider:
        host = make_host(provider)
        host.hooks.add_middleware("llm_execution", "broken", broken)
        watch = Watch()(host, "pre_api_request", "post_api_request", "api_request_error")
        result = host.new_session().run("hi")
    assert (result.status, result.answer) == ("completed", "from the model")
    assert watch.names() == ["pre_api_request", "post_api_request"]
    assert "plugin 'broken': llm_execution callback failed: UnusableResult" in caplog.text


def test_a_translated_provider_error_is_retried_like_the_original(make_host: HostFactory) -> None:
    def translate(next_call: Any, **_: Any) -> Any:
        try:
            return next_call()
        except ProviderError as error:
            raise LookupError("the gateway said no") from error

    with ScriptedProvider([failure(500, "down"), text("up again")]) as provider:
        host = make_host(provider, retries=1)
        host.hooks.add_middleware("llm_execution", "translator", translate)
        watch = Watch()(host, "api_request_error", "post_api_request")
        result = host.new_session().run("hi")
    assert (result.status, result.answer) == ("completed", "up again")
    assert watch.names() == ["api_request_error", "post_api_request"]
    [failed, _] = watch.seen
    assert (failed[1]["status_code"], failed[1]["reason"], failed[1]["retryable"]) == (500, "server_error", True)


def test_provider_errors_reach_middleware_as_themselves(make_host: HostFactory) -> None:
    caught: list[BaseException] = []

    def catch(request: Payload, next_call: Any, **_: Any) -> Any:
        try:
            return next_call(request)
        except ProviderError as error:
            caught.append(error)
            raise

    with ScriptedProvider([failure(400, "nope")]) as provider:
        host = make_host(provider)
        host.hooks.add_middleware("llm_execution", "catcher", catch)
        result = host.new_session().run("hi")
    assert result.status == "failed"
    assert [type(error) for error in caught] == [ProviderError]


def test_every_start_has_one_end_when_the_turn_is_interrupted(make_host: HostFactory) -> None:
    interrupt = Interrupt()
    with ScriptedProvider([hanging()]) as provider:
        host = make_host(provider)
        watch = Watch()(host, *TURN_HOOKS)
        stopper = threading.Thread(target=lambda: (provider.wait_for_request(), interrupt.cancel("stop")))
        stopper.start()
        host.new_session().run("hi", interrupt=interrupt)
        stopper.join()
    assert watch.names() == [
        *("on_session_start", "pre_llm_call", "pre_api_request", "api_request_error", "on_session_end")
    ]
    assert watch.of("api_request_error")[0]["reason"] == "interrupted"
    assert watch.of("on_session_end")[0]["interrupted"] is True


def test_a_tool_that_ignores_the_interrupt_is_left_behind(make_host: HostFactory) -> None:
    interrupt = Interrupt()
    release = threading.Event()

    def stubborn(args: Payload, **_: Any) -> str:
        interrupt.cancel("stop")
        release.wait(60)
        return "{}"

    with ScriptedProvider([tool_call("stubborn", {})]) as provider:
        host = make_host(provider)
        _add_tool(host, "stubborn", stubborn)
        watch = Watch()(host, "pre_tool_call", "post_tool_call")
        result = host.new_session().run("go", interrupt=interrupt)
        release.set()
    assert result.status == "interrupted"
    assert watch.names() == ["pre_tool_call", "post_tool_call"]
    assert watch.of("post_tool_call")[0]["status"] == "cancelled"


def test_a_tool_that_raises_is_an_error_result(make_host: HostFactory) -> None:
    def broken(args: Payload, **_: Any) -> str:
        raise RuntimeError("it broke")

    with ScriptedProvider([tool_call("broken", {}), text("I see.")]) as provider:
        host = make_host(provider)
        _add_tool(host, "broken", broken)
        result = host.new_session().run("go")
    assert result.answer == "I see."
    assert "RuntimeError: it broke" in provider.requests[1].messages[-1]["content"]


def test_the_answer_may_be_replaced_and_is_then_not_streamed(make_host: HostFactory) -> None:
    def polite(response_text: str, **_: Any) -> str:
        return f"{response_text} Thank you."

    shown: list[Any] = []
    with ScriptedProvider([text("No.")]) as provider:
        host = make_host(provider)
        host.hooks.subscribe("transform_llm_output", "polite", polite)
        result = host.new_session().run("hi", listener=shown.append)
    assert result.answer == "No. Thank you."
    assert [type(event).__name__ for event in shown] == ["TurnStarted", "AttemptAnswered"]


def test_pre_verify_sends_a_turn_that_changed_files_on_a_bounded_number_of_times(
    make_host: HostFactory, workdir: Path
) -> None:
    asked: list[Payload] = []

    def verify(**payload: Any) -> Payload:
        asked.append(payload)
        return {"action": "continue", "message": "Run the tests first."}

    script = [
        tool_call("write_file", {"path": "a.py", "content": "x = 1\n"}),
        text("Done."),
        text("Really."),
        text("Yes."),
    ]
    with ScriptedProvider(script) as provider:
        host = make_host(provider)
        host.config.agent.max_verify_nudges = 2
        host.hooks.subscribe("pre_verify", "strict", verify)
        session = host.new_session()
        result = session.run("write it")
    assert result.answer == "Yes."
    assert [(call["attempt"], call["final_response"], call["coding"]) for call in asked] == [
        (0, "Done.", True),
        (1, "Really.", True),
    ]
    assert asked[0]["changed_paths"] == [str(workdir / "a.py")]
    assert provider.requests[2].messages[-1] == {"role": "user", "content": "Run the tests first."}
    assert [message["role"] for message in session.messages()[-5:]] == [
        "assistant",
        "user",
        "assistant",
        "user",
        "assistant",
    ]


def test_pre_verify_is_not_asked_when_nothing_changed(make_host: HostFactory) -> None:
    def verify(**_: Any) -> Payload:
        raise AssertionError("nothing to verify")

    with ScriptedProvider([text("Just talk.")]) as provider:
        host = make_host(provider)
        host.hooks.subscribe("pre_verify", "strict", verify)
        assert host.new_session().run("hi").answer == "Just talk."
    assert sum(stats.calls for stats in host.hooks.stats()) == 0


def test_a_message_injected_while_the_agent_works_reaches_the_model_before_its_next_call(
    make_host: HostFactory,
) -> None:
    with ScriptedProvider(
        [tool_call("terminal", {"command": "true"}), text("A first answer."), text("In French.")]
    ) as p:
        host = make_host(p)
        said = iter(["Be brief.", ""])

        def after_tool(**_: Any) -> None:
            assert host.services.inject_message("Be brief.", "user") is True

        def after_answer(finish_reason: str, **_: Any) -> None:
            if finish_reason == "stop" and next(said):
                host.services.inject_message("Say it in French.", "system")

        host.hooks.subscribe("post_tool_call", "steerer", after_tool)
        host.hooks.subscribe("post_api_request", "steerer", after_answer)
        session = host.new_session()
        result = session.run("go")
        assert host.services.inject_message("too late", "user") is False
        stored = host.sessions.messages(session.id)
    assert result.answer == "In French."
    assert p.requests[1].messages[-1] == {"role": "user", "content": "Be brief."}
    assert p.requests[2].messages[-1] == {"role": "user", "content": "[system] Say it in French."}
    assert [message["role"] for message in stored] == [
        "user",
        "assistant",
        "tool",
        "user",
        "assistant",
        "user",
        "assistant",
    ]
    assert stored == session.messages()


def test_a_very_long_context_is_kept_in_a_file_and_previewed(make_host: HostFactory, home: Path) -> None:
    def lengthy(**_: Any) -> str:
        return "beginning " + "x" * 20_000 + " end"

    with ScriptedProvider([text("ok")]) as provider:
        host = make_host(provider)
        host.hooks.subscribe("pre_llm_call", "lengthy", lengthy)
        host.new_session().run("hi")
    content: str = provider.requests[0].messages[-1]["content"]
    assert len(content) < 1_300 and content.startswith("hi\n\nbeginning xxx") and content.endswith("xxx end")
    [path] = (home / "spill").iterdir()
    assert str(path) in content and path.read_text() == lengthy()
    assert path.stat().st_mode & 0o077 == 0


def test_a_plugin_runs_a_tool_through_the_same_pipeline(make_host: HostFactory, workdir: Path) -> None:
    (workdir / "f").write_text("found\n")
    with ScriptedProvider([]) as provider:
        host = make_host(provider)
        watch = Watch()(host, "pre_tool_call", "post_tool_call")
        result = json.loads(host.services.dispatch_tool("read_file", {"path": "f"}))
    assert "found" in result["content"]
    assert watch.names() == ["pre_tool_call", "post_tool_call"]


def test_tools_that_call_tools_end_somewhere(make_host: HostFactory) -> None:
    with ScriptedProvider([tool_call("recurse", {}), text("enough")]) as provider:
        host = make_host(provider)
        _add_tool(host, "recurse", lambda args, **_: host.services.dispatch_tool("recurse", {}))  # pyright: ignore[reportUnknownLambdaType]
        host.new_session().run("go")
    assert "may go 4 deep" in provider.requests[1].messages[-1]["content"]


def test_secrets_never_reach_sanitised_payloads(make_host: HostFactory) -> None:
    with ScriptedProvider([failure(500, "key test-key leaked"), text("ok")]) as provider:
        host = make_host(provider)
        watch = Watch()(host, "pre_api_request", "api_request_error")
        host.new_session().run("hi")
    sanitised = [watch.of("pre_api_request")[0]["request"], watch.of("api_request_error")[0]]
    assert "test-key" not in repr(sanitised)


def _add_tool(host: Any, name: str, handler: Any, *, parallel: bool = False) -> None:
    from hermes.tools.registry import Tool

    host.tools.add(
        Tool(
            name=name,
            toolset="test",
            description=name,
            parameters={"type": "object", "properties": {}},
            run=lambda args, context: handler(args),
            parallel=parallel,
            plugin="test",
        )
    )
