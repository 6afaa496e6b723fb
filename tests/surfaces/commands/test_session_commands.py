"""Moving between sessions: what plugins are told, and what each session keeps."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hermes.agent.approvals.responder import ApprovalAnswer, ApprovalRequest
from hermes.base.errors import SessionBusy
from hermes.base.scope import Interrupt
from hermes.journal.history.branching import undo_turns
from hermes.journal.runner import FileRunner
from hermes.testing import EventRecorder, ScriptedProvider, text
from support import HostFactory
from support.surfaces import Prompt

IDENTITY = ("session_id", "reason", "old_session_id", "new_session_id")


def identities(recorder: EventRecorder) -> list[tuple[str, ...]]:
    return [
        (event.name, *(event.payload[name] for name in IDENTITY))
        for event in recorder.events
        if event.name in ("on_session_finalize", "on_session_reset")
    ]


def test_new_ends_one_identity_and_begins_the_next(make_host: HostFactory) -> None:
    with ScriptedProvider([text("one"), text("two")]) as provider:
        host = make_host(provider)
        recorder = EventRecorder().attach(host.hooks)
        prompt = Prompt(host)
        first = prompt.session
        first.run("hello")
        answer = prompt.type("/new")
        second = prompt.session
        second.run("again")
        host.close()
    assert answer == f"New session {second.id}. Go back with /resume {first.id}"
    assert identities(recorder) == [
        ("on_session_finalize", first.id, "new_session", first.id, second.id),
        ("on_session_reset", second.id, "new_session", first.id, second.id),
        ("on_session_finalize", second.id, "shutdown", second.id, ""),
    ]
    assert recorder.contract_violations() == []
    assert len(provider.requests[1].messages) == 2  # a system prompt and one message: nothing of the first session


def test_clear_asks_first_and_clears_the_screen(make_host: HostFactory) -> None:
    with ScriptedProvider([]) as provider:
        prompt = Prompt(make_host(provider))
        first = prompt.session
        prompt.surface.says_yes = False
        assert prompt.type("/clear") == "Nothing was cleared."
        assert prompt.session is first and prompt.surface.cleared == 0
        prompt.surface.says_yes = True
        prompt.type("/clear")
        assert prompt.session is not first and prompt.surface.cleared == 1
        assert len(prompt.surface.questions) == 2
        prompt.host.config.approvals.destructive_slash_confirm = False
        prompt.type("/clear")
        assert len(prompt.surface.questions) == 2


def test_resume_by_number_and_by_id_goes_on_where_the_other_session_was(make_host: HostFactory) -> None:
    with ScriptedProvider([text("one"), text("two"), text("three")]) as provider:
        host = make_host(provider)
        recorder = EventRecorder().attach(host.hooks)
        prompt = Prompt(host)
        first = prompt.session
        first.run("About cats")
        prompt.type("/new")
        second = prompt.session
        second.run("About dogs")
        listing = prompt.type("/sessions")
        assert [line.split()[:2] for line in listing.splitlines()[:2]] == [["1*", second.id], ["2", first.id]]
        assert prompt.type("/resume") == listing
        assert prompt.type("/resume 2").startswith(f"Back in session {first.id}: About cats (1 turn, in ")
        assert prompt.session.id == first.id and prompt.session is not first
        prompt.session.run("And kittens?")
        assert [message["content"] for message in provider.requests[2].messages[1:]] == [
            "About cats",
            "one",
            "And kittens?",
        ]
        assert prompt.type(f"/resume {first.id}") == f"This is session {first.id} already."
        prompt.type(f"/resume {second.id}")
    moves = [event for event in identities(recorder) if event[0] == "on_session_reset"]
    assert [(old, new) for *_, old, new in moves] == [
        (first.id, second.id),
        (second.id, first.id),
        (first.id, second.id),
    ]
    assert [reason for name, _, reason, *_ in identities(recorder) if name == "on_session_finalize"] == [
        "new_session",
        "session_boundary",
        "session_boundary",
    ]


def test_a_session_that_cannot_be_resumed_leaves_the_person_where_they_are(make_host: HostFactory) -> None:
    with ScriptedProvider([]) as provider:
        prompt = Prompt(make_host(provider))
        session = prompt.session
        assert "no session 'nope'" in prompt.refused("/resume nope")
        assert "no session number 4" in prompt.refused("/resume 4")
        assert prompt.session is session and not session.closed


def test_a_session_that_was_left_may_be_used_by_another_process(make_host: HostFactory, home: Path) -> None:
    with ScriptedProvider([text("one")]) as provider:
        host = make_host(provider)
        prompt = Prompt(host)
        first = prompt.session
        first.run("hello")
        other = FileRunner(home / "runners")
        try:
            with pytest.raises(SessionBusy):
                undo_turns(host.store, other, first.id, 1)
            prompt.type("/new")
            assert len(undo_turns(host.store, other, first.id, 1)) == 1
        finally:
            other.close()


def test_who_can_be_asked_moves_along(make_host: HostFactory) -> None:
    class Somebody:
        surface = "cli"

        def approve(self, request: ApprovalRequest, interrupt: Interrupt) -> ApprovalAnswer:
            raise NotImplementedError

        def answer(self, question: str, choices: Any, interrupt: Interrupt) -> str | None:
            raise NotImplementedError

    with ScriptedProvider([]) as provider:
        host = make_host(provider)
        prompt = Prompt(host)
        somebody, first = Somebody(), prompt.session
        host.responders.attach(first.id, somebody)
        prompt.type("/new")
        assert host.responders.get(first.id) is None
        assert host.responders.get(prompt.session.id) is somebody


def test_branch_goes_on_in_a_copy(make_host: HostFactory) -> None:
    with ScriptedProvider([text("one"), text("two"), text("three"), text("four")]) as provider:
        host = make_host(provider)
        prompt = Prompt(host)
        original = prompt.session
        original.run("About cats")
        prompt.type("/tools disable terminal")
        answer = prompt.type("/branch Kittens instead")
        copy = prompt.session
        assert answer.startswith(f"Branched into session {copy.id}: Kittens instead.")
        assert (copy.offered, copy.models) == (original.offered, original.models)
        copy.run("And kittens?")
        prompt.type(f"/resume {original.id}")
        prompt.session.run("And tigers?")
    said = [[message["content"] for message in request.messages[1:]] for request in provider.requests]
    assert said[1] == ["About cats", "one", "And kittens?"]
    assert said[2] == ["About cats", "one", "And tigers?"]
    assert host.sessions.get(copy.id).branched_from == original.id
    assert host.sessions.get(copy.id).turns == 2


def test_an_empty_session_cannot_be_branched(make_host: HostFactory) -> None:
    with ScriptedProvider([]) as provider:
        prompt = Prompt(make_host(provider))
        session = prompt.session
        assert "nothing to branch from" in prompt.refused("/branch")
        assert prompt.session is session


def test_a_title_is_shown_given_and_kept_for_the_first_message(make_host: HostFactory) -> None:
    with ScriptedProvider([text("one"), text("two")]) as provider:
        host = make_host(provider)
        prompt = Prompt(host)
        assert prompt.type("/title").startswith("The session has no title yet")
        assert prompt.type("/title  My \n plan ") == "Title: My plan"
        assert prompt.type("/title") == "My plan"
        prompt.session.run("hello")
        assert host.sessions.get(prompt.session.id).title == "My plan"
        prompt.type("/title Another")
        assert prompt.type("/title") == "Another"
        assert host.sessions.get(prompt.session.id).title == "Another"


def test_quit_leaves(make_host: HostFactory) -> None:
    with ScriptedProvider([]) as provider:
        prompt = Prompt(make_host(provider))
        assert prompt.type("/exit") == "" and prompt.surface.left == 1
