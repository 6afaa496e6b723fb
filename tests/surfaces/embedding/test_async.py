"""The Python API from asyncio."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

import hermes
from hermes import Agent
from hermes.testing import RecordedRequest, ScriptedProvider, ScriptedReply, hanging, text, tool_call


def agent_for(provider: ScriptedProvider, workdir: Path, **options: object) -> Agent:
    return Agent(model="scripted", base_url=provider.base_url, cwd=workdir, **options)  # pyright: ignore[reportArgumentType]


def test_many_conversations_at_once(workdir: Path) -> None:
    async def main(provider: ScriptedProvider) -> list[str]:
        async with agent_for(provider, workdir) as agent:
            results = await asyncio.gather(*(agent.arun(f"Number {number}?") for number in range(8)))
            return [result.answer for result in results]

    def script(request: RecordedRequest) -> ScriptedReply:
        return text(f"Answer to {request.messages[-1]['content']}")

    with ScriptedProvider(script) as provider:
        answers = asyncio.run(main(provider))
    assert answers == [f"Answer to Number {number}?" for number in range(8)]


def test_events_arrive_on_the_loop(workdir: Path) -> None:
    async def main(provider: ScriptedProvider) -> tuple[list[str], list[str], str]:
        async with agent_for(provider, workdir) as agent:
            session = agent.session()
            stream = session.astream("Go.")
            kinds = [type(event).__name__ async for event in stream]
            first = await stream.result()
            pieces = [piece async for piece in session.astream("Again.").text()]
            return kinds, pieces, first.answer

    script = [text("one two", chunks=["one ", "two"]), text("three four", chunks=["three ", "four"])]
    with ScriptedProvider(script) as provider:
        kinds, pieces, answer = asyncio.run(main(provider))
    assert kinds[0] == "TurnStarted"
    assert (answer, pieces) == ("one two", ["three ", "four"])


def test_cancelling_the_task_interrupts_the_turn(workdir: Path) -> None:
    async def main(provider: ScriptedProvider) -> str:
        async with agent_for(provider, workdir) as agent:
            session = agent.session()
            task = asyncio.create_task(session.arun("Go."))
            await asyncio.to_thread(provider.wait_for_request)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            return (await session.arun("Go on.")).answer  # the first turn has ended: the session is free

    with ScriptedProvider([hanging(), text("Here.")]) as provider:
        assert asyncio.run(main(provider)) == "Here."


def test_leaving_a_stream_interrupts_the_turn(workdir: Path) -> None:
    async def main(provider: ScriptedProvider) -> str:
        async with agent_for(provider, workdir) as agent:
            async with agent.astream("Go.") as stream:
                await asyncio.to_thread(provider.wait_for_request)
            return (await stream.result()).status

    with ScriptedProvider([hanging()]) as provider:
        assert asyncio.run(main(provider)) == "interrupted"


def test_coroutines_of_the_program_run_on_its_own_loop(workdir: Path) -> None:
    """Tools and approvals may use clients and locks that belong to the loop that awaits the turn."""
    loops: list[asyncio.AbstractEventLoop] = []

    async def lookup(key: str) -> str:
        """Look something up."""
        loops.append(asyncio.get_running_loop())
        await asyncio.sleep(0)
        return f"{key} is 42"

    async def approve(request: hermes.ApprovalRequest) -> bool:
        loops.append(asyncio.get_running_loop())
        return False

    async def main(provider: ScriptedProvider) -> tuple[asyncio.AbstractEventLoop, list[str]]:
        async with agent_for(provider, workdir, tools=[lookup], approve=approve) as agent:
            result = await agent.arun("Go.")
            return asyncio.get_running_loop(), [call.status for call in result.tool_calls]

    script = [tool_call("lookup", {"key": "x"}), tool_call("terminal", {"command": "rm -rf notes"}), text("Done.")]
    with ScriptedProvider(script) as provider:
        loop, statuses = asyncio.run(main(provider))
    assert statuses == ["ok", "blocked"]
    assert loops == [loop, loop]


def test_an_async_tool_in_a_synchronous_turn(workdir: Path) -> None:
    async def lookup(key: str) -> str:
        """Look something up."""
        await asyncio.sleep(0)
        return f"{key} is 42"

    script = [tool_call("lookup", {"key": "x"}), text("42.")]
    with ScriptedProvider(script) as provider, agent_for(provider, workdir, tools=[lookup]) as agent:
        agent.run("Go.")
    assert provider.requests[1].messages[-1]["content"] == "x is 42"


def test_a_cancelled_turn_cancels_the_coroutine_it_waits_for(workdir: Path) -> None:
    async def main(provider: ScriptedProvider) -> str:
        begun, gone = asyncio.Event(), asyncio.Event()

        async def forever() -> str:
            """Wait."""
            begun.set()
            try:
                await asyncio.Event().wait()
            finally:
                gone.set()
            return ""

        async with agent_for(provider, workdir, tools=[forever]) as agent:
            stream = agent.astream("Go.")
            await begun.wait()
            stream.interrupt()
            result = await stream.result()
            await gone.wait()
            return result.status

    with ScriptedProvider([tool_call("forever", {})]) as provider:
        assert asyncio.run(main(provider)) == "interrupted"
