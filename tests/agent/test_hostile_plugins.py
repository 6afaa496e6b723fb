"""No plugin can cost a turn: whatever a callback raises, returns or waits for, the turn ends in order."""

# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false

from __future__ import annotations

import asyncio
import logging
import sys
import threading
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import pytest

from hermes.agent.events import TurnResult
from hermes.base.config.schema.sections import PluginsConfig
from hermes.base.scope import Interrupt
from hermes.host import Host
from hermes.journal.sessions import Sessions
from hermes.testing import ScriptedProvider, text, tool_call
from support import HostFactory
from support.waiting import wait_for, wait_until

#: The hooks that a turn with one tool call and a changed file fires.
TURN_HOOKS = [
    "on_session_start", "pre_llm_call", "pre_api_request", "post_api_request", "pre_tool_call", "post_tool_call",
    "transform_tool_result", "pre_verify", "transform_llm_output", "post_llm_call", "on_session_end",
]  # fmt: skip
DECIDING = ["pre_llm_call", "pre_tool_call", "transform_tool_result", "pre_verify", "transform_llm_output"]
SCRIPT = [tool_call("write_file", {"path": "a.py", "content": "x = 1\n"}), text("Done.")]


class OwnBaseException(BaseException):
    pass


class HostileText(str):
    def _fail(self, *_: Any, **__: Any) -> Any:
        raise ZeroDivisionError("hostile")

    strip = startswith = encode = replace = split = __len__ = __eq__ = __hash__ = __str__ = __format__ = _fail  # type: ignore[assignment]


class HostileDict(dict[str, Any]):
    def _fail(self, *_: Any, **__: Any) -> Any:
        raise SystemExit("hostile")

    get = items = keys = values = copy = __getitem__ = __iter__ = __len__ = __contains__ = __eq__ = _fail  # type: ignore[assignment]


def hostile_object() -> Any:
    """An object that cannot be compared, tested or asked for its class."""

    class HostileObject:
        @property
        def __class__(self) -> Any:  # pyright: ignore[reportIncompatibleVariableOverride, reportIncompatibleMethodOverride]
            raise ZeroDivisionError("hostile")

        def __eq__(self, other: object) -> bool:
            raise ZeroDivisionError("hostile")

        def __bool__(self) -> bool:
            raise ZeroDivisionError("hostile")

        __hash__ = None  # type: ignore[assignment]

    return HostileObject()


class Plugin:
    """A plugin of the test's own, with one callback."""

    def __init__(self, site: str, callback: Callable[..., Any], **options: Any) -> None:
        self.name = "culprit"
        self._registration = (site, callback, options)

    def register(self, ctx: Any) -> None:
        site, callback, options = self._registration
        if site.endswith(("_request", "_execution")) and site not in TURN_HOOKS:
            ctx.register_middleware(site, callback)
        else:
            ctx.register_hook(site, callback, **options)


Run = Callable[..., TurnResult]


@pytest.fixture
def run(make_host: HostFactory) -> Run:
    """Runs the turn of the script with one plugin."""

    def run_turn(plugin: Any, *, hook_timeout: float = 60, interrupt: Interrupt | None = None) -> TurnResult:
        with ScriptedProvider(SCRIPT) as provider:
            host: Host = make_host(provider, plugin_objects=[plugin], limits=PluginsConfig(hook_timeout=hook_timeout))
            result = host.new_session().run("go", interrupt=interrupt)
            state = Sessions(host.store).last_turn(result.session_id)
            assert state is not None and state.state == result.status, "no turn is left open"
            return result

    return run_turn


@pytest.fixture
def gate() -> Generator[threading.Event]:
    """What a callback waits for that blocks; set when the test ends, so that no thread stays."""
    event = threading.Event()
    yield event
    event.set()


# -- exceptions ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("hook", TURN_HOOKS)
def test_exit_in_a_hook_is_the_plugins_failure(run: Run, hook: str, caplog: pytest.LogCaptureFixture) -> None:
    def leave(**_fields: Any) -> None:
        sys.exit(3)

    result = run(Plugin(hook, leave))
    assert (result.status, result.answer) == ("completed", "Done.")
    assert f"plugin 'culprit': {hook} callback failed: SystemExit: 3" in caplog.text


