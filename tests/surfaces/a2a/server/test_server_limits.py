"""How much a server takes on."""

# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false, reportUnknownMemberType=false

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import grpc
import httpx
import msgspec
import pytest
from a2a.types import (
    CancelTaskRequest,
    GetTaskRequest,
    ListTasksRequest,
    SendMessageRequest,
    StreamResponse,
    SubscribeToTaskRequest,
    a2a_pb2_grpc,
)

from hermes.base.config import A2AConfig
from hermes.base.http_server.rate_limits import RateLimiter
from hermes.testing import ScriptedProvider, by_step, hanging, text, tool_calls
from support.a2a_rig import (
    UNUSED_TLS,
    VERSION,
    Served,
    artifact_text,
    calling,
    kinds,
    said,
    send,
    served,
    sse_documents,
    state_name,
    stream,
    wait_until,
    wire_message,
)


def test_a_body_that_is_too_long(home: Path, workdir: Path) -> None:
    with (
        ScriptedProvider("fine") as provider,
        served(home, workdir, provider, A2AConfig(max_body_bytes=2_000)) as agent,
    ):
        for path in ("/", "/rest/message:send"):
            assert agent.post(path, wire_message("x" * 2_000)).status_code == 413
        pieces = iter([b"x" * 1_500, b"x" * 1_500])
        chunked = httpx.post(agent.url, content=pieces, headers=VERSION, timeout=60, verify=UNUSED_TLS)
        assert chunked.status_code == 413
        assert agent.post("/rest/message:send", wire_message("x" * 1_000)).status_code == 200
        assert len(provider.requests) == 1


def test_too_many_requests(home: Path, workdir: Path) -> None:
    with (
        ScriptedProvider("fine") as provider,
        served(home, workdir, provider, A2AConfig(max_requests_per_minute=2)) as agent,
    ):
        codes = [agent.get("/rest/tasks").status_code for _ in range(3)]
        assert codes == [200, 200, 429]
        refused = agent.post("/", {"jsonrpc": "2.0", "id": 5, "method": "ListTasks"})
        assert refused.status_code == 429 and int(refused.headers["retry-after"]) in range(1, 32)
        assert refused.json()["id"] == 5 and refused.json()["error"]["data"]["reason"] == "RESOURCE_EXHAUSTED"


def test_each_caller_has_its_own_rate_limit() -> None:
    limiter = RateLimiter(2)
    assert [limiter.retry_after("a") > 0 for _ in range(3)] == [False, False, True]
    assert limiter.retry_after("b") == 0 and RateLimiter(0).retry_after("a") == 0


def test_tasks_wait_and_then_are_refused(home: Path, workdir: Path) -> None:
    async def call() -> None:
        async with calling(agent) as client:
            running = [asyncio.create_task(stream(client, said("x"))) for _ in range(2)]
            while len(tasks := (await client.list_tasks(ListTasksRequest())).tasks) < 2:
                await asyncio.sleep(0.01)
            await asyncio.to_thread(provider.wait_for_request)
            refused = agent.post("/rest/message:send", wire_message("y"))
            assert refused.status_code == 503 and refused.headers["retry-after"]
            states = {state_name(task.status.state): task.id for task in tasks}
            assert set(states) == {"working", "submitted"}
            await client.cancel_task(CancelTaskRequest(id=states["working"]))
            ends = sorted(kinds(events)[-1] for events in await asyncio.gather(*running))
            assert ends == ["canceled", "completed"]

    settings = A2AConfig(max_tasks=1, max_waiting=1)
    with (
        ScriptedProvider([hanging(), text("fine")]) as provider,
        served(home, workdir, provider, settings) as agent,
    ):
        asyncio.run(call())


