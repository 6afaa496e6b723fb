"""A remote agent of the SDK's own parts, on loopback and on a thread of its own, that does what a message says."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import uvicorn
from a2a.helpers import new_task_from_user_message, new_text_message
from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.events import EventQueue
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.routes import create_agent_card_routes, create_jsonrpc_routes, create_rest_routes
from a2a.server.tasks import InMemoryTaskStore, TaskUpdater
from a2a.types import (
    AgentCapabilities,
    AgentCard,
    AgentInterface,
    AgentSkill,
    APIKeySecurityScheme,
    Part,
    SecurityScheme,
    TaskState,
)
from google.protobuf import json_format, struct_pb2
from starlette.applications import Starlette
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from hermes.tools.peers.hops import hops_of

APPROVAL = {"approval_id": "a-1", "tool": "terminal", "summary": "rm -r notes", "options": ["approve", "deny"]}


@dataclass
class Remote:
    """The agent as a test sees it."""

    #: The token it wants, and the header it wants it in; empty wants none.
    token: str = ""
    header: str = "authorization"
    streaming: bool = True
    bindings: tuple[str, ...] = ("JSONRPC", "HTTP+JSON")
    #: Of the protocol.
    version: str = "1.0"
    #: Where the card says it is, when that is not the truth.
    card_url: str = ""
    #: Streams that break off after so many events.
    cut_after: list[int] = field(default_factory=list[int])
    url: str = ""
    headers: list[dict[str, str]] = field(default_factory=list[dict[str, str]])
    hops: list[int] = field(default_factory=list[int])
    answers: list[tuple[Any, ...]] = field(default_factory=list[tuple[Any, ...]])
    working: threading.Event = field(default_factory=threading.Event)
    cancelled: threading.Event = field(default_factory=threading.Event)
    #: Lets work that waits for it end.
    release: threading.Event = field(default_factory=threading.Event)


class _Echo(AgentExecutor):
    def __init__(self, remote: Remote) -> None:
        self._remote = remote

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        message = context.message
        assert message is not None
        self._remote.hops.append(hops_of(message.metadata))
        text = context.get_user_input()
        if text == "just a message":
            await event_queue.enqueue_event(new_text_message("a message", context_id=context.context_id))
            return
        task = context.current_task or new_task_from_user_message(message)
        if context.current_task is None:
            await event_queue.enqueue_event(task)
        updater = TaskUpdater(event_queue, task.id, task.context_id)
        await updater.start_work()
        if context.current_task is not None:
            data = [json_format.MessageToDict(part.data) for part in message.parts if part.HasField("data")]
            self._remote.answers.append((message.parts[0].text, *data))
            text = f"echo you said {message.parts[0].text}"
        await self._act(text, updater)

    async def _act(self, text: str, updater: TaskUpdater) -> None:
        verb, _, rest = text.partition(" ")
        match verb:
            case "echo":
                await updater.update_status(
                    TaskState.TASK_STATE_WORKING, updater.new_agent_message([Part(text="thinking")])
                )
                pieces = [f"{word} " for word in rest.split()]
                for number, piece in enumerate(pieces):
                    is_last = number == len(pieces) - 1
                    await updater.add_artifact(
                        [Part(text=piece)], artifact_id="answer", append=number > 0, last_chunk=is_last
                    )
                await updater.complete()
            case "status":
                await updater.complete(updater.new_agent_message([Part(text=rest)]))
            case "ask":
                await updater.requires_input(updater.new_agent_message([Part(text=rest)]))
            case "approval":
                data = struct_pb2.Value()
                json_format.ParseDict(APPROVAL, data)
                await updater.requires_input(updater.new_agent_message([Part(text="May I?"), Part(data=data)]))
            case "fail":
                await updater.failed(updater.new_agent_message([Part(text=rest)]))
            case _:
                await self._wait(updater)

    async def _wait(self, updater: TaskUpdater) -> None:
        await updater.add_artifact([Part(text="so far")], artifact_id="answer", append=False)
        self._remote.working.set()
        while not self._remote.release.is_set():
            await asyncio.sleep(0.01)
        await updater.add_artifact([Part(text=", and the rest")], artifact_id="answer", append=True, last_chunk=True)
        await updater.complete()

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        self._remote.cancelled.set()
        await TaskUpdater(event_queue, context.task_id or "", context.context_id or "").cancel()


class _Door:
    """Notes the headers, wants the token, and cuts streams."""

    def __init__(self, app: ASGIApp, remote: Remote) -> None:
        self._app = app
        self._remote = remote

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        remote = self._remote
        headers = {name.decode(): value.decode() for name, value in scope["headers"]}
        is_card = "well-known" in scope["path"]
        if not is_card:
            remote.headers.append(headers)
        expected = f"Bearer {remote.token}" if remote.header == "authorization" else remote.token
        if remote.token and not is_card and headers.get(remote.header) != expected:
            await JSONResponse({"error": "who are you?"}, 401)(scope, receive, send)
            return
        if remote.cut_after and headers.get("accept") == "text/event-stream":
            send = _cut(send, remote.cut_after.pop(0))
        with contextlib.suppress(ConnectionAbortedError):
            await self._app(scope, receive, send)


def _cut(send: Send, events: int) -> Send:
    left = [events]

    async def until_cut(message: Message) -> None:
        if message["type"] == "http.response.body" and message.get("body"):
            left[0] -= 1
            if left[0] < 0:
                raise ConnectionAbortedError
        await send(message)

    return until_cut


def _card(remote: Remote) -> AgentCard:
    places = {"JSONRPC": "/", "HTTP+JSON": "/rest", "OTHER": "/other"}
    card = AgentCard(
        name="Echo",
        description="Says what it is told.",
        version="1",
        default_input_modes=["text/plain"],
        default_output_modes=["text/plain"],
        capabilities=AgentCapabilities(streaming=remote.streaming),
        skills=[AgentSkill(id="echo", name="Echo", description="Says it again.", tags=["talk"])],
        supported_interfaces=[
            AgentInterface(
                url=(remote.card_url or remote.url) + places[name],
                protocol_binding=name,
                protocol_version=remote.version,
            )
            for name in remote.bindings
        ],
    )
    if remote.header != "authorization":
        scheme = APIKeySecurityScheme(location="header", name=remote.header)
        card.security_schemes["key"].CopyFrom(SecurityScheme(api_key_security_scheme=scheme))
    return card


@contextmanager
def serving_echo(remote: Remote | None = None) -> Generator[Remote]:
    """Serve the agent while the block runs."""
    remote = remote or Remote()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        remote.url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        server: list[uvicorn.Server] = []
        ready = threading.Event()

        async def main() -> None:
            card = _card(remote)
            handler = DefaultRequestHandler(
                agent_executor=_Echo(remote), task_store=InMemoryTaskStore(), agent_card=card
            )
            routes = [
                *create_agent_card_routes(card),
                *create_jsonrpc_routes(handler, rpc_url="/", enable_v0_3_compat=True),
                *create_rest_routes(handler, path_prefix="/rest", enable_v0_3_compat=True),
            ]
            app = _Door(Starlette(routes=routes), remote)
            config = uvicorn.Config(app, log_config=None, lifespan="off", timeout_graceful_shutdown=1)
            server.append(uvicorn.Server(config))
            running = asyncio.create_task(server[0].serve(sockets=[listener]))
            while not server[0].started:
                await asyncio.sleep(0.005)
            ready.set()
            await running
            await handler.aclose()

        thread = threading.Thread(target=asyncio.run, args=(main(),), name="echo")
        thread.start()
        try:
            assert ready.wait(60)
            yield remote
        finally:
            remote.release.set()
            server[0].should_exit = True
            thread.join(60)
            assert not thread.is_alive()
