"""The heartbeat of a platform: busy while a turn runs, free again however it ends."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from hermes.surfaces.a2a import HermesA2AExecutor
from support.executor_rig import Answering, Events, ask, completion, request


class Beat:
    """Keeps what it was told."""

    def __init__(self) -> None:
        self.active_tasks = 0
        self.current_task = ""
        self.pushed: list[tuple[int, str]] = []
        self.recorded: list[str] = []

    async def push(self) -> None:
        self.pushed.append((self.active_tasks, self.current_task))

    def record_success(self) -> None:
        self.recorded.append("success")

    def record_error(self, name: str) -> None:
        self.recorded.append(name)


def test_the_task_is_shown_while_it_runs_and_pushed_at_once() -> None:
    beat = Beat()
    seen: list[tuple[int, str]] = []

    async def answer(**_kwargs: Any) -> Any:
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        seen.append((beat.active_tasks, beat.current_task))
        return completion("fine")

    async def turn() -> None:
        await HermesA2AExecutor("m", heartbeat=beat, _client=Answering(answer)).execute(request("x" * 80), Events())
        assert (beat.active_tasks, beat.current_task) == (0, "")
        await asyncio.sleep(0)

    asyncio.run(turn())
    busy = (1, "x" * 60 + "...")
    assert seen == [busy]
    assert beat.pushed == [busy, (0, "")]
    assert beat.recorded == ["success"]


def test_the_last_of_several_tasks_clears_it() -> None:
    beat = Beat()
    release = asyncio.Event()

    async def answer(*, messages: list[dict[str, Any]], **_kwargs: Any) -> Any:
        if messages[-1]["content"] == "slow":
            await release.wait()
        return completion("fine")

    async def turns() -> None:
        made = HermesA2AExecutor("m", heartbeat=beat, _client=Answering(answer))
        slow = asyncio.create_task(made.execute(request("slow", task_id="a"), Events()))
        await asyncio.sleep(0)
        await made.execute(request("quick", task_id="b"), Events())
        assert (beat.active_tasks, bool(beat.current_task)) == (1, True)
        release.set()
        await slow
        assert (beat.active_tasks, beat.current_task) == (0, "")

    asyncio.run(turns())


def test_a_failure_is_recorded_by_its_class() -> None:
    beat = Beat()
    ask(HermesA2AExecutor("m", heartbeat=beat, _client=Answering(ValueError("sk-secret"))), "hello")
    assert (beat.active_tasks, beat.current_task) == (0, "")
    assert beat.recorded == ["ValueError"]


def test_a_cancelled_turn_does_not_leave_it_busy() -> None:
    beat = Beat()

    async def never(**_kwargs: Any) -> Any:
        await asyncio.Event().wait()

    async def turn() -> None:
        made = HermesA2AExecutor("m", heartbeat=beat, _client=Answering(never))
        turn = asyncio.create_task(made.execute(request("hello"), Events()))
        while not beat.active_tasks:
            await asyncio.sleep(0)
        await made.cancel(request(message=False), Events())
        with pytest.raises(asyncio.CancelledError):
            await turn
        assert (beat.active_tasks, beat.current_task) == (0, "")

    asyncio.run(turn())


class Broken:
    """Refuses everything."""

    def __setattr__(self, name: str, value: object) -> None:
        raise RuntimeError("sk-secret")

    active_tasks = 0
    current_task = ""


class Unreachable(Beat):
    """Its platform is down."""

    async def push(self) -> None:
        raise ConnectionError("sk-secret")


class Plain(Beat):
    """Pushes without waiting, and does not count below nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.active_tasks = -1

    def push(self) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        self.pushed.append((self.active_tasks, self.current_task))


@pytest.mark.parametrize("beat", [Broken(), Unreachable(), Plain()])
def test_failures_of_the_heartbeat_are_ignored(beat: Any) -> None:
    assert ask(HermesA2AExecutor("m", heartbeat=beat, _client=Answering(completion("fine"))), "hello") == "fine"
    assert beat.active_tasks == 0


def test_a_turn_that_asks_nothing_is_no_task() -> None:
    beat = Beat()
    ask(HermesA2AExecutor("m", heartbeat=beat, _client=Answering(completion("fine"))), "")
    assert beat.pushed == []
