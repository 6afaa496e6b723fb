"""Callbacks of the program: where they are called, and what follows when one of them fails."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import hermes
from hermes import Agent, ApprovalAnswer
from hermes.contract.events import TextDelta, TextWithdrawn
from hermes.testing import ScriptedProvider, text, tool_call

DELETE = [tool_call("terminal", {"command": "rm -rf notes"}), text("Then not.")]


@contextmanager
def agent_with(script: Any, workdir: Path, **options: Any) -> Generator[tuple[Agent, ScriptedProvider]]:
    with (
        ScriptedProvider(script) as provider,
        Agent(model="scripted", base_url=provider.base_url, cwd=workdir, **options) as agent,
    ):
        yield agent, provider


def test_events_are_heard_in_the_thread_of_the_turn_and_on_the_loop(workdir: Path) -> None:
    kinds: dict[str, list[str]] = {"run": [], "arun": []}
    threads: set[int] = set()

    def hear(form: str) -> Any:
        def on_event(event: hermes.TurnEvent) -> None:
            kinds[form].append(type(event).__name__)
            threads.add(threading.get_ident())

        return on_event

    with agent_with([text("one two", chunks=["one ", "two"])] * 2, workdir) as (agent, _):
        assert agent.run("Go.", on_event=hear("run")).answer == "one two"
        assert asyncio.run(agent.arun("Go.", on_event=hear("arun"))).answer == "one two"
    assert kinds["run"] == kinds["arun"] and kinds["run"].count("TextDelta") == 2
    assert threads == {threading.get_ident()}


def test_a_stream_takes_no_listener(workdir: Path) -> None:
    async def start(agent: Agent) -> None:
        agent.astream("Go.", on_event=print)  # pyright: ignore[reportCallIssue]

    with agent_with([], workdir) as (agent, _):
        with pytest.raises(TypeError, match=r"stream\(\) takes no on_event: iterate over its events"):
            agent.stream("Go.", on_event=print)  # pyright: ignore[reportCallIssue]
        with pytest.raises(TypeError, match=r"astream\(\) takes no on_event: iterate over its events"):
            asyncio.run(start(agent))


@pytest.mark.parametrize("form", ["run", "arun"])
def test_a_listener_that_fails_is_reported_once_and_the_turn_continues(
    workdir: Path, caplog: pytest.LogCaptureFixture, form: str
) -> None:
    heard: list[hermes.TurnEvent] = []

    def fails(event: hermes.TurnEvent) -> None:
        heard.append(event)
        _ = 1 // 0

    with agent_with([text("Hello."), text("Again.")], workdir) as (agent, _):
        for answer in ("Hello.", "Again."):
            if form == "run":
                result = agent.run("Go.", on_event=fails)
            else:
                result = asyncio.run(agent.arun("Go.", on_event=fails))
            assert (result.status, result.answer) == ("completed", answer)
        [notice] = [notice for notice in agent.notices if "on_event" in notice]
    assert "the on_event callback failed (ZeroDivisionError: " in notice
    assert len(heard) == 2  # the first event of each turn
    records = [record for record in caplog.records if "a listener of session" in record.message]
    assert [bool(record.exc_info) for record in records] == [True, True]


def test_a_listener_learns_that_text_was_withdrawn(workdir: Path) -> None:
    heard: list[hermes.TurnEvent] = []
    broken = [text("Half of the answer, and more", chunks=8, truncate_after=700), text("The whole answer.")]
    with agent_with(broken, workdir) as (agent, _):
        assert agent.run("Go.", on_event=heard.append).answer == "The whole answer."
    kinds = [type(event) for event in heard if isinstance(event, TextDelta | TextWithdrawn)]
    assert TextDelta in kinds[: kinds.index(TextWithdrawn)]


def raises(_request: Any) -> bool:
    raise ZeroDivisionError("the disk is full")


def takes_nothing() -> bool:
    return True


def returning(value: Any) -> Any:
    def approve(_request: hermes.ApprovalRequest) -> Any:
        return value

    return approve


#: Not one of the choices.
ALLOW: Any = "allow"


@pytest.mark.parametrize(
    ("approve", "problem"),
    [
        (raises, "ZeroDivisionError: the disk is full"),
        (takes_nothing, "TypeError: takes_nothing() takes 0 positional arguments"),
        (returning("yes"), "TypeError: the approve callback returned 'yes'; allowed: True, False, once"),
        (returning(None), "TypeError: the approve callback returned None; allowed: True, False, once"),
        (returning(ApprovalAnswer(ALLOW)), "TypeError: the approve callback returned ApprovalAnswer("),
    ],
)
def test_an_approval_that_could_not_be_asked_for_is_no_word_of_the_user(
    workdir: Path, caplog: pytest.LogCaptureFixture, approve: Any, problem: str
) -> None:
    (workdir / "notes").mkdir()
    with agent_with(DELETE, workdir, approve=approve) as (agent, provider):
        [call] = agent.run("Clean up.").tool_calls
        [notice] = [notice for notice in agent.notices if "approve" in notice]
    assert call.status == "blocked" and (workdir / "notes").exists()
    told = provider.requests[1].messages[-1]["content"]
    assert "The user denied" not in told
    assert "asking for it failed" in told and "did not deny it" in told
    assert notice.startswith(f"the approve callback failed ({problem}") and "the call was denied" in notice
    [record] = [record for record in caplog.records if "could not be asked for" in record.message]
    assert record.exc_info is not None and record.levelno == logging.WARNING


def test_a_question_whose_callback_fails_counts_as_not_answered(
    workdir: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def answer(_question: str, _choices: Any) -> str:
        raise OSError("no terminal")

    script = [tool_call("clarify", {"question": "Which one?"}), text("Then the first.")]
    with agent_with(script, workdir, answer=answer) as (agent, provider):
        assert agent.run("Take one.").answer == "Then the first."
        assert any("the answer callback failed (OSError: no terminal)" in notice for notice in agent.notices)
    assert "The user did not answer" in provider.requests[1].messages[-1]["content"]
    assert "Traceback" in caplog.text


def test_a_hook_that_does_not_exist_is_a_notice(workdir: Path) -> None:
    def register(ctx: Any) -> None:
        ctx.register_hook("pre_tol_call", print)

    with agent_with([], workdir, plugins=[register]) as (agent, _):
        assert "plugin register: there is no hook 'pre_tol_call'" in agent.notices
