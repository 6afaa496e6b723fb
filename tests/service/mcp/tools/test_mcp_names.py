"""Names of MCP tools in the registry."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from hermes.service.mcp.tools.names import MAX_NAME, file_name, registry_names


def test_names_are_those_of_upstream() -> None:
    names = registry_names("my-server", ["get.time", "plain"])
    assert names == {"get.time": "mcp__my_server__get_time", "plain": "mcp__my_server__plain"}


def test_names_that_become_one_are_told_apart_and_the_exact_one_keeps_its_name() -> None:
    names = registry_names("s", ["get weather", "get_weather", "get-weather"])
    assert names["get_weather"] == "mcp__s__get_weather"
    assert len(set(names.values())) == 3


def test_a_name_in_another_alphabet_is_readable_as_a_tool_of_its_server() -> None:
    assert registry_names("s", ["天気"])["天気"].startswith("mcp__s__tool_")


@settings(max_examples=40, deadline=None)
@given(st.text(min_size=1, max_size=80), st.lists(st.text(min_size=1, max_size=90), max_size=4, unique=True))
def test_names_are_always_short_different_and_plain(server: str, tools: list[str]) -> None:
    names = registry_names(server, tools)
    assert set(names) == set(tools)
    assert len(set(names.values())) == len(tools)
    assert all(len(name) <= MAX_NAME and name.replace("_", "a").isascii() for name in names.values())
    assert names == registry_names(server, reversed(tools))


def test_files_of_servers_with_like_names_differ() -> None:
    assert file_name("plain") == "plain"
    assert len({file_name("a/b"), file_name("a_b"), file_name("a b")}) == 3
