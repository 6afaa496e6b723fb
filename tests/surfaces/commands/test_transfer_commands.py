"""Commands that bring text out of the conversation or into the message."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hermes.base.errors import HermesError
from hermes.testing import ScriptedProvider, text, tool_call
from support import HostFactory
from support.surfaces import Prompt

CODE = "See:\n\n```python\nprint('hi')\n```\n\nand\n\n````\n```\nx\n````\n"


class FakeScreen:
    """A screen that records what commands ask of it."""

    width = 40

    def __init__(self) -> None:
        self.copied: list[str] = []
        self.edited: list[str] = []
        self.offered: list[str] = []

    def copy(self, text: str) -> None:
        self.copied.append(text)

    def edit(self, text: str) -> None:
        self.edited.append(text)

    def offer(self, line: str) -> None:
        self.offered.append(line)

    def paste_image(self) -> None:
        raise HermesError("the clipboard has no image")


@pytest.fixture
def screen() -> FakeScreen:
    return FakeScreen()


def test_answers_and_code_are_copied(make_host: HostFactory, screen: FakeScreen) -> None:
    script = [tool_call("terminal", {"command": "echo hi"}), text("first"), text(CODE), text("third")]
    with ScriptedProvider(script) as provider:
        prompt = Prompt(make_host(provider))
        assert "needs a terminal" in prompt.refused("/copy")
        prompt.surface.screen = screen
        assert "no answer to copy yet" in prompt.refused("/copy")
        prompt.session.run("one")
        assert "no answer has a block of code" in prompt.refused("/copy code")
        prompt.session.run("two")
        prompt.session.run("three")
        assert prompt.type("/copy") == "Copied the answer: 5 characters."
        prompt.type("/copy 3")
        prompt.type("/copy code")
        assert "from 1 to 3" in prompt.refused("/copy 4")
    assert screen.copied == ["third", "first", "```\nx"]


def test_a_conversation_is_exported_as_markdown_and_as_records(make_host: HostFactory, workdir: Path) -> None:
    with ScriptedProvider([tool_call("terminal", {"command": "echo '```'"}), text("It is **done**.")]) as provider:
        prompt = Prompt(make_host(provider))
        assert "nothing to export" in prompt.refused("/export talk.md")
        prompt.session.run("do it")
        assert "the file is missing" in prompt.refused("/export")
        path = prompt.session.cwd / "talk.md"
        assert prompt.type("/export talk.md") == f"Wrote {path}"
        written = path.read_text()
        assert written.startswith("# do it\n\n## You\n\ndo it\n\n## Assistant\n\n````\nterminal {")
        assert written.endswith("## Assistant\n\nIt is **done**.\n") and '"output":"```"' in written
        prompt.surface.says_yes = False
        assert prompt.type("/export talk.md") == "Nothing was written."
        assert prompt.surface.questions == [f"{path} exists. Replace it?"]
        prompt.type("/export talk.jsonl")
        records = [json.loads(line) for line in (prompt.session.cwd / "talk.jsonl").read_text().splitlines()]
        prompt.type("/export talk.json")
        assert json.loads((prompt.session.cwd / "talk.json").read_text()) == records
        assert records[0]["record"] == "session"
        assert "is a folder" in prompt.refused("/export .")


def test_the_editor_the_clipboard_and_the_choice_of_a_session_are_of_the_screen(
    make_host: HostFactory, screen: FakeScreen
) -> None:
    with ScriptedProvider([text("one"), text("two")]) as provider:
        prompt = Prompt(make_host(provider))
        prompt.surface.screen = screen
        assert prompt.type("/edit a draft") == ""
        assert prompt.refused("/paste") == "the clipboard has no image"
        prompt.session.run("water the plants")
        first = prompt.session.id
        assert "plants" in prompt.type("/resume"), "nothing to choose from: the list"
        prompt.type("/new")
        prompt.session.run("feed the cat")
        prompt.type("/new")
        assert prompt.type("/resume") == ""
        assert prompt.type("/resume PLANTS").startswith(f"Back in session\n{first}") or prompt.session.id == first
        prompt.type("/new")
        error = prompt.refused("/resume the")
        assert "2 sessions have 'the' in their title (1: feed the cat; 2: water the plants)" in error
        prompt.type("/resume 2")
        assert prompt.session.id == first
    assert (screen.edited, screen.offered) == (["a draft"], ["/resume "])
