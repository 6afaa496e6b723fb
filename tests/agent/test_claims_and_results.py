"""The two records of a command: its claim, written while its shell starts, and its result, written after the request.

Neither costs time of its own, and no promise depends on that: nothing runs before its claim is on disk, and no result
that exists is lost.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hermes.agent.events import ignore_events
from hermes.base.config.schema.sections import BudgetLimitsConfig, BudgetsConfig, CheckpointsConfig, TerminalConfig
from hermes.base.errors import JournalError, LeaseLost
from hermes.base.http.pool import Connection
from hermes.base.scope import Interrupt, Scope
from hermes.host import Host
from hermes.journal.store.sqlite import durability
from hermes.models.credentials.home_keys import HomeKeys
from hermes.models.endpoint import Endpoint
from hermes.testing import RecordedRequest, ScriptedProvider, ScriptedReply, failure, text, tool_call
from hermes.tools.terminal import child_process, terminal
from hermes.tools.terminal.child_process import ChildProcess, can_hold
from hermes.trace.verify.session import verify
from support.configured import configured_host, tool_answers
from support.waiting import HANG, finish, wait_for, wait_until

RUN = tool_call("terminal", {"command": "echo ran | tee -a effects.log"})
RAN = {"output": "ran", "exit_code": 0, "error": None}


def open_host(home: Path, workdir: Path, provider: ScriptedProvider, **sections: Any) -> Host:
    """Without checkpoints, which are made before a command, and so after its claim, and without a sandbox."""
    options = {"allow_everything": True}
    sections = {"checkpoints": CheckpointsConfig(enabled=False), "terminal": TerminalConfig(sandbox="off"), **sections}
    return configured_host(home, workdir, provider, options=options, **sections)


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[ChildProcess]:
    """The commands that were started."""
    children: list[ChildProcess] = []
    real = terminal.start_command

    def start(*arguments: Any, **options: Any) -> ChildProcess:
        children.append(real(*arguments, **options))
        return children[-1]

    monkeypatch.setattr(terminal, "start_command", start)
    return children


def keys(host: Host, session_id: str) -> set[str]:
    """The keys of the steps that are done."""
    return {event["key"] for event in host.sessions.events(session_id) if event["kind"] == "step_done"}


# -- the claim -------------------------------------------------------------------------------------------------------


def test_a_shell_starts_while_its_claim_is_brought_to_the_disk(
    home: Path, workdir: Path, started: list[ChildProcess], monkeypatch: pytest.MonkeyPatch
) -> None:
    may_sync, effects, real = threading.Event(), workdir / "effects.log", durability.sync_file
    may_sync.set()

    def sync(file: int) -> None:
        wait_for(may_sync)
        real(file)

    def hold(**_: Any) -> None:
        may_sync.clear()

    monkeypatch.setattr(durability, "sync_file", sync)
    with ScriptedProvider([RUN, text("Done.")]) as provider, open_host(home, workdir, provider) as host:
        confinement = host.runtime.confinements.of_command(Scope(), workdir)
        if not can_hold("true", confinement):
            pytest.skip("this system cannot hold a shell")
        host.hooks.subscribe("on_session_start", "holder", hold)
        turn = threading.Thread(target=lambda: host.new_session().run("Go"), daemon=True)
        turn.start()
        try:
            wait_until(lambda: started, "the start of the shell")
            assert started[0].exit_code() is None and not effects.exists()
        finally:
            may_sync.set()
            turn.join(HANG)
    assert effects.read_text() == "ran\n"


def fill_the_disk(host: Host, _session_id: str) -> None:
    vars(host.store)["_damage"] = JournalError("the disk is full")


def take_the_lease(host: Host, session_id: str) -> None:
    host.store.write(
        lambda connection: connection.execute("UPDATE sessions SET epoch = epoch + 1 WHERE id = ?", (session_id,))
    )


@pytest.mark.parametrize(
    ("obstacle", "error"), [(fill_the_disk, JournalError), (take_the_lease, LeaseLost)], ids=["disk full", "lease lost"]
)
def test_a_command_whose_claim_cannot_be_written_does_not_run(
    home: Path,
    workdir: Path,
    started: list[ChildProcess],
    obstacle: Callable[[Host, str], None],
    error: type[JournalError],
) -> None:
    with ScriptedProvider([RUN, text("never asked")]) as provider, open_host(home, workdir, provider) as host:
        session = host.new_session()

        def break_it(**_: Any) -> None:
            obstacle(host, session.id)

        host.hooks.subscribe("pre_tool_call", "saboteur", break_it)
        with pytest.raises(error):
            session.run("Go")
        assert "step_claimed" not in [event["kind"] for event in host.sessions.events(session.id)]
        assert len(provider.requests) == 1
    assert not (workdir / "effects.log").exists()
    assert all(child.exit_code() is not None for child in started), "no shell is left"


def test_an_interrupt_while_the_claim_is_written_stops_the_command(
    home: Path, workdir: Path, started: list[ChildProcess], monkeypatch: pytest.MonkeyPatch
) -> None:
    interrupt = Interrupt()
    real = ChildProcess.release

    def release(child: ChildProcess) -> None:
        interrupt.cancel("enough")
        child.wait(HANG)
        real(child)

    monkeypatch.setattr(ChildProcess, "release", release)
    with ScriptedProvider([RUN, text("never asked")]) as provider, open_host(home, workdir, provider) as host:
        session = host.new_session()
        result = session.run("Go", interrupt=interrupt)
        assert (result.status, len(started)) == ("interrupted", 1)
        assert tool_answers(host, session.id)[0]["outcome"] == "unknown"
    assert not (workdir / "effects.log").exists()


@pytest.mark.parametrize("arguments", [{"background": True}, {"pty": True}])
def test_a_command_whose_shell_cannot_be_held_is_claimed_before_it_starts(
    home: Path, workdir: Path, monkeypatch: pytest.MonkeyPatch, arguments: dict[str, Any]
) -> None:
    claims: list[bool] = []
    real = child_process.ChildProcess

    def start(*given: Any, **options: Any) -> ChildProcess:
        claims.append("step_claimed" in [event["kind"] for event in host.sessions.events(session.id)])
        return real(*given, **options)

    monkeypatch.setattr(child_process, "ChildProcess", start)
    call = tool_call("terminal", {"command": "true", **arguments})
    with ScriptedProvider([call, text("Done.")]) as provider, open_host(home, workdir, provider) as host:
        session = host.new_session()
        assert session.run("Go").answer == "Done."
    assert claims == [True]


@pytest.mark.parametrize("arguments", [{"timeout": -1}, {"workdir": "missing"}])
def test_a_call_that_starts_nothing_is_recorded_and_needs_no_claim(
    home: Path, workdir: Path, started: list[ChildProcess], arguments: dict[str, Any]
) -> None:
    call = tool_call("terminal", {"command": "true", **arguments})
    with ScriptedProvider([call, text("Done.")]) as provider, open_host(home, workdir, provider) as host:
        session = host.new_session()
        assert session.run("Go").answer == "Done."
        kinds = [event["kind"] for event in host.sessions.events(session.id) if event["key"] == "tool:1.0"]
        assert verify(host.sessions.export(session.id)) == []
    assert (kinds, started) == (["step_done"], [])


# -- the result ------------------------------------------------------------------------------------------------------


def test_a_result_is_written_while_the_next_answer_is_awaited(
    home: Path, workdir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not before the request is sent, which would cost time, and not after its answer, which may take minutes."""
    before: list[set[str]] = []
    may_answer = threading.Event()
    send = Connection.send

    def look(connection: Connection, *arguments: Any) -> Any:
        before.append(keys(host, session.id))
        return send(connection, *arguments)

    def answer(request: RecordedRequest) -> ScriptedReply:
        if request.step == 0:
            return RUN
        wait_for(may_answer)
        return text("Done.")

    monkeypatch.setattr(Connection, "send", look)
    with ScriptedProvider(answer) as provider, open_host(home, workdir, provider) as host:
        session = host.new_session()
        turn = threading.Thread(target=lambda: session.run("Go"), daemon=True)
        turn.start()
        try:
            provider.wait_for_request(2)
            wait_until(lambda: "tool:1.0" in keys(host, session.id), "the record of the result")
        finally:
            may_answer.set()
            turn.join(HANG)
    assert "tool:1.0" not in before[1]


