"""Which URLs a tool fetches without a question: those that the user named, whole."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from pathlib import Path
from typing import Any

import pytest

from hermes.agent.approvals.connections import fetch_findings, is_named
from hermes.base.config.schema.sections import DelegationConfig, SecurityConfig
from hermes.host import Host
from hermes.testing import ScriptedProvider, ScriptedResponder, text, tool_call
from support.configured import configured_host, tool_answers
from support.web_server import serving


@pytest.fixture
def server() -> Generator[tuple[str, list[str]]]:
    """Its URL, and the paths that were asked for."""
    with serving(lambda path: (200, {"content-type": "text/plain"}, f"page {path}".encode())) as (url, asked):
        yield url, asked


def talk(
    home: Path,
    workdir: Path,
    messages: Sequence[str],
    urls: Sequence[str],
    person: ScriptedResponder | None = None,
    principal: str = "",
    **settings: Any,
) -> list[dict[str, Any]]:
    """The results of fetches in one conversation: all of them after the last message."""
    calls = [tool_call("web_fetch", {"url": url}) for url in urls]
    replies = [*[text("yes") for _ in messages[1:]], *calls, text("done")]
    settings = {"security": SecurityConfig(allow_private_urls=True), **settings}
    with (
        ScriptedProvider(replies) as provider,
        configured_host(home, workdir, provider, **settings) as host,
    ):
        session = host.new_session(principal=principal)
        if person is not None:
            host.responders.attach(session.id, person)
        for message in messages:
            session.run(message)
        return tool_answers(host, session.id)


def test_a_url_that_the_user_typed_is_fetched(home: Path, workdir: Path, server: tuple[str, list[str]]) -> None:
    """No one is there who could be asked, and the message may be an earlier one."""
    url, asked = server
    (page,) = talk(home, workdir, [f"Remember <{url}/garden>.", "What is on it?"], [f"{url}/garden"])
    assert page["content"] == "page /garden"
    assert asked == ["/garden"]


def test_others_are_refused_where_no_one_can_be_asked(home: Path, workdir: Path, server: tuple[str, list[str]]) -> None:
    url, asked = server
    host = url.removeprefix("http://")
    (answer,) = talk(home, workdir, [f"What is on {url}/garden?"], [f"{url}/garden?d=CANARY"])
    assert f"command_allowlist [connect:{host}, send-query:{host}]" in answer["error"]
    assert asked == []


def test_a_person_is_asked_once_per_host(home: Path, workdir: Path, server: tuple[str, list[str]]) -> None:
    url, _ = server
    person = ScriptedResponder("session")
    pages = talk(home, workdir, ["Look around."], [f"{url}/a", f"{url}/b"], person)
    assert [page["content"] for page in pages] == ["page /a", "page /b"]
    assert [request.rules for request in person.requests] == [(f"connect:{url.removeprefix('http://')}",)]


def test_a_query_asks_also_where_the_host_is_approved(home: Path, workdir: Path, server: tuple[str, list[str]]) -> None:
    """It may carry what a file said, in whatever encoding."""
    url, asked = server
    host = url.removeprefix("http://")
    person = ScriptedResponder("session", "deny")
    talk(home, workdir, ["Look around."], [f"{url}/a", f"{url}/b?d=JBSWY3DPEB3W64TMMQ"], person)
    assert [request.rules for request in person.requests] == [(f"connect:{host}",), (f"send-query:{host}",)]
    assert asked == ["/a"]
    assert f"{url}/b?d=JBSWY3DPEB3W64TMMQ" in person.requests[1].subject


def test_rules_for_hosts_and_tools_count(home: Path, workdir: Path, server: tuple[str, list[str]]) -> None:
    url, _ = server
    for allowed in (f"connect:{url.removeprefix('http://')}", f"{url}/*"):
        (page,) = talk(home, workdir, ["Go."], [f"{url}/a"], command_allowlist=[allowed])
        assert page["content"] == "page /a"
    (other,) = talk(home, workdir, ["Go."], [f"{url}/a"], command_allowlist=["https://other.example/*"])
    assert "needs approval" in other["error"]


def test_what_a_model_wrote_for_its_child_is_not_what_the_user_said(
    home: Path, workdir: Path, server: tuple[str, list[str]]
) -> None:
    url, asked = server
    goal = f"Read {url}/mine and {url}/other"
    replies = [
        tool_call("delegate_task", {"goal": goal, "toolsets": ["web"]}),
        tool_call("web_fetch", {"url": f"{url}/other"}),
        tool_call("web_fetch", {"url": f"{url}/mine"}),
        text("read"),
        text("done"),
    ]
    with (
        ScriptedProvider(replies) as provider,
        configured_host(
            *(home, workdir, provider),
            security=SecurityConfig(allow_private_urls=True),
            delegation=DelegationConfig(max_spawn_depth=1),
        ) as host,
    ):
        host.new_session().run(f"Have someone read {url}/mine")
    assert asked == ["/mine"]


def test_who_has_the_tool(home: Path, workdir: Path) -> None:
    def has_it(host: Host, principal: str) -> bool:
        return "web_fetch" in {tool.name for tool in host.tools_for(workdir, principal)}

    with ScriptedProvider([]) as provider:
        with configured_host(home, workdir, provider) as host:
            assert has_it(host, "") and not has_it(host, "bob")
        with configured_host(home, workdir, provider, toolsets=["default", "web"]) as host:
            assert has_it(host, "bob")


@pytest.mark.parametrize(
    ("said", "url", "named"),
    [
        ("What is on https://a.example/x?", "https://a.example/x", True),
        ("see a.example.", "https://a.example/", True),
        ("see (https://A.example/x)", "https://a.example/x/", True),
        ("see https://a.example/x#part", "https://a.example/x", True),
        ("see https://a.example/x", "https://a.example/x#part", True),
        ("see https://a.example/x?q=1&r=2, please", "https://a.example/x?q=1&r=2", True),
        ("see https://a.example/x?q=1", "https://a.example/x", False),
        ("see https://a.example/x", "https://a.example/x?q=1", False),
        ("see https://a.example/xy", "https://a.example/x", False),
        ("see https://a.example/x", "https://a.example/X", False),
        ("see https://a.example.org", "https://a.example", False),
        ("see https://b.a.example", "https://a.example", False),
        ("write to me@a.example", "https://a.example", False),
        ("see https://a.example", "https://a.example@evil.example", False),
        ("see https://a.example", "https://a.example\\@evil.example", False),
        ('read @notes\n\n<file path="notes">\nhttps://a.example/x\n</file>', "https://a.example/x", False),
    ],
)
def test_what_it_means_to_name_a_url(said: str, url: str, named: bool) -> None:
    assert is_named(url, [said]) is named


def test_what_cannot_be_fetched_is_not_asked_about() -> None:
    assert fetch_findings("https://", []) == []
    assert [found.rule for found in fetch_findings("HTTPS://A.example:8443/x", [])] == ["connect:a.example:8443"]
