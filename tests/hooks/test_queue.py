"""The background queue: order, bounds, deadlines, failures, forks. Threads are held by events, never by time."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes.base.errors import PluginError
from hermes.base.scope import Scope, current_scope
from hermes.hooks.queue import BackgroundQueue
from hermes.hooks.table import Hooks
from hermes.testing import PluginHarness

#: Longer than anything takes that is going to happen at all.
LONG = 30.0
#: The shortest wait: for what cannot happen.
SHORT = 0.01

variable: ContextVar[str] = ContextVar("variable", default="unset")


class Held:
    """An item that runs until it is released."""

    def __init__(self) -> None:
        self.entered = threading.Event()
        self.released = threading.Event()

    def __call__(self) -> None:
        self.entered.set()
        assert self.released.wait(LONG)


@pytest.fixture
def held() -> Iterator[Held]:
    item = Held()
    yield item
    item.released.set()


@pytest.fixture
def make() -> Iterator[Callable[..., BackgroundQueue]]:
    queues: list[BackgroundQueue] = []

    def make_one(**options: Any) -> BackgroundQueue:
        queues.append(BackgroundQueue("test", **options))
        return queues[-1]

    yield make_one
    for queue in queues:
        queue.close()


def blocked(make: Callable[..., BackgroundQueue], held: Held, **options: Any) -> BackgroundQueue:
    """A queue whose thread is inside the held item."""
    queue = make(**options)
    assert queue.put(held)
    assert held.entered.wait(LONG)
    return queue


def threads_named(name: str) -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if name in thread.name]


# -- order and failures ----------------------------------------------------------------------------------------------


@given(st.lists(st.sampled_from(["fine", "raises", "exits", "flush"]), max_size=30))
def test_everything_runs_in_order_whatever_fails(plan: list[str]) -> None:
    queue, seen = BackgroundQueue("plan"), list[int]()

    def run(number: int, kind: str) -> None:
        seen.append(number)
        if kind == "raises":
            raise ValueError(number)
        if kind == "exits":
            raise SystemExit(number)

    for number, kind in enumerate(plan):
        if kind == "flush":
            assert queue.flush(LONG) and queue.pending == 0
        else:
            assert queue.put(lambda number=number, kind=kind: run(number, kind))
    assert queue.close(LONG)
    assert seen == [number for number, kind in enumerate(plan) if kind != "flush"]
    assert queue.failed == sum(kind in ("raises", "exits") for kind in plan)
    assert queue.dropped == 0


@given(st.integers(1, 5), st.integers(1, 30), st.integers(1, 4))
def test_blocked_producers_lose_nothing_and_keep_their_order(producers: int, items: int, capacity: int) -> None:
    queue, seen = BackgroundQueue("many", capacity=capacity, block_seconds=LONG), list[tuple[int, int]]()

    def produce(producer: int) -> None:
        for number in range(items):
            assert queue.put(lambda number=number: seen.append((producer, number)), overflow="block")

    threads = [threading.Thread(target=produce, args=(producer,)) for producer in range(producers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert queue.close(LONG)
    assert sorted(seen) == [(producer, number) for producer in range(producers) for number in range(items)]
    for producer in range(producers):
        assert [number for who, number in seen if who == producer] == list(range(items))


def test_the_first_failure_of_a_cause_is_a_warning_and_repeats_are_counted(
    make: Callable[..., BackgroundQueue], caplog: pytest.LogCaptureFixture
) -> None:
    def one() -> None:
        raise ValueError("sk-abcdefghijklmnopqrstuvwxyz0123456789ABCDEFGH")

    def two() -> None:
        raise KeyError("other")

    queue = make()
    for item in (one, one, two, one):
        queue.put(item)
    assert queue.flush(LONG)
    assert queue.failed == 4
    warnings = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert len(warnings) == 2 and "ValueError" in warnings[0] and "KeyError" in warnings[1]
    assert "abcdefghijklmnopqrstuvwxyz" not in caplog.text


def test_items_carry_context_variables_and_ids_but_not_the_interrupt(make: Callable[..., BackgroundQueue]) -> None:
    queue, seen = make(), list[Any]()
    scope = Scope(session_id="s")
    token, value = current_scope.set(scope), variable.set("set")
    scope.interrupt.cancel()

    def look() -> None:
        here = current_scope.get()
        assert here is not None
        seen.append((variable.get(), here.session_id, here.interrupt.cancelled))

    queue.put(look)
    variable.reset(value)
    current_scope.reset(token)
    assert queue.flush(LONG)
    assert seen == [("set", "s", False)]


def test_an_item_knows_when_it_was_put(make: Callable[..., BackgroundQueue], held: Held) -> None:
    queue, seen = blocked(make, held), list[float]()
    before = time.time()
    queue.put(lambda: seen.append(queue.item_time))
    after = time.time()
    held.released.set()
    assert queue.flush(LONG)
    assert before <= seen[0] <= after <= queue.item_time


def test_an_idle_queue_keeps_nothing_of_the_last_item(make: Callable[..., BackgroundQueue]) -> None:
    class Payload:
        pass

    queue, payload = make(), Payload()
    gone = weakref.ref(payload)
    queue.put(lambda payload=payload: None)
    del payload
    assert queue.flush(LONG)
    queue.put(lambda: None)  # by now the thread has left the first item
    assert queue.flush(LONG)
    gc.collect()
    assert gone() is None


# -- overflow --------------------------------------------------------------------------------------------------------


def test_a_full_queue_drops_and_warns_once(
    make: Callable[..., BackgroundQueue], held: Held, caplog: pytest.LogCaptureFixture
) -> None:
    queue, seen = blocked(make, held, capacity=2), list[int]()
    accepted = [queue.put(lambda number=number: seen.append(number)) for number in range(5)]
    assert accepted == [True, True, False, False, False]
    assert (queue.dropped, queue.pending) == (3, 3)
    held.released.set()
    assert queue.flush(LONG)
    assert seen == [0, 1]
    assert [record.levelname for record in caplog.records].count("WARNING") == 1
    assert "'test': 2 items are waiting" in caplog.text


def test_a_blocked_put_waits_for_room(make: Callable[..., BackgroundQueue], held: Held) -> None:
    queue, seen = blocked(make, held, capacity=1, block_seconds=LONG), list[int]()
    assert queue.put(lambda: seen.append(1))
    results: list[bool] = []
    producer = threading.Thread(target=lambda: results.append(queue.put(lambda: seen.append(2), overflow="block")))
    producer.start()
    held.released.set()
    producer.join()
    assert results == [True] and queue.flush(LONG) and seen == [1, 2]


def test_a_stuck_consumer_stops_producers_once_not_every_time(make: Callable[..., BackgroundQueue], held: Held) -> None:
    queue = blocked(make, held, capacity=1, block_seconds=SHORT)
    assert queue.put(lambda: None)
    assert not queue.put(lambda: None, overflow="block")
    queue.block_seconds = 10 * LONG  # from now on a wait would hang the test
    assert not queue.put(lambda: None, overflow="block")
    assert queue.dropped == 2
    held.released.set()
    assert queue.flush(LONG)
    assert queue.put(lambda: None, overflow="block")


def test_an_item_that_fills_its_own_queue_does_not_wait_for_itself(make: Callable[..., BackgroundQueue]) -> None:
    queue, accepted = make(capacity=1, block_seconds=10 * LONG), list[bool]()

    def fill() -> None:
        accepted.extend(queue.put(lambda: None, overflow="block") for _ in range(2))
        accepted.append(queue.flush(10 * LONG))

    queue.put(fill)
    assert queue.flush(LONG)
    assert accepted == [True, False, False] and not queue.is_late


# -- flush and close -------------------------------------------------------------------------------------------------


def test_flush_waits_for_what_was_queued_before_it_alone(
    make: Callable[..., BackgroundQueue], monkeypatch: pytest.MonkeyPatch
) -> None:
    queue, first, second = make(), Held(), Held()

    def put_another() -> None:
        first()
        queue.put(second)

    queue.put(put_another)
    assert first.entered.wait(LONG)
    changed = queue._changed  # pyright: ignore[reportPrivateUsage]
    wait_for = changed.wait_for

    def begun(*arguments: Any) -> bool:
        first.released.set()  # the second item comes while the flush waits
        return wait_for(*arguments)

    monkeypatch.setattr(changed, "wait_for", begun)
    assert queue.flush(LONG)
    second.released.set()


def test_a_missed_flush_makes_the_queue_late_until_it_has_caught_up(
    make: Callable[..., BackgroundQueue], held: Held
) -> None:
    queue = blocked(make, held)
    assert not queue.is_late
    assert not queue.flush(SHORT)
    assert queue.is_late
    held.released.set()
    assert queue.flush(LONG)
    assert not queue.is_late


def test_close_delivers_then_refuses_and_ends_the_thread() -> None:
    queue, seen = BackgroundQueue("closing queue"), list[int]()
    for number in range(100):
        queue.put(lambda number=number: seen.append(number))
    assert queue.close(LONG)
    assert seen == list(range(100)) and threads_named("closing queue") == []
    assert not queue.put(lambda: seen.append(-1)) and queue.dropped == 1
    assert queue.close(LONG), "twice is once"
    assert seen[-1] == 99


def test_close_leaves_a_stuck_item_behind_and_counts_the_rest(make: Callable[..., BackgroundQueue], held: Held) -> None:
    queue, seen = blocked(make, held), list[int]()
    queue.put(lambda: seen.append(1))
    assert not queue.flush(SHORT)
    assert not queue.close(10 * LONG), "a late queue is not waited for again"
    assert queue.dropped == 1
    held.released.set()
    for thread in threads_named("hermes-queue test"):
        thread.join(LONG)
    assert seen == []


def test_close_wakes_those_who_wait(make: Callable[..., BackgroundQueue], held: Held) -> None:
    queue = blocked(make, held, capacity=1, block_seconds=10 * LONG)
    queue.put(lambda: None)
    results: list[bool] = []
    waiting = [
        threading.Thread(target=lambda: results.append(queue.put(lambda: None, overflow="block"))),
        threading.Thread(target=lambda: results.append(queue.flush(10 * LONG))),
    ]
    for thread in waiting:
        thread.start()
    queue.close()
    for thread in waiting:
        thread.join(LONG)
    assert results == [False, False]


def test_a_queue_without_items_has_no_thread() -> None:
    queue = BackgroundQueue("never used")
    assert queue.flush(LONG) and queue.close(LONG)
    assert threads_named("never used") == []


# -- forks and the end of the process --------------------------------------------------------------------------------


def in_child(check: Callable[[], bool]) -> int:
    """The exit code of a forked process: 0 when the check holds there."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            code = 0 if check() else 2
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_forked_process_starts_with_an_empty_queue_that_works(
    make: Callable[..., BackgroundQueue], held: Held
) -> None:
    queue, seen = blocked(make, held), list[str]()
    queue.put(lambda: seen.append("parent"))

    def check() -> bool:
        was_empty = queue.pending == 0
        queue.put(lambda: seen.append("child"))
        return was_empty and queue.flush(LONG) and seen == ["child"] and queue.close(LONG)

    with queue._changed:  # pyright: ignore[reportPrivateUsage]  (a lock that is held while the process forks)
        code = in_child(check)
    assert code == 0
    held.released.set()
    assert queue.flush(LONG) and seen == ["parent"]


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_an_item_that_forks_leaves_one_consumer_in_each_process(make: Callable[..., BackgroundQueue]) -> None:
    queue, codes = make(), list[int]()

    def check() -> bool:
        seen: list[str] = []
        queue.put(lambda: seen.append(threading.current_thread().name))
        return queue.flush(LONG) and seen == ["hermes-queue test"]

    queue.put(lambda: codes.append(in_child(check)))
    queue.put(lambda: codes.append(-1))
    assert queue.flush(LONG)
    assert codes == [0, -1]


