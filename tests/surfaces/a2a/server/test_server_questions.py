"""A question of the model's goes to the caller: no thread waits for the answer, and it outlives the server."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pytest
from a2a.types import CancelTaskRequest, GetTaskRequest, Part, Task, TaskState
from google.protobuf import json_format, struct_pb2

from hermes.base.config import A2AConfig, PrincipalConfig
from hermes.journal.questions import Questions
from hermes.journal.turns.lifecycle import open_submissions
from hermes.service.dispatch.local import LocalDispatcher
from hermes.testing import ScriptedProvider, by_step, text, tool_call, tool_calls
from support import waiting
from support.a2a_old_file import move_to_old_file
from support.a2a_rig import (
    artifact_text,
    calling,
    ended,
    said,
    send,
    served,
    state_name,
    status_text,
    wait_until,
)
from support.approval_rig import RISKY

COLOUR = {"question": "Which colour?", "choices": ["red", "blue"]}
SCRIPT = by_step(tool_call("clarify", COLOUR), text("done"))
TOOLS = ["clarify", "terminal"]


def data(document: Any) -> Part:
    value = struct_pb2.Value()
    json_format.ParseDict(document, value)
    return Part(data=value)


def asked(task: Task) -> dict[str, Any]:
    """The question of a task as a program reads it."""
    assert state_name(task.status.state) == "input_required"
    [found] = [part for part in task.status.message.parts if part.HasField("data")]
    return json_format.MessageToDict(found.data)


def responses(provider: ScriptedProvider) -> list[Any]:
    """What the model was told of the answers."""
    told = [message for message in provider.requests[-1].messages if message["role"] == "tool"]
    return [msgspec.json.decode(message["content"])["user_response"] for message in told]


@pytest.mark.parametrize(
    ("words", "document", "response"),
    [
        (" a warm green ", None, "a warm green"),
        ("2", None, "blue"),
        ("7", None, "7"),
        ("", {"answer": "red"}, "red"),
        ("", {"choice": 1}, "red"),
        ("ignored", {"response": "teal"}, "teal"),
        ("", "plain", "plain"),
    ],
)
def test_the_model_gets_the_answer(home: Path, workdir: Path, words: str, document: Any, response: str) -> None:
    async def call() -> None:
        async with calling(agent, streaming=False) as client:
            task = await send(client, said("go"))
            question = asked(task)
            assert (question["question"], question["choices"]) == ("Which colour?", ["red", "blue"])
            assert "The agent asks: Which colour?\n1. red\n2. blue\n" in status_text(task)
            parts = [] if document is None else [data(document)]
            after = await send(client, said(words, *parts, task_id=task.id))
            assert after.id == task.id and artifact_text(after) == "done"

    with ScriptedProvider(SCRIPT) as provider, served(home, workdir, provider, toolsets=TOOLS) as agent:
        asyncio.run(call())
        assert responses(provider) == [response] and len(provider.requests) == 2
        steps = agent.host.sessions.list()
        assert [row.state for row in steps] == ["completed"]


UNCLEAR = (
    said("  "),
    said("", data({"question_id": "ask_of_another", "answer": "red"})),
    said("", data({"answer": None})),
    said("", data({"answer": "red"}), data({"answer": "blue"})),
    said("", Part(raw=b"\xff\xfe", media_type="image/png")),
)


def test_an_unclear_answer_is_asked_about_again(home: Path, workdir: Path) -> None:
    async def call() -> None:
        async with calling(agent, streaming=False) as client:
            task = await send(client, said("go"))
            for unclear in UNCLEAR:
                unclear.message.task_id = task.id
                assert asked(await send(client, unclear)) == asked(task)
            done = await send(client, said("blue", task_id=task.id))
            assert state_name(done.status.state) == "completed"

    with ScriptedProvider(SCRIPT) as provider, served(home, workdir, provider, toolsets=TOOLS) as agent:
        asyncio.run(call())
        assert responses(provider) == ["blue"]


def test_two_questions_of_one_reply_with_a_restart_between(home: Path, workdir: Path) -> None:
    """The first answer is needed again when the second one comes: the turn is run from its last step."""
    both = tool_calls([("clarify", COLOUR), ("clarify", {"question": "How many?"})])

    async def first() -> Task:
        async with calling(agent, streaming=False) as client:
            task = await send(client, said("go"))
            await asyncio.to_thread(wait_until, lambda: agent.host.workers.busy == 0)
            task = await send(client, said("red", task_id=task.id))
            assert asked(task)["question"] == "How many?"
            return task

    async def second() -> None:
        async with calling(agent, streaming=False) as client:
            assert asked(await client.get_task(GetTaskRequest(id=task.id)))["choices"] == []
            done = await send(client, said("three", task_id=task.id))
            assert artifact_text(done) == "done"

    with ScriptedProvider(by_step(both, text("done"))) as provider:
        with served(home, workdir, provider, toolsets=TOOLS) as agent:
            task = asyncio.run(first())
        with served(home, workdir, provider, toolsets=TOOLS) as agent:
            asyncio.run(second())
        assert responses(provider) == ["red", "three"] and len(provider.requests) == 2


def test_the_same_question_again_is_asked_again(home: Path, workdir: Path) -> None:
    script = by_step(
        tool_call("clarify", COLOUR, call_id="one"), tool_call("clarify", COLOUR, call_id="two"), text("done")
    )

    async def call() -> None:
        async with calling(agent, streaming=False) as client:
            task = await send(client, said("go"))
            again = await send(client, said("red", task_id=task.id))
            assert asked(again)["question_id"] != asked(task)["question_id"]
            assert artifact_text(await send(client, said("blue", task_id=task.id))) == "done"

    with ScriptedProvider(script) as provider, served(home, workdir, provider, toolsets=TOOLS) as agent:
        asyncio.run(call())
        assert responses(provider) == ["red", "blue"]


def test_the_model_learns_that_there_was_no_answer_in_time(home: Path, workdir: Path) -> None:
    async def call() -> None:
        async with calling(agent, streaming=False) as client:
            task = await send(client, said("go"))
            assert artifact_text(await ended(client, task.id)) == "done"

    settings = A2AConfig(approval_timeout=0.05)
    with ScriptedProvider(SCRIPT) as provider, served(home, workdir, provider, settings, toolsets=TOOLS) as agent:
        asyncio.run(call())
        assert responses(provider) == [None]
        assert "did not answer" in provider.requests[-1].messages[-1]["content"]


def test_a_question_needs_no_right_to_approve(home: Path, workdir: Path) -> None:
    settings = A2AConfig(principals={"ci": PrincipalConfig(token_env="CI", scopes=["send", "read"])}, approvals="deny")
    token = "a-token-that-is-long-enough"

    async def call() -> None:
        async with calling(agent, streaming=False, headers={"Authorization": f"Bearer {token}"}) as client:
            task = await send(client, said("go"))
            assert artifact_text(await send(client, said("blue", task_id=task.id))) == "done"

    with (
        ScriptedProvider(SCRIPT) as provider,
        served(home, workdir, provider, settings, env={"CI": token}, toolsets=TOOLS) as agent,
    ):
        asyncio.run(call())


def test_a_waiting_task_can_be_canceled(home: Path, workdir: Path) -> None:
    async def call() -> None:
        async with calling(agent, streaming=False) as client:
            task = await send(client, said("go"))
            cancelled = await client.cancel_task(CancelTaskRequest(id=task.id))
            assert state_name(cancelled.status.state) == "canceled"
            wait_until(lambda: agent.host.sessions.list()[0].state == "interrupted")

    with ScriptedProvider(SCRIPT) as provider, served(home, workdir, provider, toolsets=TOOLS) as agent:
        asyncio.run(call())
        assert len(provider.requests) == 1


def make_older(home: Path, change_journal: str) -> None:
    """Make the files look as an old version wrote them, when questions were in ``a2a.db``."""
    move_to_old_file(home, version=2)
    with closing(sqlite3.connect(home / "state.db")) as connection, connection:
        connection.execute(change_journal)
        connection.execute("DELETE FROM submissions")  # a server ran its turns without a dispatcher


def test_an_approval_of_an_older_version_has_a_deadline_again(home: Path, workdir: Path) -> None:
    script = by_step(tool_call("terminal", {"command": RISKY}), text("done"))

    async def ask() -> Task:
        async with calling(agent, streaming=False) as client:
            return await send(client, said("go"))

    async def wait() -> None:
        async with calling(agent, streaming=False) as client:
            assert artifact_text(await ended(client, task.id)) == "done"

    with ScriptedProvider(script) as provider:
        with served(home, workdir, provider) as agent:
            task = asyncio.run(ask())
        make_older(home, "UPDATE questions SET deadline = NULL")
        with served(home, workdir, provider, A2AConfig(approval_timeout=0.05)) as agent:
            asyncio.run(wait())
        assert "no answer within" in provider.requests[-1].messages[-1]["content"]
    assert not (workdir / "ran").exists()


@pytest.mark.parametrize("is_fast", [False, True])
def test_a_question_of_an_older_version_is_asked_again(
    home: Path, workdir: Path, is_fast: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was not in the journal: the next server continues the turn, which asks again.

    ``is_fast``: the turn has asked before the server looks at the task, as one on a worker may.
    """
    start = LocalDispatcher.start

    def start_and_wait(dispatcher: LocalDispatcher) -> None:
        start(dispatcher)
        store = getattr(dispatcher, "_host").store  # noqa: B009
        for left in open_submissions(store):
            dispatcher.resume(left.turn_id)
        waiting.wait_until(Questions(store).pending, "the question")

    async def ask() -> Task:
        async with calling(agent, streaming=False) as client:
            return await send(client, said("go"))

    async def answer() -> None:
        async with asyncio.timeout(waiting.HANG), calling(agent, streaming=False) as client:
            while True:
                again = await client.get_task(GetTaskRequest(id=task.id))
                if again.status.state == TaskState.TASK_STATE_INPUT_REQUIRED and asked(again) != asked(task):
                    break
                await asyncio.sleep(0.1)  # the server limits requests, and a loaded machine takes its time
            assert asked(again)["question"] == asked(task)["question"]
            assert artifact_text(await send(client, said("blue", task_id=task.id))) == "done"

    with ScriptedProvider(SCRIPT) as provider:
        with served(home, workdir, provider, toolsets=TOOLS) as agent:
            task = asyncio.run(ask())
        make_older(home, "DELETE FROM questions")
        if is_fast:
            monkeypatch.setattr(LocalDispatcher, "start", start_and_wait)
        with served(home, workdir, provider, toolsets=TOOLS) as agent:
            asyncio.run(answer())
        assert responses(provider) == ["blue"]