@pytest.mark.parametrize("raised", [KeyboardInterrupt, asyncio.CancelledError, GeneratorExit, OwnBaseException])
@pytest.mark.parametrize("site", ["pre_tool_call", "llm_request", "tool_request"])
def test_no_exception_of_a_hook_or_of_request_middleware_leaves_it(
    run: Run, site: str, raised: type[BaseException], caplog: pytest.LogCaptureFixture
) -> None:
    def leave(**_fields: Any) -> None:
        raise raised("stop")

    assert run(Plugin(site, leave)).answer == "Done."
    assert f"plugin 'culprit': {site} callback failed: {raised.__name__}: stop" in caplog.text


@pytest.mark.parametrize("raised", [SystemExit, KeyboardInterrupt, OwnBaseException])
@pytest.mark.parametrize("kind", ["llm_execution", "tool_execution"])
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_what_ends_the_program_in_execution_middleware_ends_the_turn_in_order(
    make_host: HostFactory, kind: str, raised: type[BaseException], after: bool
) -> None:
    ends: list[dict[str, Any]] = []

    def leave(next_call: Callable[[], Any], **_fields: Any) -> Any:
        if after:
            next_call()
        raise raised("no budget")

    def register(ctx: Any) -> None:
        ctx.register_middleware(kind, leave)
        ctx.register_hook("on_session_end", lambda **fields: ends.append(fields))

    register.__name__ = "culprit"
    with ScriptedProvider(SCRIPT) as provider:
        host = make_host(provider, plugin_objects=[register], retries=2)
        result = host.new_session().run("go")
        assert len(provider.requests) == (1 if after or kind == "tool_execution" else 0)
        turn = Sessions(host.store).last_turn(result.session_id)
    expected = f"plugin 'culprit' raised {raised.__name__}: no budget in {kind}"
    is_interrupted = raised is KeyboardInterrupt
    status = "interrupted" if is_interrupted else "failed"
    assert (result.status, result.error, result.error_type) == (status, expected, raised.__name__)
    assert turn is not None and turn.state == status
    assert [(end["completed"], end["interrupted"], end["reason"]) for end in ends] == [
        (False, is_interrupted, expected)
    ]


# -- what callbacks return -------------------------------------------------------------------------------------------


def hostile_values() -> dict[str, Any]:
    stored = HostileDict()
    dict.update(stored, {"action": HostileText("block"), "message": HostileText("no"), "context": HostileText("c")})
    plain_outside = {"action": hostile_object(), "message": HostileText("m"), "context": hostile_object()}
    return {"text": HostileText("t"), "dict": stored, "values": plain_outside, "object": hostile_object()}


@pytest.mark.parametrize("shape", ["text", "dict", "values", "object"])
@pytest.mark.parametrize("hook", DECIDING)
def test_methods_of_a_returned_value_never_run_in_the_turn(run: Run, hook: str, shape: str) -> None:
    value = hostile_values()[shape]
    result = run(Plugin(hook, lambda **_fields: value))
    assert result.status == "completed"
    assert result.error is None


def test_a_hostile_dictionary_still_blocks_when_it_says_so(run: Run) -> None:
    result = run(Plugin("pre_tool_call", lambda **_fields: hostile_values()["dict"]))
    [call] = result.tool_calls
    assert (call.status, call.error_type, call.error_message) == ("blocked", "plugin_block", "no")


def test_a_reason_without_end_is_cut(make_host: HostFactory) -> None:
    plugin = Plugin("pre_tool_call", lambda **_: {"action": "block", "message": "no " * 1_000_000})
    with ScriptedProvider(SCRIPT) as provider:
        assert make_host(provider, plugin_objects=[plugin]).new_session().run("go").answer == "Done."
        [result] = [one["content"] for one in provider.requests[1].messages if one["role"] == "tool"]
    assert "no no no" in result and len(result) < 11_000


@pytest.mark.parametrize("kind", ["llm_request", "tool_request"])
@pytest.mark.parametrize("shape", ["text", "dict", "values", "object"])
def test_request_middleware_with_hostile_answers_is_left_out(run: Run, kind: str, shape: str) -> None:
    key = "request" if kind == "llm_request" else "args"

    def answer(**fields: Any) -> Any:
        if shape == "dict":
            return HostileDict({key: HostileDict(fields[key])})
        if shape == "values":
            return {
                key: {**fields[key], "user": HostileText("me")},
                "source": HostileText("s"),
                "reason": hostile_object(),
            }
        return {key: hostile_values()[shape]}

    assert run(Plugin(kind, answer)).status == "completed"


