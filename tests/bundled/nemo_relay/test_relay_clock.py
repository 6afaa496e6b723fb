"""Events that are exported later keep their time, and the turn does not wait for it."""

from __future__ import annotations

import threading
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from hermes.bundled.observability.nemo_relay.sessions import Clock
from hermes.hooks.queue import BackgroundQueue
from hermes.testing import PluginHarness
from support import SOURCES
from support.relay_rig import events, marks, problems, scopes
from support.waiting import HANG

PLUGIN = SOURCES / "hermes" / "bundled" / "observability" / "nemo_relay"


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
    fired, exported = datetime(2026, 1, 1, 12, tzinfo=UTC), datetime(2026, 1, 1, 13, tzinfo=UTC)
    monkeypatch.setattr(time, "time", lambda: (exported if go.is_set() else fired).timestamp())
    who = {"session_id": "s", "task_id": "t", "turn_id": "s:t"}
    with PluginHarness(PLUGIN) as harness:
        harness.hooks.queue(harness.plugin.manifest.key).put(lambda: go.wait(HANG))
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
        assert harness.hooks.runner.threads.idle == 0  # nor handed to a thread and waited for
        go.set()
        harness.fire("on_session_finalize", session_id="s", reason="shutdown")
        assert [one for one in harness.hooks.stats() if one.failures] == []
    found = events(relay_folder)
    spans = [*scopes(found, "llm"), *scopes(found, "tool")]
    assert problems(relay_folder) == [] and len(spans) == 200
    assert all(datetime.fromisoformat(str(one["timestamp"])) < exported for one in spans)


def test_what_waits_when_the_process_ends_is_exported(relay_folder: Path) -> None:
    with PluginHarness(PLUGIN) as harness:
        harness.fire("on_session_start", session_id="s", model="m", platform="cli")
        assert harness.hooks.flush(HANG) == []
        queue = HeldQueue(harness.hooks.queue(harness.plugin.manifest.key))
        harness.fire("pre_llm_call", session_id="s", task_id="t", turn_id="s:t", user_message="hello")
        emit = harness.hooks.on_session_start
        assert emit is not None
        callback: Any = emit.subscribers[0].function
        exporter = callback.sink.__self__
        exporter._queue = queue
        exporter.close()
    assert [one["data"] for one in marks(events(relay_folder), "hermes.turn.start")] == [{"user_message": "hello"}]
    assert problems(relay_folder) == []


class HeldQueue:
    """A queue that does nothing until it is flushed."""

    def __init__(self, queue: BackgroundQueue) -> None:
        self._go = threading.Event()
        self._queue = queue
        queue.put(lambda: self._go.wait(HANG))

    def flush(self, seconds: float) -> bool:
        self._go.set()
        return self._queue.flush(seconds)

    @property
    def item_time(self) -> float:
        return self._queue.item_time
