"""Submitted turns in one process: accepted on disk, run in order, cancelled, suspended, taken over by the next one."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest

from hermes.agent.approvals.responder import ApprovalAnswer, ApprovalRequest
from hermes.agent.session import Session, stored_result
from hermes.base.config.schema.sections import WorkerConfig
from hermes.base.errors import JournalError, QueueFull, SessionBusy, SessionNotFound, TurnSuspended
from hermes.base.scope import Interrupt
from hermes.contract.events import TextDelta, TurnEvent
from hermes.host import Host
from hermes.journal.history.inspection import inspect_session
from hermes.journal.questions import Questions
from hermes.journal.sessions import Sessions
from hermes.journal.turns.lifecycle import Submission, find_submission
from hermes.journal.turns.recovery import MAX_TAKE_UPS
from hermes.service.dispatch.local import LocalDispatcher
from hermes.service.dispatch.port import CHILDREN, Dispatcher, TurnRequest
from hermes.service.dispatch.results import completed_result
from hermes.testing import EventRecorder, RecordedRequest, ScriptedProvider, ScriptedReply, by_step, text, tool_call
from hermes.trace.verify.session import verify
from support.cluster_rig import answer_of
from support.configured import configured_host
from support.left_turn import COMMAND, check_taken_up_once, leave_turn
from support.settled_turns import wait_turn
from support.waiting import HANG, wait_until


class Model:
    """Answers every message with itself; a message that begins with ``hold`` waits until it is let go."""

    def __init__(self) -> None:
        self.gate = threading.Event()
        self.asked: list[str] = []

    def __call__(self, request: RecordedRequest) -> ScriptedReply:
        said = request.last_user_text
        self.asked.append(said)
        if said.startswith("hold"):
            return text(f"Answer to {said}", hold=self.gate)
        if said.startswith("run"):
            return by_step(tool_call("terminal", {"command": f"rm -r {said[4:]}"}), text("Run."))(request)  # type: ignore[return-value]
        return text(f"Answer to {said}")


class Rig:
    """A home, a scripted model and dispatchers on it; each dispatcher stands for one process."""

    def __init__(self, home: Path, cwd: Path) -> None:
        self.home, self.cwd = home, cwd
        self.model = Model()
        self.provider = ScriptedProvider(self.model)
        self.hosts: list[Host] = []

    def host(self, **settings: Any) -> Host:
        self.hosts.append(configured_host(self.home, self.cwd, self.provider, worker=WorkerConfig(**settings)))
        return self.hosts[-1]

    def dispatcher(self, *, starts: bool = True, entries: Any = None, **settings: Any) -> LocalDispatcher:
        dispatcher = LocalDispatcher(self.host(**settings), entries=entries)
        if starts:
            dispatcher.start()
        return dispatcher

    def request(self, message: str, session_id: str = "s1", **fields: Any) -> TurnRequest:
        values: dict[str, Any] = {"request_key": message, "platform": "test", "cwd": str(self.cwd), **fields}
        return TurnRequest(session_id=session_id, message=message, **values)

    def query(self, sql: str) -> list[Any]:
        with closing(sqlite3.connect(self.home / "state.db")) as connection:
            return connection.execute(sql).fetchall()

    def close(self) -> None:
        self.model.gate.set()
        for host in self.hosts:
            host.close()
        self.provider.close()


@pytest.fixture
def rig(home: Path, workdir: Path) -> Generator[Rig]:
    rig = Rig(home, workdir)
    with rig.provider:
        yield rig
        rig.close()


def ended(dispatcher: Dispatcher, turn_id: str) -> str:
    """The answer of a turn, or how it ended without one."""
    turn = wait_turn(dispatcher, turn_id, timeout=HANG)
    assert turn.result is not None, turn
    return turn.result.answer or turn.result.status


def test_a_turn_is_on_disk_before_submit_returns(rig: Rig) -> None:
    dispatcher = rig.dispatcher(starts=False)
    ticket = dispatcher.submit(rig.request("hello"))
    assert ticket.is_new
    assert rig.query("SELECT id, state, ordinal FROM turns") == [(ticket.turn_id, "queued", -1)]
    assert wait_turn(dispatcher, ticket.turn_id, timeout=0).state == "queued"
    dispatcher.start()
    assert ended(dispatcher, ticket.turn_id) == "Answer to hello"
    assert rig.query("SELECT state, ordinal FROM turns") == [("completed", 0)]


def test_the_end_of_a_turn_releases_its_session(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    alone: list[object] = []

    def release(*values: object) -> None:
        alone.append(values)

    monkeypatch.setattr("hermes.service.dispatch.execution.release_lease", release)
    dispatcher = rig.dispatcher()
    assert ended(dispatcher, dispatcher.submit(rig.request("hello")).turn_id) == "Answer to hello"
    assert rig.query("SELECT runner FROM sessions") == [(None,)]
    assert alone == []


def test_the_next_process_runs_what_was_to_start_at_once(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    first = rig.dispatcher()
    ended(first, first.submit(rig.request("hello")).turn_id)
    monkeypatch.setattr(rig.hosts[0].workers, "submit", list[object]().append)  # the process dies before it runs
    ticket = first.submit(rig.request("again"))
    rig.hosts[0].runner.close()
    assert ended(rig.dispatcher(), ticket.turn_id) == "Answer to again"
    assert rig.model.asked == ["hello", "again"]


def test_a_turn_waits_while_its_session_is_in_use_and_its_slot_stays_free(rig: Rig) -> None:
    dispatcher = rig.dispatcher(slots=1)
    ended(dispatcher, dispatcher.submit(rig.request("first")).turn_id)
    session = rig.hosts[0].resume_session("s1")
    using = threading.Thread(target=lambda: session.run("hold"))
    using.start()
    rig.provider.wait_for_request(2)
    ticket = dispatcher.submit(rig.request("second"))
    assert rig.query("SELECT state FROM turns WHERE request_key = 'second'") == [("queued",)]
    assert ended(dispatcher, dispatcher.submit(rig.request("other", "s2")).turn_id) == "Answer to other"
    rig.model.gate.set()
    using.join(HANG)
    assert ended(dispatcher, ticket.turn_id) == "Answer to second"


def test_what_cannot_be_accepted_takes_no_slot(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    dispatcher = rig.dispatcher(slots=1)
    ended(dispatcher, dispatcher.submit(rig.request("first")).turn_id)

    def fail(*_values: Any, **_options: Any) -> str:
        raise JournalError("no")

    with monkeypatch.context() as patch:
        patch.setattr("hermes.service.dispatch.execution.accept_turn", fail)
        with pytest.raises(JournalError):
            dispatcher.submit(rig.request("second"))
    assert (dispatcher.running, dispatcher.waiting) == (0, 0)
    assert ended(dispatcher, dispatcher.submit(rig.request("third")).turn_id) == "Answer to third"


def test_the_next_process_runs_what_the_last_one_accepted(rig: Rig) -> None:
    first = rig.dispatcher(starts=False)
    tickets = [first.submit(rig.request(name)) for name in ("one", "two")]
    second = rig.dispatcher()
    assert [ended(second, ticket.turn_id) for ticket in tickets] == ["Answer to one", "Answer to two"]
    assert rig.model.asked == ["one", "two"]
    # The conversation is whole: the second request has the first answer.
    assert "Answer to one" in str(rig.provider.requests[1].messages)


def test_the_turns_of_a_session_run_in_order_and_those_of_others_beside_them(rig: Rig) -> None:
    dispatcher = rig.dispatcher(slots=2)
    held = dispatcher.submit(rig.request("hold"))
    second = dispatcher.submit(rig.request("second"))
    other = dispatcher.submit(rig.request("other", "s2"))
    assert ended(dispatcher, other.turn_id) == "Answer to other"
    assert wait_turn(dispatcher, second.turn_id, timeout=0).state == "queued"
    assert (dispatcher.running, dispatcher.waiting) == (1, 1)
    rig.model.gate.set()
    assert ended(dispatcher, held.turn_id) == "Answer to hold"
    assert ended(dispatcher, second.turn_id) == "Answer to second"


def test_the_same_key_is_the_same_turn(rig: Rig) -> None:
    dispatcher = rig.dispatcher()
    first = dispatcher.submit(rig.request("hello"))
    ended(dispatcher, first.turn_id)
    again = dispatcher.submit(rig.request("hello"))
    assert (again.turn_id, again.is_new) == (first.turn_id, False)
    assert ended(dispatcher, again.turn_id) == "Answer to hello"
    assert rig.model.asked == ["hello"]
    with pytest.raises(JournalError, match="another message with this request key"):
        dispatcher.submit(rig.request("other", request_key="hello"))


def test_the_same_key_while_the_turn_waits_is_the_same_turn(rig: Rig) -> None:
    dispatcher = rig.dispatcher(starts=False)
    tickets = [dispatcher.submit(rig.request("hello")) for _ in range(2)]
    assert tickets[0].turn_id == tickets[1].turn_id
    dispatcher.start()
    ended(dispatcher, tickets[0].turn_id)
    assert rig.model.asked == ["hello"]


def test_a_waiting_turn_that_is_cancelled_never_starts(rig: Rig) -> None:
    dispatcher = rig.dispatcher()
    held = dispatcher.submit(rig.request("hold"))
    waits = dispatcher.submit(rig.request("never"))
    third = dispatcher.submit(rig.request("third"))
    assert dispatcher.cancel(waits.turn_id, "changed my mind")
    assert ended(dispatcher, waits.turn_id) == "interrupted"
    rig.model.gate.set()
    assert ended(dispatcher, third.turn_id) == "Answer to third"
    assert not dispatcher.cancel(waits.turn_id)
    assert not dispatcher.cancel(held.turn_id)
    assert rig.model.asked == ["hold", "third"]
    host = rig.host()
    assert verify(inspect_session(host.store, "s1")) == []
    assert "never" not in str(host.sessions.messages("s1"))


def test_a_running_turn_is_cancelled_through_its_interrupt(rig: Rig) -> None:
    dispatcher = rig.dispatcher()
    held = dispatcher.submit(rig.request("hold"))
    rig.provider.wait_for_request()
    assert dispatcher.cancel(held.turn_id, "stop")
    assert ended(dispatcher, held.turn_id) == "interrupted"


def test_live_events_reach_the_listener_and_one_that_fails_costs_no_turn(rig: Rig) -> None:
    dispatcher = rig.dispatcher(starts=False)
    heard: list[TurnEvent] = []

    def broken(_event: TurnEvent) -> None:
        raise RuntimeError("no")

    ticket = dispatcher.submit(rig.request("hello"), listener=heard.append)
    dispatcher.submit(rig.request("hello"), listener=broken)
    dispatcher.start()
    ended(dispatcher, ticket.turn_id)
    assert "".join(event.text for event in heard if isinstance(event, TextDelta)) == "Answer to hello"


def test_too_many_waiting_turns_are_refused(rig: Rig) -> None:
    dispatcher = rig.dispatcher(starts=False, max_waiting=3, max_waiting_of_principal=2)
    dispatcher.submit(rig.request("a", principal="ann"))
    dispatcher.submit(rig.request("b", principal="ann"))
    with pytest.raises(QueueFull, match=r"of this caller.*max_waiting_of_principal"):
        dispatcher.submit(rig.request("c", principal="ann"))
    dispatcher.submit(rig.request("d", "s2", principal="bob"))
    with pytest.raises(QueueFull, match=r"3 turns wait already"):
        dispatcher.submit(rig.request("e", "s3", principal="eve"))
    assert len(rig.query("SELECT * FROM turns")) == 3


def test_children_run_while_their_parents_use_every_slot(rig: Rig) -> None:
    dispatcher = rig.dispatcher(slots=1, child_slots=1)
    parent = dispatcher.submit(rig.request("hold"))
    child = dispatcher.submit(rig.request("child", "s2", queue=CHILDREN))
    assert ended(dispatcher, child.turn_id) == "Answer to child"
    rig.model.gate.set()
    ended(dispatcher, parent.turn_id)


def test_release_lets_running_turns_end_and_leaves_the_rest(rig: Rig) -> None:
    dispatcher = rig.dispatcher()
    held = dispatcher.submit(rig.request("hold"))
    rig.provider.wait_for_request()
    waits = dispatcher.submit(rig.request("later"))
    assert not dispatcher.release(timeout=0)
    rig.model.gate.set()
    assert dispatcher.release(timeout=HANG)
    assert ended(dispatcher, held.turn_id) == "Answer to hold"
    assert wait_turn(dispatcher, waits.turn_id, timeout=0).state == "queued"
    assert ended(rig.dispatcher(), waits.turn_id) == "Answer to later"


def test_a_session_is_free_for_other_processes_between_turns(rig: Rig) -> None:
    dispatcher = rig.dispatcher()
    ended(dispatcher, dispatcher.submit(rig.request("one")).turn_id)
    with rig.host() as other:
        other.resume_session("s1").run("from the command line")
    ended(dispatcher, dispatcher.submit(rig.request("two")).turn_id)
    assert "from the command line" in str(rig.provider.requests[-1].messages)


def test_what_another_process_added_is_part_of_the_next_request(rig: Rig) -> None:
    first, second = rig.dispatcher(), rig.dispatcher()
    for dispatcher, said in ((first, "one"), (first, "two"), (second, "three"), (first, "four")):
        ended(dispatcher, dispatcher.submit(rig.request(said)).turn_id)
    said = [message["content"] for message in rig.provider.requests[-1].messages if message["role"] == "user"]
    assert said == ["one", "two", "three", "four"]


def test_the_conversation_of_an_open_session_is_not_read_again(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    dispatcher = rig.dispatcher()
    ended(dispatcher, dispatcher.submit(rig.request("one")).turn_id)
    monkeypatch.setattr(Sessions, "context", None)
    monkeypatch.setattr(Sessions, "get", None)
    assert ended(dispatcher, dispatcher.submit(rig.request("two")).turn_id) == "Answer to two"
    assert "Answer to one" in str(rig.provider.requests[-1].messages)


def test_a_session_that_is_unloaded_to_save_memory_is_not_over(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    over: list[str] = []

    class Watcher:
        def register(self, ctx: Any) -> None:
            ctx.register_hook("on_session_finalize", self.note)

        def note(self, session_id: str, **_others: Any) -> None:
            over.append(session_id)

    monkeypatch.setattr("hermes.service.dispatch.execution.MAX_OPEN_SESSIONS", 1)
    host = configured_host(rig.home, rig.cwd, rig.provider, options={"plugin_objects": [Watcher()]})
    with host:
        dispatcher = LocalDispatcher(host)
        dispatcher.start()
        for session_id in ("s1", "s2", "s3"):
            ended(dispatcher, dispatcher.submit(rig.request("hello", session_id)).turn_id)
        wait_until(lambda: [session.id for session in host.open_sessions if not session.closed] == ["s3"], "room")
        assert over == []
        ended(dispatcher, dispatcher.submit(rig.request("again", "s1")).turn_id)
        assert "Answer to hello" in str(rig.provider.requests[-1].messages)
        wait_until(lambda: host.open_sessions.get("s3") is None, "room")
    assert over == ["s1"]


def test_a_turn_waits_while_another_process_has_its_session(rig: Rig) -> None:
    other = rig.host()
    session = other.new_session()
    session.run("first")
    dispatcher = rig.dispatcher()
    ticket = dispatcher.submit(rig.request("second", session.id))
    wait_until(lambda: dispatcher.running == 0 and dispatcher.waiting == 0, "the first try")
    assert wait_turn(dispatcher, ticket.turn_id, timeout=0).state in ("queued", "running")
    other.runner.close()
    assert ended(dispatcher, ticket.turn_id) == "Answer to second"


def test_a_turn_whose_folder_is_gone_fails_with_the_reason(rig: Rig) -> None:
    dispatcher = rig.dispatcher()
    ticket = dispatcher.submit(rig.request("hello", cwd=str(rig.cwd / "gone")))
    turn = wait_turn(dispatcher, ticket.turn_id, timeout=HANG)
    assert turn.result is not None
    assert turn.result.status == "failed"
    assert "gone" in (turn.result.error or "")
    assert wait_turn(dispatcher, ticket.turn_id).result == turn.result


def test_a_turn_that_always_kills_its_process_ends_as_a_dead_letter(rig: Rig) -> None:
    ticket = rig.dispatcher(starts=False).submit(rig.request("hold"))
    host = rig.host()
    turn = host.store.read(lambda connection: find_submission(connection, ticket.turn_id))
    assert turn is not None

    class Killed(BaseException):
        pass

    def die(_event: TurnEvent) -> None:
        raise Killed

    for _ in range(MAX_TAKE_UPS + 1):
        session = host.resume_session("s1")
        with pytest.raises(Killed):
            session.run_accepted(turn, listener=die)
    result = host.resume_session("s1").run_accepted(turn)
    assert (result.status, result.error_type) == ("failed", "TakenUpTooOften")
    assert rig.provider.requests == []


def test_the_next_process_finishes_the_turn_of_a_killed_one_and_repeats_no_call(home: Path, workdir: Path) -> None:
    with ScriptedProvider([COMMAND, text("Done."), text("Next.")]) as provider:
        session_id = leave_turn(home, workdir, provider, is_dispatched=True)
        with configured_host(home, workdir, provider) as host:
            dispatcher = LocalDispatcher(host)
            dispatcher.start()
            request = TurnRequest(
                session_id=session_id, message="Go.", request_key="go", platform="test", cwd=str(workdir)
            )
            again = dispatcher.submit(request)
            ended = wait_turn(dispatcher, again.turn_id, timeout=HANG)
            assert not again.is_new and ended.result is not None and ended.result.answer == "Done."
        check_taken_up_once(workdir, provider.requests[-1].messages)
        assert len(provider.requests) == 2


def test_a_plugin_that_ends_the_program_ends_no_turn_and_keeps_no_slot(rig: Rig) -> None:
    tries: list[int] = []

    @contextmanager
    def entered(_session: Session, _submission: Submission) -> Generator[None]:
        tries.append(1)
        if len(tries) == 1:
            raise SystemExit(3)
        yield

    dispatcher = rig.dispatcher(entries={"test": entered}, slots=1)
    assert (
        answer_of(wait_turn(dispatcher, dispatcher.submit(rig.request("hello")).turn_id, timeout=HANG))
        == "Answer to hello"
    )
    assert len(tries) == 2 and dispatcher.running == 0


def test_surfaces_may_add_their_entries_after_the_dispatcher_was_made(rig: Rig) -> None:
    entered: list[str] = []

    @contextmanager
    def enter(session: Session, _submission: Submission) -> Generator[None]:
        entered.append(session.id)
        yield

    entries: dict[str, Any] = {}  # a gateway without platforms, whose API joins it afterwards
    dispatcher = rig.dispatcher(entries=entries)
    entries["test"] = enter
    wait_turn(dispatcher, dispatcher.submit(rig.request("hello")).turn_id, timeout=HANG)
    assert entered == ["s1"]


def test_a_surface_with_limits_of_its_own_is_not_limited_again(rig: Rig) -> None:
    dispatcher = LocalDispatcher(rig.host(slots=1, max_waiting=1), slots=3)
    turns = [dispatcher.submit(rig.request(f"hold {number}", f"s{number}")).turn_id for number in range(5)]
    dispatcher.start()
    wait_until(lambda: len(rig.model.asked) == 3, "three turns at once")
    assert (dispatcher.running, dispatcher.waiting) == (3, 2)
    rig.model.gate.set()
    assert [answer_of(wait_turn(dispatcher, turn, timeout=HANG)) for turn in turns] == [
        f"Answer to hold {number}" for number in range(5)
    ]


def test_a_result_from_the_record_is_that_of_the_process_that_ran_the_turn(rig: Rig) -> None:
    dispatcher = rig.dispatcher()
    live = wait_turn(dispatcher, dispatcher.submit(rig.request("run nothing-there")).turn_id, timeout=HANG).result
    assert live is not None and live.tool_calls
    store = rig.host().store
    recorded = stored_result(store, live.turn_id)
    assert recorded is not None and not recorded.model
    found = completed_result(store, recorded)
    calls = [[(call.tool_name, call.status, call.result) for call in one.tool_calls] for one in (found, live)]
    assert calls[0] == calls[1] and found.duration > 0
    unlike: dict[str, Any] = {"tool_calls": [], "duration": 0.0}
    assert msgspec.structs.replace(found, **unlike) == msgspec.structs.replace(live, **unlike)
    assert completed_result(store, live) is live


# -- questions ------------------------------------------------------------------------------------------------------


class Later:
    """A user who answers later."""

    surface = "test"

    def __init__(self, meanwhile: Callable[[], object] = lambda: None) -> None:
        #: Happens between the question and the suspension of its turn.
        self._meanwhile = meanwhile

    def approve(self, request: ApprovalRequest, interrupt: Interrupt) -> ApprovalAnswer:
        self._meanwhile()
        raise TurnSuspended(None)

    def answer(self, question: str, choices: Any, interrupt: Interrupt) -> str | None:
        raise TurnSuspended(None)


def asking(host: Host, meanwhile: Callable[[], object] = lambda: None) -> Any:
    def enter(session: Session, _submission: Submission) -> AbstractContextManager[None]:
        @contextmanager
        def attached() -> Generator[None]:
            host.responders.attach(session.id, Later(meanwhile))
            yield
            host.responders.detach(session.id)

        return attached()

    return {"test": enter}


def suspended(rig: Rig) -> tuple[LocalDispatcher, Host, str, str]:
    """A turn that waits for an approval, and one that waits behind it."""
    host = rig.host()
    dispatcher = LocalDispatcher(host, entries=asking(host))
    dispatcher.start()
    (rig.cwd / "folder").mkdir()
    asks = dispatcher.submit(rig.request("run folder"))
    behind = dispatcher.submit(rig.request("behind"))
    assert wait_turn(dispatcher, asks.turn_id, timeout=HANG).state == "suspended"
    return dispatcher, host, asks.turn_id, behind.turn_id


def test_a_suspended_turn_continues_with_the_answer_before_those_behind_it(rig: Rig) -> None:
    dispatcher, host, asks, behind = suspended(rig)
    assert wait_turn(dispatcher, behind, timeout=0).state == "queued"
    assert dispatcher.running == 0
    (question,) = Questions(host.store).pending()
    Questions(host.store).answer(question.id, "once")
    dispatcher.resume(asks)
    assert ended(dispatcher, asks) == "Run."
    assert not (rig.cwd / "folder").exists()
    assert ended(dispatcher, behind) == "Answer to behind"


def test_a_suspended_turn_survives_the_process(rig: Rig) -> None:
    dispatcher, host, asks, behind = suspended(rig)
    dispatcher.release()
    host.close()
    host = rig.host()
    dispatcher = LocalDispatcher(host, entries=asking(host))
    dispatcher.start()
    assert wait_turn(dispatcher, asks, timeout=HANG).state == "suspended"
    Questions(host.store).answer(Questions(host.store).pending()[0].id, "once")
    dispatcher.resume(asks)
    assert [ended(dispatcher, one) for one in (asks, behind)] == ["Run.", "Answer to behind"]


def test_a_suspended_turn_can_be_cancelled(rig: Rig) -> None:
    dispatcher, host, asks, behind = suspended(rig)
    assert dispatcher.cancel(asks, "no longer needed")
    assert ended(dispatcher, asks).endswith(("[interrupted]", "interrupted"))
    assert Questions(host.store).pending() == []
    assert ended(dispatcher, behind) == "Answer to behind"
    assert (rig.cwd / "folder").exists()


def test_two_callers_who_stop_a_suspended_turn_at_the_same_time(rig: Rig) -> None:
    """The second one finds it in use, and leaves the lease to the first, who ends the turn."""
    dispatcher, host, asks, _ = suspended(rig)
    refused: list[BaseException] = []

    def stop_again() -> None:
        try:
            dispatcher.cancel(asks, "the second")
        except SessionBusy as error:
            refused.append(error)

    def meanwhile(**_: Any) -> None:
        second = threading.Thread(target=stop_again)
        second.start()
        second.join(HANG)

    host.hooks.subscribe("post_tool_call", "test", meanwhile)
    recorder = EventRecorder().attach(host.hooks)
    assert dispatcher.cancel(asks, "the first")
    assert len(refused) == 1
    assert ended(dispatcher, asks).endswith(("[interrupted]", "interrupted"))
    [end] = recorder.of("on_session_end")
    assert end["interrupted"] and "the first" in end["reason"]


def test_a_turn_that_is_stopped_while_it_is_being_suspended_ends(rig: Rig) -> None:
    """Whoever stops it waits for its end; its question would hold it until someone answers."""
    host = rig.host()
    stops: list[Any] = []
    dispatcher = LocalDispatcher(host, entries=asking(host, lambda: stops.append(dispatcher.cancel(asks(), "stop"))))
    (rig.cwd / "folder").mkdir()
    submitted = dispatcher.submit(rig.request("run folder"))

    def asks() -> str:
        return submitted.turn_id

    dispatcher.start()
    assert ended(dispatcher, submitted.turn_id).endswith(("[interrupted]", "interrupted"))
    assert stops == [True] and Questions(host.store).pending() == []
    assert ended(dispatcher, dispatcher.submit(rig.request("next")).turn_id) == "Answer to next"
    assert (rig.cwd / "folder").exists()


def test_who_watches_a_turn_is_told_of_each_stop_once(rig: Rig) -> None:
    dispatcher, host, asks, behind = suspended(rig)
    seen: list[str] = []
    dispatcher.watch(asks, lambda turn: seen.append(turn.state))
    assert seen == ["suspended"], "it was so already"
    said: list[TurnEvent] = []
    Questions(host.store).answer(Questions(host.store).pending()[0].id, "once")
    dispatcher.resume(asks)
    dispatcher.watch(asks, lambda turn: seen.append(turn.state), listener=said.append)
    dispatcher.watch(behind, lambda turn: seen.append(turn.result.answer if turn.result else "nothing"))
    wait_until(lambda: len(seen) == 3)
    assert seen == ["suspended", "ended", "Answer to behind"]
    dispatcher.watch(asks, lambda turn: seen.append(turn.result.answer if turn.result else "nothing"))
    assert seen[3:] == ["Run."]


def test_an_unknown_turn_is_an_error(rig: Rig) -> None:
    dispatcher = rig.dispatcher()
    for call in (partial(wait_turn, dispatcher), dispatcher.cancel, dispatcher.resume):
        with pytest.raises(SessionNotFound, match="no submitted turn 'x'"):
            call("x")


def test_a_turn_does_not_enter_the_session_of_another_principal(rig: Rig) -> None:
    """A turn has the rights of its session: an id that became known is no way to them."""
    dispatcher = rig.dispatcher()
    assert ended(dispatcher, dispatcher.submit(rig.request("hello")).turn_id) == "Answer to hello"
    for stranger in ("bob", "api"):
        with pytest.raises(JournalError, match="another principal"):
            dispatcher.submit(rig.request("let me in", principal=stranger))
    assert rig.model.asked == ["hello"]