@pytest.mark.parametrize("told", ["listener", "post_tool_call", "transform_tool_result", "pre_api_request"])
def test_a_result_is_written_before_anyone_is_told_of_it(home: Path, workdir: Path, told: str) -> None:
    seen: list[bool] = []

    def look(event: object = None, **_: Any) -> None:
        if told != "listener" or type(event).__name__ == "ToolEnded":
            seen.append("tool:1.0" in keys(host, session.id))

    with ScriptedProvider([RUN, text("Done.")]) as provider, open_host(home, workdir, provider) as host:
        session = host.new_session()
        if told != "listener":
            host.hooks.subscribe(told, "watcher", look)
        assert session.run("Go", listener=look if told == "listener" else ignore_events).answer == "Done."
    assert seen[-1] is True


class Person:
    """Is asked about a budget."""

    surface = "cli"

    def __init__(self, look: Callable[[], object]) -> None:
        self.look = look

    def answer(self, question: str, choices: Any, interrupt: Interrupt) -> str:
        self.look()
        return "Continue"

    def approve(self, request: Any, interrupt: Interrupt) -> Any:
        raise AssertionError("nothing is to be approved")


def test_a_result_is_written_before_a_person_is_asked_about_the_next_request(home: Path, workdir: Path) -> None:
    seen: list[set[str]] = []
    budgets = BudgetsConfig(on_limit="ask", turn=BudgetLimitsConfig(calls=2))
    script = [RUN, text("Done.")]
    with ScriptedProvider(script) as provider, open_host(home, workdir, provider, budgets=budgets) as host:
        session = host.new_session()
        host.responders.attach(session.id, Person(lambda: seen.append(keys(host, session.id))))
        assert session.run("Go").answer == "Done."
    assert [("tool:1.0" in found) for found in seen] == [True]


