"""The approvals of callers without the scope ``approve`` go to the owner, who answers from another process."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest
from a2a.types import CancelTaskRequest, GetTaskRequest, SubscribeToTaskRequest, Task, TaskArtifactUpdateEvent

from hermes.base.config import A2AConfig, PrincipalConfig
from hermes.journal.questions import Questions
from hermes.testing import RecordedRequest, ScriptedProvider, by_step, text, tool_call
from support import run_hermes
from support.a2a_rig import (
    Served,
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
    wire_message,
)
from support.approval_rig import RISKY
from support.configured import configured_host

SCRIPT = by_step(tool_call("terminal", {"command": RISKY}), text("done"))
WAITING = "waiting for the owner's approval"


def settings(workdir: Path, **more: Any) -> A2AConfig:
    """Callers without a token have the default scopes."""
    return A2AConfig(principals={"local": PrincipalConfig(workspace=str(workdir))}, **more)


def immediately(words: str = "go") -> dict[str, Any]:
    return {**wire_message(words), "configuration": {"returnImmediately": True}}


def parked(agent: Served, words: str = "go") -> str:
    """The id of a task that waits for the owner."""
    task_id: str = agent.rpc("SendMessage", immediately(words))["result"]["task"]["id"]
    wait_until(lambda: WAITING in str(agent.rpc("GetTask", {"id": task_id})["result"]["status"].get("message")))
    return task_id


def ending(agent: Served, task_id: str) -> Task:
    async def wait() -> Task:
        async with calling(agent, streaming=False) as client:
            return await ended(client, task_id)

    return asyncio.run(wait())


@pytest.mark.parametrize(("verb", "ran"), [("approve", True), ("deny", False)])
def test_the_owner_answers_from_another_process(home: Path, workdir: Path, verb: str, ran: bool) -> None:
    shown: list[str] = []

    def note(surface: str) -> None:
        shown.append(surface)

    with ScriptedProvider(SCRIPT) as provider, served(home, workdir, provider, settings(workdir)) as agent:
        agent.host.hooks.subscribe("pre_approval_request", "test", note)
        task_id = parked(agent)
        task = agent.rpc("GetTask", {"id": task_id})["result"]
        assert task["status"]["state"] == "TASK_STATE_WORKING"
        assert task["status"]["message"]["parts"] == [{"text": WAITING}]
        refused = agent.rpc("SendMessage", wire_message("approve", taskId=task_id))
        assert refused["error"]["code"] == -32004 and WAITING in refused["error"]["message"]
        rejected = agent.rpc("SendMessage", wire_message("and?", contextId=task["contextId"]))["result"]["task"]
        assert rejected["status"]["state"] == "TASK_STATE_REJECTED"
        listed = run_hermes("approvals", "pending", "--json", home=home, cwd=workdir)
        [row] = msgspec.json.decode(listed.stdout)
        assert (row["principal"], row["subject"], row["surface"]) == ("local", RISKY, "owner")
        assert row["deadline"] - row["created_at"] == pytest.approx(86_400, abs=60)
        assert f"{row['id']}  local" in run_hermes("approvals", "pending", home=home, cwd=workdir).stdout
        answered = run_hermes("approvals", verb, row["id"], "--reason", "because", home=home, cwd=workdir)
        assert answered.returncode == 0, answered.stderr
        assert artifact_text(ending(agent, task_id)) == "done"
        result = provider.requests[-1].messages[-1]["content"]
        again = run_hermes("approvals", verb, row["id"], home=home, cwd=workdir)
    assert again.returncode == 1 and "does not wait for an answer" in again.stderr
    assert (workdir / "ran").exists() is ran and ("because" in result) is not ran
    assert shown == ["a2a"]


def test_no_slot_and_no_thread_is_held_while_a_task_waits(home: Path, workdir: Path) -> None:
    def script(request: RecordedRequest) -> Any:
        return SCRIPT(request) if request.last_user_text == "go" else text("fine")

    limited = settings(workdir, max_tasks=1, max_waiting=0)
    with ScriptedProvider(script) as provider, served(home, workdir, provider, limited) as agent:
        parked(agent)
        task = agent.rpc("SendMessage", wire_message("another"))["result"]["task"]
        assert task["status"]["state"] == "TASK_STATE_COMPLETED"


def test_a_stream_and_a_blocking_call_wait_for_the_end(home: Path, workdir: Path) -> None:
    async def call(streaming: bool) -> tuple[list[str], str]:
        async with calling(agent, streaming=streaming) as client:
            if streaming:
                return kinds(await stream(client, said("go"))), ""
            task = await send(client, said("go"))
            return [state_name(task.status.state)], artifact_text(task)

    async def both() -> list[tuple[list[str], str]]:
        calls = [asyncio.create_task(call(streaming)) for streaming in (True, False)]
        while len(rows := questions.pending()) < 2:
            await asyncio.sleep(0.02)
        for row in rows:
            questions.answer(row.id, "once")
        return await asyncio.gather(*calls)

    with ScriptedProvider(SCRIPT) as provider, served(home, workdir, provider, settings(workdir)) as agent:
        questions = Questions(agent.host.store)
        streamed, waited = asyncio.run(both())
    assert waited == (["completed"], "done")
    assert streamed[0][0] == "task" and streamed[0][-1] == "completed" and "input_required" not in streamed[0]


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_task_that_waits_for_the_owner_survives_a_restart(home: Path, workdir: Path, when: str) -> None:
    with ScriptedProvider(SCRIPT) as provider:
        with served(home, workdir, provider, settings(workdir)) as agent:
            task_id = parked(agent)
            [row] = Questions(agent.host.store).pending()
        if when == "before":
            assert run_hermes("approvals", "approve", row.id, home=home, cwd=workdir).returncode == 0
        with served(home, workdir, provider, settings(workdir)) as agent:
            if when == "after":
                wait_until(lambda: agent.rpc("GetTask", {"id": task_id})["result"]["status"].get("message") is not None)
                [again] = Questions(agent.host.store).pending()
                assert (again.id, again.deadline) == (row.id, row.deadline)
                assert run_hermes("approvals", "approve", row.id[:10], home=home, cwd=workdir).returncode == 0
            assert artifact_text(ending(agent, task_id)) == "done"
    assert (workdir / "ran").exists() and len(provider.requests) == 2


def test_the_text_of_a_task_that_goes_on_after_a_restart_is_streamed(home: Path, workdir: Path) -> None:
    async def follow() -> list[TaskArtifactUpdateEvent]:
        async with calling(agent) as client:
            chunks: list[TaskArtifactUpdateEvent] = []
            async for event in client.subscribe(SubscribeToTaskRequest(id=task_id)):
                if event.HasField("task"):
                    Questions(agent.host.store).answer(row.id, "once")
                elif event.HasField("artifact_update"):
                    chunks.append(event.artifact_update)
            return chunks

    slow = text("one two three", chunks=["one ", "two ", "three"], chunk_delay=0.2)
    with ScriptedProvider(by_step(tool_call("terminal", {"command": RISKY}), slow)) as provider:
        with served(home, workdir, provider, settings(workdir)) as agent:
            task_id = parked(agent)
            [row] = Questions(agent.host.store).pending()
        with served(home, workdir, provider, settings(workdir)) as agent:
            chunks = asyncio.run(follow())
    said = ["".join(part.text for part in chunk.artifact.parts) for chunk in chunks]
    assert "".join(said) == "one two three" and len(said) > 1 and chunks[-1].last_chunk


def test_without_an_answer_in_time_the_call_is_denied(home: Path, workdir: Path) -> None:
    impatient = settings(workdir, approval_timeout=0.05)
    with ScriptedProvider(SCRIPT) as provider, served(home, workdir, provider, impatient) as agent:
        task_id = agent.rpc("SendMessage", immediately())["result"]["task"]["id"]
        assert artifact_text(ending(agent, task_id)) == "done"
        assert "no answer within" in provider.requests[-1].messages[-1]["content"]
    assert not (workdir / "ran").exists()


def test_canceling_a_task_that_waits_for_the_owner_withdraws_the_question(home: Path, workdir: Path) -> None:
    async def cancel() -> None:
        async with calling(agent, streaming=False) as client:
            canceled = await client.cancel_task(CancelTaskRequest(id=task_id))
            assert state_name(canceled.status.state) == "canceled"
            assert status_text(await client.get_task(GetTaskRequest(id=task_id))) == ""

    with ScriptedProvider(SCRIPT) as provider, served(home, workdir, provider, settings(workdir)) as agent:
        task_id = parked(agent)
        asyncio.run(cancel())
        wait_until(lambda: Questions(agent.host.store).pending() == [])
        wait_until(lambda: agent.host.sessions.list()[0].state == "interrupted")
    assert not (workdir / "ran").exists()


def test_clarifying_questions_still_go_to_the_caller(home: Path, workdir: Path) -> None:
    script = by_step(tool_call("clarify", {"question": "Which colour?"}), text("done"))
    with ScriptedProvider(script) as provider, served(home, workdir, provider, settings(workdir)) as agent:
        task = agent.rpc("SendMessage", wire_message("go"))["result"]["task"]
        assert task["status"]["state"] == "TASK_STATE_INPUT_REQUIRED"
        assert Questions(agent.host.store).count_for_owner() == 0
        answered = agent.rpc("SendMessage", wire_message("blue", taskId=task["id"]))["result"]["task"]
        assert answered["status"]["state"] == "TASK_STATE_COMPLETED"


def test_the_commands_say_what_is_wrong(home: Path, workdir: Path) -> None:
    with ScriptedProvider("hi") as provider, configured_host(home, workdir, provider) as host:
        host.new_session().run("hi")
    assert run_hermes("approvals", "pending", home=home, cwd=workdir).stdout == "Nothing waits for an answer.\n"
    unknown = run_hermes("approvals", "approve", "appr_x", home=home, cwd=workdir)
    assert unknown.returncode == 1 and "hermes approvals pending" in unknown.stderr


@pytest.mark.parametrize("restarts", [False, True])
@pytest.mark.parametrize(("choice", "ran"), [("once", True), ("deny", False)])
def test_a_child_of_a_callers_session_asks_the_owner_too(
    home: Path, workdir: Path, choice: str, ran: bool, restarts: bool
) -> None:
    goals = {
        "go": by_step(
            tool_call("delegate_task", {"tasks": [{"goal": "look"}, {"goal": "delete"}]}), text("parent is done")
        ),
        "delete": by_step(tool_call("terminal", {"command": RISKY}), text("child is done")),
        "look": text("nothing to see"),
    }

    def script(request: RecordedRequest) -> Any:
        goal = next(goal for goal in goals if request.last_user_text.startswith(goal))
        asked.append(goal)
        return answer(request) if callable(answer := goals[goal]) else answer

    asked: list[str] = []
    with ScriptedProvider(script) as provider:
        with served(home, workdir, provider, settings(workdir)) as agent:
            task_id = parked(agent)
            [row] = Questions(agent.host.store).pending()
            assert (row.principal, row.subject, row.surface) == ("local", RISKY, "owner")
            assert row.session_id.startswith("child_")
            if not restarts:
                Questions(agent.host.store).answer(row.id, choice)
                assert artifact_text(ending(agent, task_id)) == "parent is done"
        if restarts:
            with served(home, workdir, provider, settings(workdir)) as agent:
                Questions(agent.host.store).answer(row.id, choice)
                assert artifact_text(ending(agent, task_id)) == "parent is done"
    assert (workdir / "ran").exists() is ran
    assert asked.count("look") == 1, "a child that ended is not run again"