def test_limits_hold_for_requests_at_the_same_moment(home: Path, workdir: Path) -> None:
    """Two run, one waits; the others are refused however close together they come, over every transport."""

    async def call(path: str) -> list[int]:
        def sent(number: int) -> Any:
            message = {**wire_message(f"{path} {number}"), "configuration": {"returnImmediately": True}}
            rpc = {"jsonrpc": "2.0", "id": number, "method": "SendMessage", "params": message}
            return http.post(agent.url + path, json=rpc if path == "/" else message, headers=VERSION)

        async with httpx.AsyncClient(verify=UNUSED_TLS, timeout=60) as http:
            answers = await asyncio.gather(*(sent(number) for number in range(8)))
            tasks = (await http.get(f"{agent.url}/rest/tasks", headers=VERSION)).json()["tasks"]
            for task in tasks:
                await http.post(f"{agent.url}/rest/tasks/{task['id']}:cancel", headers=VERSION)
        return sorted(answer.status_code for answer in answers)

    settings = A2AConfig(max_tasks=2, max_waiting=1)
    for path in ("/", "/rest/message:send"):
        with (
            ScriptedProvider(lambda _request: hanging()) as provider,
            served(home, workdir, provider, settings) as agent,
        ):
            assert asyncio.run(call(path)) == [200] * 3 + [503] * 5


def test_the_limit_holds_over_grpc_too(home: Path, workdir: Path) -> None:
    async def call() -> list[grpc.StatusCode]:
        async with grpc.aio.insecure_channel(agent.grpc) as channel:
            stub: Any = a2a_pb2_grpc.A2AServiceStub(channel)

            async def sent(number: int) -> grpc.StatusCode:
                request = SendMessageRequest(message=said(f"{number}").message)
                request.configuration.return_immediately = True
                try:
                    await stub.SendMessage(request, timeout=60)
                except grpc.aio.AioRpcError as error:
                    return error.code()
                return grpc.StatusCode.OK

            codes = await asyncio.gather(*(sent(number) for number in range(8)))
            for task in (await stub.ListTasks(ListTasksRequest())).tasks:
                await stub.CancelTask(CancelTaskRequest(id=task.id))
            return sorted(codes, key=lambda code: code.name)

    with (
        ScriptedProvider(lambda _request: hanging()) as provider,
        served(home, workdir, provider, A2AConfig(max_tasks=2, max_waiting=1), grpc=True) as agent,
    ):
        assert asyncio.run(call()) == [grpc.StatusCode.OK] * 3 + [grpc.StatusCode.UNAVAILABLE] * 5


def test_messages_that_wait_for_their_conversation_count(home: Path, workdir: Path) -> None:
    def sent(number: int) -> int:
        message = {**wire_message(f"{number}", contextId="one"), "configuration": {"returnImmediately": True}}
        return agent.post("/rest/message:send", message).status_code

    settings = A2AConfig(max_tasks=10, max_waiting=0, max_tasks_of_caller=4)
    with (
        ScriptedProvider(lambda _request: hanging()) as provider,
        served(home, workdir, provider, settings) as agent,
    ):
        assert [sent(number) for number in range(6)] == [200] * 4 + [503] * 2
        for task in agent.get("/rest/tasks").json()["tasks"]:
            agent.post(f"/rest/tasks/{task['id']}:cancel")
        wait_until(lambda: sent(99) == 200)


def test_refused_messages_do_not_count(home: Path, workdir: Path) -> None:
    with (
        ScriptedProvider("fine") as provider,
        served(home, workdir, provider, A2AConfig(max_tasks=1, max_waiting=0)) as agent,
    ):
        for _ in range(3):
            assert agent.post("/rest/message:send", {"message": {"parts": []}}).status_code == 400
            assert agent.rpc("SendMessage", wire_message(role="ROLE_AGENT"))["error"]["code"] == -32602
        assert agent.post("/rest/message:send", wire_message()).status_code == 200


