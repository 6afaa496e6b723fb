"""The other ways in: gRPC, and clients of protocol 0.3."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import msgspec
import pytest
from a2a.types import CancelTaskRequest, GetTaskRequest, ListTasksRequest, SendMessageRequest
from a2a.types.a2a_pb2_grpc import A2AServiceStub
from a2a.utils.errors import TaskNotFoundError

import support
from hermes.base.config import A2AConfig, PrincipalConfig
from hermes.testing import ScriptedProvider
from support.a2a_rig import Served, artifact_text, calling, kinds, said, served, stream

TOKEN = "a-token-that-is-long-enough"
SDK_03 = os.environ.get("HERMES_TEST_A2A_03", "")


def test_grpc(home: Path, workdir: Path) -> None:
    async def call() -> None:
        async with calling(agent, "GRPC") as client:
            events = await stream(client, said("hello"))
            assert kinds(events)[:2] == ["task", "working"] and kinds(events)[-1] == "completed"
            task = await client.get_task(GetTaskRequest(id=events[0].task.id))
            assert artifact_text(task) == "fine"
            with pytest.raises(TaskNotFoundError):
                await client.cancel_task(CancelTaskRequest(id="unknown"))

    with ScriptedProvider("fine") as provider, served(home, workdir, provider, grpc=True) as agent:
        asyncio.run(call())


def test_grpc_has_the_same_access_policy(home: Path, workdir: Path) -> None:
    async def call() -> None:
        async with grpc.aio.insecure_channel(agent.grpc) as channel:
            stub: Any = A2AServiceStub(channel)

            async def code(work: Any) -> grpc.StatusCode:
                with pytest.raises(grpc.aio.AioRpcError) as caught:
                    await work
                return caught.value.code()

            async def first(stream_: Any) -> None:
                async for _ in stream_:
                    pass

            assert await code(stub.ListTasks(ListTasksRequest())) == grpc.StatusCode.UNAUTHENTICATED
            who = [("authorization", f"Bearer {TOKEN}")]
            assert (await stub.ListTasks(ListTasksRequest(), metadata=who)).total_size == 0
            refused = stub.SendMessage(said("hello"), metadata=who)
            assert await code(refused) == grpc.StatusCode.PERMISSION_DENIED
            refused = first(stub.SendStreamingMessage(said("hello"), metadata=who))
            assert await code(refused) == grpc.StatusCode.PERMISSION_DENIED
            too_long = SendMessageRequest(tenant="x" * 5_000)
            assert await code(stub.SendMessage(too_long, metadata=who)) != grpc.StatusCode.OK

    settings = A2AConfig(
        principals={"reader": PrincipalConfig(token_env="READER", scopes=["read"])}, max_body_bytes=4_000
    )
    with (
        ScriptedProvider("fine") as provider,
        served(home, workdir, provider, settings, env={"READER": TOKEN}, grpc=True) as agent,
    ):
        asyncio.run(call())
        assert provider.requests == []


@pytest.mark.skipif(not SDK_03, reason="HERMES_TEST_A2A_03 names no folder with a2a-sdk 0.3")
@pytest.mark.parametrize("transport", ["JSONRPC", "HTTP+JSON"])
def test_the_client_of_the_older_sdk(agent: Served, transport: str) -> None:
    done = subprocess.run(
        [sys.executable, str(Path(str(support.__file__)).with_name("a2a_03_client.py")), agent.url, transport],
        env={**os.environ, "PYTHONPATH": SDK_03},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = msgspec.json.decode(done.stdout)
    assert found["card"] == "Hermes" and found["again"] == "completed"
    for streaming in (False, True):
        assert (found[f"state {streaming}"], found[f"answer {streaming}"]) == ("completed", "Hello there.")
    assert found["events False"] == 1 and found["events True"] > 3
    assert (found["parked"], found["cancelled"]) == ("input-required", "canceled")
