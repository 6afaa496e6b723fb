"""Arguments and options that cannot be used are refused at once, with what was found and what is allowed."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest

import hermes
from hermes import Agent, tool
from hermes.testing import ScriptedProvider, text


def read_file(path: str) -> str:
    """Has the name of a built-in tool."""
    return path


def greet(name: str) -> str:
    """Greets."""
    return name


async def note(_event: hermes.TurnEvent) -> None:
    """A coroutine function."""


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({"max_turns": "5"}, "max_turns: found the text '5'; allowed: a whole number, 1 or more"),
        ({"max_turns": True}, "max_turns: found True; allowed: a whole number, 1 or more"),
        ({"config": "x.yaml"}, "config: found the text 'x.yaml'; allowed: settings as in config.yaml"),
        ({"config": ["x"]}, "config: found an object of type list"),
        ({"model": 3}, "model: found the number 3; allowed: a text"),
        ({"provider": None}, "provider: found None; allowed: a text"),
        ({"api_key": 123456}, "api_key: found an object of type int; allowed: a text"),
        ({"home": 3}, "home: found the number 3; allowed: a text or a pathlib.Path"),
        ({"plugins": "otel"}, "plugins must be a list of plugins, such as ['otel']"),
        ({"plugins": object()}, "plugins: found an object of type object; allowed: a list of plugins"),
        ({"toolsets": "file"}, "toolsets must be a list of names, such as ['file']"),
        ({"toolsets": ["file", 3]}, "toolsets: found the number 3; allowed: names, each a text"),
        ({"tools": greet}, "tools: found an object of type function; allowed: a list of functions"),
        ({"tools": [greet, greet]}, "two functions in tools are called 'greet'; rename one, or use hermes.tool(name="),
        ({"approve": True}, "approve: found True; allowed: a function"),
        ({"answer": "yes"}, "answer: found the text 'yes'; allowed: a function"),
    ],
)
def test_an_argument_of_another_type_is_refused(workdir: Path, arguments: dict[str, Any], problem: str) -> None:
    with pytest.raises(TypeError) as caught:
        Agent(cwd=workdir, **arguments)
    assert str(caught.value).startswith(problem)


def test_at_least_one_model_call_is_needed(workdir: Path) -> None:
    with pytest.raises(ValueError, match="max_turns: found the number 0; allowed: a whole number, 1 or more"):
        Agent(max_turns=0, cwd=workdir)


def test_a_function_with_the_name_of_another_tool_is_to_be_renamed(workdir: Path) -> None:
    with pytest.raises(
        hermes.PluginError, match=r"'read_file' is already .*another name .*hermes\.tool\(name="
    ) as caught:
        Agent(tools=[read_file], cwd=workdir)
    assert "override" not in str(caught.value)
    Agent(tools=[tool(name="read-it")(read_file)], cwd=workdir).close()


def test_an_effect_that_does_not_exist_is_refused() -> None:
    with pytest.raises(ValueError, match="found the effect 'wrong'; allowed: pure, idempotent, resumable, unsafe"):
        tool(effect=cast("Any", "wrong"))


def test_the_way_to_a_model_is_said_for_programs_too(workdir: Path) -> None:
    with Agent(cwd=workdir) as agent, pytest.raises(hermes.HermesError) as caught:
        agent.run("Hello?")
    assert "hermes.Agent(provider=..., model=...)" in str(caught.value)
    assert "--provider and --model" in str(caught.value)


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"outputs": int}, "has no option 'outputs' (options: images, interrupt, "),
        ({"outputs": int}, "; did you mean 'output'?"),
        ({"temperature": 3}, "has no option 'temperature' (options: images, interrupt, "),
        ({"interrupt": threading.Event()}, "interrupt: found an object of type Event; allowed: a hermes.Interrupt"),
        ({"request_key": 7}, "request_key: found an object of type int; allowed: a text"),
        ({"images": "cat.png"}, "images must be a list of paths, such as ['cat.png']"),
        ({"images": Path("cat.png")}, "images: found an object of type PosixPath; allowed: a list of paths"),
    ],
)
def test_an_option_that_cannot_be_used_is_refused_in_every_form(
    workdir: Path, options: dict[str, Any], problem: str
) -> None:
    async def asynchronously(start: Callable[..., Any]) -> None:
        waiting = start("hi", **options)
        await (waiting if asyncio.iscoroutine(waiting) else waiting.result())

    with (
        ScriptedProvider([text("Hello.")]) as provider,
        Agent(model="scripted", base_url=provider.base_url, cwd=workdir) as agent,
    ):
        session = agent.session()
        for form in (agent.run, session.run, agent.stream, session.stream):
            with pytest.raises(TypeError) as caught:
                form("hi", **options)
            assert problem in str(caught.value)
        for form in (agent.arun, session.arun, agent.astream, session.astream):
            with pytest.raises(TypeError) as caught:
                asyncio.run(asynchronously(form))
            assert problem in str(caught.value)
        assert session.run("hi").answer == "Hello."
    assert len(provider.requests) == 1


@pytest.mark.parametrize("on_event", [3, note])
def test_a_listener_must_be_a_plain_function(workdir: Path, on_event: Any) -> None:
    with ScriptedProvider([]) as provider, Agent(model="scripted", base_url=provider.base_url, cwd=workdir) as agent:
        for form in (agent.run, agent.session().run):
            with pytest.raises(TypeError, match=r"on_event: found .*; allowed: a plain function"):
                form("hi", on_event=on_event)
        with pytest.raises(TypeError, match=r"on_event: found .*; allowed: a plain function"):
            asyncio.run(agent.arun("hi", on_event=on_event))


def test_what_is_said_to_a_session_is_text(workdir: Path) -> None:
    number: Any = 3
    with ScriptedProvider([]) as provider, Agent(model="scripted", base_url=provider.base_url, cwd=workdir) as agent:
        session = agent.session()
        for method in (session.steer, session.interrupt, session.abandon, agent.session):
            with pytest.raises(TypeError, match="found the number 3; allowed: a text"):
                method(number)
        with pytest.raises(TypeError, match=r"interrupt: .*a hermes\.Interrupt"):
            session.finish(interrupt=number)