def test_tasks_of_one_conversation_run_one_after_the_other(home: Path, workdir: Path) -> None:
    async def call() -> None:
        async with calling(agent, streaming=False) as client:
            tasks = await asyncio.gather(*(send(client, said(f"{n}", context_id="one")) for n in range(5)))
            assert {state_name(task.status.state) for task in tasks} == {"completed"}

    with ScriptedProvider(text("fine", delay=0.02)) as provider, served(home, workdir, provider) as agent:
        asyncio.run(call())
        assert [len(request.messages) for request in provider.requests] == [2, 4, 6, 8, 10]
        assert len(agent.host.sessions.list()) == 1


def test_a_task_can_be_subscribed_to_after_its_stream_broke(home: Path, workdir: Path) -> None:
    async def call() -> None:
        async with calling(agent) as client:
            first: Any = client.send_message(said("tell"))
            task = (await anext(first)).task
            async for event in first:
                if event.HasField("artifact_update"):
                    break
            await first.aclose()  # the caller is gone; the turn waits for the file
            events: list[StreamResponse] = []
            async for event in client.subscribe(SubscribeToTaskRequest(id=task.id)):
                events.append(event)
                (workdir / "go").touch()
            assert kinds(events)[0] == "task" and kinds(events)[-1] == "completed"
            seen = artifact_text(events[0].task) + "".join(
                part.text for event in events[1:] for part in event.artifact_update.artifact.parts
            )
            assert seen == "one two three four"
            assert artifact_text(await client.get_task(GetTaskRequest(id=task.id))) == "one two three four"

    wait = tool_calls([("terminal", {"command": "until [ -e go ]; do sleep 0.01; done"})], content="one two ")
    script = by_step(wait, text("three four", chunks=2))
    with ScriptedProvider(script) as provider, served(home, workdir, provider) as agent:
        asyncio.run(call())


async def bare_stream(agent: Served, words: str) -> list[dict[str, Any]]:
    """What a message brings about, read by a client that costs nothing: two hundred of them share one thread."""
    place = urlsplit(agent.url)
    reader, writer = await asyncio.open_connection(place.hostname, place.port)
    call = {"jsonrpc": "2.0", "id": words, "method": "SendStreamingMessage", "params": wire_message(words)}
    body = msgspec.json.encode(call)
    head = "POST / HTTP/1.1\r\nHost: 127.0.0.1\r\nA2A-Version: 1.0\r\nContent-Type: application/json\r\n"
    head += f"Content-Length: {len(body)}\r\n\r\n"
    writer.write(head.encode() + body)
    answered = await reader.readuntil(b"\r\n0\r\n\r\n")
    writer.close()
    await writer.wait_closed()
    return sse_documents(answered.decode())


@pytest.mark.slow
def test_two_hundred_tasks_stream_at_once(home: Path, workdir: Path) -> None:
    answer = "word " * 20

    async def one(number: int) -> None:
        documents = await bare_stream(agent, f"{number}")
        assert {document["id"] for document in documents} == {f"{number}"}
        events = [document["result"] for document in documents]
        assert events[-1]["statusUpdate"]["status"]["state"] == "TASK_STATE_COMPLETED"
        chunks = [event["artifactUpdate"]["artifact"] for event in events if "artifactUpdate" in event]
        assert "".join(chunk["parts"][0]["text"] for chunk in chunks) == answer

    async def call() -> None:
        await asyncio.gather(*(one(number) for number in range(200)))

    with (
        ScriptedProvider(text(answer, chunks=20, chunk_delay=0.01)) as provider,
        served(home, workdir, provider) as agent,
    ):
        asyncio.run(call())
        assert len(provider.requests) == 200


def test_a_message_that_passed_too_many_agents(home: Path, workdir: Path) -> None:
    with ScriptedProvider("fine") as provider, served(home, workdir, provider, A2AConfig(max_hops=2)) as agent:
        states = [
            agent.rpc("SendMessage", wire_message(metadata={"hermes.hops": hops}))["result"]["task"]["status"]["state"]
            for hops in (2, 3)
        ]
        assert states == ["TASK_STATE_COMPLETED", "TASK_STATE_REJECTED"] and len(provider.requests) == 1
