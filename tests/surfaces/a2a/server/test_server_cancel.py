"""Cancelling a task stops its work: the model call, the command, and whatever they started."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from a2a.server.context import ServerCallContext
from a2a.types import (
    CancelTaskRequest,
    GetTaskRequest,
    ListTasksRequest,
    StreamResponse,
    SubscribeToTaskRequest,
    Task,
)
from a2a.utils.errors import TaskNotCancelableError

from hermes.surfaces.a2a.server import task as task_module
from hermes.surfaces.a2a.server.store.tasks import StoredTask
from hermes.testing import ScriptedProvider, by_step, hanging, text, tool_call
from support.a2a_rig import SilentModel, calling, kinds, said, served, state_name, stream
from support.a2a_tables import a2a_tables
from support.waiting import read_pid, wait_until_gone


@pytest.fixture(autouse=True)
def no_time_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """A cancel is answered because the turn has ended, or has not begun: not because a time limit has passed."""
    monkeypatch.setattr(task_module, "_CANCEL_SECONDS", 3_600.0)


@pytest.mark.parametrize("binding", ["JSONRPC", "HTTP+JSON"])
def test_canceling_ends_a_command_and_its_child_processes(home: Path, workdir: Path, binding: str) -> None:
    command = "sh -c 'echo $$ > child.pid; sleep 300' & echo $$ > shell.pid; wait"
    files = [workdir / "child.pid", workdir / "shell.pid"]

    async def call() -> None:
        async with calling(agent, binding) as client:
            running = asyncio.create_task(stream(client, said("sleep")))
            pids = [await asyncio.to_thread(read_pid, path) for path in files]
            [task] = (await client.list_tasks(ListTasksRequest())).tasks
            cancelled = await client.cancel_task(CancelTaskRequest(id=task.id))
            assert state_name(cancelled.status.state) == "canceled"
            await asyncio.to_thread(wait_until_gone, *pids)
            assert kinds(await running)[-1] == "canceled"
            with pytest.raises(TaskNotCancelableError):
                await client.cancel_task(CancelTaskRequest(id=task.id))

    with (
        ScriptedProvider([tool_call("terminal", {"command": command}), text("never")]) as provider,
        served(home, workdir, provider) as agent,
    ):
        asyncio.run(call())
        assert len(provider.requests) == 1
        assert [row.state for row in agent.host.sessions.list()] == ["interrupted"]


def test_child_agents_end_with_the_task(home: Path, workdir: Path) -> None:
    script: dict[str, Any] = {
        "go": by_step(tool_call("delegate_task", {"goal": "work"}), text("never")),
        "work": by_step(tool_call("terminal", {"command": "echo $$ > child.pid; sleep 300"}), text("never")),
    }

    async def call() -> None:
        async with calling(agent) as client:
            running = asyncio.create_task(stream(client, said("go")))
            pid = await asyncio.to_thread(read_pid, workdir / "child.pid")
            [task] = (await client.list_tasks(ListTasksRequest())).tasks
            cancelled = await client.cancel_task(CancelTaskRequest(id=task.id))
            assert state_name(cancelled.status.state) == "canceled"
            await asyncio.to_thread(wait_until_gone, pid)
            assert kinds(await running)[-1] == "canceled"

    with ScriptedProvider(script) as provider, served(home, workdir, provider) as agent:
        asyncio.run(call())
        assert len(provider.requests) == 2


def test_canceling_closes_the_connection_of_a_model_call(home: Path, workdir: Path) -> None:
    async def call() -> None:
        async with calling(agent) as client:
            running = asyncio.create_task(stream(client, said("think")))
            assert await asyncio.to_thread(model.asked.wait, 20)
            [task] = (await client.list_tasks(ListTasksRequest())).tasks
            await client.cancel_task(CancelTaskRequest(id=task.id))
            assert await asyncio.to_thread(model.hung_up.wait, 20)
            assert kinds(await running)[-1] == "canceled"

    with SilentModel() as model, served(home, workdir, model) as agent:
        asyncio.run(call())


def test_a_conversation_continues_after_a_canceled_task(home: Path, workdir: Path) -> None:
    async def call() -> None:
        async with calling(agent) as client:
            running = asyncio.create_task(stream(client, said("think")))
            await asyncio.to_thread(provider.wait_for_request)
            [task] = (await client.list_tasks(ListTasksRequest())).tasks
            await client.cancel_task(CancelTaskRequest(id=task.id))
            await running
            after = await stream(client, said("again", context_id=task.context_id))
            assert kinds(after)[-1] == "completed"

    with ScriptedProvider([hanging(), text("fine")]) as provider, served(home, workdir, provider) as agent:
        asyncio.run(call())


def test_a_queued_task_is_canceled_without_waiting(home: Path, workdir: Path) -> None:
    async def call() -> None:
        async with calling(agent) as client:
            first = asyncio.create_task(stream(client, said("one", context_id="shared")))
            await asyncio.to_thread(provider.wait_for_request)
            second = asyncio.create_task(stream(client, said("two", context_id="shared")))
            while len(tasks := (await client.list_tasks(ListTasksRequest())).tasks) < 2:
                await asyncio.sleep(0.01)
            [waiting] = [task for task in tasks if state_name(task.status.state) == "submitted"]
            await client.cancel_task(CancelTaskRequest(id=waiting.id))
            assert kinds(await second) == ["task", "canceled"]
            [working] = [task for task in tasks if task.id != waiting.id]
            assert state_name((await client.get_task(GetTaskRequest(id=working.id))).status.state) == "working"
            await client.cancel_task(CancelTaskRequest(id=working.id))
            await first

    with ScriptedProvider([hanging()]) as provider, served(home, workdir, provider) as agent:
        asyncio.run(call())
        assert len(provider.requests) == 1


def test_a_job_that_is_canceled_before_its_first_step_leaves_the_task_idle(home: Path) -> None:
    async def notify(_task_id: str, _event: object) -> None:
        pytest.fail("no event")

    async def job() -> None:
        pytest.fail("it has no first step")

    async def run() -> None:
        task = task_module.ActiveTask(StoredTask("", Task(id="t"), ""), ServerCallContext(), tables.tasks(), notify)
        task.start(job())
        assert task.is_running
        await task.abort()
        await task.wait_until_idle()
        assert not task.is_running and task.is_unused

    with a2a_tables(home) as tables:
        asyncio.run(run())


def test_a_task_that_is_being_claimed_counts_as_answered(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A call that comes between the claim and the job waits, though the row names a server without a job."""

    async def notify(_task_id: str, _event: object) -> None:
        pytest.fail("no event")

    async def run() -> None:
        store = tables.tasks()
        left = StoredTask("", Task(id="t"), "other")
        task = task_module.ActiveTask(left, ServerCallContext(), store, notify)

        async def claim(_left: StoredTask) -> bool:
            task.follow(StoredTask("", Task(id="t"), store.runner_id))  # the row is read while it is written
            assert task.is_running
            return is_free

        monkeypatch.setattr(store, "claim", claim)
        for is_free in (False, True):
            assert await task.claim() is is_free
            assert task.is_running is is_free
        task.follow(StoredTask("", Task(id="t"), store.runner_id))
        assert task.is_running

    with a2a_tables(home) as tables:
        asyncio.run(run())


def test_the_streams_of_waiting_tasks_end_with_the_server(home: Path, workdir: Path) -> None:
    async def follow() -> list[StreamResponse]:
        async with calling(agent) as client:
            task = (await stream(client, said("go")))[0].task
            events: list[StreamResponse] = []
            async for event in client.subscribe(SubscribeToTaskRequest(id=task.id)):
                events.append(event)
                subscribed.set()
            return events

    subscribed = threading.Event()
    script = by_step(tool_call("clarify", {"question": "Which?"}), text("never"))
    with ScriptedProvider(script) as provider, ThreadPoolExecutor() as threads:
        with served(home, workdir, provider, toolsets=["clarify"]) as agent:
            following = threads.submit(lambda: asyncio.run(follow()))
            assert subscribed.wait(60)
        assert kinds(following.result(60)) == ["task"]