def test_a_result_is_written_before_a_server_is_asked_for_a_new_token(
    home: Path, workdir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[set[str]] = []
    take = HomeKeys.take

    def refresh(ring: HomeKeys, endpoint: Endpoint, before_waiting: Callable[[], object] | None = None) -> Any:
        if before_waiting is not None:
            before_waiting()
        seen.append(keys(host, session.id))
        return take(ring, endpoint)

    monkeypatch.setattr(HomeKeys, "take", refresh)
    with ScriptedProvider([RUN, text("Done.")]) as provider, open_host(home, workdir, provider) as host:
        session = host.new_session()
        assert session.run("Go").answer == "Done."
    assert [("tool:1.0" in found) for found in seen] == [False, True]


@pytest.mark.parametrize("ending", ["the request fails", "it is interrupted", "our own code fails"])
def test_a_turn_that_ends_before_the_next_answer_keeps_the_result(
    home: Path, workdir: Path, monkeypatch: pytest.MonkeyPatch, ending: str
) -> None:
    interrupt = Interrupt()
    script = [RUN, failure(400, "no") if ending == "the request fails" else text("never shown")]
    with ScriptedProvider(script) as provider, open_host(home, workdir, provider) as host:
        session = host.new_session()
        texts = session.added_texts

        def end(*arguments: Any) -> Any:
            if ending == "it is interrupted":
                interrupt.cancel("enough")
            elif ending == "our own code fails":
                raise RuntimeError
            return texts(*arguments)

        monkeypatch.setattr(session, "added_texts", end)
        result = finish(lambda: session.run("Go", interrupt=interrupt))
        assert result.status == ("interrupted" if ending == "it is interrupted" else "failed")
        assert "tool:1.0" in keys(host, session.id)
        assert tool_answers(host, session.id) == [RAN]
        assert verify(host.sessions.export(session.id)) == []
    assert (workdir / "effects.log").read_text() == "ran\n"