def test_hostile_arguments_put_into_pre_tool_call_do_not_cost_the_turn(run: Run) -> None:
    def meddle(args: dict[str, Any]) -> None:
        args["content"] = HostileText("y = 2\n")
        args["extra"] = HostileDict(a=1)

    assert run(Plugin("pre_tool_call", meddle)).status == "completed"


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("shape", ["none", "text", "dict", "hostile dict", "hostile object"])
def test_llm_execution_that_returns_no_answer_is_left_out(
    run: Run, after: bool, shape: str, caplog: pytest.LogCaptureFixture
) -> None:
    value = {"none": None, "text": "t", "dict": {}, "hostile dict": HostileDict()}.get(shape, hostile_object())

    def forget(next_call: Callable[[], Any], **_fields: Any) -> Any:
        if after:
            next_call()
        return value

    result = run(Plugin("llm_execution", forget))
    assert (result.status, result.answer) == ("completed", "Done.")
    assert "plugin 'culprit': llm_execution callback failed: UnusableResult" in caplog.text


@pytest.mark.parametrize("shape", ["text", "dict", "object"])
def test_tool_execution_may_return_anything(run: Run, shape: str) -> None:
    value = {"text": HostileText('{"ok": 1}'), "dict": HostileDict()}.get(shape, hostile_object())
    assert run(Plugin("tool_execution", lambda **_fields: value)).answer == "Done."


def test_a_lowered_recursion_limit_does_not_reach_the_turn(run: Run, caplog: pytest.LogCaptureFixture) -> None:
    before = sys.getrecursionlimit()

    def lower(**_fields: Any) -> None:
        sys.setrecursionlimit(60)

    assert run(Plugin("pre_tool_call", lower)).answer == "Done."
    assert sys.getrecursionlimit() == before
    assert "plugin 'culprit' lowered the recursion limit" in caplog.text


# -- callbacks that block --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("hook", [hook for hook in TURN_HOOKS if hook != "pre_tool_call"])
def test_a_hook_that_blocks_is_given_up(
    run: Run, gate: threading.Event, hook: str, caplog: pytest.LogCaptureFixture
) -> None:
    def block(**_fields: Any) -> str:
        gate.wait(60)
        return "too late"

    result = run(Plugin(hook, block), hook_timeout=0.05)
    assert (result.status, result.answer) == ("completed", "Done.")
    assert f"plugin 'culprit': {hook} callback failed: CallLate: no answer within 0.05 s" in caplog.text


@pytest.mark.parametrize("site", ["llm_request", "tool_request", "llm_execution", "tool_execution"])
def test_middleware_that_blocks_before_the_call_is_left_out(run: Run, gate: threading.Event, site: str) -> None:
    refused: list[str] = []
    over = threading.Event()

    def block(**fields: Any) -> Any:
        gate.wait(60)
        try:
            return fields["next_call"]() if "next_call" in fields else {"args": {}, "request": {}}
        except Exception as error:
            refused.append(str(error))
        finally:
            over.set()

    result = run(Plugin(site, block), hook_timeout=0.05)
    assert (result.status, result.answer) == ("completed", "Done.")
    gate.set()
    wait_for(over)
    assert not refused or "given up" in refused[0] or "after its middleware had returned" in refused[0]


@pytest.mark.parametrize("kind", ["llm_execution", "tool_execution"])
def test_middleware_that_blocks_after_the_call_does_not_lose_its_result(
    run: Run, gate: threading.Event, kind: str, workdir: Path
) -> None:
    def block(next_call: Callable[[], Any], **_fields: Any) -> Any:
        next_call()
        gate.wait(60)

    result = run(Plugin(kind, block), hook_timeout=0.05)
    assert (result.status, result.answer) == ("completed", "Done.")
    assert [call.status for call in result.tool_calls] == ["ok"]
    assert (workdir / "a.py").read_text() == "x = 1\n"


def test_a_silent_pre_tool_call_blocks_the_call_and_later_ones_without_waiting(
    make_host: HostFactory, gate: threading.Event, workdir: Path
) -> None:
    calls: list[str] = []

    def silent(**fields: Any) -> None:
        calls.append(fields["tool_name"])
        gate.wait(60)
        fields["args"]["path"] = "elsewhere"

    script = [tool_call("write_file", {"path": f"{number}.txt", "content": "x"}) for number in range(4)]
    with ScriptedProvider([*script, text("Done.")]) as provider:
        limits = PluginsConfig(hook_timeout=0.05)
        host = make_host(provider, plugin_objects=[Plugin("pre_tool_call", silent)], limits=limits)
        result = host.new_session().run("go")
    assert (result.status, result.answer) == ("completed", "Done.")
    assert [(call.status, call.error_type) for call in result.tool_calls] == [("blocked", "plugin_block")] * 4
    assert "the policy of plugin 'culprit' could not be evaluated" in str(result.tool_calls[0].error_message)
    assert len(calls) == 3, "then it is switched off, and still blocks"
    assert list(workdir.iterdir()) == []


