"""Events that are exported later keep their time, and the turn does not wait for it."""

from __future__ import annotations

import threading
from pathlib import Path

from hermes.bundled.observability.nemo_relay.sessions import Clock
from hermes.testing import PluginHarness
from support import SOURCES
from support.relay_rig import events, problems, scopes
from support.waiting import HANG


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


def test_the_turn_does_not_wait_for_the_export(relay_folder: Path) -> None:
    go = threading.Event()
    who = {"session_id": "s", "task_id": "t", "turn_id": "s:t"}
    with PluginHarness(SOURCES / "hermes" / "bundled" / "observability" / "nemo_relay") as harness:
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
        go.set()
        harness.fire("on_session_finalize", session_id="s", reason="shutdown")
        assert [one for one in harness.hooks.stats() if one.failures] == []
    found = events(relay_folder)
    assert problems(relay_folder) == [] and len(scopes(found, "llm")) == len(scopes(found, "tool")) == 100
