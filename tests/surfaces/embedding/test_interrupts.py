"""Interrupting a turn: from every handle of its session, at any moment, and the reason that the result carries."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import hermes
from hermes import Agent, Interrupt, SessionBusy
from hermes.testing import ScriptedProvider, hanging, text


@contextmanager
def agent_with(script: Any, workdir: Path) -> Generator[tuple[Agent, ScriptedProvider]]:
    with (
        ScriptedProvider(script) as provider,
        Agent(model="scripted", base_url=provider.base_url, cwd=workdir) as agent,
    ):
        yield agent, provider


def test_a_turn_that_was_refused_does_not_take_the_interrupt_of_the_one_that_runs(workdir: Path) -> None:
    with agent_with([hanging()], workdir) as (agent, provider):
        session, interrupt = agent.session(), Interrupt()
        stream = session.stream("Go.", interrupt=interrupt)
        provider.wait_for_request()
        with pytest.raises(SessionBusy):
            session.run("And this?")
        with pytest.raises(SessionBusy):
            session.finish()
        session.interrupt("enough")
        assert interrupt.cancelled
        assert (stream.result.status, stream.result.error) == ("interrupted", "enough")


def test_every_handle_of_a_session_interrupts_its_turn_and_no_other(workdir: Path) -> None:
    with agent_with([hanging(), hanging()], workdir) as (agent, provider):
        first, second = agent.session(), agent.session()
        interrupts = [Interrupt(), Interrupt()]
        one, other = first.stream("Go.", interrupt=interrupts[0]), second.stream("Go.", interrupt=interrupts[1])
        provider.wait_for_request(2)
        agent.session(first.id).interrupt("from another handle")
        assert [interrupt.cancelled for interrupt in interrupts] == [True, False]
        assert one.result.error == "from another handle"
        second.interrupt("later")
        assert other.result.error == "later"


def test_a_stream_is_interrupted_before_its_thread_has_begun(workdir: Path) -> None:
    with agent_with([hanging()], workdir) as (agent, _):
        session = agent.session()
        stream = session.stream("Go.")
        session.interrupt("at once")
        assert stream.result.error == "at once"


def test_an_interrupt_without_a_turn_does_not_stop_the_next_one(workdir: Path) -> None:
    with agent_with([text("Hello.")], workdir) as (agent, _):
        session = agent.session()
        session.interrupt()
        assert session.run("Go.").status == "completed"


def test_the_reason_is_the_error_of_the_result(workdir: Path) -> None:
    interrupt = Interrupt()
    interrupt.cancel("user pressed stop")
    with agent_with([hanging(), hanging()], workdir) as (agent, _):
        result = agent.run("Go.", interrupt=interrupt)
        assert (result.status, result.error) == ("interrupted", "user pressed stop")
        with pytest.raises(hermes.TurnFailed, match=r"^user pressed stop$"):
            result.raise_for_status()
        session = agent.session(result.session_id)
        finished = session.finish(interrupt=interrupt)
        assert finished is not None and finished.error == "user pressed stop"
        stream = session.stream("Go on.")
        stream.close()
        assert stream.result.error == "the stream was closed"


def test_a_stream_that_cannot_start_leaves_no_turn_behind(workdir: Path) -> None:
    with agent_with([text("Hello.")], workdir) as (agent, _):
        with pytest.raises(RuntimeError, match="no running event loop"):
            agent.session().astream("Go.")
        assert not agent._turns._turns  # pyright: ignore[reportPrivateUsage]
        assert asyncio.run(agent.arun("Go.")).answer == "Hello."
        assert not agent._turns._turns  # pyright: ignore[reportPrivateUsage]
