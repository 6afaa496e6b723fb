"""Answers that come later: plugins hear of a question and its answer once, and a call that waits has not ended."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from hermes.agent.events import TurnResult
from hermes.agent.session import Session
from hermes.base.errors import TurnSuspended
from hermes.host import Host
from hermes.journal.questions import OWNER, QuestionRow, Questions
from hermes.testing import EventRecorder, ScriptedProvider, ScriptedResponder, by_step, text, tool_call, tool_calls
from support.approval_rig import RISKY, RULE, approving_host

#: What plugins hear of a question, of the call it is about and of the turn.
TOLD = (
    "pre_llm_call",
    "pre_tool_call",
    "pre_approval_request",
    "post_approval_response",
    "tool_execution",
    "post_tool_call",
    "on_session_end",
)


class Waiting:
    """A session whose turn waits for an answer, and everything that plugins heard of it, in every process."""

    def __init__(self, home: Path, workdir: Path, provider: ScriptedProvider, principal: str = "") -> None:
        self._places = (home, workdir, provider)
        self._principal = principal
        self.recorder = EventRecorder()
        self.responder = ScriptedResponder(TurnSuspended(), TurnSuspended(), surface="gateway")
        self.session_id = ""

    @contextmanager
    def process(self, **settings: Any) -> Generator[tuple[Host, Session]]:
        """A process with the session; the first one begins it."""
        with approving_host(*self._places, **settings) as host:
            self.recorder.attach(host.hooks)
            if self.session_id:
                session = host.resume_session(self.session_id, platform="gateway")
            else:
                session = host.new_session(principal=self._principal, platform="gateway")
            self.session_id = session.id
            host.responders.attach(session.id, self.responder)
            yield host, session

    def go_on(self, work: Callable[[Host, Session, QuestionRow], TurnResult | None], *, restarts: bool) -> TurnResult:
        """Have the turn suspended, and do something about that: in the same process, or in the next one."""
        with self.process() as (host, session):
            row = self.ask(session)
            result = None if restarts else work(host, session, row)
        if restarts:
            with self.process() as (host, session):
                result = work(host, session, row)
        assert result is not None
        return result

    def ask(self, session: Session) -> QuestionRow:
        """Have the turn suspended by its question."""
        with pytest.raises(TurnSuspended):
            session.run("go")
        [row] = Questions(session.runtime.store).pending()
        return row

    def told(self) -> list[str]:
        return [name for name in self.recorder.names(middleware=True) if name in TOLD]

    def outcome(self) -> tuple[str, str]:
        """The choice that plugins were told of, and the status of the call, which are each told once."""
        assert self.recorder.pairs_unbalanced() == []
        assert self.recorder.contract_violations() == []
        [answered], [ended] = self.recorder.of("post_approval_response"), self.recorder.of("post_tool_call")
        return answered["choice"], ended["status"]


@pytest.fixture
def waiting(home: Path, workdir: Path) -> Generator[Waiting]:
    with ScriptedProvider(by_step(tool_call("terminal", {"command": RISKY}), text("done"))) as provider:
        yield Waiting(home, workdir, provider)


ANSWERS = [
    ("once", "once", "ok"),
    ("session", "session", "ok"),
    ("always", "always", "ok"),
    ("deny", "deny", "blocked"),
    ("timeout", "timeout", "blocked"),
]


@pytest.mark.parametrize("is_restarted", [False, True])
@pytest.mark.parametrize(("answer", "choice", "status"), ANSWERS)
def test_an_answer_that_comes_later(
    waiting: Waiting, workdir: Path, is_restarted: bool, answer: str, choice: str, status: str
) -> None:
    """The surface lets go of the turn; the answer arrives by the journal; the turn goes on where it stood."""

    def answer_it(host: Host, session: Session, row: QuestionRow) -> TurnResult | None:
        assert waiting.told() == ["pre_llm_call", "pre_tool_call", "pre_approval_request"]
        Questions(host.store).answer(row.id, answer, by="ada")
        return session.finish_open_turn()

    waiting.go_on(answer_it, restarts=is_restarted)
    assert waiting.outcome() == (choice, status)
    ran = ["tool_execution"] if status == "ok" else []
    asked = ["pre_llm_call", "pre_tool_call", "pre_approval_request", "post_approval_response"]
    assert waiting.told() == [*asked, *ran, "post_tool_call", "on_session_end"]
    [question], [answered] = (waiting.recorder.of(name) for name in ("pre_approval_request", "post_approval_response"))
    assert {name: answered[name] for name in question} == question
    assert (question["surface"], question["command"], question["pattern_key"]) == ("gateway", RISKY, RULE)
    assert answered["decided_by"] == "ada"
    assert (workdir / "ran").exists() is (status == "ok")


def test_a_timeout_says_how_long_there_was(waiting: Waiting) -> None:
    waiting.responder = ScriptedResponder(lambda request, interrupt: (_ for _ in ()).throw(TurnSuspended(0)))
    with waiting.process() as (host, session):
        row = waiting.ask(session)
        Questions(host.store).defer(row.id, row.created_at + 90)
        Questions(host.store).answer(row.id, "timeout")
        session.finish_open_turn()
    assert waiting.outcome() == ("timeout", "blocked")
    [ended] = waiting.recorder.of("post_tool_call")
    assert ended["error_type"] == "approval_timeout" and "no answer within 90 s" in ended["error_message"]


@pytest.mark.parametrize("is_restarted", [False, True])
def test_a_turn_that_is_stopped_while_it_waits(waiting: Waiting, workdir: Path, is_restarted: bool) -> None:

    def stop(host: Host, session: Session, row: QuestionRow) -> TurnResult | None:
        if is_restarted:
            Questions(host.store).withdraw(row.id, "no longer wanted")
        return session.abandon_open_turn("no longer wanted")

    assert waiting.go_on(stop, restarts=is_restarted).status == "interrupted"
    assert waiting.outcome() == ("deny", "cancelled")
    assert waiting.told()[-3:] == ["post_approval_response", "post_tool_call", "on_session_end"]
    [ended] = waiting.recorder.of("on_session_end")
    assert ended["interrupted"] and "no longer wanted" in ended["reason"]
    assert not (workdir / "ran").exists()


def test_a_question_that_is_asked_again_is_announced_once(waiting: Waiting) -> None:
    with waiting.process() as (_, session):
        row = waiting.ask(session)
        with pytest.raises(TurnSuspended):
            session.finish_open_turn()
    waiting.responder = ScriptedResponder("once", surface="cli")
    with waiting.process() as (_, session):
        session.finish_open_turn()
    assert waiting.outcome() == ("once", "ok")
    assert [request.id for request in waiting.responder.requests] == [row.id]
    assert waiting.recorder.of("post_approval_response")[0]["surface"] == "cli"


def test_a_question_that_needs_no_answer_any_more(waiting: Waiting) -> None:
    with waiting.process() as (host, session):
        row = waiting.ask(session)
    with waiting.process(allowlist=[RULE]) as (host, session):
        session.finish_open_turn()
        assert waiting.outcome() == ("deny", "ok")
        found = Questions(host.store).get(row.id)
        assert found is not None and found.state == "revoked"


def test_a_tool_that_is_gone_after_the_restart(waiting: Waiting) -> None:
    def answer(host: Host, session: Session, row: QuestionRow) -> TurnResult | None:
        Questions(host.store).answer(row.id, "once", by=OWNER)
        host.tools.remove("terminal")
        return session.finish_open_turn()

    waiting.go_on(answer, restarts=True)
    assert waiting.outcome() == ("once", "error")


def test_plugins_are_asked_once_about_a_call_that_waits(home: Path, workdir: Path) -> None:
    """Their changes and their reasons to ask are stored with the call, and count in the process that goes on."""
    asked: list[dict[str, Any]] = []

    def rewrite(args: dict[str, Any], **_: Any) -> dict[str, Any]:
        return {"args": {**args, "command": "touch changed"}}

    def verdict(**payload: Any) -> dict[str, str]:
        asked.append(payload)
        return {"action": "approve", "message": "someone should look", "rule_key": "look"}

    def join(host: Host) -> None:
        host.hooks.add_middleware("tool_request", "changer", rewrite)
        host.hooks.subscribe("pre_tool_call", "guard", verdict)

    with ScriptedProvider(by_step(tool_call("terminal", {"command": "touch first"}), text("done"))) as provider:
        waiting = Waiting(home, workdir, provider)
        with waiting.process() as (host, session):
            join(host)
            row = waiting.ask(session)
            assert row.rules == ("plugin_rule:look",)
        with waiting.process() as (host, session):
            join(host)
            Questions(host.store).answer(row.id, "once")
            session.finish_open_turn()
    assert waiting.outcome() == ("once", "ok")
    assert len(asked) == 1
    assert (workdir / "changed").exists() and not (workdir / "first").exists()
    [ran] = waiting.recorder.of("tool_execution")
    assert ran["original_args"] == {"command": "touch first"}
    assert [entry["source"] for entry in ran["middleware_trace"]] == ["changer"]


def test_a_refusal_counts_for_what_only_a_plugin_wanted_approved(home: Path, workdir: Path) -> None:
    """The process that goes on does not ask plugins again: without their stored reason the call would just run."""

    def verdict(**_: Any) -> dict[str, str]:
        return {"action": "approve", "message": "someone should look"}

    with ScriptedProvider(by_step(tool_call("terminal", {"command": "touch ran"}), text("done"))) as provider:
        waiting = Waiting(home, workdir, provider)
        with waiting.process() as (host, session):
            host.hooks.subscribe("pre_tool_call", "guard", verdict)
            row = waiting.ask(session)
        with waiting.process() as (host, session):
            Questions(host.store).answer(row.id, "deny")
            session.finish_open_turn()
    assert waiting.outcome() == ("deny", "blocked")
    assert not (workdir / "ran").exists()


def test_an_answer_for_the_session_is_one_for_the_call_where_no_more_can_be_had(home: Path, workdir: Path) -> None:
    """What hides text is approved once, whatever an answer from elsewhere asks for."""
    hidden = f"{RISKY} # \u202e"
    with ScriptedProvider(by_step(tool_call("terminal", {"command": hidden}), text("done"))) as provider:
        waiting = Waiting(home, workdir, provider)
        with waiting.process() as (host, session):
            row = waiting.ask(session)
            assert "hidden-text" in row.rules
            Questions(host.store).answer(row.id, "session")
            session.finish_open_turn()
            used = Questions(host.store).get(row.id)
            assert used is not None and used.state == "consumed"
    assert waiting.outcome() == ("session", "ok")


def test_what_the_owner_allowed_for_good_is_asked_for_a_caller(home: Path, workdir: Path) -> None:
    with ScriptedProvider(by_step(tool_call("terminal", {"command": RISKY}), text("done"))) as provider:
        waiting = Waiting(home, workdir, provider, principal="ada")
        with waiting.process(allowlist=[RULE]) as (_, session):
            assert RULE in waiting.ask(session).rules


def test_calls_beside_the_one_that_waits(home: Path, workdir: Path) -> None:
    """Those that were announced with it wait too, and are told once; the second question comes after the first."""
    calls = [("read_file", {"path": "a"}), ("read_file", {"path": str(home / ".netrc")}), ("read_file", {"path": "b"})]
    with ScriptedProvider(by_step(tool_calls(calls), text("done"))) as provider:
        waiting = Waiting(home, workdir, provider)
        for name in ("a", "b"):
            (workdir / name).write_text(name)

        def verdict(args: dict[str, Any], **_: Any) -> dict[str, str] | None:
            return {"action": "approve", "message": "look"} if args["path"] != "a" else None

        with waiting.process() as (host, session):
            host.hooks.subscribe("pre_tool_call", "guard", verdict)
            row = waiting.ask(session)
            assert waiting.recorder.of("post_tool_call") == []
            Questions(host.store).answer(row.id, "deny")
            with pytest.raises(TurnSuspended):
                session.finish_open_turn()
            [row] = Questions(host.store).pending()
            Questions(host.store).answer(row.id, "once")
            session.finish_open_turn()
    assert waiting.recorder.pairs_unbalanced() == []
    ids = [call["tool_call_id"] for call in waiting.recorder.of("pre_tool_call")]
    assert len(ids) == len(set(ids)) == 3
    assert [answer["choice"] for answer in waiting.recorder.of("post_approval_response")] == ["deny", "once"]


# -- delegated children ----------------------------------------------------------------------------------------------


@pytest.fixture
def family(home: Path, workdir: Path) -> Generator[Waiting]:
    script: dict[str, Any] = {
        "go": by_step(tool_call("delegate_task", {"goal": "work"}), text("done")),
        "work": by_step(tool_call("terminal", {"command": RISKY}), text("worked")),
    }
    with ScriptedProvider(script) as provider:
        yield Waiting(home, workdir, provider, principal="ada")


@pytest.mark.parametrize("is_restarted", [False, True])
def test_the_question_of_a_child(family: Waiting, is_restarted: bool) -> None:

    def answer(host: Host, session: Session, row: QuestionRow) -> TurnResult | None:
        assert family.recorder.of("subagent_stop") == family.recorder.of("on_session_end") == []
        assert row.session_id != session.id
        Questions(host.store).answer(row.id, "once")
        return session.finish_open_turn()

    family.go_on(answer, restarts=is_restarted)
    assert family.recorder.pairs_unbalanced() == []
    [stopped] = family.recorder.of("subagent_stop")
    assert (stopped["child_status"], stopped["child_summary"]) == ("completed", "worked")
    assert [call["status"] for call in family.recorder.of("post_tool_call")] == ["ok", "ok"]


@pytest.mark.parametrize("is_restarted", [False, True])
def test_a_parent_that_is_stopped_while_its_child_waits(family: Waiting, is_restarted: bool) -> None:

    def stop(_host: Host, session: Session, _row: QuestionRow) -> TurnResult | None:
        return session.abandon_open_turn("enough")

    family.go_on(stop, restarts=is_restarted)
    assert family.recorder.pairs_unbalanced() == []
    [stopped] = family.recorder.of("subagent_stop")
    assert stopped["child_status"] == "interrupted"
    assert [answer["choice"] for answer in family.recorder.of("post_approval_response")] == ["deny"]
    assert [call["status"] for call in family.recorder.of("post_tool_call")] == ["cancelled", "cancelled"]
    assert [end["interrupted"] for end in family.recorder.of("on_session_end")] == [True, True]
    assert len(family.recorder.of("pre_tool_call")) == 2


def test_another_runner_can_continue_a_child_that_waits(family: Waiting) -> None:
    """Its session is released: the process that goes on may be another one while this one lives."""
    with family.process() as (host, session):
        row = family.ask(session)
        query = "SELECT runner FROM sessions WHERE id = ?"
        [owner] = host.store.read(lambda connection: connection.execute(query, (row.session_id,)).fetchone())
        assert owner is None


def test_two_threads_stop_a_turn_that_waits(waiting: Waiting) -> None:
    """One of them does; the other is told that the session is in use, or that there is nothing to stop."""
    with waiting.process() as (_host, session):
        waiting.ask(session)
        results: list[TurnResult | Exception | None] = []
        barrier = threading.Barrier(2)

        def stop() -> None:
            barrier.wait()
            try:
                results.append(session.abandon_open_turn("enough"))
            except Exception as error:
                results.append(error)

        threads = [threading.Thread(target=stop) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sum(isinstance(result, TurnResult) for result in results) == 1
    assert waiting.recorder.pairs_unbalanced() == []
