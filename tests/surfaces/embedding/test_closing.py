"""Turns that end early, agents that are closed while a turn runs, and what is left afterwards."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

from hermes import Agent, ApprovalRequest, ConfigError, Interrupt, SessionBusy, TurnResult
from hermes.testing import ScriptedProvider, hanging, text, tool_call


def agent_for(provider: ScriptedProvider, workdir: Path, **options: Any) -> Agent:
    return Agent(model="scripted", base_url=provider.base_url, cwd=workdir, **options)


def test_closing_the_agent_interrupts_a_turn_on_another_thread(workdir: Path) -> None:
    results: list[TurnResult] = []
    with ScriptedProvider([hanging()]) as provider:
        agent = agent_for(provider, workdir)
        session = agent.session()
        started = threading.Event()
        turn = threading.Thread(target=lambda: results.append(session.run("Go.", on_event=lambda _: started.set())))
        turn.start()
        assert started.wait(60)
        agent.close()
        turn.join(60)
    assert [result.status for result in results] == ["interrupted"]


def test_a_tool_may_close_its_own_agent(workdir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Closing that waited for the turn it is called from would wait for this long.
    monkeypatch.setattr("hermes.surfaces.embedding.running.STOP_SECONDS", 3600.0)
    agents: list[Agent] = []

    def stop() -> str:
        """Stops."""
        agents[0].close()
        return "stopped"

    with ScriptedProvider([tool_call("stop"), text("never asked")]) as provider:
        agents.append(agent_for(provider, workdir, tools=[stop], toolsets=[]))
        assert agents[0].run("Stop.").status == "interrupted"


def test_a_stream_of_the_agent_ends_its_conversation(workdir: Path) -> None:
    class Ends:
        name = "ends"

        def __init__(self) -> None:
            self.sessions: list[str] = []

        def register(self, ctx: Any) -> None:
            ctx.register_hook("on_session_finalize", self.note)

        def note(self, session_id: str, **_fields: Any) -> None:
            self.sessions.append(session_id)

    async def read(agent: Agent) -> TurnResult:
        stream = agent.astream("Two.")
        assert [piece async for piece in stream.text()]
        return await stream.result()

    ends = Ends()
    with ScriptedProvider([text("1"), text("2")]) as provider, agent_for(provider, workdir, plugins=[ends]) as agent:
        with agent.stream("One.") as stream:
            assert "".join(stream.text()) == "1"
        second = asyncio.run(read(agent))
        assert ends.sessions == [stream.result.session_id, second.session_id]


def test_a_stream_that_was_read_to_its_end_leaves_the_given_interrupt_alone(workdir: Path) -> None:
    async def read(agent: Agent, interrupt: Interrupt) -> None:
        async with agent.astream("Two.", interrupt=interrupt) as stream:
            assert [piece async for piece in stream.text()] == ["2"]

    interrupt = Interrupt()
    with ScriptedProvider([text("1"), text("2")]) as provider, agent_for(provider, workdir) as agent:
        with agent.stream("One.", interrupt=interrupt) as stream:
            assert list(stream.text()) == ["1"]
        asyncio.run(read(agent, interrupt))
    assert not interrupt.cancelled


def test_a_stream_raises_what_kept_the_turn_from_running(workdir: Path) -> None:
    async def read(session: Any) -> None:
        async for _ in session.astream("Second."):
            pass

    with ScriptedProvider([hanging()]) as provider, agent_for(provider, workdir) as agent:
        session = agent.session()
        with session.stream("First.") as first:
            next(first)
            with pytest.raises(SessionBusy):
                list(session.stream("Second.").text())
            with pytest.raises(SessionBusy):
                asyncio.run(read(session))


def test_an_interrupt_cancels_a_coroutine_of_a_synchronous_turn(workdir: Path) -> None:
    begun, cancelled = threading.Event(), threading.Event()

    async def nap() -> str:
        """Naps."""
        begun.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.set()
            raise
        return "rested"

    with (
        ScriptedProvider([tool_call("nap"), text("never asked")]) as provider,
        agent_for(provider, workdir, tools=[nap], toolsets=[]) as agent,
    ):
        with agent.stream("Nap.") as stream:
            assert begun.wait(60)
        assert stream.result.status == "interrupted"
        assert cancelled.wait(60)


def test_a_conversation_that_is_over_keeps_no_responder(workdir: Path) -> None:
    def deny(_request: ApprovalRequest) -> bool:
        return False

    with (
        ScriptedProvider([text("1"), text("2")]) as provider,
        agent_for(provider, workdir, approve=deny) as agent,
    ):
        single = agent.run("One.")
        session = agent.session()
        session.run("Two.")
        responders = agent._host.responders  # pyright: ignore[reportPrivateUsage]
        assert responders.get(single.session_id) is None
        assert responders.get(session.id) is not None
        session.close()
        assert responders.get(session.id) is None


def test_wrong_arguments_are_named_as_such(workdir: Path) -> None:
    with pytest.raises(ConfigError, match=r"^the arguments of hermes.Agent: agent.max_turns"):
        Agent(config={"agent": {"max_turns": "many"}}, cwd=workdir)
    with pytest.raises(TypeError, match=r"such as \['file'\]"):
        Agent(toolsets="file", cwd=workdir)
    with Agent(config={"agnt": {}, "agent": {"max_turn": 3}}, cwd=workdir) as agent:
        assert any(note.startswith("the arguments of hermes.Agent: agent.max_turn is not") for note in agent.notices)
