"""The chat of the page: messages become turns, text streams to open pages, questions are answered there."""

from __future__ import annotations

import threading
from collections.abc import Generator
from contextlib import closing, contextmanager
from typing import Any

from hermes.host import Host
from hermes.journal.questions import Questions
from hermes.journal.store.port import home_store
from hermes.service.dispatch.local import LocalDispatcher
from hermes.surfaces.web.chat import PLATFORM, PageChat, page_entry
from hermes.surfaces.web.service import PageService
from hermes.testing import RecordedRequest, text, tool_call
from support.trace_runs import Rig
from support.waiting import wait_for, wait_until
from support.web_rig import Page, served


@contextmanager
def chatting(host: Host) -> Generator[Page]:
    dispatcher = LocalDispatcher(host, entries={PLATFORM: page_entry(host)}, platforms=[PLATFORM])
    service = PageService(host.store, host.runner, host.home, host.redactor, PageChat(host, dispatcher))
    with served(service) as page:
        yield page


def last_turn(host: Host, session_id: str) -> tuple[str, str | None]:
    turn = host.sessions.last_turn(session_id)
    return ("", None) if turn is None else (turn.state, turn.answer)


def wait_for_answer(host: Host, session_id: str, answer: str) -> None:
    wait_until(lambda: last_turn(host, session_id)[1] == answer, f"the answer {answer!r}")


def test_a_message_is_answered_in_a_new_session_and_the_next_in_the_same(rig: Rig) -> None:
    host = rig.host([text("Hello."), text("Again.")], platform=PLATFORM)
    with chatting(host) as page:
        accepted = page.post("/api/chat", {"text": "Hi", "key": "1"})
        assert accepted.status == 202
        session_id = accepted.json["session"]
        wait_for_answer(host, session_id, "Hello.")
        again = page.post("/api/chat", {"text": "And now?", "key": "2", "session": session_id}).json
        wait_for_answer(host, session_id, "Again.")
        assert again["session"] == session_id
        assert page.get("/api/sessions").json[0]["platform"] == "web"


def test_the_same_key_is_the_same_turn(rig: Rig) -> None:
    host = rig.host([text("Once.")], platform=PLATFORM)
    with chatting(host) as page:
        first = page.post("/api/chat", {"text": "Hi", "key": "1"}).json
        body = {"text": "Hi", "key": "1", "session": first["session"]}
        assert page.post("/api/chat", body).json == first
        wait_for_answer(host, first["session"], "Once.")
        assert page.post("/api/chat", {**body, "text": "Something else"}).status == 503
    assert host.sessions.turn_count(first["session"]) == 1


def test_messages_that_cannot_be_accepted_are_refused_with_words(rig: Rig) -> None:
    host = rig.host([], platform=PLATFORM)
    caller = host.new_session(principal="alice")
    with chatting(host) as page:
        for body, words in (
            ({"text": " ", "key": "1"}, "1 to"),
            ({"text": "x", "key": ""}, "key of its own"),
            ({"text": "x"}, "missing required field `key`"),
            ({"text": "x", "key": "1", "session": "none"}, "no session 'none'"),
        ):
            assert words in page.post("/api/chat", body).json["error"]
        assert page.post(f"/api/chat/{caller.id}/stop", {}).json == {"stopped": False}


def test_the_answer_streams_to_open_pages(rig: Rig) -> None:
    asked, may_answer = threading.Event(), threading.Event()

    def answer(_request: RecordedRequest) -> Any:
        asked.set()
        wait_for(may_answer)
        return text("A long answer, in pieces.")

    host = rig.host(answer, platform=PLATFORM)
    with chatting(host) as page:
        session_id = page.post("/api/chat", {"text": "Hi", "key": "1"}).json["session"]
        wait_for(asked)
        with closing(page.live(f"/api/sessions/{session_id}/live")) as events:
            events.next("rows")
            may_answer.set()
            said = ""
            while said != "A long answer, in pieces.":
                said += events.next("text")["data"]["text"]


