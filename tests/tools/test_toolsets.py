from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from hermes.base.errors import HermesError, PluginError
from hermes.tools.builtin import builtin_tools
from hermes.tools.declarations.builtin import DECLARED
from hermes.tools.registry import Tool, ToolContext, ToolRegistry
from hermes.tools.results import tool_result
from hermes.tools.toolsets import select_tools, toolsets

FILE = ["patch", "read_file", "search_files", "write_file"]
ALL = sorted([*FILE, "process", "terminal"])


def run(args: dict[str, Any], context: ToolContext) -> str:
    return tool_result()


def plugin_tool(name: str, toolset: str, available: Callable[[], bool] | None = None) -> Tool:
    return Tool(name, toolset, "", {}, run, plugin="some-plugin", available=available)


@pytest.fixture
def registry() -> ToolRegistry:
    return ToolRegistry(builtin_tools())


def names(tools: list[Tool]) -> list[str]:
    return [tool.name for tool in tools]


@pytest.mark.parametrize(
    ("chosen", "expected"),
    [
        (["file"], FILE),
        (["terminal"], ["process", "terminal"]),
        (["terminal", " file "], ALL),
        (["file", "file"], FILE),
        (["default"], ALL),
        (["hermes-cli"], ALL),
        (["all"], ALL),
        (["*"], ALL),
        (["coding"], ALL),
        (["debugging"], ALL),
        ([], list[str]()),
    ],
)
def test_toolsets_stand_for_tools(registry: ToolRegistry, chosen: list[str], expected: list[str]) -> None:
    assert names(select_tools(registry, chosen)) == expected


def test_a_toolset_that_talks_to_others_must_be_asked_for(registry: ToolRegistry) -> None:
    registry.add(plugin_tool("a2a_send", "a2a"))
    for usual in ("default", "hermes-cli", "hermes-gateway", "hermes-acp", "hermes-api-server"):
        assert names(select_tools(registry, [usual])) == ALL
    assert names(select_tools(registry, ["default", "a2a"])) == ["a2a_send", *ALL]


def test_all_is_all(registry: ToolRegistry) -> None:
    registry.add(plugin_tool("a2a_send", "a2a"))
    registry.add(plugin_tool("tool_search", "tool_search"))  # no capability of its own
    registry.add(replace(plugin_tool("web_fetch", "web"), plugin="", declares=DECLARED["web_fetch"]))
    for everything in ("all", "*"):
        assert names(select_tools(registry, [everything])) == sorted(["a2a_send", "web_fetch", *ALL])


def test_the_owner_reads_the_web_by_default_and_others_when_it_is_named_for_them(registry: ToolRegistry) -> None:
    registry.add(replace(plugin_tool("web_fetch", "web"), plugin="", declares=DECLARED["web_fetch"]))
    registry.add(replace(plugin_tool("execute_code", "code"), plugin="", declares=DECLARED["execute_code"]))
    assert names(select_tools(registry, ["default"])) == sorted(["web_fetch", *ALL])
    assert names(select_tools(registry, ["default"], is_owner=False)) == ALL
    assert names(select_tools(registry, ["default", "web"], is_owner=False)) == sorted(["web_fetch", *ALL])


def test_toolsets_and_tools_can_be_left_out(registry: ToolRegistry) -> None:
    assert names(select_tools(registry, ["all"], disabled=["terminal"])) == FILE
    assert names(select_tools(registry, ["file"], disabled=["patch", "web"])) == [
        "read_file",
        "search_files",
        "write_file",
    ]


def test_plugin_tools_have_their_own_toolset_or_join_one(registry: ToolRegistry) -> None:
    registry.add(plugin_tool("weather", "weather"))
    registry.add(plugin_tool("chmod", "file"))
    registry.add(plugin_tool("web_search", "web"))
    assert names(select_tools(registry, ["weather"])) == ["weather"]
    assert names(select_tools(registry, ["file"])) == sorted([*FILE, "chmod"])
    assert names(select_tools(registry, ["hermes-cli"])) == sorted([*ALL, "weather", "chmod", "web_search"])
    assert names(select_tools(registry, ["safe"])) == ["web_search"]
    assert "web_search" in names(select_tools(registry, ["debugging"]))


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("flie", "did you mean 'file'?"),
        ("terminals", "did you mean 'terminal'?"),
        ("read_file", "there is no toolset 'read_file'; it is a tool of the toolset 'file'"),
        ("web", "there are: all, coding, debugging, default, file, terminal"),
        ("delegation", "there is no toolset 'delegation'; there are: all"),
        ("safe", "there is no toolset 'safe'; there are: all"),
        ("", "there is no toolset ''; there are: all"),
    ],
)
def test_an_unknown_toolset_is_named_with_what_there_is(registry: ToolRegistry, name: str, hint: str) -> None:
    with pytest.raises(HermesError) as caught:
        select_tools(registry, ["file", name])
    assert hint in str(caught.value)


def test_tools_that_cannot_work_here_are_left_out(registry: ToolRegistry) -> None:
    def broken() -> bool:
        raise RuntimeError

    registry.add(plugin_tool("no", "extra", lambda: False))
    registry.add(plugin_tool("yes", "extra", lambda: True))
    registry.add(plugin_tool("broken", "extra", broken))
    assert names(select_tools(registry, ["extra"])) == ["yes"]
    assert toolsets(registry)["extra"] == {"no", "yes", "broken"}


def test_a_tool_is_asked_again_after_a_while_or_when_it_was_replaced(
    registry: ToolRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    clock = 1_000.0
    monkeypatch.setattr("hermes.tools.registry.time.monotonic", lambda: clock)

    def check() -> bool:
        asked.append("first")
        return True

    registry.add(plugin_tool("extra", "extra", check))
    for _ in range(3):
        select_tools(registry, ["extra"])
    assert asked == ["first"]
    clock += 31
    select_tools(registry, ["extra"])
    assert asked == ["first", "first"]
    registry.add(plugin_tool("extra", "extra", lambda: False), override=True)
    assert select_tools(registry, ["extra"]) == []


def test_a_name_is_registered_once(registry: ToolRegistry) -> None:
    with pytest.raises(PluginError, match="already registered by the runtime"):
        registry.add(plugin_tool("terminal", "x"))
    registry.add(plugin_tool("terminal", "x"), override=True)
    with pytest.raises(PluginError, match="plugin 'some-plugin'"):
        registry.add(plugin_tool("terminal", "x"))
    registry.remove("terminal")
    registry.remove("terminal")
    assert registry.get("terminal") is None and "terminal" not in registry.all()
