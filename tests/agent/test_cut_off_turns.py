"""Turns that are cut off, fail half way or continue elsewhere: whole histories and paired events."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from hermes.agent import workers as workers_module
from hermes.agent.context.setup import OUT_OF_TURNS
from hermes.agent.workers import GRACE_SECONDS, POLL_SECONDS, Workers
from hermes.base.errors import JournalError
from hermes.base.scope import Interrupt
from hermes.contract.events import ToolEnded, ToolStarted, TurnEvent
from hermes.host import Host
from hermes.testing import ScriptedProvider, failure, reasoning, text, tool_call, tool_calls
from hermes.tools.declarations.declaration import Declaration
from hermes.tools.registry import Effect, Tool
from support import HostFactory
from support.waiting import HANG, finish

Payload = dict[str, Any]
CALL_HOOKS = ("pre_tool_call", "post_tool_call")


# -- interrupts ------------------------------------------------------------------------------------------------------


def test_a_call_whose_observer_is_slow_still_has_its_message_when_the_turn_is_interrupted(
    make_host: HostFactory,
) -> None:
    interrupt, release, seen = Interrupt(), threading.Event(), list[TurnEvent]()

    def slow(tool_name: str, **_: Any) -> None:
        if tool_name == "one":
            interrupt.cancel("stop")
            release.wait(HANG)

    with ScriptedProvider([tool_calls([("one", {}), ("two", {})]), text("Going on.")]) as provider:
        host = make_host(provider)
        _add_tools(host, one=_nothing, two=_nothing)
        host.hooks.subscribe("post_tool_call", "slow", slow)
        session = host.new_session()
        assert session.run("go", interrupt=interrupt, listener=seen.append).status == "interrupted"
        told = len(seen)
        release.set()
        session.run("and now?")
        _wait_for_workers(host)
    _check_whole(host.sessions.messages(session.id))
    _check_whole(provider.requests[1].messages)
    assert len([event for event in seen if isinstance(event, ToolEnded)]) == 2
    assert len(seen) == told  # nothing came after the turn was over


def test_stuck_calls_share_one_grace_period(make_host: HostFactory) -> None:
    interrupt, release = Interrupt(), threading.Event()
    all_in = threading.Barrier(4, action=lambda: interrupt.cancel("stop"))

    def stubborn(_args: Payload) -> str:
        all_in.wait(HANG)
        release.wait(HANG)
        return "{}"

    names = ("a", "b", "c", "d")
    with ScriptedProvider([tool_calls([(name, {}) for name in names])]) as provider:
        host = make_host(provider)
        _add_tools(host, **dict.fromkeys(names, stubborn))
        result = finish(lambda: host.new_session().run("go", interrupt=interrupt))
        release.set()
        _wait_for_workers(host)
    assert [call.status for call in result.tool_calls] == ["cancelled"] * 4


def test_the_grace_period_is_not_one_for_each(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    monkeypatch.setattr(workers_module, "time", clock)

    class Stuck:
        def is_over(self, seconds: float) -> bool:
            clock.now += seconds
            return False

    interrupt = Interrupt()
    interrupt.cancel("stop")
    stuck: Any = [Stuck() for _ in range(4)]
    assert workers_module.wait_for(stuck, interrupt) == []
    assert clock.now == pytest.approx(GRACE_SECONDS + POLL_SECONDS)


class Clock:
    """In place of ``time``: waiting is what makes it move."""

    now = 0.0

    def monotonic(self) -> float:
        return self.now


def test_a_reply_survives_an_interrupt_of_those_who_watch_it(make_host: HostFactory) -> None:
    interrupt = Interrupt()

    async def watch(**_: Any) -> None:
        interrupt.cancel("stop")
        await asyncio.sleep(600)

    with ScriptedProvider([tool_call("one", {}), text("unused")]) as provider:
        host = make_host(provider)
        _add_tools(host, one=_nothing)
        host.hooks.subscribe("post_api_request", "watcher", watch)
        session = host.new_session()
        session.run("go", interrupt=interrupt)
        calls = host.sessions.model_calls(session.id)
    assert [(call["status"], call["output_tokens"]) for call in calls] == [("ok", 5)]
    assert [message["role"] for message in host.sessions.messages(session.id)] == [
        *("user", "assistant", "tool", "assistant")
    ]


def test_a_failed_attempt_stays_on_record_when_those_who_watch_it_are_interrupted(make_host: HostFactory) -> None:
    interrupt = Interrupt()

    async def watch(**_: Any) -> None:
        interrupt.cancel("stop")
        await asyncio.sleep(600)

    with ScriptedProvider([failure(503, headers={"retry-after": "0"})]) as provider:
        host = make_host(provider, retries=1)
        host.hooks.subscribe("api_request_error", "watcher", watch)
        session = host.new_session()
        assert session.run("go", interrupt=interrupt).status == "interrupted"
        assert [call["status"] for call in host.sessions.model_calls(session.id)] == ["error"]
    assert len(provider.requests) == 1


def test_an_answer_interrupted_before_it_was_accepted_leaves_no_trace_of_that_once_resumed(
    make_host: HostFactory,
) -> None:
    interrupt = Interrupt()

    async def polish(response_text: str, **_: Any) -> str:
        if not interrupt.cancelled:
            interrupt.cancel("stop")
            await asyncio.sleep(600)
        return response_text

    with ScriptedProvider([text("Paris."), text("Rome.")]) as provider:
        host = make_host(provider)
        host.hooks.subscribe("transform_llm_output", "polish", polish)
        session = host.new_session()
        interrupted = session.run("France?", interrupt=interrupt)
        assert (interrupted.status, interrupted.answer) == ("interrupted", "")  # nobody sees what was not polished
        assert [m["content"] for m in host.sessions.messages(session.id)] == ["France?", "Paris.\n\n[interrupted]"]
        resumed = session.finish_open_turn()
        session.run("Italy?")
    assert resumed is not None and resumed.answer == "Paris."
    assert [m["content"] for m in provider.requests[1].messages[1:]] == ["France?", "Paris.", "Italy?"]


def test_a_dispatched_call_that_is_interrupted_at_its_gate_is_closed(make_host: HostFactory) -> None:
    interrupt, counts = Interrupt(), Counter[str]()

    async def gate(tool_name: str, **_: Any) -> None:
        if tool_name == "inner":
            interrupt.cancel("stop")
            await asyncio.sleep(600)

    with ScriptedProvider([tool_call("outer", {})]) as provider:
        host = make_host(provider)

        def outer(_args: Payload) -> str:
            return host.services.dispatch_tool("inner", {})

        _add_tools(host, outer=outer, inner=_nothing)
        _count(host, counts)
        host.hooks.subscribe("pre_tool_call", "gate", gate)
        host.new_session().run("go", interrupt=interrupt)
    assert counts == {"pre_tool_call": 2, "post_tool_call": 2}


# -- failures --------------------------------------------------------------------------------------------------------


def test_every_call_that_began_is_closed_when_the_journal_cannot_be_written(make_host: HostFactory) -> None:
    counts = Counter[str]()

    with ScriptedProvider([tool_calls([("one", {}), ("two", {}), ("three", {})])]) as provider:
        host = make_host(provider)

        def lose_the_session(_args: Payload) -> str:
            host.store.write(lambda connection: connection.execute("UPDATE sessions SET epoch = epoch + 1"))
            return "{}"

        _add_tools(host, effect="unsafe", one=lose_the_session, two=_nothing, three=_nothing)
        _count(host, counts)
        with pytest.raises(JournalError, match="taken over"):
            host.new_session().run("go")
    assert counts == {"pre_tool_call": 3, "post_tool_call": 3}


def test_a_surface_that_fails_leaves_a_conversation_that_can_go_on(make_host: HostFactory) -> None:
    def full_disk(event: TurnEvent) -> None:
        if isinstance(event, ToolStarted):
            raise OSError(28, "No space left on device")

    counts = Counter[str]()
    with ScriptedProvider([tool_calls([("one", {}), ("two", {})]), text("Going on.")]) as provider:
        host = make_host(provider)
        _add_tools(host, one=_nothing, two=_nothing)
        _count(host, counts)
        session = host.new_session()
        assert session.run("go", listener=full_disk).status == "failed"
        assert session.run("and now?").answer == "Going on."
    _check_whole(provider.requests[1].messages)
    assert counts == {"pre_tool_call": 2, "post_tool_call": 2}


@pytest.mark.parametrize("result", [{"made": object()}, '{"error": "\ud800"}', '{"error": ' + "[" * 5000])
def test_a_result_that_cannot_be_read_is_the_matter_of_its_call_alone(make_host: HostFactory, result: Any) -> None:
    def stand_in(next_call: Any, **_: Any) -> Any:
        next_call()
        return result

    with ScriptedProvider([tool_call("one", {}), text("I see.")]) as provider:
        host = make_host(provider)
        _add_tools(host, one=_nothing)
        host.hooks.add_middleware("tool_execution", "replacer", stand_in)
        session = host.new_session()
        assert session.run("go").answer == "I see."
    _check_whole(host.sessions.messages(session.id))


def test_an_error_is_an_error_whatever_its_type_is_called(make_host: HostFactory) -> None:
    def refuse(_args: Payload) -> str:
        return '{"error": "no", "error_type": 404}'

    with ScriptedProvider([tool_call("one", {}), text("I see.")]) as provider:
        host = make_host(provider)
        _add_tools(host, one=refuse)
        assert [call.status for call in host.new_session().run("go").tool_calls] == ["error"]


@pytest.mark.parametrize("effect", ["pure", "unsafe"])
@pytest.mark.parametrize("where", ["tool_request", "pre_tool_call", "tool_execution"])
def test_arguments_that_are_no_data_are_refused_before_the_tool_runs(
    make_host: HostFactory, where: str, effect: Effect
) -> None:
    ran: list[Payload] = []

    def run(args: Payload) -> str:
        ran.append(args)
        return "{}"

    def rewrite(**_: Any) -> Payload:
        return {"args": {"x": Path("here")}}

    def change(args: Payload, **_: Any) -> None:
        args["x"] = Path("here")

    def pass_on(next_call: Any, **_: Any) -> Any:
        return next_call({"x": Path("here")})

    with ScriptedProvider([tool_call("one", {}), text("I see.")]) as provider:
        host = make_host(provider)
        _add_tools(host, effect=effect, one=run)
        if where == "pre_tool_call":
            host.hooks.subscribe(where, "plugin", change)
        else:
            host.hooks.add_middleware(where, "plugin", rewrite if where == "tool_request" else pass_on)
        result = host.new_session().run("go")
    assert (result.answer, [call.status for call in result.tool_calls]) == ("I see.", ["error"])
    assert "JSON" in provider.requests[1].messages[-1]["content"]
    assert ran == []


def test_arguments_of_a_dispatched_call_that_are_no_data_are_refused(make_host: HostFactory) -> None:
    with ScriptedProvider([]) as provider:
        host = make_host(provider)
        assert "JSON cannot hold" in host.services.dispatch_tool("read_file", {"path": Path("here")})
        assert "not found" in host.services.dispatch_tool("read_file", {"path": "odd \ud800 name"}).lower()


def test_a_tool_that_leaves_the_program_is_an_error_result(make_host: HostFactory) -> None:
    def leave(_args: Payload) -> str:
        raise SystemExit(3)

    with ScriptedProvider([tool_call("one", {}), text("I see.")]) as provider:
        host = make_host(provider)
        _add_tools(host, one=leave)
        assert host.new_session().run("go").answer == "I see."
    assert "SystemExit" in provider.requests[1].messages[-1]["content"]


def test_arguments_nested_too_deeply_are_an_error_the_model_can_act_on(make_host: HostFactory) -> None:
    deep = '{"path": ' + "[" * 5000 + "]" * 5000 + "}"
    with ScriptedProvider([tool_call("read_file", deep), text("Sorry.")]) as provider:
        result = make_host(provider).new_session().run("go")
    assert (result.answer, [call.status for call in result.tool_calls]) == ("Sorry.", ["error"])


def test_a_tool_whose_check_raises_is_unavailable(make_host: HostFactory) -> None:
    def check() -> bool:
        raise RuntimeError("cannot tell")

    with ScriptedProvider([tool_call("one", {}), text("I see.")]) as provider:
        host = make_host(provider)
        _add_tools(host, one=_nothing)
        session = host.new_session()  # it was there when the tools were chosen
        [tool] = [tool for name, tool in host.tools.all().items() if name == "one"]
        host.tools.add(replace(tool, available=check), override=True)
        result = session.run("go")
    assert [call.status for call in result.tool_calls] == ["blocked"]


# -- going on --------------------------------------------------------------------------------------------------------


def test_a_reply_without_text_does_not_stay_in_the_conversation_and_is_asked_for_again(make_host: HostFactory) -> None:
    with ScriptedProvider([reasoning("Hm.", finish_reason="length"), text("Paris."), text("Rome.")]) as provider:
        host = make_host(provider)
        session = host.new_session()
        assert session.run("France?").status == "failed"
        assert [m["content"] for m in host.sessions.messages(session.id)] == ["France?", "[failed]"]
        resumed = session.finish_open_turn()
        assert resumed is not None and resumed.answer == "Paris."
        session.run("Italy?")
    assert [m["content"] for m in provider.requests[2].messages[1:]] == ["France?", "Paris.", "Italy?"]
    assert [call["api_request_id"][-6:] for call in host.sessions.model_calls(session.id)[:2]] == [":api:1", ":api:2"]


def test_a_resumed_turn_keeps_the_budget_it_began_with(make_host: HostFactory, workdir: Path) -> None:
    (workdir / "f").write_text("x")
    read = tool_call("read_file", {"path": "f"})
    with ScriptedProvider([read, read, text("Done.")]) as provider:
        session = make_host(provider, max_turns=1).new_session()
        assert session.run("go").status == "failed"  # the last word was a tool call, not an answer
        host = make_host(provider, max_turns=5)
        # The first host still lives, so the second one takes the session as if it were gone.
        host.store.write(lambda connection: connection.execute("UPDATE sessions SET runner = NULL"))
        resumed = host.resume_session(session.id).finish_open_turn()
        messages = host.sessions.messages(session.id)
    assert resumed is not None and resumed.answer == "Done."
    _check_whole(messages)
    assert [message["content"] for message in messages[-2:]] == [OUT_OF_TURNS, "Done."]


def test_a_session_sees_what_another_process_added_meanwhile(make_host: HostFactory) -> None:
    with ScriptedProvider([text("1"), text("2"), text("3"), text("4")]) as provider:
        first = make_host(provider)
        session = first.new_session()
        session.run("one")
        second = make_host(provider)
        waiting = second.resume_session(session.id)
        session.run("two")
        first.close()
        waiting.run("three")
        waiting.run("four")
    asked = [[m["content"] for m in request.messages[1:]] for request in provider.requests[2:]]
    assert asked == [["one", "1", "two", "2", "three"], ["one", "1", "two", "2", "three", "3", "four"]]


def test_threads_that_were_stuck_end_when_the_pool_is_closed() -> None:
    workers, release = Workers(), threading.Event()
    before = set(threading.enumerate())
    workers.submit(lambda: release.wait(60))
    [thread] = set(threading.enumerate()) - before
    workers.close()
    release.set()
    thread.join(60)
    assert not thread.is_alive()


# -- order -----------------------------------------------------------------------------------------------------------


def test_planning_many_writes_takes_no_longer_for_each_of_them(make_host: HostFactory, workdir: Path) -> None:
    asked = Counter[str]()

    class Counting(Declaration, frozen=True):
        def written_paths(self, args: Mapping[str, Any], cwd: Path) -> list[Path]:
            asked[args["path"]] += 1
            return [workdir / args["path"]]

    def run(args: Payload, _context: object) -> str:
        return "{}"

    names = [f"file-{number}" for number in range(60)]
    with ScriptedProvider([tool_calls([("keep", {"path": name}) for name in names]), text("Kept.")]) as provider:
        host = make_host(provider)
        host.tools.add(
            Tool(
                "keep",
                "test",
                "keep",
                {"type": "object"},
                run,
                "pure",
                Counting(writes=("path",)),
                parallel_by_file=True,
            )
        )
        assert host.new_session().run("go").answer == "Kept."
    assert set(asked) == set(names) and max(asked.values()) <= 4


@pytest.mark.parametrize(
    ("paths", "together"),
    [(["a", "b/c"], True), (["a", "a"], False), (["a", "a/b"], False), (["a/b", "a"], False), (["a/b", "a/c"], True)],
)
def test_writers_run_together_when_their_files_are_separate(
    make_host: HostFactory, workdir: Path, paths: list[str], together: bool
) -> None:
    def run(args: Payload, _context: object) -> str:
        return "{}"

    order: list[type[TurnEvent]] = []
    with ScriptedProvider([tool_calls([("keep", {"path": path}) for path in paths]), text("Kept.")]) as provider:
        host = make_host(provider)
        host.tools.add(
            Tool(
                "keep",
                "test",
                "keep",
                {"type": "object"},
                run,
                "pure",
                Declaration(writes=("path",)),
                parallel_by_file=True,
            )
        )
        host.new_session().run("go", listener=lambda event: order.append(type(event)))
    started = [kind is ToolStarted for kind in order if kind in (ToolStarted, ToolEnded)]
    assert started == ([True, True, False, False] if together else [True, False, True, False])


# -- helpers ---------------------------------------------------------------------------------------------------------


def _nothing(_args: Payload) -> str:
    return "{}"


def _add_tools(host: Host, *, effect: Effect = "pure", **handlers: Any) -> None:
    for name, handler in handlers.items():
        parameters: Payload = {"type": "object", "properties": {}}

        def run(args: Payload, _context: object, handler: Any = handler) -> str:
            return handler(args)

        host.tools.add(Tool(name, "test", name, parameters, run, effect=effect, parallel=True, plugin="test"))


def _count(host: Host, counts: Counter[str]) -> None:
    for hook in CALL_HOOKS:

        def count(hook: str = hook, **_: Any) -> None:
            counts[hook] += 1

        host.hooks.subscribe(hook, "counter", count)


def _check_whole(messages: list[Payload]) -> None:
    """Every tool call is followed by its result, as providers demand, and every message says something."""
    owed: list[str] = []
    for message in messages:
        if message["role"] == "tool":
            assert message["tool_call_id"] == owed.pop(0)
            continue
        assert owed == []
        owed = [call["id"] for call in message.get("tool_calls", ())]
        assert owed or message["content"]
    assert owed == []


def _wait_for_workers(host: Host) -> None:
    host.workers.close()
    for thread in threading.enumerate():
        if thread.name.startswith("hermes-worker"):
            thread.join(HANG)
