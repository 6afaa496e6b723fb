"""The clock of a plugin's call, and the threads such calls run on."""

# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false, reportUnknownMemberType=false

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Generator
from typing import Any

import pytest

from hermes.base.config.schema.sections import PluginsConfig
from hermes.base.errors import PluginError
from hermes.hooks.table import Hooks
from hermes.hooks.threads import timed_call
from hermes.hooks.threads.callback_threads import MAX_IDLE
from hermes.hooks.threads.load_call import LoadCall, thread_seconds
from hermes.hooks.threads.runner import PluginLimits
from hermes.hooks.threads.timed_call import FOREVER, TimedCall, current_call, host_work
from support.waiting import HANG, wait_for, wait_until


class Clock:
    """Time that passes only when a test says so."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(timed_call, "monotonic", made)
    return made


@pytest.fixture
def gate() -> Generator[threading.Event]:
    event = threading.Event()
    yield event
    event.set()


def test_the_clock_stands_still_while_the_host_works(clock: Clock) -> None:
    call = TimedCall("p", 10)
    clock.now += 4
    assert call.left == 6
    call.enter_host()
    clock.now += 100
    call.enter_host()
    clock.now += 100
    call.leave_host()
    assert (call.left, call.is_served) == (6, True)
    with call.own_work():
        clock.now += 1
        assert (call.left, call.is_served) == (5, False)
    clock.now += 100
    call.leave_host()
    assert (call.left, call.is_served) == (5, False)
    clock.now += 6
    assert call.left == -1


def test_a_call_is_not_given_up_while_the_host_works_and_cannot_ask_it_afterwards() -> None:
    call = TimedCall("p", 10)
    token = current_call.set(call)
    try:
        with host_work():
            assert not call.give_up()
        assert call.give_up()
        with pytest.raises(PluginError, match="given up"), host_work():
            raise AssertionError
    finally:
        current_call.reset(token)


def test_execution_middleware_is_not_limited_while_the_call_runs(clock: Clock) -> None:
    limits = PluginsConfig(hook_timeout=0.01)
    hooks = Hooks(PluginLimits(limits))

    def base(_args: Any) -> str:
        clock.now += 1000
        return "result"

    hooks.add_middleware("tool_execution", "p", lambda **fields: fields["next_call"]() + " kept")
    assert hooks.tool_execution is not None
    assert hooks.tool_execution.run({}, base, {}) == "result kept"
    hooks.close()


def test_its_own_time_is_limited(clock: Clock, gate: threading.Event) -> None:
    hooks = Hooks(PluginLimits(PluginsConfig(hook_timeout=0.01)))

    def slow(next_call: Callable[[], Any], **_fields: Any) -> Any:
        next_call()
        clock.now += 1000
        gate.wait(HANG)
        return "never"

    hooks.add_middleware("tool_execution", "p", slow)
    assert hooks.tool_execution is not None
    assert hooks.tool_execution.run({}, lambda _args: "result", {}) == "result"
    assert hooks.stats()[0].last_error == "CallLate: no answer within 0.01 s"
    hooks.close()


def test_a_plugins_own_limit_wins_and_a_bad_one_is_said(caplog: pytest.LogCaptureFixture) -> None:
    entries: dict[str, Any] = {"quick": {"hook_timeout": 5, "load_timeout": 7}, "free": {"hook_timeout": 0}}
    entries["bad"] = {"hook_timeout": "soon"}
    limits = PluginLimits(PluginsConfig(entries=entries))
    assert [limits.hook_seconds(name) for name in ("quick", "free", "other")] == [5, FOREVER, 60]
    assert [limits.load_seconds(name) for name in ("quick", "free")] == [7, 30]
    assert limits.hook_seconds("bad") == 60
    assert "plugins.entries.bad.hook_timeout is 'soon'" in caplog.text


class Thread:
    """The thread of a step of loading: how long it has computed."""

    def __init__(self) -> None:
        self.computed = 0.0

    def __call__(self, thread: int) -> float:
        return self.computed


def test_a_step_of_loading_that_a_busy_machine_delays_is_waited_for(
    clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    thread = Thread()
    call = LoadCall("p", 30, thread)
    for minutes in range(1, 11):
        thread.computed += 1.0  # one second of every thirty: thirty others want the processor too
        clock.now += 30
        assert call.left == 30, minutes
    assert "plugin 'p' still loads after 30 s; it computes, so it is waited for" in caplog.text


def test_a_step_of_loading_that_does_nothing_is_late(clock: Clock) -> None:
    thread = Thread()
    call = LoadCall("p", 30, thread)
    thread.computed = 2.0
    clock.now += 30
    assert call.left == 30, "it has worked"
    thread.computed += 0.1  # a loop that sleeps and looks again
    clock.now += 29
    assert call.left == 1
    clock.now += 1
    assert (call.left, call.reason) == (0, "it has done nothing for 30 s")


def test_a_step_of_loading_that_computes_without_end_is_late(clock: Clock) -> None:
    thread = Thread()
    call = LoadCall("p", 30, thread)
    clock.now += 30
    thread.computed = 29.0
    assert call.left == 30
    clock.now += 30
    thread.computed = 31.0
    assert (call.left, call.reason) == (0, "it has computed for 30 s")


def test_a_cancelled_turn_waits_for_no_step_of_loading(clock: Clock) -> None:
    thread = Thread()
    call = LoadCall("p", 30, thread)
    call.limit, thread.computed = 2, 1.0
    clock.now += 2
    assert call.left == 0


@pytest.mark.skipif(not hasattr(time, "pthread_getcpuclockid"), reason="threads have no clock that others can read")
def test_the_clock_of_a_thread_counts_what_it_computes(gate: threading.Event) -> None:
    thread = threading.Thread(target=gate.wait, args=(HANG,))
    thread.start()
    assert thread_seconds(thread.ident or 0) < thread_seconds(threading.get_ident())
    gate.set()
    thread.join(HANG)


def test_calls_at_the_same_time_do_not_wait_for_each_other(hooks: Hooks) -> None:
    meeting = threading.Barrier(3)

    def meet(next_call: Callable[[], Any], **_fields: Any) -> Any:
        meeting.wait(HANG)
        return next_call()

    hooks.add_middleware("tool_execution", "p", meet)
    chain = hooks.tool_execution
    assert chain is not None
    run = chain.run
    workers = [threading.Thread(target=lambda: run({}, lambda _args: "", {"session_id": "s"})) for _ in range(3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(HANG)
    assert hooks.runner.threads.idle == 3
    hooks.end_session("s")
    assert hooks.runner.threads.idle == 0


def test_the_threads_of_old_sessions_end_when_there_are_many(hooks: Hooks) -> None:
    hooks.subscribe("post_tool_call", "p", lambda **_fields: None)
    emit = hooks.post_tool_call
    assert emit is not None
    for number in range(MAX_IDLE + 20):
        emit.invoke(session_id=str(number))
    assert hooks.runner.threads.idle == MAX_IDLE
    names = {f"hermes-plugin p {number}" for number in range(20)}
    wait_until(lambda: not names & {thread.name for thread in threading.enumerate()}, "the oldest have ended")


def test_a_session_that_ends_in_a_callback_leaves_no_thread(hooks: Hooks) -> None:
    threads: list[threading.Thread] = []

    def ends(**_fields: Any) -> None:
        threads.append(threading.current_thread())
        hooks.end_session("s")

    hooks.subscribe("on_session_finalize", "p", ends)
    assert hooks.on_session_finalize is not None
    hooks.on_session_finalize.invoke(session_id="s")
    wait_until(lambda: not threads[0].is_alive(), "the thread ends with its call")


def test_threads_that_a_callback_starts_are_those_of_any_program(hooks: Hooks, gate: threading.Event) -> None:
    started: list[threading.Thread] = []

    def start(**_fields: Any) -> None:
        started.append(threading.Thread(target=gate.wait))
        started[0].start()

    hooks.subscribe("post_tool_call", "p", start)
    assert hooks.post_tool_call is not None
    hooks.post_tool_call.invoke()
    assert not started[0].daemon
    gate.set()
    started[0].join(HANG)


def test_a_callback_that_was_given_up_ends_its_thread(hooks: Hooks, gate: threading.Event) -> None:
    threads: list[threading.Thread] = []
    blocking = threading.Event()

    def block(**_fields: Any) -> None:
        threads.append(threading.current_thread())
        blocking.set()
        gate.wait(HANG)

    hooks.subscribe("post_tool_call", "p", block, timeout=0.05)
    assert hooks.post_tool_call is not None
    hooks.post_tool_call.invoke()
    wait_for(blocking)
    assert threads[0].is_alive()
    gate.set()
    wait_until(lambda: not threads[0].is_alive(), "the thread that was left behind ends")
