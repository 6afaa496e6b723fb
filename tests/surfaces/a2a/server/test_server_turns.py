"""A task is a turn of the agent: streamed once, kept, continued in its context."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from a2a.types import GetTaskRequest, Task
from google.protobuf import json_format

from hermes.base.config import A2AConfig
from hermes.testing import ScriptedProvider, by_step, text, tool_call, tool_calls
from hermes.trace.parent import incoming
from support.a2a_rig import (
    BINDINGS,
    artifact_text,
    calling,
    kinds,
    said,
    send,
    served,
    state_name,
    status_text,
    stream,
    wire_message,
)


@pytest.mark.parametrize("binding", BINDINGS)
def test_an_answer_streams_once_and_is_kept(home: Path, workdir: Path, binding: str) -> None:
    answer = "Grass is green because of chlorophyll."

    async def call() -> None:
        async with calling(agent, binding) as client:
            events = await stream(client, said("why is grass green?"))
            names = kinds(events)
            assert names[:2] == ["task", "working"] and names[-1] == "completed"
            assert set(names[2:-1]) == {"chunk"}
            chunks = [event.artifact_update for event in events if event.HasField("artifact_update")]
            assert [chunk.append for chunk in chunks] == [False, *[True] * (len(chunks) - 1)]
            assert [chunk.last_chunk for chunk in chunks] == [*[False] * (len(chunks) - 1), True]
            assert "".join(chunk.artifact.parts[0].text for chunk in chunks) == answer
            task = await client.get_task(GetTaskRequest(id=events[0].task.id))
            assert artifact_text(task) == answer and len(task.artifacts[0].parts) == 1
            assert state_name(task.status.state) == "completed" and not task.status.HasField("message")

    with (
        ScriptedProvider(text(answer, chunks=8)) as provider,
        served(home, workdir, provider) as agent,
    ):
        asyncio.run(call())


def test_tool_calls_are_status_messages_and_answers_are_artifacts(home: Path, workdir: Path) -> None:
    script = by_step(
        tool_calls([("terminal", {"command": "echo hello"})], content="Let me look."), text("It says hello.")
    )

    async def call() -> None:
        async with calling(agent) as client:
            events = await stream(client, said("look"))
            task = await client.get_task(GetTaskRequest(id=events[0].task.id))
            assert [artifact.parts[0].text for artifact in task.artifacts] == ["Let me look.", "It says hello."]
            told = [
                event.status_update.status.message.parts[0].text
                for event in events
                if event.HasField("status_update") and event.status_update.status.HasField("message")
            ]
            assert told == ["terminal: echo hello"]
            facts = json_format.MessageToDict(task.metadata)
            assert facts["hermes.usage"]["requests"] == 2 and facts["hermes.steps"] == 2

    with ScriptedProvider(script) as provider, served(home, workdir, provider) as agent:
        asyncio.run(call())


def test_a_context_is_a_conversation(home: Path, workdir: Path) -> None:
    async def call() -> None:
        async with calling(agent, streaming=False) as client:
            first = await send(client, said("one"))
            second = await send(client, said("two", context_id=first.context_id))
            other = await send(client, said("three"))
            assert second.context_id == first.context_id != other.context_id and second.id != first.id

    with ScriptedProvider("fine") as provider, served(home, workdir, provider) as agent:
        asyncio.run(call())
        sizes = [len(request.messages) for request in provider.requests]
    assert sizes[1] == sizes[0] + 2 and sizes[2] == sizes[0]


@pytest.mark.parametrize("shown", [True, False])
def test_tool_calls_and_answers_in_the_status_are_configurable(home: Path, workdir: Path, shown: bool) -> None:
    script = by_step(tool_call("terminal", {"command": "echo hello"}), text("It says hello."))
    settings = A2AConfig(show_tools=shown, answer_in_status=shown)

    async def call() -> Task:
        async with calling(agent, streaming=False) as client:
            return await send(client, said("look"))

    with ScriptedProvider(script) as provider, served(home, workdir, provider, settings) as agent:
        task = asyncio.run(call())
    assert status_text(task) == ("It says hello." if shown else "")
    assert len(task.history) == (2 if shown else 1) and artifact_text(task) == "It says hello."


def test_secrets_in_commands_are_redacted(home: Path, workdir: Path) -> None:
    secret = "sk-live-0123456789abcdefghij0123456789"
    script = by_step(tool_call("terminal", {"command": f"echo {secret}"}), text("done"))
    with ScriptedProvider(script) as provider, served(home, workdir, provider) as agent:
        body = {"jsonrpc": "2.0", "id": 1, "method": "SendStreamingMessage", "params": wire_message()}
        told = agent.post("/", body).text
    assert secret not in told and "terminal: echo <redacted>" in told


def test_an_answer_that_a_plugin_replaces_is_sent_once_it_is_final(home: Path, workdir: Path) -> None:
    def edit(**_: Any) -> str:
        return "the final answer"

    async def call() -> Task:
        async with calling(agent) as client:
            events = await stream(client, said("hello"))
            assert kinds(events) == ["task", "working", "chunk", "completed"]
            return await client.get_task(GetTaskRequest(id=events[0].task.id))

    with ScriptedProvider(text("the draft", chunks=4)) as provider, served(home, workdir, provider) as agent:
        agent.host.hooks.subscribe("transform_llm_output", "editor", edit)
        assert artifact_text(asyncio.run(call())) == "the final answer"


def test_hooks_name_the_task_and_the_trace_it_belongs_to(home: Path, workdir: Path) -> None:
    seen: list[tuple[str, str, str]] = []

    def note(**payload: Any) -> None:
        seen.append((payload["task_id"], payload["platform"], incoming().get("traceparent", "")))

    parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    with ScriptedProvider("fine") as provider, served(home, workdir, provider) as agent:
        agent.host.hooks.subscribe("pre_llm_call", "watch", note)
        answer = agent.rpc("SendMessage", wire_message(), headers={"traceparent": parent})
        task = answer["result"]["task"]
        [row] = agent.host.sessions.list()
    assert seen == [(task["id"], "a2a", parent)]
    assert task["metadata"]["hermes.session_id"] == row.id
