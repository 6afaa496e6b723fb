"""Live turns: a log that is followed from any number on, questions that wait without a thread, and an end."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from hermes.agent.approvals.responder import ApprovalRequest
from hermes.agent.events import TurnResult
from hermes.agent.session import Session
from hermes.base.errors import JournalError, SessionNotFound, TurnSuspended
from hermes.base.sanitize import Redactor
from hermes.base.scope import Interrupt
from hermes.contract.events import EndpointSkipped, TextDelta, TextWithdrawn, ToolEnded, ToolStarted
from hermes.host import Host
from hermes.journal.questions import OWNER, QuestionRow, Questions
from hermes.journal.store.port import home_store
from hermes.journal.turns.lifecycle import Submission
from hermes.models.costs.usage import Usage
from hermes.service.dispatch.local import LocalDispatcher
from hermes.service.dispatch.port import TurnEntry, TurnRequest
from hermes.service.live.questions import (
    OpenQuestions,
    SuspendingResponder,
    asking,
    outgoing_subject,
    read_choice,
    refusing_unkept,
)
from hermes.service.live.turn import (
    AttemptDropped,
    LiveTurn,
    QuestionAnswered,
    QuestionAsked,
    ReplyEnded,
    TextAdded,
    TurnOver,
)
from hermes.service.live.turns import LiveTurns
from hermes.testing import ScriptedProvider, text, tool_call
from support.configured import configured_host
from support.waiting import wait_until

PLATFORM = "test"
RESULT = TurnResult("s1", "t1", "completed", "Done.", None, Usage(), "m", "p", 1, [], 0.1)


class Rig:
    """One home; each host with its turns stands for a process."""

    def __init__(self, home: Path, cwd: Path, provider: ScriptedProvider) -> None:
        self.home, self.cwd, self.provider = home, cwd, provider
        self.hosts: list[Host] = []
        self.timeout: float | None = None
        #: Whose turns are taken over from an earlier process.
        self.platforms: tuple[str, ...] = (PLATFORM,)

    def process(self) -> tuple[LiveTurns, LocalDispatcher]:
        host = configured_host(self.home, self.cwd, self.provider, options={"toolsets": ["terminal"]})
        self.hosts.append(host)
        dispatcher = LocalDispatcher(host, entries={PLATFORM: self._entry(host)}, platforms=self.platforms)
        dispatcher.start()
        turns = LiveTurns(host, *self.platforms)
        turns.start(dispatcher)
        return turns, dispatcher

    def _entry(self, host: Host) -> TurnEntry:
        @contextlib.contextmanager
        def entered(session: Session, _submission: Submission) -> Generator[None]:
            with asking(host, session, SuspendingResponder(PLATFORM, timeout=self.timeout)):
                yield

        return entered

    def accept(self, turns: LiveTurns, message: str = "Remove it.") -> LiveTurn:
        live = LiveTurn("s1", self.hosts[-1].redactor)
        turns.accept(
            live,
            TurnRequest(session_id="s1", message=message, request_key=message, platform=PLATFORM, cwd=str(self.cwd)),
        )
        return live


@pytest.fixture
def rig(home: Path, workdir: Path) -> Generator[Rig]:
    (workdir / "old").mkdir()
    script = [tool_call("terminal", {"command": "rm -r old"}), text("Said and done.")]
    with ScriptedProvider(script) as provider:
        rig = Rig(home, workdir, provider)
        yield rig
        for host in rig.hosts:
            host.close()


def kinds(live: LiveTurn) -> list[type]:
    return [type(entry.event) for entry in live.log]


def wait_for_question(live: LiveTurn) -> QuestionRow:
    wait_until(lambda: live.status == "waiting", "the question")
    return next(entry.event.question for entry in live.log if isinstance(entry.event, QuestionAsked))


def test_a_turn_from_its_text_to_its_end(rig: Rig) -> None:
    turns, _ = rig.process()
    live = rig.accept(turns)
    question = wait_for_question(live)
    assert (question.subject, question.surface) == ("rm -r old", PLATFORM)
    Questions(rig.hosts[0].store).answer(question.id, "once")
    wait_until(lambda: live.has_ended, "the end")
    before, after = kinds(live)[: kinds(live).index(QuestionAsked)], kinds(live)[kinds(live).index(QuestionAsked) :]
    assert before[0] is ReplyEnded
    assert [kind for kind in after if kind is not TextAdded] == [
        QuestionAsked,
        QuestionAnswered,
        ToolStarted,
        ToolEnded,
        ReplyEnded,
        TurnOver,
    ]
    assert "".join(entry.event.text for entry in live.log if isinstance(entry.event, TextAdded)) == "Said and done."
    assert [entry.number for entry in live.log] == list(range(len(live.log)))
    assert live.status == "completed"
    assert not (rig.cwd / "old").exists()


def test_a_question_without_an_answer_in_time_is_a_refusal(rig: Rig) -> None:
    rig.timeout = 0.2
    turns, _ = rig.process()
    live = rig.accept(turns)
    wait_until(lambda: live.has_ended, "the end")
    (row,) = Questions(rig.hosts[0].store).recent(5)
    assert (row.answer, row.reason) == ("timeout", "no answer in time")
    assert (rig.cwd / "old").exists()


def test_a_turn_that_waits_can_be_stopped(rig: Rig) -> None:
    turns, _ = rig.process()
    live = rig.accept(turns)
    question = wait_for_question(live)
    assert turns.stop(live, "no longer wanted")
    wait_until(lambda: live.has_ended, "the end")
    assert live.status == "cancelled"
    found = Questions(rig.hosts[0].store).get(question.id)
    assert found is not None
    assert found.state == "revoked"
    assert not turns.stop(live, "again")


def test_a_question_is_answered_by_another_process_while_none_follows_and_the_next_one_continues(rig: Rig) -> None:
    turns, dispatcher = rig.process()
    live = rig.accept(turns)
    question = wait_for_question(live)
    turns.close()
    dispatcher.release(0)
    rig.hosts[0].close()
    turns, _ = rig.process()
    again = LiveTurn("s1", rig.hosts[1].redactor)
    turns.take_up(again, live.turn_id)
    assert wait_for_question(again).id == question.id
    store = home_store(rig.home)
    with contextlib.closing(store):
        Questions(store).answer(question.id, "once")
    wait_until(lambda: again.has_ended, "the end")
    assert again.result is not None
    assert again.result.answer == "Said and done."
    assert not (rig.cwd / "old").exists()


def test_a_turn_that_no_one_follows_continues_too(rig: Rig) -> None:
    turns, dispatcher = rig.process()
    question = wait_for_question(live := rig.accept(turns))
    turns.close()
    dispatcher.release(0)
    rig.hosts[0].close()
    rig.process()
    Questions(rig.hosts[1].store).answer(question.id, "deny", "no")
    wait_until(
        lambda: getattr(rig.hosts[1].sessions.last_turn(live.session_id), "state", None) == "completed", "the end"
    )


# -- the log ---------------------------------------------------------------------------------------------------------


def test_the_text_of_a_turn_that_continues_after_a_restart_is_live(rig: Rig) -> None:
    """Also where no dispatcher took the turn over at its start: the surface takes it up."""
    turns, dispatcher = rig.process()
    first = rig.accept(turns)
    question = wait_for_question(first)
    turns.close()
    dispatcher.release()
    rig.hosts.pop().close()
    rig.platforms = ()
    turns, _ = rig.process()
    live = LiveTurn("s1", rig.hosts[-1].redactor)
    turns.take_up(live, first.turn_id)
    assert wait_for_question(live).id == question.id
    turns.questions.answer(question.id, "once", "")
    wait_until(lambda: live.has_ended, "the end")
    said = [entry.event.text for entry in live.log if isinstance(entry.event, TextAdded)]
    assert "".join(said) == "Said and done." and kinds(live).count(ToolEnded) == 1


def test_followers_join_at_any_number_and_get_the_rest() -> None:
    async def run() -> tuple[list[int], list[int]]:
        live = LiveTurn("s1", Redactor(), loop=asyncio.get_running_loop())
        live.listen(TextDelta("one"))
        all_of_it = asyncio.create_task(collect(live, 0))
        later = asyncio.create_task(collect(live, 2))
        await asyncio.sleep(0)
        await asyncio.to_thread(live.listen, TextDelta("two"))
        await asyncio.to_thread(live.listen, TextDelta("three"))
        live.end(RESULT)
        return await all_of_it, await later

    async def collect(live: LiveTurn, start: int) -> list[int]:
        return [entry.number async for batch in live.follow(start) for entry in batch]

    assert asyncio.run(run()) == ([0, 1, 2, 3], [2, 3])


def test_a_server_that_stops_sends_its_followers_away() -> None:
    async def run() -> None:
        live = LiveTurn("s1", Redactor(), loop=asyncio.get_running_loop())
        waiting = asyncio.create_task(live.wait())
        await asyncio.sleep(0)
        live.cut_off(RuntimeError("the server stops"))
        await waiting

    with pytest.raises(RuntimeError, match="the server stops"):
        asyncio.run(run())


def test_secrets_and_reasoning_between_tags_stay_out_of_the_stream() -> None:
    redactor = Redactor()
    redactor.add_secrets({"KEY": "correct-horse-battery"})
    live = LiveTurn("s1", redactor)
    for piece in ("It is correct-ho", "rse-battery", ". <thi", "nk>hm</think>Yes."):
        live.listen(TextDelta(piece))
    shown = "".join(entry.event.text for entry in live.log if isinstance(entry.event, TextAdded))
    assert "battery" not in shown
    assert "hm" not in shown
    assert shown.endswith("Yes.")


def test_text_that_does_not_count_is_taken_back() -> None:
    live = LiveTurn("s1", Redactor())
    live.listen(TextDelta("Half an an"))
    live.listen(TextWithdrawn())
    live.listen(EndpointSkipped("p", "m", "down"))
    live.listen(TextDelta("An answer."))
    assert kinds(live) == [TextAdded, TextWithdrawn, AttemptDropped, TextAdded]


def test_a_turn_ends_once() -> None:
    live = LiveTurn("s1", Redactor())
    live.end(RESULT)
    live.end(RESULT)
    assert kinds(live) == [TurnOver]


def test_a_subscriber_that_fails_is_called_no_more(caplog: pytest.LogCaptureFixture) -> None:
    live, heard = LiveTurn("s1", Redactor()), list[Any]()

    def fail(_entry: object) -> None:
        raise ValueError("broken")

    live.subscribe(fail)
    live.subscribe(heard.append)
    live.listen(TextDelta("a"))
    live.listen(TextDelta("b"))
    assert len(heard) == 2
    assert caplog.text.count("is called no more") == 1


# -- who is asked ----------------------------------------------------------------------------------------------------


def request(*, can_be_kept: bool = True) -> ApprovalRequest:
    return ApprovalRequest("a1", "s1", "c1", "terminal", {}, "rm -r x", "deletes", ("r",), 5, can_be_kept)


def test_a_responder_suspends_unless_no_one_need_be_asked() -> None:
    responder = SuspendingResponder("api", timeout=60, decide=refusing_unkept("not for callers"), can_answer=False)
    with pytest.raises(TurnSuspended) as suspended:
        responder.approve(request(), Interrupt())
    assert suspended.value.deadline is not None
    assert suspended.value.deadline > time.time() + 30
    assert responder.approve(request(can_be_kept=False), Interrupt()).reason == "not for callers"
    assert responder.answer("Which?", [], Interrupt()) is None
    assert SuspendingResponder("api", timeout=None, asks_owner=True).approval_surface == OWNER


def test_words_of_questions() -> None:
    row = QuestionRow("q", "s", "t", "k", "terminal", "d", "echo \u202e" + "x" * 100, (), "")
    shown = outgoing_subject(row, Redactor(), 50)
    assert "\u202e" not in shown
    assert "characters left out" in shown
    assert read_choice(" 2 ", ("red", "blue")) == "blue"
    assert read_choice("3", ("red", "blue")) == "3"


def test_a_turn_that_cannot_be_continued_does_not_hold_up_others(rig: Rig, caplog: pytest.LogCaptureFixture) -> None:
    turns, dispatcher = rig.process()
    question = wait_for_question(rig.accept(turns))
    turns.close()
    continued: list[str] = []

    def continue_turn(turn_id: str) -> None:
        continued.append(turn_id)
        if len(continued) == 1:
            raise JournalError("the disk is full")
        if turn_id == "deleted":
            raise SessionNotFound("no such session")

    waiting = OpenQuestions(rig.hosts[0].store, continue_turn)
    waiting.watch("deleted", [question])
    Questions(rig.hosts[0].store).answer(question.id, "deny")
    wait_until(lambda: len(continued) == 2, "the second try")
    waiting.watch("other", [question])
    wait_until(lambda: continued == ["deleted", "deleted", "other"], "the other turn")
    waiting.close()
    assert "the disk is full" in caplog.text
    assert "turn deleted cannot be continued" in caplog.text
    dispatcher.release(0)