PROGRAM = """
import atexit, sys
from hermes.hooks.queue import BackgroundQueue

queue = BackgroundQueue("late")
if sys.argv[1] == "started":
    queue.start()

def at_exit():
    ran = []
    accepted = queue.put(lambda: ran.append(1))
    print(accepted == queue.flush(30) == bool(ran) or (not accepted and queue.dropped == 1))
    print("accepted" if accepted else "dropped")

atexit.register(at_exit)
"""


@pytest.mark.parametrize("start", ["started", "not started"])
def test_at_the_end_of_the_process_an_item_runs_or_is_counted(start: str) -> None:
    ran = subprocess.run([sys.executable, "-c", PROGRAM, start], capture_output=True, text=True, timeout=60)
    assert ran.stdout.splitlines()[0] == "True", ran.stderr
    if start == "started":
        assert ran.stdout.splitlines()[1] == "accepted"


# -- as plugins reach it ---------------------------------------------------------------------------------------------


def test_a_plugin_shares_one_queue_with_its_background_callbacks() -> None:
    seen: list[str] = []

    def register(ctx: Any) -> None:
        queue = ctx.background_queue(capacity=5000)
        assert ctx.background_queue() is queue and queue.capacity == 5000
        ctx.register_hook("pre_tool_call", lambda: seen.append("callback"), background=True, overflow="block")
        ctx.register_hook("post_tool_call", lambda: queue.put(lambda: seen.append("item")))
        ctx.register_hook("on_session_finalize", lambda: seen.append(str(queue.flush(LONG))))

    with PluginHarness(register) as harness:
        for _ in range(2):
            harness.fire("pre_tool_call", tool_name="t", args={})
            harness.fire("post_tool_call", tool_name="t", args={})
        harness.fire("on_session_finalize", session_id="s")
        assert seen == ["callback", "item", "callback", "item", "True"]


