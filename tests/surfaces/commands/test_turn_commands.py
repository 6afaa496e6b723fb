"""Undo, retry, history and compress change what the model hears, and nothing else."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from hermes.base.errors import SessionBusy
from hermes.base.scope import Interrupt
from hermes.testing import ScriptedProvider, failure, hanging, text, tool_call
from support import HostFactory
from support.surfaces import Prompt


def heard(provider: ScriptedProvider, number: int) -> list[Any]:
    """What a request told the model, without the system prompt."""
    return [message["content"] for message in provider.requests[number].messages[1:]]


def test_what_was_undone_is_never_told_to_the_model_again(make_host: HostFactory) -> None:
    with ScriptedProvider([text("one"), text("two"), text("three"), text("four")]) as provider:
        host = make_host(provider)
        prompt = Prompt(host)
        for message in ("first", "second", "third"):
            prompt.session.run(message)
        answer = prompt.type("/undo 2")
        assert answer.splitlines() == ["Took back 2 turns:", "  second", "  third"]
        assert [message["content"] for message in prompt.session.messages()] == ["first", "one"]
        prompt.session.run("instead")
    assert heard(provider, 3) == ["first", "one", "instead"]


def test_undo_works_after_a_resume_and_before_another(make_host: HostFactory) -> None:
    with ScriptedProvider([text("one"), text("two"), text("three")]) as provider:
        host = make_host(provider)
        session = host.new_session()
        session.run("first")
        session.run("second")
        session_id = session.id
        host.close()
        again = make_host(provider)
        Prompt(again, again.resume_session(session_id)).type("/undo")
        again.close()
        last = make_host(provider)
        last.resume_session(session_id).run("instead")
    assert heard(provider, 2) == ["first", "one", "instead"]


def test_undo_asks_first_and_needs_something_to_take_back(make_host: HostFactory) -> None:
    with ScriptedProvider([text("one")]) as provider:
        prompt = Prompt(make_host(provider))
        assert "nothing to take back" in prompt.refused("/undo")
        assert prompt.surface.questions == []
        prompt.session.run("hello")
        prompt.surface.says_yes = False
        assert prompt.type("/undo 9") == "Nothing was taken back."
        assert prompt.surface.questions == ["Take back the last turn?"]
        assert len(prompt.session.messages()) == 2
        for wrong in ("0", "-1", "two", "1.5", "99999999999"):
            assert "whole number from 1 on" in prompt.refused(f"/undo {wrong}")


def test_a_running_turn_cannot_be_undone(make_host: HostFactory) -> None:
    with ScriptedProvider([text("one"), hanging()]) as provider:
        session = make_host(provider).new_session()
        session.run("first")
        interrupt = Interrupt()
        turn = threading.Thread(target=session.run, args=("second",), kwargs={"interrupt": interrupt})
        turn.start()
        try:
            provider.wait_for_request(2)
            with pytest.raises(SessionBusy, match="answering another message"):
                session.undo()
        finally:
            interrupt.cancel()
            turn.join(60)
        assert [len(session.undo()), len(session.undo()), len(session.undo())] == [1, 1, 0]


def test_retry_asks_the_same_again_in_a_new_turn(make_host: HostFactory) -> None:
    with ScriptedProvider([text("one"), failure(400), text("two")]) as provider:
        host = make_host(provider)
        prompt = Prompt(host)
        assert "nothing to ask again" in prompt.refused("/retry")
        prompt.session.run("first")
        prompt.session.run("second")
        assert prompt.type("/retry") == "Asking again: second"
        assert prompt.surface.asked == ["second"]
        records = host.sessions.export(prompt.session.id)
    assert heard(provider, 2) == ["first", "one", "second"]
    turns = [(turn["state"], turn["undone"]) for turn in records if turn["record"] == "turn"]
    assert turns == [("completed", False), ("failed", True), ("completed", False)]


def test_init_asks_the_agent_for_an_agents_file(make_host: HostFactory) -> None:
    with ScriptedProvider([text("written")]) as provider:
        prompt = Prompt(make_host(provider))
        assert "AGENTS.md" in prompt.type("/init Mention the Makefile.")
    assert "write an AGENTS.md" in heard(provider, 0)[0] and heard(provider, 0)[0].endswith("Mention the Makefile.")


def test_retry_keeps_the_images_of_the_message(make_host: HostFactory) -> None:
    parts = [
        {"type": "text", "text": "what is this?"},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}},
    ]
    with ScriptedProvider([text("a cat"), text("a dog")]) as provider:
        prompt = Prompt(make_host(provider))
        prompt.session.run(parts)
        assert prompt.type("/retry") == "Asking again: what is this?"
    assert prompt.surface.asked == [parts]


def test_compress_shortens_what_the_model_hears_and_can_be_undone_with_a_turn(make_host: HostFactory) -> None:
    answers = [text(f"answer {number} " + "x" * 2_000) for number in range(12)]
    with ScriptedProvider([*answers, text("They counted."), text("after"), text("later")]) as provider:
        host = make_host(provider)
        host.config.model.context_length = 20_000
        host.config.compression.enabled = False  # only when it is asked for
        host.config.compression.protect_first_n = host.config.compression.protect_last_n = 2
        prompt = Prompt(host)
        assert "nothing to compress" in prompt.refused("/compress")
        for number in range(12):
            prompt.session.run(f"question {number}")
        answer = prompt.type("/compact the numbers")
        assert answer.startswith("Compressed 24 messages (") and answer.endswith("stays in the journal.")
        prompt.session.run("go on")
        assert 1 < len(heard(provider, 13)) < 12 and heard(provider, 13)[-1] == "go on"
        original = prompt.session
        prompt.type("/branch")  # the copy hears the same
        assert prompt.session.messages() == original.messages()
        # Taking back what the summary tells of brings back the rest word for word.
        prompt.type("/undo 2")
        prompt.session.run("instead")
    assert len(heard(provider, 14)) == 23 and "question 10" in heard(provider, 14)
    assert "question 11" not in heard(provider, 14)
    assert "the numbers" in provider.requests[12].last_user_text


def test_history_shows_what_was_said_and_which_tools_were_called(make_host: HostFactory) -> None:
    script = [tool_call("search_files", {"pattern": "x"}), text("Done."), text("x" * 2_000)]
    with ScriptedProvider(script) as provider:
        prompt = Prompt(make_host(provider))
        assert prompt.type("/history") == "Nothing was said yet."
        prompt.session.run("go")
        assert prompt.type("/history").split("\n\n") == [
            "You:\ngo",
            'Assistant:\n  > search_files {"pattern":"x"}',
            "Assistant:\nDone.",
        ]
        prompt.session.run("more")
        short = prompt.type("/history 1")
    assert short.startswith("(4 messages before these)\n\nAssistant:\nxxx") and "1,000 more characters" in short
