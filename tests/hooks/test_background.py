"""Callbacks outside the turn's thread: coroutines, deadlines and queues."""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

import pytest

from hermes.base.errors import Interrupted, TurnSuspended
from hermes.base.scope import Scope, current_scope
from hermes.hooks import callback as callback_module
from hermes.hooks.observers import Answer
from hermes.hooks.table import Hooks
from hermes.hooks.threads import event_loop as threads_module
from hermes.hooks.threads.event_loop import AsyncLoop
from hermes.hooks.threads.timed_call import TimedCall
from support.hook_callbacks import answer
from support.waiting import HANG

variable: ContextVar[str] = ContextVar("variable", default="lost")


def emit(hooks: Hooks, hook: str, **payload: Any) -> list[Answer]:
    emitter = getattr(hooks, hook)
    assert emitter is not None
    return emitter.invoke(**payload)


class InScope:
    """Puts a scope in hand for a block."""

    def __init__(self) -> None:
        self.scope = Scope(session_id="s")

    def __enter__(self) -> Scope:
        self._token = current_scope.set(self.scope)
        return self.scope

    def __exit__(self, *_exception: object) -> None:
        current_scope.reset(self._token)


@pytest.fixture
def gate() -> Any:
    """An event that a hanging callback waits for; set when the test ends, so that no thread stays."""
    event = threading.Event()
    yield event
    event.set()


# -- coroutines ------------------------------------------------------------------------------------------------------


def test_async_callbacks_are_awaited_with_the_context_variables_of_the_turn(hooks: Hooks) -> None:
    threads: set[str] = set()

    async def callback(**fields: Any) -> Any:
        await asyncio.sleep(0)
        threads.add(threading.current_thread().name)
        scope = current_scope.get()
        return {"context": f"{fields['user_message']} {variable.get()} {scope.session_id if scope else None}"}

    hooks.subscribe("pre_llm_call", "a", callback)
    hooks.subscribe("pre_llm_call", "b", callback)
    token = variable.set("carried")
    try:
        with InScope():
            answers = emit(hooks, "pre_llm_call", user_message="hi")
    finally:
        variable.reset(token)
    assert [one.value for one in answers] == [{"context": "hi carried s"}] * 2
    assert threads == {"hermes-async-callbacks"}, "all coroutines share one loop"


def test_a_failing_or_cancelled_coroutine_is_isolated(hooks: Hooks, caplog: pytest.LogCaptureFixture) -> None:
    async def fails(**_fields: Any) -> None:
        await asyncio.sleep(0)
        raise ValueError("async trouble")

    async def cancelled(**_fields: Any) -> None:
        raise asyncio.CancelledError

    for callback in (fails, cancelled, answer("fine")):
        hooks.subscribe("pre_llm_call", callback.__name__, callback)
    assert [one.value for one in emit(hooks, "pre_llm_call")] == ["fine"]
    assert "ValueError: async trouble" in caplog.text
    assert "the coroutine was cancelled" in caplog.text


@pytest.mark.parametrize("raised", [KeyboardInterrupt, SystemExit, GeneratorExit])
def test_a_coroutine_that_ends_the_program_has_failed_and_spares_the_loop(
    hooks: Hooks, raised: type[BaseException], caplog: pytest.LogCaptureFixture
) -> None:
    async def unwinds(**_fields: Any) -> None:
        raise raised("stop")

    async def fine(**_fields: Any) -> str:
        return "fine"

    hooks.subscribe("pre_llm_call", "culprit", unwinds)
    hooks.subscribe("pre_llm_call", "p", fine)
    assert emit(hooks, "pre_llm_call") == [Answer("p", "fine")]
    assert f"plugin 'culprit': pre_llm_call callback failed: {raised.__name__}: stop" in caplog.text