def test_a_call_waits_for_its_approval_in_the_page(rig: Rig) -> None:
    (rig.workdir / "old").mkdir()
    script = [tool_call("terminal", {"command": "rm -r old"}), text("Removed.")]
    host = rig.host(script, platform=PLATFORM, toolsets=["terminal"])
    questions = Questions(host.store)
    with chatting(host) as page:
        session_id = page.post("/api/chat", {"text": "Remove it.", "key": "1"}).json["session"]
        wait_until(lambda: questions.pending(session_id=session_id), "the question")
        (shown,) = page.get("/api/approvals").json["waiting"]
        assert (shown["subject"], shown["surface"]) == ("rm -r old", "web")
        assert (rig.workdir / "old").exists()
        page.post(f"/api/approvals/{shown['id']}", {"answer": "once"})
        wait_for_answer(host, session_id, "Removed.")
    assert not (rig.workdir / "old").exists()


def test_what_is_asked_about_every_time_is_not_approved_for_a_session(rig: Rig) -> None:
    command = "hermes config set agent.max_turns 5"
    script = [tool_call("terminal", {"command": f"true || {command}"}) for _ in range(2)]
    host = rig.host([*script, text("Done.")], platform=PLATFORM, toolsets=["terminal"])
    questions = Questions(host.store)
    with chatting(host) as page:
        session_id = page.post("/api/chat", {"text": "Set it.", "key": "1"}).json["session"]
        asked: set[str] = set()
        for _ in range(2):
            wait_until(lambda: {row.id for row in questions.pending(session_id=session_id)} - asked, "a question")
            (row,) = questions.pending(session_id=session_id)
            asked.add(row.id)
            assert page.post(f"/api/approvals/{row.id}", {"answer": "session"}).status == 200
        wait_for_answer(host, session_id, "Done.")
    assert len(asked) == 2


def test_a_question_outlives_the_page(rig: Rig) -> None:
    """The answer comes while no page runs; the next one continues the turn."""
    (rig.workdir / "old").mkdir()
    script = [tool_call("terminal", {"command": "rm -r old"}), text("Removed.")]
    host = rig.host(script, platform=PLATFORM, toolsets=["terminal"])
    questions = Questions(host.store)
    with chatting(host) as page:
        session_id = page.post("/api/chat", {"text": "Remove it.", "key": "1"}).json["session"]
        wait_until(lambda: questions.pending(session_id=session_id), "the question")
        wait_until(lambda: page.get("/api/sessions").json[0]["state"] == "waiting", "the suspension")
    (row,) = questions.pending(session_id=session_id)
    questions.answer(row.id, "deny", "not now")
    with chatting(host):
        wait_for_answer(host, session_id, "Removed.")
    assert (rig.workdir / "old").exists()


def test_an_answer_of_another_process_continues_the_turn_though_no_page_is_open(rig: Rig) -> None:
    script = [tool_call("terminal", {"command": "rm -r old"}), text("Not removed.")]
    host = rig.host(script, platform=PLATFORM, toolsets=["terminal"])
    with chatting(host) as page, closing(home_store(rig.home)) as store:
        session_id = page.post("/api/chat", {"text": "Remove it.", "key": "1"}).json["session"]
        questions = Questions(store)
        wait_until(lambda: questions.pending(session_id=session_id), "the question")
        questions.answer(questions.pending(session_id=session_id)[0].id, "deny")
        wait_for_answer(host, session_id, "Not removed.")


def test_a_running_turn_is_stopped(rig: Rig) -> None:
    asked, never = threading.Event(), threading.Event()

    def answer(_request: RecordedRequest) -> Any:
        asked.set()
        never.wait(60)
        return text("Too late.")

    host = rig.host(answer, platform=PLATFORM)
    with chatting(host) as page:
        session_id = page.post("/api/chat", {"text": "Hi", "key": "1"}).json["session"]
        wait_for(asked)
        assert page.post(f"/api/chat/{session_id}/stop", {}).json == {"stopped": True}
        wait_until(lambda: last_turn(host, session_id)[0] == "interrupted", "the end of the turn")
        never.set()