def test_background_callbacks_leave_no_thread_for_each_session(hooks: Hooks) -> None:
    """Events are delivered after their session has ended, too; nothing would end its thread then."""
    threads: set[int] = set()
    hooks.subscribe("on_session_start", "p", lambda: threads.add(threading.get_ident()), background=True)
    for number in range(10):
        assert hooks.on_session_start is not None
        hooks.on_session_start.invoke(session_id=f"s{number}")
        hooks.end_session(f"s{number}")
    assert hooks.flush(LONG) == []
    assert len(threads) == hooks.runner.threads.idle == 1


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"background": True, "overflow": "explode"}, "it may be 'drop' or 'block'"),
        ({"overflow": "block"}, "needs background=True"),
    ],
)
def test_options_that_make_no_sense_are_refused(hooks: Hooks, options: dict[str, Any], text: str) -> None:
    with pytest.raises(PluginError, match=text):
        hooks.subscribe("post_tool_call", "p", lambda: None, **options)


def test_closing_the_hooks_does_not_wait_twice_for_a_late_queue(held: Held) -> None:
    hooks = Hooks()
    hooks.subscribe("post_tool_call", "p", held, background=True)
    assert hooks.post_tool_call is not None
    hooks.post_tool_call.invoke()
    assert hooks.flush(SHORT) == ["p"]
    hooks.close(10 * LONG)  # would hang the test