@pytest.mark.parametrize("raised", [Interrupted, TurnSuspended])
def test_unwinding_in_a_coroutine_reaches_the_turn_and_spares_the_loop(
    hooks: Hooks, raised: type[BaseException]
) -> None:
    async def unwinds(**_fields: Any) -> None:
        raise raised("stop")

    async def fine(**_fields: Any) -> str:
        return "fine"

    hooks.subscribe("post_tool_call", "p", unwinds)
    hooks.subscribe("pre_llm_call", "p", fine)
    with pytest.raises(raised):
        emit(hooks, "post_tool_call")
    assert emit(hooks, "pre_llm_call") == [Answer("p", "fine")]


def test_a_coroutine_may_itself_fire_hooks_that_have_async_subscribers(hooks: Hooks) -> None:
    async def inner(**_fields: Any) -> str:
        await asyncio.sleep(0)
        return "inner"

    async def outer(**_fields: Any) -> str:
        [one] = emit(hooks, "transform_llm_output")
        return f"outer {one.value}"

    hooks.subscribe("transform_llm_output", "p", inner)
    hooks.subscribe("pre_llm_call", "p", outer)
    assert emit(hooks, "pre_llm_call") == [Answer("p", "outer inner")]


def test_cancelling_the_turn_ends_the_wait_and_the_coroutine(hooks: Hooks) -> None:
    started, ended = threading.Event(), threading.Event()

    async def hangs(**_fields: Any) -> None:
        started.set()
        try:
            await asyncio.sleep(60)
        finally:
            ended.set()

    hooks.subscribe("pre_llm_call", "p", hangs)
    with InScope() as scope:
        canceller = threading.Thread(target=lambda: started.wait(60) and scope.interrupt.cancel())
        canceller.start()
        with pytest.raises(Interrupted):
            emit(hooks, "pre_llm_call")
        canceller.join()
    assert ended.wait(60)


