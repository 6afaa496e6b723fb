"""An approval is a question to the caller: no thread waits for it, and it outlives the server."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from a2a.types import CancelTaskRequest, GetTaskRequest, Part, Task
from google.protobuf import json_format, struct_pb2

from hermes.base.config import A2AConfig
from hermes.testing import ScriptedProvider, by_step, text, tool_call
from support.a2a_rig import (
    artifact_text,
    calling,
    ended,
    kinds,
    said,
    send,
    served,
    state_name,
    status_text,
    stream,
    wait_until,
)
from support.approval_rig import NEVER, RISKY

SCRIPT = by_step(tool_call("terminal", {"command": RISKY}), text("done"))


def data(document: Any) -> Part:
    value = struct_pb2.Value()
    json_format.ParseDict(document, value)
    return Part(data=value)


def asked(task: Task) -> dict[str, Any]:
    """The question of a task as a program reads it."""
    [found] = [part for part in task.status.message.parts if part.HasField("data")]
    return json_format.MessageToDict(found.data)


@pytest.mark.parametrize(
    ("words", "choice", "ran"),
    [
        ("approve", None, True),
        (" Yes. ", None, True),
        ("deny", None, False),
        ("", "approve", True),
        ("approve", "deny", False),
    ],
)
def test_the_answer_decides(home: Path, workdir: Path, words: str, choice: str | None, ran: bool) -> None:
    async def call() -> None:
        async with calling(agent, streaming=False) as client:
            task = await send(client, said("go"))
            assert state_name(task.status.state) == "input_required"
            question = asked(task)
            assert (question["tool"], question["summary"]) == ("terminal", RISKY)
            assert question["options"] == ["approve", "deny"] and RISKY in status_text(task)
            parts = [data({"approval_id": question["approval_id"], "choice": choice})] if choice else []
            after = await send(client, said(words, *parts, task_id=task.id))  # the context is that of the task
            assert (after.id, after.context_id) == (task.id, task.context_id)
            assert state_name(after.status.state) == "completed" and artifact_text(after) == "done"

    with ScriptedProvider(SCRIPT) as provider, served(home, workdir, provider) as agent:
        asyncio.run(call())
        results = [message for message in provider.requests[-1].messages if message["role"] == "tool"]
    assert (workdir / "ran").exists() is ran
    assert len(results) == 1 and ("denied" in results[0]["content"]) is not ran


UNCLEAR = (
    said("maybe"),
    said("approve or deny?"),
    said("", data({"approval_id": "appr_of_another", "choice": "approve"})),
    said("", data({"choice": 3})),
    said("", data(["approve"])),
    said("", data({"choice": "approve"}), data({"choice": "deny"})),
    said("", Part(raw=b"\xff\xfe", media_type="image/png")),
)


def test_an_unclear_answer_is_asked_about_again(home: Path, workdir: Path) -> None:
    async def call() -> None:
        async with calling(agent, streaming=False) as client:
            task = await send(client, said("go"))
            for unclear in UNCLEAR:
                unclear.message.task_id = task.id
                again = await send(client, unclear)
                assert state_name(again.status.state) == "input_required" and asked(again) == asked(task)
            done = await send(client, said("deny", task_id=task.id))
            assert state_name(done.status.state) == "completed"

    with ScriptedProvider(SCRIPT) as provider, served(home, workdir, provider) as agent:
        asyncio.run(call())
    assert not (workdir / "ran").exists()


def test_a_question_holds_no_thread_and_survives_a_restart(home: Path, workdir: Path) -> None:
    async def ask() -> Task:
        async with calling(agent, streaming=False) as client:
            return await send(client, said("go"))

    async def answer() -> None:
        async with calling(agent) as client:
            parked = await client.get_task(GetTaskRequest(id=task.id))
            assert state_name(parked.status.state) == "input_required" and asked(parked) == asked(task)
            events = await stream(client, said("approve", task_id=task.id))
            assert kinds(events)[-1] == "completed"
            after = await client.get_task(GetTaskRequest(id=task.id))
            assert artifact_text(after) == "done" and after.context_id == task.context_id

    with ScriptedProvider(SCRIPT) as provider:
        with served(home, workdir, provider) as agent:
            task = asyncio.run(ask())
            wait_until(lambda: agent.host.workers.busy == 0)
        with served(home, workdir, provider) as agent:
            asyncio.run(answer())
        assert len(provider.requests) == 2
    assert (workdir / "ran").exists()


def test_an_approval_without_an_answer_in_time_is_denied(home: Path, workdir: Path) -> None:
    async def call() -> None:
        async with calling(agent, streaming=False) as client:
            task = await send(client, said("go"))
            task = await ended(client, task.id)
            assert state_name(task.status.state) == "completed" and artifact_text(task) == "done"

    with (
        ScriptedProvider(SCRIPT) as provider,
        served(home, workdir, provider, A2AConfig(approval_timeout=0.1)) as agent,
    ):
        asyncio.run(call())
        assert "no answer within" in provider.requests[-1].messages[-1]["content"]
    assert not (workdir / "ran").exists()


def test_a_context_with_an_open_question_rejects_further_messages(home: Path, workdir: Path) -> None:
    async def call() -> None:
        async with calling(agent, streaming=False) as client:
            task = await send(client, said("go"))
            other = await send(client, said("and this?", context_id=task.context_id))
            assert state_name(other.status.state) == "rejected" and task.id in status_text(other)
            cancelled = await client.cancel_task(CancelTaskRequest(id=task.id))
            assert state_name(cancelled.status.state) == "canceled"
            later = await send(client, said("and this?", context_id=task.context_id))
            assert state_name(later.status.state) == "completed", status_text(later)
            assert artifact_text(later) == "fine"

    script = {"go": tool_call("terminal", {"command": RISKY}), "and this?": text("fine")}
    with ScriptedProvider(script) as provider, served(home, workdir, provider) as agent:
        asyncio.run(call())
    assert not (workdir / "ran").exists()


def test_a_waiting_task_can_be_canceled_after_a_restart(home: Path, workdir: Path) -> None:
    async def ask() -> Task:
        async with calling(agent, streaming=False) as client:
            return await send(client, said("go"))

    async def cancel() -> None:
        async with calling(agent, streaming=False) as client:
            cancelled = await client.cancel_task(CancelTaskRequest(id=task.id))
            assert state_name(cancelled.status.state) == "canceled"

    with ScriptedProvider(SCRIPT) as provider:
        with served(home, workdir, provider) as agent:
            task = asyncio.run(ask())
        with served(home, workdir, provider) as agent:
            asyncio.run(cancel())
            wait_until(lambda: agent.host.sessions.list()[0].state == "interrupted")
    assert not (workdir / "ran").exists()


@pytest.mark.parametrize(
    ("settings", "command", "ran"),
    [
        (A2AConfig(approvals="deny"), RISKY, False),
        (A2AConfig(approvals="allow"), RISKY, True),
        (A2AConfig(approvals="allow"), NEVER, False),
        (A2AConfig(approvals="allow"), "touch ran; hermes config set approvals.mode off", False),
    ],
)
def test_approvals_that_callers_may_give(
    home: Path, workdir: Path, settings: A2AConfig, command: str, ran: bool
) -> None:
    async def call() -> None:
        async with calling(agent, streaming=False) as client:
            task = await send(client, said("go"))
            assert state_name(task.status.state) == "completed" and artifact_text(task) == "done"

    script = by_step(tool_call("terminal", {"command": command}), text("done"))
    with (
        ScriptedProvider(script) as provider,
        served(home, workdir, provider, settings) as agent,
    ):
        asyncio.run(call())
    assert (workdir / "ran").exists() is ran