def test_a_pre_tool_call_that_only_observes_says_so(run: Run, gate: threading.Event) -> None:
    def silent(**_fields: Any) -> None:
        gate.wait(60)

    result = run(Plugin("pre_tool_call", silent, on_error="allow"), hook_timeout=0.05)
    assert [call.status for call in result.tool_calls] == ["ok"]


def test_what_an_abandoned_callback_does_later_changes_nothing(
    make_host: HostFactory, gate: threading.Event, workdir: Path
) -> None:
    attempts: list[str] = []
    over = threading.Event()

    class Late:
        name = "culprit"

        def register(self, ctx: Any) -> None:
            self.ctx = ctx
            ctx.register_hook("pre_llm_call", self.block)

        def block(self, **fields: Any) -> str:
            gate.wait(60)
            ctx = self.ctx
            for act in (
                lambda: ctx.dispatch_tool("write_file", {"path": "late.txt", "content": "late"}),
                lambda: ctx.inject_message("late"),
                lambda: ctx.llm.complete([{"role": "user", "content": "late"}]),
                lambda: ctx.register_hook("post_tool_call", print),
            ):
                try:
                    act()
                except Exception as error:
                    attempts.append(str(error))
            over.set()
            return "late context"

    with ScriptedProvider(SCRIPT) as provider:
        host = make_host(provider, plugin_objects=[Late()], limits=PluginsConfig(hook_timeout=0.05))
        assert host.new_session().run("go").answer == "Done."
        gate.set()
        wait_for(over)
        assert len(provider.requests) == 2
        assert "late context" not in str([request.messages for request in provider.requests])
    assert len(attempts) == 4
    assert all("was given up" in attempt for attempt in attempts)
    assert not (workdir / "late.txt").exists()
    assert not host.hooks.has("post_tool_call")


@pytest.mark.parametrize("site", [*TURN_HOOKS[1:6], "llm_request", "tool_request", "llm_execution", "tool_execution"])
def test_cancelling_the_turn_works_while_a_plugin_blocks(run: Run, gate: threading.Event, site: str) -> None:
    interrupt, blocking = Interrupt(), threading.Event()

    def block(**_fields: Any) -> None:
        blocking.set()
        gate.wait(60)

    canceller = threading.Thread(target=lambda: blocking.wait(60) and interrupt.cancel("keyboard interrupt"))
    canceller.start()
    result = run(Plugin(site, block), hook_timeout=0, interrupt=interrupt)
    canceller.join()
    assert not gate.is_set()
    assert result.status == "interrupted"


def test_the_check_of_a_tool_that_blocks_makes_it_unavailable(
    make_host: HostFactory, gate: threading.Event, caplog: pytest.LogCaptureFixture
) -> None:
    schema = {"description": "d", "parameters": {"type": "object", "properties": {}}}

    def register(ctx: Any) -> None:
        ctx.register_tool("stuck", "mine", schema, lambda args, **_: "{}", check_fn=lambda: gate.wait(60))
        ctx.register_tool("leaves", "mine", schema, lambda args, **_: "{}", check_fn=lambda: sys.exit(3))
        ctx.register_tool("fine", "mine", schema, lambda args, **_: "{}", check_fn=lambda: 1)

    register.__name__ = "culprit"
    with ScriptedProvider([text("Done.")]) as provider:
        limits = PluginsConfig(hook_timeout=0.05)
        host = make_host(provider, plugin_objects=[register], limits=limits, toolsets=["mine"])
        assert host.new_session().run("go").answer == "Done."
    assert "plugin 'culprit': the check of tool 'stuck' failed: CallLate" in caplog.text
    assert "plugin 'culprit': the check of tool 'leaves' failed: SystemExit: 3" in caplog.text
    assert "stuck" not in {tool["function"]["name"] for tool in provider.requests[0].body.get("tools", [])}


# -- threads ---------------------------------------------------------------------------------------------------------


