"""Agents that call each other in a circle come to an end."""

from __future__ import annotations

import asyncio
from pathlib import Path

from hermes.base.config import A2AAgentConfig, A2AConfig
from hermes.testing import ScriptedProvider, by_step, text, tool_call, tool_calls
from hermes.tools.peers.hops import HOPS
from support.a2a_echo import serving_echo
from support.a2a_rig import calling, said, send, served, state_name
from support.approval_rig import RISKY
from support.configured import decode_result


def test_an_agent_that_calls_itself_ends(home: Path, workdir: Path) -> None:
    ask = tool_calls([("a2a_send", {"agent": "itself", "message": "again"})])
    settings = A2AConfig(max_hops=3)

    async def call() -> None:
        async with calling(agent, streaming=False) as client:
            assert state_name((await send(client, said("begin"))).status.state) == "completed"

    with (
        ScriptedProvider(by_step(ask, text("done"))) as provider,
        served(home, workdir, provider, settings, toolsets=["a2a"]) as agent,
    ):
        settings.agents["itself"] = A2AAgentConfig(url=agent.url)
        asyncio.run(call())
        told = [request.body["messages"][-1] for request in provider.requests]
    results = [decode_result(message["content"]) for message in told if message["role"] == "tool"]
    # The person's message and three hops; the innermost is refused the fourth.
    assert len(results) == 4
    assert "a2a.max_hops allows 3" in results[0]["error"]
    assert [result["text"] for result in results[1:]] == ["done"] * 3


def test_an_answer_does_not_reset_the_hop_count(home: Path, workdir: Path) -> None:
    """The count is that of the message which began the task, whoever answers its questions."""
    script = by_step(
        tool_call("terminal", {"command": RISKY}),
        tool_call("a2a_send", {"agent": "echo", "message": "echo hello"}),
        text("done"),
    )
    settings = A2AConfig(max_hops=3)

    async def call() -> None:
        async with calling(agent, streaming=False) as client:
            begin = said("begin")
            begin.message.metadata[HOPS] = 2
            task = await send(client, begin)
            assert state_name(task.status.state) == "input_required"
            assert state_name((await send(client, said("approve", task_id=task.id))).status.state) == "completed"

    with (
        serving_echo() as remote,
        ScriptedProvider(script) as provider,
        served(home, workdir, provider, settings, toolsets=["a2a", "terminal"]) as agent,
    ):
        settings.agents["echo"] = A2AAgentConfig(url=remote.url)
        asyncio.run(call())
        assert remote.hops == [3]
