"""The executor behind the SDK's real server, asked by the SDK's own client and by hand."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import pytest

from hermes.surfaces.a2a import HermesA2AExecutor
from hermes.testing import RecordedRequest, ScriptedProvider, ScriptedReply, failure, raw, reasoning, text
from support.executor_rig import IS_V1, silent_model

if not IS_V1:
    pytest.skip("the server is made of the parts of a2a-sdk 1.x", allow_module_level=True)

from a2a.client import ClientConfig, create_client
from a2a.helpers import get_stream_response_text, new_text_message
from a2a.server.context import ServerCallContext
from a2a.server.tasks import InMemoryTaskStore
from a2a.types import (
    CancelTaskRequest,
    Message,
    Role,
    SendMessageRequest,
    StreamResponse,
    Task,
    TaskState,
    TaskStatus,
)

from support.a2a_rig import UNUSED_TLS
from support.executor_server import serving

SECRET = "sk-sentinel-0123456789abcdef"
BINDINGS = ["JSONRPC", "HTTP+JSON"]


def user_message(words: str, *, task_id: str | None = None, context_id: str | None = None) -> Message:
    return new_text_message(words, task_id=task_id, context_id=context_id, role=Role.ROLE_USER)


async def conversation(base_url: str, binding: str, streaming: bool, message: Message) -> list[StreamResponse]:
    """Everything the SDK's client is told."""
    async with httpx.AsyncClient(verify=UNUSED_TLS) as http:
        config = ClientConfig(streaming=streaming, supported_protocol_bindings=[binding], httpx_client=http)
        client = await create_client(base_url, client_config=config)
        try:
            return [event async for event in client.send_message(SendMessageRequest(message=message))]
        finally:
            await client.close()


@pytest.mark.parametrize("binding", BINDINGS)
@pytest.mark.parametrize("streaming", [False, True])
def test_the_sdks_client_gets_one_message(binding: str, streaming: bool) -> None:
    async def run(base_url: str) -> None:
        executor = HermesA2AExecutor("hermes-4", system_blocks=["persona"], base_url=base_url)
        async with serving(executor) as server:
            message = user_message("hello", context_id="context-9")
            (event,) = await conversation(server, binding, streaming, message)
            assert event.WhichOneof("payload") == "message"
            assert get_stream_response_text(event) == "Hello there."
            assert event.message.role == Role.ROLE_AGENT
            assert event.message.context_id == "context-9"

    with ScriptedProvider(reasoning("thoughts", "Hello there.")) as provider:
        asyncio.run(run(provider.base_url))
        (sent,) = provider.requests
        assert [message["role"] for message in sent.messages] == ["system", "user"]
        assert sent.last_user_text == "hello"


def test_many_at_once() -> None:
    async def run(base_url: str) -> None:
        async with serving(HermesA2AExecutor("hermes-4", base_url=base_url)) as server:
            asked = [conversation(server, "JSONRPC", True, user_message(f"number {n}")) for n in range(20)]
            answers = await asyncio.gather(*asked)
            assert [get_stream_response_text(event) for (event,) in answers] == [f"number {n}" for n in range(20)]

    def echo(request: RecordedRequest) -> ScriptedReply:
        return text(request.last_user_text, delay=0.1)

    with ScriptedProvider(echo) as provider:
        asyncio.run(run(provider.base_url))


# -- on the wire ----------------------------------------------------------------------------------------------------

V1 = {"A2A-Version": "1.0"}
V1_MESSAGE = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "hello"}]}
V03_MESSAGE = {"messageId": "m", "role": "user", "kind": "message", "parts": [{"kind": "text", "text": "hello"}]}


def rpc(method: str, params: dict[str, Any]) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}


#: Every way to send a message: where to, which headers, which body.
CHANNELS: dict[str, tuple[str, dict[str, str], dict[str, Any]]] = {
    "JSON-RPC": ("/", V1, rpc("SendMessage", {"message": V1_MESSAGE})),
    "JSON-RPC, streamed": ("/", V1, rpc("SendStreamingMessage", {"message": V1_MESSAGE})),
    "REST": ("/rest/message:send", V1, {"message": V1_MESSAGE}),
    "REST, streamed": ("/rest/message:stream", V1, {"message": V1_MESSAGE}),
    "JSON-RPC 0.3": ("/", {}, rpc("message/send", {"message": V03_MESSAGE})),
    "JSON-RPC 0.3, streamed": ("/", {}, rpc("message/stream", {"message": V03_MESSAGE})),
}


async def everything_said(base_url: str) -> dict[str, str]:
    """The whole of each response, head and body, by channel."""
    said: dict[str, str] = {}
    async with httpx.AsyncClient(base_url=base_url, verify=UNUSED_TLS) as client:
        for name, (path, headers, body) in CHANNELS.items():
            response = await client.post(path, headers=headers, json=body)
            said[name] = f"{response.status_code} {response.headers} {response.text}"
    return said


@pytest.mark.parametrize(
    ("reply", "visible"),
    [
        (failure(429, f"slow down {SECRET}"), "Agent error: RateLimitError"),
        (failure(401, f"bad key {SECRET}", code="invalid_api_key"), "Agent error: AuthenticationError"),
        (failure(500, SECRET, headers={"x-debug": SECRET}), "Agent error: InternalServerError"),
        (raw(f"<html>{SECRET}".encode()), "Agent error: APIResponseValidationError"),
        (reasoning(SECRET, "Hello there."), "Hello there."),
        (text(f"<think>{SECRET}</think>Hello there."), "Hello there."),
        (text(f"{SECRET}</think>Hello there."), "Hello there."),
    ],
)
def test_secrets_and_reasoning_are_on_no_channel(reply: ScriptedReply, visible: str) -> None:
    async def run(base_url: str) -> None:
        executor = HermesA2AExecutor("hermes-4", base_url=base_url, api_key=SECRET)
        async with serving(executor) as server:
            for channel, said in (await everything_said(server)).items():
                assert said.startswith("200 "), (channel, said)
                assert visible in said, (channel, said)
                assert SECRET not in said, (channel, said)

    with ScriptedProvider(reply) as provider:
        asyncio.run(run(provider.base_url))
        assert len(provider.requests) == len(CHANNELS)


# -- cancelling -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("binding", BINDINGS)
def test_cancel_over_the_wire_stops_the_request(binding: str) -> None:
    """A message is not stored, so only a task that was there before can be named in a cancel."""

    async def run() -> None:
        tasks = InMemoryTaskStore()
        status = TaskStatus(state=TaskState.TASK_STATE_INPUT_REQUIRED)
        await tasks.save(Task(id="task-1", context_id="context-1", status=status), ServerCallContext())
        async with silent_model() as model, serving(HermesA2AExecutor("m", base_url=model.base_url), tasks) as server:
            message = user_message("hello", task_id="task-1", context_id="context-1")
            turn = asyncio.create_task(conversation(server, binding, False, message))
            await model.asked.get()
            config = ClientConfig(supported_protocol_bindings=[binding])
            client = await create_client(server, client_config=config)
            canceled = await client.cancel_task(CancelTaskRequest(id="task-1"))
            await client.close()
            assert (canceled.id, canceled.context_id) == ("task-1", "context-1")
            assert canceled.status.state == TaskState.TASK_STATE_CANCELED
            await model.gone.get()
            (event,) = await turn
            assert event.task.status.state == TaskState.TASK_STATE_CANCELED

    asyncio.run(asyncio.wait_for(run(), 20))
