"""The agent card: honest about what is served, and cached as the web caches."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import pytest

pytest.importorskip("a2a.server.routes", reason="cards are made of the types of a2a-sdk 1.x")

from a2a.compat.v0_3.types import AgentCard as OldCard
from a2a.server.request_handlers.response_helpers import agent_card_to_dict
from a2a.types import AgentCard
from google.protobuf.json_format import ParseDict
from starlette.applications import Starlette

from hermes.base.config import Config
from hermes.base.config.schema.sections import AgentConfig, ModelConfig
from hermes.base.errors import ConfigError
from hermes.base.version import __version__
from hermes.host import Host, HostOptions
from hermes.surfaces.a2a.card import CACHE_CONTROL, CardOptions, agent_card, card_routes
from hermes.testing import ScriptedProvider
from hermes.tools.declarations.builtin import DECLARED
from hermes.tools.registry import Tool
from support import HostFactory

BASE = "http://127.0.0.1:8800"


def tool(name: str, toolset: str, description: str = "") -> Tool:
    return Tool(
        name, toolset, description, {"type": "object"}, lambda _args, _context: "{}", declares=DECLARED.get(name)
    )


def test_every_interface_that_is_served_and_no_other() -> None:
    card = agent_card(CardOptions(base_url=BASE + "/"))
    found = [(one.protocol_binding, one.url, one.protocol_version) for one in card.supported_interfaces]
    assert found == [
        ("JSONRPC", BASE + "/", "1.0"),
        ("HTTP+JSON", BASE + "/rest", "1.0"),
        ("JSONRPC", BASE + "/", "0.3"),
        ("HTTP+JSON", BASE + "/rest", "0.3"),
    ]
    with_grpc = agent_card(CardOptions(base_url=BASE, grpc_address="127.0.0.1:8801"))
    last = with_grpc.supported_interfaces[-1]
    assert (last.protocol_binding, last.url, last.protocol_version) == ("GRPC", "127.0.0.1:8801", "1.0")
    assert card.version == __version__


@pytest.mark.parametrize("served", [{}, {"streaming": False}, {"push": True}, {"extended": True}])
def test_capabilities_are_those_that_are_wired(served: dict[str, Any]) -> None:
    capabilities = agent_card(CardOptions(base_url=BASE, **served)).capabilities
    expected = {"streaming": True, "push": False, "extended": False} | served
    assert (capabilities.streaming, capabilities.push_notifications, capabilities.extended_agent_card) == (
        *(expected["streaming"], expected["push"]),
        expected["extended"],
    )


def test_security_is_declared_where_there_is_some() -> None:
    assert not agent_card(CardOptions(base_url=BASE)).security_schemes
    card = agent_card(CardOptions(base_url=BASE, needs_token=True))
    assert card.security_schemes["bearer"].http_auth_security_scheme.scheme == "Bearer"
    key = card.security_schemes["apiKey"].api_key_security_scheme
    assert (key.location, key.name) == ("header", "X-API-Key")
    assert [list(one.schemes) for one in card.security_requirements] == [["bearer"], ["apiKey"]]


@pytest.mark.parametrize(
    ("base_url", "problem"),
    [
        ("http://0.0.0.0:8800", "0.0.0.0 is every address"),
        ("http://[::]:8800", ":: is every address"),
        ("agents.example.org", "must start with http"),
        ("https://", "names no host"),
        ("https://me:secret@example.org", "no user name, password"),
        ("https://example.org?x=1", "query"),
        ("https://example.org:port", "cannot be parsed"),
    ],
)
def test_a_public_url_that_cannot_be_called_is_refused(base_url: str, problem: str) -> None:
    with pytest.raises(ConfigError) as caught:
        agent_card(CardOptions(base_url=base_url))
    assert problem in str(caught.value)
    assert "secret" not in str(caught.value)


# -- skills ---------------------------------------------------------------------------------------------------------


def test_skills_come_from_the_toolsets_of_the_host(make_host: HostFactory) -> None:
    with ScriptedProvider("fine") as provider:
        host = make_host(provider, toolsets=["file", "todo"])
        skills = agent_card(CardOptions(base_url=BASE, tools=host.offered_tools())).skills
    assert [skill.id for skill in skills] == ["conversation", "file"]
    for skill in skills:
        assert skill.name and skill.description and skill.tags and skill.examples


def test_disabled_toolsets_are_not_skills(home: Any, workdir: Any) -> None:
    model = ModelConfig(provider="custom", default="scripted", base_url="http://127.0.0.1:9/v1")
    config = Config(model=model, agent=AgentConfig(disabled_toolsets=["terminal"]))
    with Host(home, config, HostOptions(), cwd=workdir, env={}) as host:
        tools = host.tools_for(workdir, "")
        assert [one.name for one in tools] == [one.name for one in select_like(host)]
    ids = {skill.id for skill in agent_card(CardOptions(base_url=BASE, tools=tools)).skills}
    assert "file" in ids and "terminal" not in ids


def select_like(host: Host) -> list[Tool]:
    """What a real conversation offers, apart from what its context engine adds."""
    return [one for one in host.new_session().offered if one.toolset not in host.runtime.contexts.toolsets]


def test_the_skill_of_a_plugin_is_described_by_its_tools() -> None:
    tools = [
        tool("forecast", "weather-station", "Tell the weather of\n tomorrow. Takes a place."),
        tool("pressure", "weather-station", "Air pressure now"),
        tool("mystery", "odd"),
    ]
    _, odd, weather = agent_card(CardOptions(base_url=BASE, tools=tools)).skills
    assert (weather.id, weather.name) == ("weather-station", "Weather station")
    assert weather.description == "Tell the weather of tomorrow. Air pressure now"
    assert list(weather.tags) == ["weather-station"]
    assert odd.description == "Tools of the group odd."


def test_only_the_detailed_card_names_tools() -> None:
    served = CardOptions(base_url=BASE, tools=[tool("read_file", "file"), tool("patch", "file")])
    assert "patch" not in str(agent_card(served))
    assert list(agent_card(served, detailed=True).skills[1].tags)[-2:] == ["patch", "read_file"]


# -- on the wire ----------------------------------------------------------------------------------------------------


def test_both_generations_can_read_it(caplog: pytest.LogCaptureFixture) -> None:
    card = agent_card(CardOptions(base_url=BASE, tools=[tool("patch", "file")], needs_token=True, extended=True))
    written = agent_card_to_dict(card)
    assert caplog.text == ""  # the SDK warns about a card that lacks something
    old = OldCard.model_validate(written)
    assert (old.url, old.protocol_version, old.preferred_transport) == (BASE + "/", "0.3", "JSONRPC")
    assert old.supports_authenticated_extended_card
    assert ParseDict(written, AgentCard(), ignore_unknown_fields=True) == card


def test_a_cached_card_is_revalidated() -> None:
    async def run() -> None:
        first, changed = (agent_card(CardOptions(base_url=BASE, name=name)) for name in ("Hermes", "Iris"))
        path = "/.well-known/agent-card.json"
        async with client_of(first) as client:
            got = await client.get(path)
            assert got.status_code == 200
            assert got.headers["cache-control"] == CACHE_CONTROL
            again = await client.get(path, headers={"if-none-match": got.headers["etag"]})
            assert (again.status_code, again.content) == (304, b"")
            assert again.headers["etag"] == got.headers["etag"]
        async with client_of(changed) as client:
            assert (await client.get(path, headers={"if-none-match": got.headers["etag"]})).status_code == 200

    asyncio.run(run())


def client_of(card: AgentCard) -> httpx.AsyncClient:
    return httpx.AsyncClient(transport=httpx.ASGITransport(Starlette(routes=card_routes(card))), base_url=BASE)