def test_callbacks_of_a_plugin_share_a_thread_that_ends_with_the_session(make_host: HostFactory) -> None:
    threads: set[threading.Thread] = set()

    def note(**_fields: Any) -> None:
        threads.add(threading.current_thread())

    def register(ctx: Any) -> None:
        for hook in TURN_HOOKS:
            ctx.register_hook(hook, note)
        ctx.register_middleware("llm_request", note)

    with ScriptedProvider([*SCRIPT, *SCRIPT]) as provider:
        host = make_host(provider, plugin_objects=[register])
        first, second = host.new_session(), host.new_session()
        first.run("go")
        [thread] = threads
        assert thread is not threading.current_thread()
        second.run("go")
        assert len(threads) == 2
        first.close()
        wait_until(lambda: not thread.is_alive(), "the end of the session's thread")
        assert sum(one.is_alive() for one in threads) == 1
    host.close()
    wait_until(lambda: not any(one.is_alive() for one in threads), "the end of all threads")


@pytest.mark.parametrize("site", ["pre_tool_call", "post_tool_call", "tool_execution"])
def test_a_callback_may_run_tools_and_ask_a_model_while_its_own_hooks_fire(
    make_host: HostFactory, site: str, workdir: Path
) -> None:
    (workdir / "note.txt").write_text("noted\n")
    guard = threading.local()
    seen: list[str] = []

    class Nested:
        name = "nested"

        def register(self, ctx: Any) -> None:
            self.ctx = ctx
            if site == "tool_execution":
                ctx.register_middleware(site, self.wrap)
            else:
                ctx.register_hook(site, self.observe)
            ctx.register_hook("transform_tool_result", lambda **fields: seen.append(fields["tool_name"]))

        def observe(self, **fields: Any) -> None:
            if getattr(guard, "busy", False) or fields["tool_name"] != "write_file":
                return
            guard.busy = True
            try:
                assert "noted" in self.ctx.dispatch_tool("read_file", {"path": "note.txt"})
                assert self.ctx.llm.complete([{"role": "user", "content": "hi"}]).text == "side"
            finally:
                guard.busy = False

        def wrap(self, next_call: Callable[[], Any], **fields: Any) -> Any:
            self.observe(**fields)
            return next_call()

    with ScriptedProvider([SCRIPT[0], text("side"), SCRIPT[1]]) as provider:
        host = make_host(provider, plugin_objects=[Nested()])
        result = host.new_session().run("go")
        assert [one.last_error for one in host.hooks.stats() if one.failures] == []
    assert result.answer == "Done."
    assert sorted(seen) == ["read_file", "write_file"]


def test_a_callback_that_keeps_failing_is_switched_off_and_that_is_said(
    make_host: HostFactory, caplog: pytest.LogCaptureFixture
) -> None:
    calls: list[int] = []

    def fail(**_fields: Any) -> None:
        calls.append(1)
        raise ValueError("always")

    script = [tool_call("read_file", {"path": f"{number}"}) for number in range(12)]
    with ScriptedProvider([*script, text("Done.")]) as provider:
        host = make_host(provider, plugin_objects=[Plugin("post_tool_call", fail)])
        assert host.new_session().run("go").answer == "Done."
        [stats] = host.hooks.stats()
    assert len(calls) == 10
    assert (stats.failures, stats.is_off) == (12, True)
    warnings = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert (
        "plugin 'culprit': its post_tool_call callback is switched off for 60 s after 10 failures in a row" in warnings
    )


NONSENSE: list[Any] = [
    {"model": "m"},
    {"model": "m", "messages": None},
    {"model": "m", "messages": []},
    {"model": "m", "messages": "hello"},
    {"model": "m", "messages": ["hello"]},
    {"model": None, "messages": [{"role": "user", "content": "hello"}]},
    {"model": "m", "messages": [{"role": "user", "content": object()}]},
    {"model": "m", "messages": [{"role": "user", "content": "x"}], "extra_headers": ["nonsense"]},
    {"model": "m", "messages": [{"role": "user", "content": "x"}], "extra_body": 5},
]


@pytest.mark.parametrize("request_made", NONSENSE)
def test_a_request_that_cannot_be_sent_is_the_failure_of_its_middleware(
    make_host: HostFactory, caplog: pytest.LogCaptureFixture, request_made: Any
) -> None:
    with ScriptedProvider([text("Hello.")]) as provider:
        host = make_host(provider)
        host.hooks.add_middleware("llm_request", "muddler", lambda **_: {"request": request_made})
        host.hooks.add_middleware("llm_request", "namer", lambda request, **_: {"request": {**request, "user": "me"}})
        result = host.new_session().run("hi")
    assert (result.status, result.answer) == ("completed", "Hello.")
    [sent] = provider.requests
    assert (sent.last_user_text, sent.body["user"]) == ("hi", "me")
    assert [record.getMessage() for record in caplog.records if "muddler" in record.getMessage()]
