"""Hooks that belong to surfaces, each on real servers: slash commands, and sessions that another process began."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

from hermes.host import Host
from hermes.testing import EventRecorder, ScriptedProvider, text
from support import a2a_rig
from support.api_rig import served_api
from support.call_surfaces import InEditor, OverMcp
from support.late_surfaces import LateSurface, OnGateway

#: A server in this process, and a function that says something in one conversation.
Talk = tuple[Host, Callable[[str], None]]


@pytest.mark.parametrize(("where", "platform"), [(OnGateway, "line"), (InEditor, "acp")])
def test_pre_command(home: Path, workdir: Path, where: type[LateSurface], platform: str) -> None:
    """A command of a chat and one of an editor are told once; the model hears nothing of them."""
    recorder = EventRecorder()
    with ScriptedProvider([]) as provider:
        surface = where(home, workdir, provider)
        surface.message = "/help now"
        with surface.serving() as host:
            recorder.attach(host.hooks)
            surface.begin()
            [told] = recorder.wait_for("pre_command")
    assert recorder.names().count("pre_command") == 1
    assert (told["command"], told["alias_used"], told["args_raw"]) == ("help", "help", "now")
    assert told["platform"] == platform
    assert recorder.contract_violations() == []


class Conversation:
    """One conversation over several servers: what is needed to continue it."""

    def __init__(self, home: Path, workdir: Path, provider: ScriptedProvider) -> None:
        self.places = (home, workdir, provider)
        self.messages: list[str] = []
        self.id = ""

    @contextmanager
    def over_api(self) -> Generator[Talk]:
        """The client sends all of its messages each time."""
        with served_api(*self.places) as api:

            def say(words: str) -> None:
                answer = api.chat(*self.messages, words).json()["choices"][0]["message"]["content"]
                self.messages += [words, answer]

            yield api.host, say

    @contextmanager
    def over_a2a(self) -> Generator[Talk]:
        """The client names the context."""
        with a2a_rig.served(*self.places) as agent:

            def say(words: str) -> None:
                more = {"contextId": self.id} if self.id else {}
                self.id = agent.rpc("SendMessage", a2a_rig.wire_message(words, **more))["result"]["task"]["contextId"]

            yield agent.host, say

    @contextmanager
    def over_mcp(self) -> Generator[Talk]:
        """The client names the session."""
        surface = OverMcp(*self.places)
        with surface.serving() as host:
            yield host, lambda words: setattr(self, "id", surface.say(words, self.id))


@pytest.mark.parametrize("talking", [Conversation.over_api, Conversation.over_a2a, Conversation.over_mcp])
def test_on_session_resume(
    home: Path, workdir: Path, talking: Callable[[Conversation], AbstractContextManager[Talk]]
) -> None:
    """The process that began a session is told of its start, the next one that it goes on; each once."""
    first, second = EventRecorder(), EventRecorder()
    with ScriptedProvider([text("one"), text("two"), text("three"), text("four")]) as provider:
        conversation = Conversation(home, workdir, provider)
        for recorder, words in ((first, ("a", "b")), (second, ("c", "d"))):
            with talking(conversation) as (host, say):
                recorder.attach(host.hooks)
                for one in words:
                    say(one)
    [started] = first.of("on_session_start")
    [resumed] = second.of("on_session_resume")
    assert first.of("on_session_resume") == second.of("on_session_start") == []
    assert resumed["session_id"] == started["session_id"]
    assert resumed["platform"] == started["platform"]
    assert second.names().index("on_session_resume") < second.names().index("pre_llm_call")
    assert len(second.of("on_session_end")) == 2
