"""A served agent in this process, and the SDK's own client to call it with."""

from __future__ import annotations

import asyncio
import socket
import ssl
import threading
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import msgspec
from a2a.client import Client, ClientConfig, create_client
from a2a.types import GetTaskRequest, Message, Part, Role, SendMessageRequest, StreamResponse, Task, TaskState

from hermes.base.config import A2AConfig, Config
from hermes.base.config.schema.mcp import McpServerConfig
from hermes.base.config.schema.sections import AgentConfig, ApprovalsConfig, ModelConfig, PrincipalConfig
from hermes.base.http_server.principals import read_principals
from hermes.base.sanitize import Redactor
from hermes.base.scope import new_id
from hermes.host import Host, HostOptions
from hermes.surfaces.a2a.server.process import A2AListenAddress, serve_until
from hermes.testing import ScriptedProvider
from support import waiting
from support.served import ServerThread

BINDINGS = ("JSONRPC", "HTTP+JSON")
VERSION = {"A2A-Version": "1.0"}
#: Nothing here is encrypted, and to read the certificates of the system takes longer than most calls.
UNUSED_TLS = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


@dataclass
class Served:
    """A running server."""

    url: str
    host: Host
    grpc: str = ""

    def rpc(self, method: str, params: Any = None, **options: Any) -> dict[str, Any]:
        """One JSON-RPC call, as the wire has it."""
        response = self.post(
            "/", {"jsonrpc": "2.0", "id": "1", "method": method, "params": {} if params is None else params}, **options
        )
        return response.json()

    def post(self, path: str, document: Any = None, *, headers: dict[str, str] | None = None, **more: Any) -> Any:
        """One POST."""
        everything = {**VERSION, **(headers or {})}
        return httpx.post(self.url + path, json=document, headers=everything, timeout=60, verify=UNUSED_TLS, **more)

    def delete(self, path: str) -> httpx.Response:
        """One DELETE."""
        return httpx.delete(self.url + path, headers=VERSION, timeout=60, verify=UNUSED_TLS)

    def get(self, path: str, *, headers: dict[str, str] | None = None) -> httpx.Response:
        """One GET."""
        return httpx.get(self.url + path, headers={**VERSION, **(headers or {})}, timeout=60, verify=UNUSED_TLS)


@contextmanager
def served(
    home: Path,
    workdir: Path,
    provider: ScriptedProvider | SilentModel,
    settings: A2AConfig | None = None,
    *,
    env: dict[str, str] | None = None,
    grpc: bool = False,
    approvals: ApprovalsConfig | None = None,
    retries: int = 0,
    mcp_servers: dict[str, McpServerConfig] | None = None,
    **options: Any,
) -> Generator[Served]:
    """Serve an agent that talks to the provider, on a thread of its own.

    Callers without a token work in ``workdir`` and may approve, unless the settings say something about them.
    """
    settings = settings or A2AConfig()
    trusted = PrincipalConfig(scopes=["send", "read", "cancel", "approve"], workspace=str(workdir))
    settings = msgspec.structs.replace(settings, principals={"local": trusted, **settings.principals})
    config = Config(
        model=ModelConfig(
            provider="custom", default="scripted", base_url=provider.base_url, api_key="test-key-of-a-model"
        ),
        agent=AgentConfig(api_max_retries=retries),
        approvals=approvals or ApprovalsConfig(),
        a2a=settings,
        mcp_servers=mcp_servers or {},
    )
    redactor = Redactor()
    principals = read_principals(config, env or {}, redactor)
    with Host(home, config, HostOptions(platform="a2a", **options), cwd=workdir, env={}, redactor=redactor) as host:
        address = A2AListenAddress(grpc_port=0 if grpc else None)
        thread = ServerThread(lambda stop, announce: serve_until(stop, host, address, principals, announce))
        try:
            yield Served(thread.wait_until_ready(), host, thread.announced[1])
        finally:
            thread.stop()


