"""What happens behind the turn: in order, at the moments when it happened, and without holding anybody up."""

from __future__ import annotations

import logging
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from hermes.bundled.observability.nemo_relay import worker as worker_module
from hermes.bundled.observability.nemo_relay.sessions import Clock
from hermes.bundled.observability.nemo_relay.worker import Worker
from hermes.testing import PluginHarness
from support import SOURCES
from support.relay_rig import events, problems, scopes
from support.waiting import HANG


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


def test_the_turn_does_not_wait_for_the_export(relay_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    go = threading.Event()
    who = {"session_id": "s", "task_id": "t", "turn_id": "s:t"}
    with PluginHarness(SOURCES / "hermes" / "bundled" / "observability" / "nemo_relay") as harness:
        # The plugin has modules of its own, not those that are imported here.
        [own] = {name for name in sys.modules if name.startswith("hermes_plugins.") and name.endswith("relay.worker")}
        plugins_worker: type[Worker] = sys.modules[own].Worker
        serve = vars(plugins_worker)["_serve"]

        def serve_later(worker: Worker, *args: Any) -> None:
            go.wait(HANG)
            serve(worker, *args)

        monkeypatch.setattr(plugins_worker, "_serve", serve_later)
        harness.fire("on_session_start", session_id="s", model="m", platform="cli")
        for number in range(100):
            attempt = {**who, "api_request_id": f"a{number}", "provider": "custom", "model": "m", "platform": "cli"}
            call = {**who, "tool_call_id": f"c{number}", "tool_name": "terminal", "api_request_id": f"a{number}"}
            harness.fire("pre_api_request", **attempt, request_messages=[{"role": "user", "content": "go"}])
            harness.fire("post_api_request", **attempt, finish_reason="tool_calls")
            harness.fire("pre_tool_call", **call, args={"command": "true"})
            harness.fire("post_tool_call", **call, result="{}", status="ok")
        stream = relay_folder / "atof" / "events.jsonl"
        assert not stream.exists() or stream.read_bytes() == b""  # nothing of it was exported yet
        go.set()
        harness.fire("on_session_finalize", session_id="s", reason="shutdown")
        assert [one for one in harness.hooks.stats() if one.failures] == []
    found = events(relay_folder)
    assert problems(relay_folder) == [] and len(scopes(found, "llm")) == len(scopes(found, "tool")) == 100
