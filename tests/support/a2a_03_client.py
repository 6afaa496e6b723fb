"""Calls a server with the client of a2a-sdk 0.3, in a process of its own: ``python a2a_03_client.py URL TRANSPORT``."""

# The package of this version is not the one that the type checker knows.
# pyright: basic, reportAttributeAccessIssue=false, reportCallIssue=false, reportIndexIssue=false, reportGeneralTypeIssues=false

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

import httpx
from a2a.client import A2ACardResolver, ClientConfig, ClientFactory, create_text_message_object
from a2a.types import Role, TaskIdParams, TaskQueryParams


async def main(url: str, transport: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    async with httpx.AsyncClient(timeout=60) as http:
        card = await A2ACardResolver(http, url).get_agent_card()
        found["card"] = card.name
        for streaming in (False, True):
            config = ClientConfig(httpx_client=http, streaming=streaming, supported_transports=[transport])
            client = ClientFactory(config).create(card)
            events = [event async for event in client.send_message(create_text_message_object(Role.user, "hello"))]
            task = events[-1][0]
            found[f"state {streaming}"] = task.status.state
            found[f"answer {streaming}"] = "".join(p.root.text for a in task.artifacts for p in a.parts)
            found[f"events {streaming}"] = len(events)
        again = await client.get_task(TaskQueryParams(id=task.id))
        found["again"] = again.status.state
        asked = create_text_message_object(Role.user, "ask")
        *_, (parked, _) = [event async for event in client.send_message(asked)]
        found["parked"] = parked.status.state
        found["cancelled"] = (await client.cancel_task(TaskIdParams(id=parked.id))).status.state
    return found


if __name__ == "__main__":
    print(json.dumps(asyncio.run(main(*sys.argv[1:])), default=str))
