"""What happens behind the turn: in order, at the moments when it happened, and without holding anybody up."""

from __future__ import annotations

import logging
import statistics
import threading
import time
from pathlib import Path

import pytest

from hermes.bundled.observability.nemo_relay import worker as worker_module
from hermes.bundled.observability.nemo_relay.sessions import Clock
from hermes.bundled.observability.nemo_relay.worker import Worker
from hermes.testing import PluginHarness
from support import SOURCES
from support.relay_rig import events, problems, scopes


def test_in_order_and_to_the_end() -> None:
    worker = Worker()
    done: list[int] = []
    for number in range(100):
        worker.put(lambda number=number: done.append(number))
    assert worker.wait(10) and done == list(range(100))
    worker.put(lambda: done.append(100))
    worker.finish(10)
    assert done[-1] == 100 and not [one for one in threading.enumerate() if "nemo-relay-worker" in one.name]
    worker.finish(10)  # there is nothing to end


def test_a_failure_is_told_once_and_harms_nothing_else(caplog: pytest.LogCaptureFixture) -> None:
    worker = Worker()
    done: list[int] = []

    def fail() -> None:
        raise ValueError("no")

    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            worker.put(fail)
        worker.put(lambda: done.append(1))
        worker.finish(10)
    assert done == [1]
    assert [record.getMessage() for record in caplog.records] == ["an event was not exported: ValueError: no"]


def test_whoever_is_too_fast_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_module, "CAPACITY", 3)
    worker = Worker()
    may_go_on = threading.Event()
    worker.put(lambda: print(may_go_on.wait(10)))
    timer = threading.Timer(0.1, may_go_on.set)
    timer.start()
    done: list[int] = []
    for number in range(20):
        worker.put(lambda number=number: done.append(number))
    assert may_go_on.is_set() and len(done) >= 15
    worker.finish(10)
    timer.join()


def test_moments_never_repeat() -> None:
    clock = Clock()
    taken: list[list[int]] = []

    def take() -> None:
        taken.append([clock.take() for _ in range(2_000)])

    threads = [threading.Thread(target=take) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    together = [moment for moments in taken for moment in moments]
    assert len(set(together)) == len(together)
    assert all(moments == sorted(moments) for moments in taken)


def test_what_is_told_later_keeps_its_moment() -> None:
    clock = Clock()
    then = clock.take()
    later = clock.now()
    with clock.as_of(then):
        seconds = clock.event_seconds()
        first, second = clock.now(), clock.now()
    assert first < second < later < clock.now()
    assert round(seconds * 1_000_000) == then
    assert first.utcoffset() is not None


def test_the_turn_hardly_notices(relay_folder: Path) -> None:
    """What a model call and a tool call cost the thread that makes them, in its own CPU time."""
    who = {"session_id": "s", "task_id": "t", "turn_id": "s:t"}
    costs: list[float] = []
    with PluginHarness(SOURCES / "hermes" / "bundled" / "observability" / "nemo_relay") as harness:
        harness.fire("on_session_start", session_id="s", model="m", platform="cli")
        for number in range(100):
            attempt = {**who, "api_request_id": f"a{number}", "provider": "custom", "model": "m", "platform": "cli"}
            call = {**who, "tool_call_id": f"c{number}", "tool_name": "terminal", "api_request_id": f"a{number}"}
            started = time.thread_time()
            harness.fire("pre_api_request", **attempt, request_messages=[{"role": "user", "content": "go"}])
            harness.fire("post_api_request", **attempt, finish_reason="tool_calls")
            harness.fire("pre_tool_call", **call, args={"command": "true"})
            harness.fire("post_tool_call", **call, result="{}", status="ok")
            costs.append(time.thread_time() - started)
        harness.fire("on_session_finalize", session_id="s", reason="shutdown")
        assert [one for one in harness.hooks.stats() if one.failures] == []
    found = events(relay_folder)
    assert problems(relay_folder) == [] and len(scopes(found, "llm")) == len(scopes(found, "tool")) == 100
    assert statistics.median(costs) < 0.001
