"""An A2A server of the SDK's own parts (1.x) around an executor, on loopback and in the running event loop."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import uvicorn
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.routes import create_agent_card_routes, create_jsonrpc_routes, create_rest_routes
from a2a.server.tasks import InMemoryTaskStore, TaskStore
from a2a.types import AgentCapabilities, AgentCard, AgentInterface, AgentSkill
from starlette.applications import Starlette

from hermes.surfaces.a2a import HermesA2AExecutor


def card_at(base_url: str) -> AgentCard:
    """A card with every interface of the server."""
    places = [("JSONRPC", base_url + "/"), ("HTTP+JSON", base_url + "/rest")]
    return AgentCard(
        name="test",
        description="An agent under test.",
        version="1",
        default_input_modes=["text/plain"],
        default_output_modes=["text/plain"],
        capabilities=AgentCapabilities(streaming=True),
        skills=[AgentSkill(id="test", name="Test", description="Is tested.", tags=["test"])],
        supported_interfaces=[
            AgentInterface(url=url, protocol_binding=binding, protocol_version=version)
            for version in ("1.0", "0.3")
            for binding, url in places
        ],
    )


@asynccontextmanager
async def serving(executor: HermesA2AExecutor, tasks: TaskStore | None = None) -> AsyncGenerator[str]:
    """Serve the executor while the block runs; gives the base URL."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        base_url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        card = card_at(base_url)
        handler = DefaultRequestHandler(
            agent_executor=executor, task_store=tasks or InMemoryTaskStore(), agent_card=card
        )
        routes = [
            *create_agent_card_routes(card),
            *create_jsonrpc_routes(handler, rpc_url="/", enable_v0_3_compat=True),
            *create_rest_routes(handler, path_prefix="/rest", enable_v0_3_compat=True),
        ]
        config = uvicorn.Config(Starlette(routes=routes), log_config=None, lifespan="off")
        server = uvicorn.Server(config)
        running = asyncio.create_task(server.serve(sockets=[listener]))
        try:
            yield base_url
        finally:
            server.should_exit = True
            await running
            await handler.aclose()
            await executor.aclose()
