"""Which agent is meant, and where calls to it may lead."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes.base.config import A2AAgentConfig, A2AConfig
from hermes.base.http.address import Address
from hermes.tools.peers.addresses import Peer, PeerGuard, base_of, find_peer, same_server
from hermes.tools.peers.failures import PeerError

SETTINGS = A2AConfig(
    agents={
        "desk": A2AAgentConfig(url="http://10.0.0.5:8800/"),
        "vault": A2AAgentConfig(url="https://vault.example.org/agent", token_env="VAULT_TOKEN"),
    }
)
ENV = {"VAULT_TOKEN": "the-token-of-the-vault"}


def test_an_agent_is_found_by_its_name_and_by_its_url() -> None:
    desk = Peer("desk", "http://10.0.0.5:8800", is_trusted=True)
    assert find_peer(SETTINGS, ENV, "desk") == find_peer(SETTINGS, ENV, " http://10.0.0.5:8800 ") == desk
    card = "https://vault.example.org/agent/.well-known/agent-card.json"
    for target in ("vault", "https://vault.example.org/agent/", card):
        assert find_peer(SETTINGS, ENV, target).token == "the-token-of-the-vault"


def test_the_token_of_an_agent_is_not_for_its_neighbours_and_not_shown() -> None:
    stranger = find_peer(SETTINGS, ENV, "https://vault.example.org/other")
    assert (stranger.token, stranger.is_trusted) == ("", False)
    assert "the-token" not in repr(find_peer(SETTINGS, ENV, "vault"))


def test_a_token_that_is_missing_is_named() -> None:
    with pytest.raises(PeerError, match=r"a2a\.agents\.vault: VAULT_TOKEN is not set"):
        find_peer(SETTINGS, {}, "vault")


@pytest.mark.parametrize(
    "url",
    [
        "",
        "agent.example.org",
        "file:///etc/passwd",
        "http://",
        "http://a.example.org:port",
        "http://me:secret@a.example.org",
        "http://a.example.org/?q=1",
        "http://a b/",
        "http://[::1",
    ],
)
def test_what_is_no_url_of_an_agent(url: str) -> None:
    with pytest.raises(PeerError) as failure:
        base_of(url)
    assert "secret" not in str(failure.value)


@given(st.text(max_size=60))
def test_any_text_is_a_url_or_refused(text: str) -> None:
    try:
        base = base_of(text)
    except PeerError:
        return
    assert base.startswith(("http://", "https://")) and base_of(base) == base


def test_the_names_of_this_machine_are_one() -> None:
    assert same_server("http://localhost:80/a", "http://127.0.0.1/b")
    assert not same_server("http://localhost:80", "http://localhost:81")
    assert not same_server("http://a.example.org", "https://a.example.org")
    assert not same_server("http://a.example.org", "http://b.example.org")


def test_private_addresses_are_for_those_who_are_trusted() -> None:
    stranger, friend = Peer("x", "http://10.0.0.5"), Peer("x", "http://10.0.0.5", is_trusted=True)
    here, next_door = Address("http", "10.0.0.5", 80), Address("http", "10.0.0.6", 80)
    assert "is in a private network" in PeerGuard(stranger)(here, False)
    assert "is in a private network" in PeerGuard(friend)(next_door, False)
    assert PeerGuard(friend)(here, False) == ""
    assert PeerGuard(stranger, allow_private=True)(here, False) == ""
    assert PeerGuard(stranger)(Address("http", "x.example.org", 80), True) == ""
