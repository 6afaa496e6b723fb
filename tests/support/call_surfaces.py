"""Surfaces whose approvals are answered while the call of the client is open: the MCP server and the editor.

Such a call keeps its thread. When its server ends, or the client leaves, the question is withdrawn with it.
"""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Coroutine, Generator
from concurrent.futures import Future
from contextlib import AsyncExitStack, closing, contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar, cast

import acp
from acp.schema import TextContentBlock
from mcp import Client

from hermes.base.config import A2AConfig
from hermes.base.http_server.principals import DEFAULT_SCOPES, Principal
from hermes.host import Host
from hermes.journal.questions import QuestionRow
from hermes.surfaces.acp.server import AcpServer
from hermes.surfaces.mcp_server.server import build_server
from hermes.surfaces.mcp_server.service import AgentService
from support.configured import configured_host
from support.late_surfaces import LONG, LateSurface
from support.waiting import HANG, wait_for

T = TypeVar("T")


class LoopThread:
    """An event loop on a thread, for clients that are asynchronous."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()

    def start(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Begin some work."""
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Do some work."""
        return self.start(work).result(HANG)

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(HANG)
        self._loop.close()


class OverMcp(LateSurface):
    """The client may approve, and answers with a second call."""

    surface, answerer = "mcp", "alice"
    _call: Future[Any] | None = None

    @contextmanager
    def serving(self, seconds: float = LONG) -> Generator[Host]:
        settings = A2AConfig(approval_timeout=seconds)
        alice = Principal("alice", frozenset({*DEFAULT_SCOPES, "approve"}), workspace=str(self.workdir))
        loop = self._loop = LoopThread()
        with (
            configured_host(self.home, self.workdir, self.provider, options={"platform": "mcp"}, a2a=settings) as host,
            closing(AgentService(host)) as service,
        ):
            server = build_server(service, lambda _context: alice, may_approve=True)
            done = threading.Event()
            connected: Future[Client] = Future()

            async def stay() -> None:
                # The client has to be opened and closed by one task.
                async with Client(server) as client:
                    connected.set_result(client)
                    await asyncio.get_running_loop().run_in_executor(None, done.wait)

            staying = loop.start(stay())
            self._client = connected.result(HANG)
            try:
                yield host
            finally:
                if self._call is not None:
                    self._call.cancel()
                done.set()
                staying.result(HANG)
        loop.close()

    def begin(self) -> None:
        self._call = self._loop.start(self._client.call_tool("run", {"prompt": self.message}))

    def say(self, words: str, session_id: str = "") -> str:
        """A whole turn; its session."""
        result = self._loop.run(self._client.call_tool("run", {"prompt": words, "session_id": session_id}))
        found: dict[str, Any] = cast("dict[str, Any]", result.structured_content or {})
        return str(found.get("result", found)["session_id"])

    def answer(self, question: QuestionRow) -> None:
        given = {"approval_id": question.id, "answer": "approve"}
        assert not self._loop.run(self._client.call_tool("approvals_respond", given)).is_error

    def leave(self) -> None:
        assert self._call is not None
        self._call.cancel()


class InEditor(LateSurface):
    """The editor shows the question; it is answered there, or the prompt is cancelled there."""

    surface, answerer, has_timeout, is_answered_elsewhere = "acp", None, False, False

    @contextmanager
    def serving(self, seconds: float = LONG) -> Generator[Host]:
        loop = self._loop = LoopThread()
        hosts: list[Host] = []

        def make_host(cwd: Path) -> Host:
            hosts.append(configured_host(self.home, cwd, self.provider, options={"platform": "acp"}))
            return hosts[0]

        ours, theirs = socket.socketpair()
        source, sink = theirs.makefile("rb"), theirs.makefile("wb")
        agent = threading.Thread(target=AcpServer(source, sink, make_host).run)
        agent.start()
        stack = AsyncExitStack()
        loop.run(self._connect(stack, ours))
        try:
            yield hosts[0]
        finally:
            loop.run(stack.aclose())
            agent.join(HANG)
            source.close()
            with suppress(OSError):  # what could not be sent any more
                sink.close()
            theirs.close()
            loop.close()

    async def _connect(self, stack: AsyncExitStack, end: socket.socket) -> None:
        self._asked, self._chosen = threading.Event(), asyncio.Event()
        reader, writer = await asyncio.open_connection(sock=end)
        stack.callback(writer.close)
        self._agent = acp.connect_to_agent(cast("Any", self), writer, reader)
        stack.push_async_callback(self._agent.close)
        await self._agent.initialize(protocol_version=1)
        self._session = (await self._agent.new_session(cwd=str(self.workdir), mcp_servers=[])).session_id

    async def session_update(self, session_id: str, update: Any, **_: Any) -> None:
        """A method of the client: what happens in a session."""

    async def request_permission(self, session_id: str, tool_call: Any, options: Any, **_: Any) -> Any:
        """A method of the client: the question."""
        self._asked.set()
        await self._chosen.wait()
        [chosen] = [option.option_id for option in options if option.kind == "allow_once"]
        return {"outcome": {"outcome": "selected", "optionId": chosen}}

    def begin(self) -> None:
        prompt: list[Any] = [TextContentBlock(type="text", text=self.message)]
        self._loop.start(self._agent.prompt(session_id=self._session, prompt=prompt))

    def wait_until_asked(self) -> None:
        wait_for(self._asked, "the question in the editor")

    def answer(self, question: QuestionRow) -> None:
        async def choose() -> None:
            self._chosen.set()

        self._loop.run(choose())

    def leave(self) -> None:
        self._loop.run(self._agent.cancel(session_id=self._session))


CALL_SURFACES = (OverMcp, InEditor)
