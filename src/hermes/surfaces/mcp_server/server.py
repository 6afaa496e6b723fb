"""The MCP server of a host, built with the SDK: its tools, over stdio and over HTTP."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ToolError

from hermes.base.errors import HermesError, Interrupted
from hermes.base.http.threads import run_in_thread
from hermes.base.http_server.principals import Principal
from hermes.base.scope import Interrupt
from hermes.base.version import __version__
from hermes.surfaces.mcp_server.service import AgentService

T = TypeVar("T")

#: The client of a request.
ClientOf = Callable[[Context[Any, Any]], Principal]

_INSTRUCTIONS = "Hermes is an agent with tools. run gives it a task; session_id continues an earlier conversation."


def build_server(service: AgentService, client_of: ClientOf, *, may_approve: bool) -> MCPServer:
    """The server. ``may_approve``: its clients may answer approvals, and only then that tool is offered."""
    server = MCPServer("hermes", version=__version__, instructions=_INSTRUCTIONS)
    logging.getLogger("mcp").setLevel(logging.ERROR)

    async def do(work: Callable[[Principal], T], context: Context[Any, Any]) -> T:
        client = client_of(context)
        return await _awaited(lambda _interrupt: work(client))

    @server.tool(description="Have the agent do a task, and return its answer. session_id continues a conversation.")
    async def run(prompt: str, context: Context[Any, Any], session_id: str = "") -> dict[str, Any]:
        reporter = _ProgressReporter(context)
        return await _awaited(partial(service.run, client_of(context), prompt, session_id, reporter.report))

    @server.tool(description="The conversations used last.")
    async def conversations_list(context: Context[Any, Any], limit: int = 20) -> list[dict[str, Any]]:
        return await do(lambda client: service.sessions(client, limit), context)

    @server.tool(description="The messages of a conversation.")
    async def conversation_get(session_id: str, context: Context[Any, Any]) -> list[dict[str, str]]:
        return await do(lambda client: service.messages(client, session_id), context)

    @server.tool(description="Search past conversations.")
    async def sessions_search(query: str, context: Context[Any, Any], limit: int = 10) -> list[dict[str, Any]]:
        return await do(lambda client: service.search(client, query, limit), context)

    @server.tool(description="The calls that wait for approval.")
    async def approvals_list(context: Context[Any, Any]) -> list[dict[str, Any]]:
        return await do(service.approvals, context)

    if may_approve:

        @server.tool(description="Answer an approval: approve, session (for the whole conversation) or deny.")
        async def approvals_respond(
            approval_id: str, answer: str, context: Context[Any, Any], reason: str = ""
        ) -> dict[str, Any]:
            return await do(lambda client: service.respond(client, approval_id, answer, reason), context)

    return server


class _ProgressReporter:
    """Sends progress from the thread of a turn. A client that does not listen, or is gone, does no harm."""

    def __init__(self, context: Context[Any, Any]) -> None:
        self._context = context
        self._loop = asyncio.get_running_loop()
        self._counter = itertools.count(1)
        self._sending: set[asyncio.Task[None]] = set()

    def report(self, text: str) -> None:
        """Send a line."""
        with contextlib.suppress(RuntimeError):  # the loop has ended
            self._loop.call_soon_threadsafe(self._start, text)

    def _start(self, text: str) -> None:
        task = self._loop.create_task(self._send(next(self._counter), text))
        self._sending.add(task)
        task.add_done_callback(self._sending.discard)

    async def _send(self, number: int, text: str) -> None:
        with contextlib.suppress(Exception):
            await self._context.report_progress(number, None, text)


async def _awaited(work: Callable[[Interrupt], T]) -> T:
    """The result of work on a thread. Cancelling the request interrupts it; an error is one for the client."""
    try:
        return await run_in_thread(work)
    except HermesError as error:
        raise ToolError(str(error)) from None
    except Interrupted as error:
        raise ToolError(f"cancelled: {error.reason}") from None


def serve_stdio(service: AgentService, client: Principal) -> None:
    """Serve over standard input and output until the input ends."""
    server = build_server(service, lambda _context: client, may_approve=client.may_approve)
    asyncio.run(server.run_stdio_async())
