"""Agents that call each other in a circle come to an end."""

from __future__ import annotations

import asyncio
from pathlib import Path

import msgspec

from hermes.config import A2A, A2AAgent
from hermes.testing import ScriptedProvider, by_step, text, tool_calls
from support.a2a_rig import calling, said, send, served, state_name


def test_an_agent_that_calls_itself_ends(home: Path, workdir: Path) -> None:
    ask = tool_calls([("a2a_send", {"agent": "itself", "message": "again"})])
    settings = A2A(max_hops=3)

    async def call() -> None:
        async with calling(agent, streaming=False) as client:
            assert state_name((await send(client, said("begin"))).status.state) == "completed"

    with (
        ScriptedProvider(by_step(ask, text("done"))) as provider,
        served(home, workdir, provider, settings, toolsets=["a2a"]) as agent,
    ):
        settings.agents["itself"] = A2AAgent(url=agent.url)
        asyncio.run(call())
        told = [request.body["messages"][-1] for request in provider.requests]
    results = [msgspec.json.decode(message["content"]) for message in told if message["role"] == "tool"]
    # The person's message and three hops; the innermost is refused the fourth.
    assert len(results) == 4
    assert "a2a.max_hops allows 3" in results[0]["error"]
    assert [result["text"] for result in results[1:]] == ["done"] * 3
