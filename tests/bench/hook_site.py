"""What a hook costs that nobody uses, and what one costs that somebody does."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from itertools import repeat
from threading import Lock, Thread
from time import perf_counter_ns
from typing import Any

from hermes.contract.events import ToolStarted
from hermes.hooks.table import Hooks

from .table import Row, against_floor
from .workspace import Workspace

BUDGET_NANOSECONDS = 100
#: A callback runs on a thread of its plugin. What each may cost, in hand-overs to another thread and back.
CALLBACK_HANDOVERS = 5
LOOPS = 100_000
REPEAT = 25

_CALL: dict[str, Any] = {
    "tool_name": "read_file",
    "session_id": "20260101_000000_abcdef",
    "task_id": "0" * 32,
    "turn_id": "0" * 70,
    "api_request_id": "0" * 80,
    "tool_call_id": "call_1",
}
_ARGUMENTS = {"path": "note-0001.txt"}
_EVENT = ToolStarted(**_CALL, args=_ARGUMENTS, middleware_trace=[])


def measure(workspace: Workspace) -> list[Row]:
    """The site that is idle, with no callback; then a site with one callback and a chain of three."""
    count = workspace.repeat or REPEAT
    hooks = Hooks()
    try:
        empty = _best(lambda: _empty_loop(hooks), count)
        site = max(_best(lambda: _site_loop(hooks), count) - empty, 0.0)
        allocated = _peak_allocation(lambda: _site_loop(hooks)) - _peak_allocation(lambda: _empty_loop(hooks))
        handover = _handover(count)
        return [
            Row("hook site, no subscriber", site, None, "ns", f"≤ {BUDGET_NANOSECONDS} ns", site <= BUDGET_NANOSECONDS),
            Row("the same, memory", allocated, None, "bytes", "zero allocations", allocated == 0),
            _subscriber(hooks, handover, count),
            _chain(hooks, handover, count),
        ]
    finally:
        hooks.close()


def _subscriber(hooks: Hooks, handover: float, count: int) -> Row:
    hooks.subscribe("pre_tool_call", "bench", _observe)
    emit = hooks.pre_tool_call
    assert emit is not None

    def call() -> None:
        emit(ToolStarted(**_CALL, args=_ARGUMENTS, middleware_trace=[]))

    cost = _best(lambda: _call_loop(call, 1_000), count, 1_000)
    what = "`pre_tool_call` with one callback that does nothing, against a hand-over to a thread and back"
    return against_floor(what, cost / 1e3, handover / 1e3, "µs", CALLBACK_HANDOVERS)


def _chain(hooks: Hooks, handover: float, count: int) -> Row:
    for _ in range(3):
        hooks.add_middleware("tool_execution", "bench", _pass_through)
    chain = hooks.tool_execution
    assert chain is not None
    context: dict[str, Any] = {**_CALL, "original_args": _ARGUMENTS, "middleware_trace": []}
    bare = _best(lambda: _call_loop(lambda: _base(_ARGUMENTS), 1_000), count, 1_000)
    cost = _best(lambda: _call_loop(lambda: chain.run(_ARGUMENTS, _base, context), 1_000), count, 1_000)
    what = "`tool_execution` with three callbacks that only pass on, over the bare call, against three hand-overs"
    return against_floor(what, (cost - bare) / 1e3, 3 * handover / 1e3, "µs", CALLBACK_HANDOVERS)


def _handover(count: int) -> float:
    """Nanoseconds to wake another thread and to be woken by it: no callback that can be given up costs less."""
    go, done = Lock(), Lock()
    go.acquire()
    done.acquire()
    over = False

    def serve() -> None:
        while True:
            go.acquire()
            if over:
                return
            done.release()

    def there_and_back() -> None:
        go.release()
        done.acquire(True, 60)

    thread = Thread(target=serve, daemon=True)
    thread.start()
    try:
        return _best(lambda: _call_loop(there_and_back, 1_000), count, 1_000)
    finally:
        over = True
        go.release()
        thread.join()


def _observe(**_fields: Any) -> None:
    pass


def _pass_through(next_call: Callable[..., Any], args: dict[str, Any], **_fields: Any) -> Any:
    return next_call(args)


def _base(_args: dict[str, Any]) -> str:
    return "{}"


def _empty_loop(hooks: Hooks) -> None:
    for _ in repeat(None, LOOPS):
        pass


def _site_loop(hooks: Hooks) -> None:
    for _ in repeat(None, LOOPS):
        emit = hooks.pre_tool_call
        if emit is not None:
            emit(_EVENT)


def _call_loop(function: Callable[[], Any], loops: int = LOOPS) -> None:
    for _ in repeat(None, loops):
        function()


def _best(loop: Callable[[], None], count: int, loops: int = LOOPS) -> float:
    """Nanoseconds for one round of a loop, in the calmest of several runs."""
    best = float("inf")
    for _ in range(count):
        started = perf_counter_ns()
        loop()
        best = min(best, perf_counter_ns() - started)
    return best / loops


def _peak_allocation(loop: Callable[[], None]) -> int:
    """The most bytes a loop held at any time, so that what is freed at once counts too."""
    tracemalloc.start()
    try:
        loop()
        tracemalloc.reset_peak()
        before = tracemalloc.get_traced_memory()[0]
        loop()
        return tracemalloc.get_traced_memory()[1] - before
    finally:
        tracemalloc.stop()
