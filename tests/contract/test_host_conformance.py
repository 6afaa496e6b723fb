"""The conformance conversation on every surface: not one breach of the contract, and none that differs between two."""

from __future__ import annotations

from pathlib import Path

import pytest

from hermes.contract.hooks import HOOKS
from hermes.contract.middleware import MIDDLEWARE
from hermes.testing import HostConversation, ScriptedProvider
from hermes.testing.hosts.checks import DELIVERED, ELSEWHERE
from support.conformance_surfaces import SURFACES, ConformanceHome

_SLOW = ("worker",)


@pytest.mark.parametrize(
    "surface", [pytest.param(name, marks=pytest.mark.slow) if name in _SLOW else name for name in SURFACES]
)
def test_a_surface_keeps_the_contract(
    surface: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    if surface in _SLOW:
        monkeypatch.setenv("CONFORMANCE_POSTGRES", request.getfixturevalue("postgres_url"))
    use, platform, sender = SURFACES[surface]
    conversation = HostConversation(tmp_path / "recording.jsonl")
    with ScriptedProvider(conversation.reply) as provider:
        answer = use(ConformanceHome(tmp_path, conversation, provider))
    assert conversation.breaches(answer, provider.requests, platform=platform, sender=sender) == []


def test_the_kit_knows_every_hook() -> None:
    assert DELIVERED.keys() | ELSEWHERE == HOOKS.keys() | MIDDLEWARE.keys()