def test_closing_events_of_a_cancelled_turn_are_delivered_but_not_waited_for_forever(
    hooks: Hooks, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    seen: list[str] = []

    async def quick(**_fields: Any) -> None:
        await asyncio.sleep(0)
        seen.append("quick")

    async def hangs(**_fields: Any) -> None:
        await asyncio.sleep(60)

    monkeypatch.setattr(threads_module, "CANCELLED_GRACE", 0.05)
    hooks.subscribe("on_session_end", "quick", quick)
    hooks.subscribe("on_session_end", "hangs", hangs)
    with InScope() as scope:
        scope.interrupt.cancel()
        emit(hooks, "on_session_end")
    assert seen == ["quick"]
    assert "'hangs'" in caplog.text


def test_a_callback_that_blocks_the_loop_is_named(
    hooks: Hooks, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(threads_module, "WATCH_SECONDS", 0.01)
    named = threading.Event()

    class Watcher(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            named.set()

    async def blocks(**_fields: Any) -> bool:
        return named.wait(60)

    watcher = Watcher(logging.WARNING)
    logging.getLogger("hermes.hooks").addHandler(watcher)
    try:
        hooks.subscribe("pre_llm_call", "stubborn", blocks)
        assert emit(hooks, "pre_llm_call") == [Answer("stubborn", True)]
    finally:
        logging.getLogger("hermes.hooks").removeHandler(watcher)
    assert "'stubborn' in pre_llm_call blocks the loop" in caplog.text


def test_the_loop_starts_when_first_used_and_ends_on_close() -> None:
    loop = AsyncLoop()

    def threads() -> list[str]:
        return [thread.name for thread in threading.enumerate() if thread.name == "hermes-async-callbacks"]

    assert threads() == []
    pending: list[Any] = []

    async def leaves_work_behind() -> int:
        pending.append(asyncio.get_running_loop().create_task(asyncio.sleep(60)))
        return 1

    assert loop.run(leaves_work_behind(), "test") == 1
    assert threads() == ["hermes-async-callbacks"]
    loop.close()
    assert threads() == []
    assert pending[0].cancelled()
    loop.close()
    assert loop.run(leaves_work_behind(), "test") == 1, "a closed one starts again when it is needed"
    loop.close()


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_forked_process_has_a_loop_of_its_own() -> None:
    loop = AsyncLoop()

    async def answer() -> int:
        return 3

    assert loop.run(answer(), "test") == 3
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            code = loop.run(answer(), "test")
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 3
    assert loop.run(answer(), "test") == 3
    loop.close()


def test_a_coroutine_with_a_deadline_is_cancelled_when_it_is_late() -> None:
    loop, cancelled = AsyncLoop(), threading.Event()

    async def hangs() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            cancelled.set()

    with pytest.raises(TimeoutError, match=r"no answer within 0.05 s"):
        loop.run(hangs(), "test", timeout=0.05)
    assert cancelled.wait(60)
    loop.close()


# -- deadlines -------------------------------------------------------------------------------------------------------


def test_a_late_callback_is_left_behind_and_a_late_policy_denies(hooks: Hooks, gate: threading.Event) -> None:
    def hangs(**_fields: Any) -> None:
        gate.wait(60)

    hooks.subscribe("pre_tool_call", "slow", hangs, timeout=0.05, on_error="allow")
    hooks.subscribe("pre_tool_call", "policy", hangs, timeout=0.05, on_error="deny")
    hooks.subscribe("pre_tool_call", "quick", answer({"action": "approve"}), timeout=60)
    denied, quick = emit(hooks, "pre_tool_call", tool_name="t", args={}, middleware_trace=[])
    assert denied.plugin == "policy"
    assert denied.value["action"] == "block"
    assert "no answer within 0.05 s" in denied.value["message"]
    assert quick == Answer("quick", {"action": "approve"})
    assert [one.failures for one in hooks.stats()] == [1, 1, 0]


def test_a_callback_with_a_deadline_runs_elsewhere_with_a_copy_and_the_context(hooks: Hooks) -> None:
    seen: list[Any] = []

    def callback(args: dict[str, Any]) -> None:
        args["changed"] = True
        seen.append((variable.get(), threading.current_thread() is threading.main_thread()))

    hooks.subscribe("post_tool_call", "p", callback, timeout=60)
    token = variable.set("carried")
    args: dict[str, Any] = {}
    try:
        emit(hooks, "post_tool_call", args=args)
    finally:
        variable.reset(token)
    assert seen == [("carried", False)]
    assert args == {}


def test_unwinding_under_a_deadline_reaches_the_turn(hooks: Hooks) -> None:
    def unwinds(**_fields: Any) -> None:
        raise Interrupted("inside")

    hooks.subscribe("post_tool_call", "p", unwinds, timeout=60)
    with pytest.raises(Interrupted):
        emit(hooks, "post_tool_call")


def test_cancelling_the_turn_ends_the_wait_for_a_deadline(hooks: Hooks, gate: threading.Event) -> None:
    started = threading.Event()

    def hangs(**_fields: Any) -> None:
        started.set()
        gate.wait(60)

    hooks.subscribe("post_tool_call", "p", hangs, timeout=30)
    with InScope() as scope:
        canceller = threading.Thread(target=lambda: started.wait(60) and scope.interrupt.cancel())
        canceller.start()
        with pytest.raises(Interrupted):
            emit(hooks, "post_tool_call")
        canceller.join()


class Deadline:
    """Deadlines without a clock: a callback is late once it calls ``hang``, and never before."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, gate: threading.Event) -> None:
        self._gate = gate
        self._hanging = self._late = 0

        def left(_call: TimedCall) -> float:
            if self._hanging > self._late:
                self._late += 1
                return 0.0
            return 0.002

        monkeypatch.setattr(TimedCall, "left", property(left))

    def hang(self) -> None:
        self._hanging += 1
        self._gate.wait(HANG)


@pytest.fixture
def deadline(monkeypatch: pytest.MonkeyPatch, gate: threading.Event) -> Deadline:
    return Deadline(monkeypatch, gate)


def test_repeated_misses_trip_a_breaker_that_tries_again_later(
    hooks: Hooks, deadline: Deadline, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    calls: list[bool] = []
    hang = True

    def sometimes(**_fields: Any) -> str:
        calls.append(hang)
        if hang:
            deadline.hang()
        return "here"

    now = 1000.0
    monkeypatch.setattr(callback_module, "monotonic", lambda: now)
    hooks.subscribe("pre_llm_call", "p", sometimes, timeout=0.02)
    for _ in range(6):
        assert emit(hooks, "pre_llm_call") == []
    assert len(calls) == 3, "the breaker keeps more threads from being left behind"
    assert "plugin 'p': its pre_llm_call callback is switched off for 60 s after 3 failures in a row" in caplog.text
    warned = [one.getMessage() for one in caplog.records if one.levelname == "WARNING"]
    assert not any("switched off after" in line for line in warned), "what is left out then is not worth a warning each"
    assert hooks.stats()[0].is_off
    assert hooks.stats()[0].failures == 6
    now += 61
    assert emit(hooks, "pre_llm_call") == []
    assert len(calls) == 4, "one more is tried"
    now += 61
    assert emit(hooks, "pre_llm_call") == []
    assert len(calls) == 4, "then it is off for twice as long"
    hang, now = False, now + 61
    assert emit(hooks, "pre_llm_call") == [Answer("p", "here")]
    assert emit(hooks, "pre_llm_call") == [Answer("p", "here")]
    assert not hooks.stats()[0].is_off


def test_misses_with_answers_in_between_do_not_trip_it(hooks: Hooks, deadline: Deadline) -> None:
    calls: list[str] = []

    def sometimes(**fields: Any) -> None:
        calls.append(fields["status"])
        if fields["status"] == "slow":
            deadline.hang()

    hooks.subscribe("post_tool_call", "p", sometimes, timeout=0.05)
    plan = ["slow", "slow", "quick", "slow", "slow", "quick"]
    for status in plan:
        emit(hooks, "post_tool_call", status=status)
    assert calls == plan


# -- queues ----------------------------------------------------------------------------------------------------------


def test_background_events_arrive_in_order_across_hooks_with_copies(hooks: Hooks, gate: threading.Event) -> None:
    seen: list[Any] = []

    def slow(**fields: Any) -> str:
        gate.wait(60)
        seen.append((fields["tool_call_id"], dict(fields["args"])))
        return "not used"

    args: dict[str, Any] = {"n": 0}
    hooks.subscribe("pre_tool_call", "p", slow, background=True)
    hooks.subscribe("post_tool_call", "p", slow, background=True)
    for number in range(5):
        args["n"] = number
        assert emit(hooks, "pre_tool_call", tool_call_id=f"{number} start", args=args, middleware_trace=[]) == []
        assert emit(hooks, "post_tool_call", tool_call_id=f"{number} end", args=args) == []
    assert seen == []
    gate.set()
    assert hooks.flush(5) == []
    assert seen == [(f"{number} {part}", {"n": number}) for number in range(5) for part in ("start", "end")]


def test_args_changed_behind_the_turn_do_not_count_those_changed_in_time_do(hooks: Hooks) -> None:
    changed = threading.Event()

    def behind(args: dict[str, Any]) -> None:
        args["behind"] = True
        changed.set()

    def in_time(args: dict[str, Any]) -> None:
        assert changed.wait(60)
        args["in time"] = True

    hooks.subscribe("pre_tool_call", "behind", behind, background=True)
    hooks.subscribe("pre_tool_call", "in_time", in_time, timeout=60)
    args: dict[str, Any] = {}
    trace: list[dict[str, str]] = []
    emit(hooks, "pre_tool_call", args=args, middleware_trace=trace)
    assert args == {"in time": True}
    assert [entry["source"] for entry in trace] == ["in_time"]


def test_a_full_queue_drops_events_and_counts_them(
    hooks: Hooks, gate: threading.Event, caplog: pytest.LogCaptureFixture
) -> None:
    hooks.queue("p", capacity=3)
    seen: list[int] = []
    started = threading.Event()

    def slow(**_fields: Any) -> None:
        started.set()
        gate.wait(60)
        seen.append(1)

    hooks.subscribe("post_tool_call", "p", slow, background=True)
    emit(hooks, "post_tool_call")
    assert started.wait(60)
    for _ in range(5):
        emit(hooks, "post_tool_call")
    gate.set()
    hooks.flush(5)
    assert len(seen) == 4
    assert hooks.stats()[0].failures == 2
    assert "the event is dropped" in caplog.text


def test_flush_names_the_plugins_that_are_not_done(hooks: Hooks, gate: threading.Event) -> None:
    def hangs(**_fields: Any) -> None:
        gate.wait(60)

    hooks.subscribe("on_session_end", "stuck", hangs, background=True)
    hooks.subscribe("on_session_end", "fine", answer(), background=True)
    emit(hooks, "on_session_end")
    assert hooks.flush(0.05) == ["stuck"]
    gate.set()
    assert hooks.flush(5) == []


def test_cancelling_the_turn_does_not_cancel_what_is_queued(
    hooks: Hooks, gate: threading.Event, caplog: pytest.LogCaptureFixture
) -> None:
    seen: list[Any] = []
    started = threading.Event()

    async def export(**_fields: Any) -> None:
        started.set()
        gate.wait(60)
        await asyncio.sleep(0)
        scope = current_scope.get()
        seen.append(scope.session_id if scope else None)

    hooks.subscribe("on_session_end", "p", export, background=True)
    with InScope() as scope:
        emit(hooks, "on_session_end")
        assert started.wait(60)
        scope.interrupt.cancel()
    gate.set()
    assert hooks.flush(5) == []
    assert seen == ["s"]
    assert caplog.text == "", "the delivery was not cut short either"


def raises_value_error(**_fields: Any) -> None:
    raise ValueError("queued trouble")


def exits(**_fields: Any) -> None:
    raise SystemExit(3)


@pytest.mark.parametrize("trouble", [raises_value_error, exits])
def test_trouble_in_one_event_does_not_cost_the_next(
    hooks: Hooks, trouble: Callable[..., Any], caplog: pytest.LogCaptureFixture
) -> None:
    seen: list[str] = []

    def callback(**fields: Any) -> None:
        if fields["status"] == "bad":
            trouble()
        seen.append(fields["status"])

    hooks.subscribe("post_tool_call", "p", callback, background=True)
    for status in ("ok", "bad", "ok"):
        emit(hooks, "post_tool_call", status=status)
    hooks.flush(5)
    assert seen == ["ok", "ok"]
    assert "'p'" in caplog.text


def test_background_with_a_timeout_leaves_a_late_event_behind(hooks: Hooks, deadline: Deadline) -> None:
    seen: list[str] = []

    def callback(**fields: Any) -> None:
        if fields["status"] == "slow":
            deadline.hang()
        seen.append(fields["status"])

    hooks.subscribe("post_tool_call", "p", callback, background=True, timeout=0.05)
    emit(hooks, "post_tool_call", status="slow")
    emit(hooks, "post_tool_call", status="quick")
    assert hooks.flush(5) == []
    assert seen == ["quick"]


def test_close_delivers_what_is_queued_and_ends_the_threads() -> None:
    hooks = Hooks()
    seen: list[int] = []
    hooks.subscribe("post_tool_call", "closing", lambda: seen.append(1), background=True)
    for _ in range(50):
        emit(hooks, "post_tool_call")
    hooks.close()
    assert len(seen) == 50
    assert not [thread for thread in threading.enumerate() if "closing" in thread.name]
