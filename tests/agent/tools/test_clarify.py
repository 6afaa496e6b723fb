"""Questions of the model's: asked when there is somebody, and something to act on when there is not."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import pytest

from hermes.agent.approvals.responder import ApprovalAnswer, ApprovalRequest
from hermes.base.scope import Interrupt
from hermes.testing import ScriptedProvider, text, tool_call
from support import HostFactory
from support.configured import tool_answers


class Someone:
    """A person who answers as the test says, and keeps what they were asked."""

    surface = "test"

    def __init__(self, answer: str | None) -> None:
        self.asked: list[tuple[str, list[str]]] = []
        self.called = threading.Event()
        self._answer = answer

    def approve(self, request: ApprovalRequest, interrupt: Interrupt) -> ApprovalAnswer:
        raise AssertionError("nothing here needs an approval")

    def answer(self, question: str, choices: Sequence[str], interrupt: Interrupt) -> str | None:
        self.asked.append((question, list(choices)))
        self.called.set()
        if self._answer == "(thinks)":
            interrupt.wait(60)
            interrupt.check()
        return self._answer


def ask(make_host: HostFactory, args: dict[str, Any], person: Someone | None) -> dict[str, Any]:
    with ScriptedProvider([tool_call("clarify", args), text("ok")]) as provider:
        host = make_host(provider)
        session = host.new_session()
        if person is not None:
            host.responders.attach(session.id, person)
        assert session.run("go").status == "completed"
        [answer] = tool_answers(host, session.id)
    return answer


def test_the_person_is_asked_and_the_model_gets_the_answer(make_host: HostFactory) -> None:
    person = Someone(" blue ")
    answer = ask(make_host, {"question": "Which colour?", "choices": ["red", "blue"]}, person)
    assert answer == {"question": "Which colour?", "choices_offered": ["red", "blue"], "user_response": "blue"}
    assert person.asked == [("Which colour?", ["red", "blue"])]


def test_an_open_question_has_no_choices(make_host: HostFactory) -> None:
    answer = ask(make_host, {"question": "Why?"}, Someone("because"))
    assert (answer["choices_offered"], answer["user_response"]) == (None, "because")


def test_somebody_who_will_not_answer_is_no_error(make_host: HostFactory) -> None:
    answer = ask(make_host, {"question": "Why?"}, Someone(None))
    assert answer["user_response"] is None and "assumed" in answer["note"]


def test_headless_says_how_to_go_on(make_host: HostFactory) -> None:
    answer = ask(make_host, {"question": "Why?"}, None)
    assert "no one to ask" in answer["error"] and "assumed" in answer["error"]


@pytest.mark.parametrize(
    ("args", "words"),
    [
        ({"question": "  "}, "empty"),
        ({"question": "?", "choices": list("abcde")}, "4"),
        ({"question": "x" * 2001}, "at most 2000"),
        ({"question": "?", "choices": ["x" * 301]}, "300"),
        ({}, "question"),
    ],
)
def test_a_question_that_cannot_be_asked_is_an_error(make_host: HostFactory, args: dict[str, Any], words: str) -> None:
    person = Someone("x")
    assert words in ask(make_host, args, person)["error"]
    assert person.asked == []


def test_cancelling_the_turn_ends_the_wait(make_host: HostFactory) -> None:
    person, interrupt = Someone("(thinks)"), Interrupt()
    with ScriptedProvider([tool_call("clarify", {"question": "Why?"}), text("never")]) as provider:
        host = make_host(provider)
        session = host.new_session()
        host.responders.attach(session.id, person)
        threading.Thread(target=lambda: person.called.wait(60) and interrupt.cancel("enough")).start()
        result = session.run("go", interrupt=interrupt)
    assert result.status == "interrupted"
    assert [call.status for call in result.tool_calls] == ["cancelled"]


def test_a_child_has_nobody_to_ask(make_host: HostFactory) -> None:
    with ScriptedProvider([tool_call("delegate_task", {"goal": "x"}), text("done"), text("ok")]) as provider:
        host = make_host(provider)
        session = host.new_session()
        host.responders.attach(session.id, Someone("x"))
        session.run("go")
    assert "clarify" not in {tool["function"]["name"] for tool in provider.requests[1].body["tools"]}


def test_questions_are_asked_one_at_a_time(make_host: HostFactory) -> None:
    with ScriptedProvider(text("ok")) as provider:
        tool = make_host(provider).tools.get("clarify")
    assert tool is not None and not tool.parallel and not tool.parallel_by_file
