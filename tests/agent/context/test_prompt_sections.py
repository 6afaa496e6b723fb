"""Sections of the system prompt that plugins register: their limits, and that a session keeps its own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hermes.contract.plugin import MOST_SECTIONS, SECTIONS_CHARS
from hermes.host import Host
from hermes.testing import PluginHarness, ScriptedProvider, text
from support import HostFactory

Register = Callable[[Any], None]


def registering(**sections: Any) -> Register:
    """A plugin that registers sections."""

    def register(ctx: Any) -> None:
        for id_, content in sections.items():
            ctx.register_system_prompt_section(id_, content)

    return register


def prompts(provider: ScriptedProvider) -> list[str]:
    return [str(request.messages[0]["content"]) for request in provider.requests]


def test_sections_are_made_once_for_a_session_and_stay_as_they_were(make_host: HostFactory, workdir: Path) -> None:
    asked: list[dict[str, Any]] = []

    def counted(session: dict[str, Any]) -> str:
        asked.append(session)
        return f"Made {len(asked)} times."

    plugin = registering(zoo="Be kind to animals.", count=counted)
    with ScriptedProvider([text("one"), text("two"), text("three"), text("four")]) as provider:
        host: Host = make_host(provider, plugin_objects=[plugin])
        session = host.new_session()
        session.run("one")
        session.run("two")
        host.close()
        # Another process: the function would give another text now.
        again: Host = make_host(provider, plugin_objects=[plugin])
        again.resume_session(session.id).run("three")
        again.new_session().run("four")
    first, second, third, fourth = prompts(provider)
    assert first == second == third
    assert "## count\n\nMade 1 times.\n\n## zoo\n\nBe kind to animals." in first
    assert "Made 2 times." in fourth
    assert set(asked[0]) == {"session_id", "model", "provider", "platform", "profile_name", "cwd"}
    assert (asked[0]["session_id"], asked[0]["model"], asked[0]["cwd"]) == (session.id, "scripted", str(workdir))


def test_a_session_that_began_without_the_plugin_keeps_its_prompt(make_host: HostFactory) -> None:
    with ScriptedProvider([text("one"), text("two")]) as provider:
        host: Host = make_host(provider)
        session = host.new_session()
        session.run("one")
        host.close()
        make_host(provider, plugin_objects=[registering(late="Too late.")]).resume_session(session.id).run("two")
    before, after = prompts(provider)
    assert before == after


def test_a_section_that_fails_is_left_out(make_host: HostFactory, caplog: pytest.LogCaptureFixture) -> None:
    def failing(session: dict[str, Any]) -> str:
        raise OSError("no file")

    async def later(session: dict[str, Any]) -> str:
        await asyncio.sleep(0)
        return "Came later."

    def number(session: dict[str, Any]) -> int:
        return 5

    def nothing(session: dict[str, Any]) -> None:
        return None

    plugin = registering(a=failing, b=number, c=nothing, d="Stays.", e=later)
    with ScriptedProvider([text("one")]) as provider:
        make_host(provider, plugin_objects=[plugin]).new_session().run("one")
    [prompt] = prompts(provider)
    assert "## d\n\nStays.\n\n## e\n\nCame later." in prompt
    assert "## a" not in prompt
    assert "## c" not in prompt
    assert "prompt section 'a' is left out: OSError: no file" in caplog.text
    assert "prompt section 'b' is left out: it gave a int; text is expected" in caplog.text


def test_sections_have_limits(make_host: HostFactory, caplog: pytest.LogCaptureFixture) -> None:
    def register(ctx: Any) -> None:
        ctx.register_system_prompt_section("cut", "x" * 100, max_chars=10)
        for number in range(MOST_SECTIONS + 2):
            ctx.register_system_prompt_section(f"s{number:02}", "short")
        ctx.register_system_prompt_section("large1", "y" * 5000)
        ctx.register_system_prompt_section("large2", "z" * 5000)

    with ScriptedProvider([text("one")]) as provider:
        make_host(provider, plugin_objects=[register]).new_session().run("one")
    [prompt] = prompts(provider)
    assert "## cut\n\nxxxxxxxxxx\n\n## large1" in prompt
    assert prompt.count("y" * 4000) == 1
    assert "z" * 3000 not in prompt, f"all together have at most {SECTIONS_CHARS}"
    assert prompt.count("\nshort") == MOST_SECTIONS - 2
    assert "prompt section 'large2' is left out: all sections have at most 8000 characters" in caplog.text


@pytest.mark.parametrize(
    ("arguments", "options", "error"),
    [
        (("Upper", "text"), {}, "an id has 1 to 128 characters"),
        (("", "text"), {}, "an id has"),
        (("a", 5), {}, "content is a int"),
        (("a", "text"), {"position": "first"}, "there is after_memory"),
        (("a", "text"), {"max_chars": 4001}, "1 to 4000 are allowed"),
        (("a", "text"), {"max_chars": True}, "1 to 4000 are allowed"),
    ],
)
def test_what_cannot_be_registered(arguments: tuple[Any, ...], options: dict[str, Any], error: str) -> None:
    def register(ctx: Any) -> None:
        with pytest.raises((ValueError, TypeError), match=error):
            ctx.register_system_prompt_section(*arguments, **options)

    with PluginHarness(register) as harness:
        assert not harness.plugins.prompt_sections


def test_an_id_belongs_to_one_plugin() -> None:
    def register(ctx: Any) -> None:
        ctx.register_system_prompt_section("a", "one")
        with pytest.raises(ValueError, match="already registered by plugin 'plugin'"):
            ctx.register_system_prompt_section("a", "two")

    with PluginHarness(register) as harness:
        assert harness.plugins.prompt_sections["a"].content == "one"