class SilentModel:
    """Takes one request, never answers, and notices when the other side hangs up."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.base_url = f"http://127.0.0.1:{self._listener.getsockname()[1]}/v1"
        self.asked = threading.Event()
        self.hung_up = threading.Event()
        self._thread = threading.Thread(target=self._attend, daemon=True)

    def _attend(self) -> None:
        connection, _ = self._listener.accept()
        with connection:
            while connection.recv(65_536):
                self.asked.set()
            self.hung_up.set()

    def __enter__(self) -> SilentModel:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.close()
        self._thread.join(60)


def wire_message(words: str = "hello", **more: Any) -> dict[str, Any]:
    """The parameters that send these words, as the wire has them."""
    return {"message": {"messageId": new_id(), "role": "ROLE_USER", "parts": [{"text": words}], **more}}


def sse_documents(body: str) -> list[dict[str, Any]]:
    """The data of a stream of events."""
    return [msgspec.json.decode(line[6:]) for line in body.splitlines() if line.startswith("data: ")]


# -- the client -----------------------------------------------------------------------------------------------------


@asynccontextmanager
async def calling(
    served: Served,
    binding: str = "JSONRPC",
    *,
    streaming: bool = True,
    headers: dict[str, str] | None = None,
    **options: Any,
) -> AsyncGenerator[Client]:
    """The SDK's client, over one of the transports."""
    import grpc.aio

    async with httpx.AsyncClient(headers=headers or {}, timeout=60, verify=UNUSED_TLS, **options) as http:
        config = ClientConfig(
            streaming=streaming,
            supported_protocol_bindings=[binding],
            httpx_client=http,
            grpc_channel_factory=grpc.aio.insecure_channel,
        )
        client = await create_client(served.url, client_config=config)
        try:
            yield client
        finally:
            await client.close()


def said(text: str = "", *parts: Part, task_id: str = "", context_id: str = "", **more: Any) -> SendMessageRequest:
    """A request with this message."""
    made = [*([Part(text=text)] if text else []), *parts]
    message = Message(
        message_id=new_id(), role=Role.ROLE_USER, parts=made, task_id=task_id, context_id=context_id, **more
    )
    return SendMessageRequest(message=message)


async def stream(client: Client, request: SendMessageRequest) -> list[StreamResponse]:
    """Everything a message brings about."""
    return [event async for event in client.send_message(request)]


async def send(client: Client, request: SendMessageRequest) -> Task:
    """The task that a message leads to, as the last event leaves it; for a client that does not stream."""
    [event] = await stream(client, request)
    return event.task


async def ended(client: Client, task_id: str, seconds: float = 20.0) -> Task:
    """The task once it has ended, without an event that says so."""
    async with asyncio.timeout(seconds):
        while True:
            task = await client.get_task(GetTaskRequest(id=task_id))
            if state_name(task.status.state) not in ("submitted", "working", "input_required"):
                return task
            await asyncio.sleep(0.02)


def kinds(events: list[StreamResponse]) -> list[str]:
    """The events in short: task, status names, chunks."""
    found: list[str] = []
    for event in events:
        kind = event.WhichOneof("payload")
        if kind == "status_update":
            found.append(state_name(event.status_update.status.state))
        elif kind == "artifact_update":
            found.append("chunk")
        else:
            found.append(kind or "?")
    return found


def state_name(state: int) -> str:
    """``completed`` for TASK_STATE_COMPLETED."""
    return TaskState.Name(state).removeprefix("TASK_STATE_").lower()


def artifact_text(task: Task) -> str:
    """All text of a task's artifacts."""
    return "".join(part.text for artifact in task.artifacts for part in artifact.parts)


def status_text(task: Task) -> str:
    """The text of a task's status message."""
    return "".join(part.text for part in task.status.message.parts)


def wait_until(condition: Any, _seconds: float = 0) -> None:
    """Wait for something that no event reports."""
    waiting.wait_until(condition)
