"""Tool search: many MCP tools cost a request little, and are called under their own names."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from hermes.base.config.schema.sections import ToolsConfig, ToolSearchConfig
from hermes.testing import ScriptedProvider, text, tool_call
from support.configured import configured_host, tool_answers
from support.mcp_rig import faulty
from support.waiting import HANG

_NAME = "mcp__f__tool_7_lists_things"


def run(home: Path, workdir: Path, replies: list[Any], enabled: str, many: int = 150, **sections: Any) -> Any:
    """The requests of a conversation, what the tools answered, and the names that hooks saw."""
    seen: list[str] = []

    class Watcher:
        def register(self, ctx: Any) -> None:
            ctx.register_hook("pre_tool_call", self.note)

        def note(self, **event: Any) -> None:
            seen.append(event["tool_name"])

    settings = ToolsConfig(tool_search=ToolSearchConfig(enabled=enabled))  # pyright: ignore[reportArgumentType]
    servers = {"f": faulty(f"many={many}")} if many else {}
    with (
        ScriptedProvider(replies) as provider,
        configured_host(
            *(home, workdir, provider),
            mcp_servers=servers,
            mcp_discovery_timeout=HANG,
            tools=settings,
            options={"plugin_objects": [Watcher()]},
            **sections,
        ) as host,
    ):
        session = host.new_session()
        session.run("go")
        return [sent.body["tools"] for sent in provider.requests], tool_answers(host, session.id), seen


def names(tools: list[dict[str, Any]]) -> set[str]:
    return {tool["function"]["name"] for tool in tools}


@pytest.mark.parametrize("enabled", ["on", "auto"])
def test_150_tools_add_less_than_2_kb_to_the_first_request(home: Path, workdir: Path, enabled: str) -> None:
    model = {"context_length": 128_000} if enabled == "auto" else {}
    [tools], _, _ = run(home, workdir, [text("done")], enabled, model=model)
    [plain], _, _ = run(home / "other", workdir, [text("done")], "off", many=0)
    assert len(msgspec.json.encode(tools)) - len(msgspec.json.encode(plain)) <= 2_000
    assert names(tools) - names(plain) == {"tool_search", "tool_describe", "tool_call"}
    found = next(tool for tool in tools if tool["function"]["name"] == "tool_search")
    assert "f (15" in found["function"]["description"]


def test_few_tools_are_offered_as_they_are(home: Path, workdir: Path) -> None:
    [tools], _, _ = run(home, workdir, [text("done")], "auto", many=8)
    assert _NAME in names(tools)
    assert "tool_search" not in names(tools)


def test_a_tool_is_found_described_and_called_under_its_own_name(home: Path, workdir: Path) -> None:
    replies = [
        tool_call("tool_search", {"query": "tool 7 lists", "limit": 3}),
        tool_call("tool_describe", {"name": _NAME}),
        tool_call("tool_call", {"name": _NAME, "arguments": {"first": "a"}}),
        tool_call("tool_call", {"name": _NAME, "arguments": {"limit": "many"}}),
        tool_call("tool_call", {"name": "mcp__f__no_such_tool", "arguments": {}}),
        tool_call("tool_call", {"name": 5}),
        tool_call("terminal", {"command": "true"}),
        text("done"),
    ]
    _, answers, seen = run(home, workdir, replies, "on")
    assert answers[0]["tools"][0]["name"] == _NAME
    assert len(answers[0]["tools"]) <= 3
    assert "first" in answers[1]["parameters"]["properties"]
    assert answers[2] == {"result": "tool_7_lists_things: "}
    assert "limit must be an integer" in answers[3]["error"]
    assert answers[4]["error"] == "Unknown tool: mcp__f__no_such_tool"
    assert "arguments is required" in answers[5]["error"]
    assert seen[2:4] == [_NAME, _NAME]
    assert "tool_call" not in seen[:5]


def test_without_a_search_there_is_no_call_through_it(home: Path, workdir: Path) -> None:
    replies = [tool_call("tool_call", {"name": "terminal", "arguments": {"command": "true"}}), text("done")]
    _, answers, _ = run(home, workdir, replies, "off", many=1)
    assert answers == [{"error": "Unknown tool: tool_call"}]
