"""Talking to an agent that works, and answering what it asks."""

from __future__ import annotations

from collections.abc import Generator

import pytest

from hermes.agent.approvals.responder import ApprovalAnswer, ApprovalRequest
from hermes.testing import ScriptedProvider, text
from support import HostFactory
from support.surfaces import Prompt


@pytest.fixture
def prompt(make_host: HostFactory) -> Generator[Prompt]:
    with ScriptedProvider([text("one"), text("two")]) as provider:
        yield Prompt(make_host(provider))


def request(*, can_be_kept: bool = True) -> ApprovalRequest:
    args = {"command": "git push --force"}
    return ApprovalRequest(
        *("a1", "s", "c", "terminal", args, "git push --force", "rewrites history", ("force-push",), 60.0, can_be_kept)
    )


def test_stop_stops_only_what_works(prompt: Prompt) -> None:
    assert prompt.type("/stop") == "The agent is not working."
    prompt.surface.is_working = True
    assert prompt.type("/stop") == "Stopping."
    assert prompt.surface.stopped == ["stopped by /stop"]


def test_a_queued_message_waits_while_the_agent_works_and_is_asked_at_once_otherwise(prompt: Prompt) -> None:
    assert "the text is missing" in prompt.refused("/queue")
    assert prompt.type("/queue hello there") == ""
    assert prompt.surface.asked == ["hello there"]
    prompt.surface.is_working = True
    assert prompt.type("/queue and then\nthis") == "Queued (1 message waiting)."
    assert prompt.type("/queue and that") == "Queued (2 messages waiting)."
    assert prompt.surface.waiting == ["and then\nthis", "and that"]


def test_steering_reaches_the_agent_or_becomes_a_message(prompt: Prompt) -> None:
    assert "the text is missing" in prompt.refused("/steer ")
    prompt.surface.is_working = True
    assert prompt.type("/steer use tabs") == "The agent gets it before its next step."
    assert prompt.surface.steered == ["use tabs"]
    prompt.surface.is_working = False
    prompt.type("/steer use spaces")
    assert prompt.surface.asked == ["use spaces"]


def test_approvals_are_answered(prompt: Prompt) -> None:
    assert prompt.refused("/approve") == "no call waits for approval"
    assert prompt.refused("/deny") == "no call waits for approval"
    prompt.surface.approval = request()
    assert prompt.type("/approve") == "Allowed this once: git push --force"
    assert prompt.type("/approve SESSION") == "Allowed for this session: git push --force"
    assert prompt.type("/approve always") == "Allowed from now on: git push --force"
    assert prompt.type("/deny push normally") == "Refused: git push --force"
    assert "once, session or always" in prompt.refused("/approve forever")
    assert prompt.surface.answers == [
        ApprovalAnswer("once"),
        ApprovalAnswer("session"),
        ApprovalAnswer("always"),
        ApprovalAnswer("deny", "push normally"),
    ]


def test_a_call_that_may_be_allowed_only_once(prompt: Prompt) -> None:
    prompt.surface.approval = request(can_be_kept=False)
    assert "only be allowed once" in prompt.refused("/approve always")
    assert prompt.surface.answers == []
    prompt.type("/approve once")
    assert prompt.surface.answers == [ApprovalAnswer("once")]
