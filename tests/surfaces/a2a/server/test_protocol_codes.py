"""The error codes that depend on what a server offers, and those that this one has no occasion for."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, cast

import httpx
import pytest
from a2a.server.routes import create_jsonrpc_routes, create_rest_routes
from starlette.applications import Starlette

from hermes.surfaces.a2a.card import CardOptions, agent_card
from hermes.surfaces.a2a.server.handler import A2ARequestHandler
from hermes.surfaces.a2a.server.runner import TurnRunner
from support.a2a_rig import VERSION, Served, wire_message
from support.a2a_tables import a2a_tables

PUSH_METHODS: dict[str, dict[str, str]] = {
    "CreateTaskPushNotificationConfig": {"taskId": "t", "url": "http://127.0.0.1:9/a"},
    "GetTaskPushNotificationConfig": {"taskId": "t", "id": "c"},
    "ListTaskPushNotificationConfigs": {"taskId": "t"},
    "DeleteTaskPushNotificationConfig": {"taskId": "t", "id": "c"},
}


def test_push_methods_of_a_server_without_push(tmp_path: Path) -> None:
    """Ours always has it; the methods hold for one that has not."""

    async def call() -> list[int]:
        card = agent_card(CardOptions(base_url="http://127.0.0.1:1"))
        # No request gets as far as a turn.
        handler = A2ARequestHandler(
            cast("TurnRunner", None),
            tables.tasks(),
            card,
            card,
            webhooks=tables.webhooks(),
        )
        app = Starlette(routes=[*create_jsonrpc_routes(handler, "/"), *create_rest_routes(handler)])
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://test", headers=VERSION) as client:
            codes: list[int] = []
            for method, params in PUSH_METHODS.items():
                body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
                codes.append((await client.post("/", json=body)).json()["error"]["code"])
            codes.append((await client.get("/tasks/t/pushNotificationConfigs")).status_code)
        return codes

    with a2a_tables(tmp_path) as tables:
        assert asyncio.run(call()) == [-32003] * 4 + [400]


@pytest.mark.parametrize(
    "part", [{"raw": "AAAA", "mediaType": "application/zip"}, {"url": "http://x/y", "mediaType": "video/mp4"}]
)
def test_files_with_an_unsupported_media_type(agent: Served, part: dict[str, Any]) -> None:
    message = wire_message(parts=[part])
    for method in ("SendMessage", "SendStreamingMessage"):
        assert agent.rpc(method, message)["error"]["code"] == -32005
    for path in ("/rest/message:send", "/rest/message:stream"):
        assert agent.post(path, message).status_code == 415


def test_error_codes_that_cannot_occur(agent: Served) -> None:
    """A required extension (-32008): the card says that it cannot happen. Nor can -32007: the card says that there
    is no extended one without tokens, which is an unsupported operation.

    An answer of the agent that is none (-32006) cannot either: every event of a task goes through one place that takes
    nothing else.
    """
    capabilities = agent.get("/.well-known/agent-card.json").json()["capabilities"]
    assert not capabilities.get("extendedAgentCard")
    assert not any(extension.get("required") for extension in capabilities.get("extensions", []))
    unknown = {"A2A-Extensions": "https://example.org/extension/v1"}
    assert "result" in agent.rpc("SendMessage", wire_message(), headers=unknown)
    assert agent.rpc("GetExtendedAgentCard", headers=unknown)["error"]["code"] == -32004
