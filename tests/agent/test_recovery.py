"""Turns that a process left: taken up, continued or given up in one way, with nothing lost and nothing run twice."""

from __future__ import annotations

import sqlite3
from collections.abc import Generator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from hermes.agent.session import Session
from hermes.base.scope import Interrupt
from hermes.contract.events import TurnEvent, TurnStarted
from hermes.host import Host
from hermes.journal.turns.lifecycle import begin_turn, reopen_turn
from hermes.journal.turns.recovery import MAX_TAKE_UPS
from hermes.testing import ScriptedProvider, by_step, text, tool_call, tool_calls
from hermes.testing.scripted.script import Chooser
from hermes.trace.verify.session import verify
from support import HostFactory, run_hermes, write_config
from support.doctor_rig import examine


def by_message(**choosers: Chooser) -> Chooser:
    """Replies by the first word of the user's message."""
    return lambda request: choosers[request.last_user_text.split()[0]](request)


SCRIPT = by_message(
    go=by_step(
        tool_call("terminal", {"command": "echo one >> effects.log"}),
        tool_calls(
            [("terminal", {"command": "echo two >> effects.log"}), ("terminal", {"command": "echo 3 >> third"})]
        ),
        text("Done."),
    ),
    another=by_step(text("Something else.")),
)


@contextmanager
def left_at(make_host: HostFactory, last_event: str) -> Generator[tuple[Host, Session, ScriptedProvider]]:
    """A session whose process died right after that event of its second step was committed."""
    with ScriptedProvider(SCRIPT) as provider:
        host = make_host(provider)
        session = host.new_session()
        session.run("go")
        take_back(Path(host.store.location), last_event)
        (session.cwd / "third").unlink()
        provider.requests.clear()
        session.close()
        yield host, host.resume_session(session.id), provider


def take_back(database: Path, last_event: str) -> None:
    with closing(sqlite3.connect(database)) as connection, connection:
        connection.execute(f"DELETE FROM events WHERE seq > (SELECT seq FROM events WHERE {last_event})")
        connection.execute("DELETE FROM messages WHERE step > 2 OR (step = 2 AND position > 0)")
        connection.execute(
            "DELETE FROM model_calls WHERE key = 'model:3' OR "
            "(key = 'model:2' AND NOT EXISTS (SELECT 1 FROM events WHERE key = 'model:2'))"
        )
        connection.execute("UPDATE turns SET state = 'running', answer = NULL, ended_at = NULL")
        connection.execute(
            "UPDATE sessions SET head_seq = (SELECT max(seq) FROM events WHERE session_id = sessions.id)"
        )


def cancelled(reason: str = "stop") -> Interrupt:
    interrupt = Interrupt()
    interrupt.cancel(reason)
    return interrupt


def check_whole(host: Host, session: Session) -> list[dict[str, Any]]:
    """The messages of the session, after every call of it was found to have its result."""
    messages = host.sessions.messages(session.id)
    asked = [call["id"] for message in messages for call in message.get("tool_calls", ())]
    assert asked == [message["tool_call_id"] for message in messages if message["role"] == "tool"]
    assert verify(host.sessions.export(session.id)) == []
    return messages


CLAIMED = "kind = 'step_claimed' AND key = 'tool:2.0'"
FINISHED = "kind = 'step_done' AND key = 'tool:2.0'"


@pytest.mark.parametrize(("left", "said"), [(CLAIMED, '"outcome":"unknown"'), (FINISHED, '"exit_code":0')])
def test_an_interrupt_at_once_loses_neither_a_claim_nor_a_result(
    make_host: HostFactory, workdir: Path, left: str, said: str
) -> None:
    with left_at(make_host, left) as (host, session, provider):
        result = session.finish_open_turn(interrupt=cancelled())
        assert result is not None and result.status == "interrupted"
        messages = check_whole(host, session)
        assert [message["role"] for message in messages] == [
            *("user", "assistant", "tool", "assistant", "tool", "tool", "assistant")
        ]
        assert said in messages[4]["content"]
        assert "cancelled" in messages[5]["content"]
        assert provider.requests == []
        session.run("another message")
        assert said in provider.requests[0].messages[5]["content"]
    assert (workdir / "effects.log").read_text() == "one\ntwo\n"
    assert not (workdir / "third").exists()


def test_a_surface_that_fails_at_once_loses_nothing_either(make_host: HostFactory) -> None:
    def fail(event: TurnEvent) -> None:
        if isinstance(event, TurnStarted):
            raise RuntimeError("the screen is gone")

    with left_at(make_host, CLAIMED) as (host, session, _provider):
        result = session.finish_open_turn(listener=fail)
        assert result is not None and (result.status, result.error_type) == ("failed", "RuntimeError")
        messages = check_whole(host, session)
    assert '"outcome":"unknown"' in messages[4]["content"]


def test_claims_are_settled_in_the_commit_that_takes_the_turn_up(make_host: HostFactory) -> None:
    with left_at(make_host, CLAIMED) as (host, session, _provider):
        reopen_turn(host.store, host.runner, session.id, states=("running",))
        kinds = [(event["kind"], event["key"]) for event in host.sessions.events(session.id)]
        assert kinds[-2:] == [("turn_resumed", ""), ("step_done", "tool:2.0")]
        # The process that took it up died at once: the next one finds the same result, and does not run the call.
        result = session.finish_open_turn()
        assert result is not None and result.answer == "Done."
        check_whole(host, session)


# -- giving up -------------------------------------------------------------------------------------------------------


def test_a_turn_that_is_given_up_runs_nothing_and_stays_closed(make_host: HostFactory, workdir: Path) -> None:
    with left_at(make_host, CLAIMED) as (host, session, provider):
        assert session.unfinished_turn() == "running"
        result = session.abandon_open_turn("not wanted")
        assert result is not None and result.status == "interrupted"
        assert '"outcome":"unknown"' in check_whole(host, session)[4]["content"]
        assert session.unfinished_turn() is None
        assert session.finish_open_turn() is None
        assert session.last_result().error == "given up: not wanted"
        assert provider.requests == []
        session.run("another message")
        assert len(provider.requests) == 1
    assert not (workdir / "third").exists()


def test_a_turn_without_a_step_is_given_up_without_any_hook_of_its_start(make_host: HostFactory) -> None:
    with ScriptedProvider([text("there")]) as provider:
        host = make_host(provider)
        session = host.new_session()
        _accept(host, session, "first")
        called: list[str] = []

        def note(**_: Any) -> None:
            called.append("pre_llm_call")

        host.hooks.subscribe("pre_llm_call", "watcher", note)
        result = session.abandon_open_turn("not wanted")
        assert result is not None and result.status == "interrupted"
        assert (called, provider.requests) == ([], [])
        assert session.run("second").answer == "there"
        assert check_whole(host, session)[1]["content"] == "[interrupted]"


def test_children_of_a_turn_that_is_given_up_are_closed_too(make_host: HostFactory, workdir: Path) -> None:
    script = by_message(
        go=by_step(tool_call("delegate_task", {"goal": "work"}), text("Done.")),
        work=by_step(tool_call("terminal", {"command": "echo child >> effects.log"}), text("Worked.")),
    )
    with ScriptedProvider(script) as provider:
        host = make_host(provider)
        session = host.new_session()
        session.run("go")
        session.close()
        child = next(row for row in host.sessions.list(children=True) if row.parent_id == session.id)
        _leave(Path(host.store.location), session.id, "step_done", "model:1")
        _leave(Path(host.store.location), child.id, "step_claimed", "tool:1.0")
        provider.requests.clear()
        resumed = host.resume_session(session.id)
        resumed.abandon_open_turn("not wanted")
        assert provider.requests == []
        check_whole(host, resumed)
        assert verify(host.sessions.export(child.id)) == []
        results = [m["content"] for m in host.sessions.messages(child.id) if m["role"] == "tool"]
    assert '"outcome":"unknown"' in results[0]
    assert (workdir / "effects.log").read_text() == "child\n"


# -- dead letters ----------------------------------------------------------------------------------------------------


def test_a_turn_taken_up_five_times_without_a_step_ends_as_failed(make_host: HostFactory) -> None:
    with left_at(make_host, FINISHED) as (host, session, provider):
        for _ in range(MAX_TAKE_UPS):
            turn = reopen_turn(host.store, host.runner, session.id, states=("running",))
            assert turn is not None and not turn.is_exhausted
        result = session.finish_open_turn()
        assert result is not None and result.status == "failed"
        assert result.error is not None and "taken up 5 times" in result.error
        assert provider.requests == []
        messages = check_whole(host, session)
        assert '"exit_code":0' in messages[4]["content"] and "before this call was run" in messages[5]["content"]
        assert session.unfinished_turn() is None
        assert session.finish_open_turn() is None, "a dead letter is final"
        assert session.run("another message").status == "completed"


def test_a_new_message_ends_a_dead_letter_first(make_host: HostFactory) -> None:
    with left_at(make_host, FINISHED) as (host, session, _provider):
        for _ in range(MAX_TAKE_UPS):
            reopen_turn(host.store, host.runner, session.id, states=("running",))
        assert session.run("another message").status == "completed"
        states = [turn["state"] for turn in host.sessions.export(session.id) if turn["record"] == "turn"]
    assert states == ["failed", "completed"]


def test_results_that_plugins_have_not_seen_stay_out_of_a_dead_letter(make_host: HostFactory) -> None:
    def hide(**_: Any) -> str:
        return "hidden"

    with left_at(make_host, FINISHED) as (host, session, _provider):
        host.hooks.subscribe("transform_tool_result", "redactor", hide)
        for _ in range(MAX_TAKE_UPS):
            reopen_turn(host.store, host.runner, session.id, states=("running",))
        session.finish_open_turn()
        messages = check_whole(host, session)
    assert "exit_code" not in messages[4]["content"] and "is recorded" in messages[4]["content"]


def test_a_turn_that_gets_on_is_taken_up_as_often_as_it_takes(make_host: HostFactory) -> None:
    with left_at(make_host, FINISHED) as (host, session, _provider):
        for number in range(3 * MAX_TAKE_UPS):
            turn = reopen_turn(host.store, host.runner, session.id, states=("running",))
            assert turn is not None and not turn.is_exhausted, number
            if number % MAX_TAKE_UPS == MAX_TAKE_UPS - 1:
                turn.step(f"note:9.{number}", "done", "pure", {})
                turn.commit()


def test_steps_of_a_child_are_steps_of_the_turn_that_waits_for_it(make_host: HostFactory) -> None:
    script = by_message(
        go=by_step(tool_call("delegate_task", {"goal": "work"}), text("Done.")),
        work=by_step(tool_call("terminal", {"command": "true"}), text("Worked.")),
    )
    with ScriptedProvider(script) as provider:
        host = make_host(provider)
        session = host.new_session()
        session.run("go")
        child = next(row for row in host.sessions.list(children=True) if row.parent_id == session.id)
        _leave(Path(host.store.location), session.id, "step_done", "model:1")
        _leave(Path(host.store.location), child.id, "step_done", "model:1")
        for number in range(2 * MAX_TAKE_UPS):
            turn = reopen_turn(host.store, host.runner, session.id, states=("running",))
            assert turn is not None and not turn.is_exhausted
            inner = reopen_turn(host.store, host.runner, child.id, states=("running",))
            assert inner is not None
            inner.step(f"note:9.{number}", "done", "pure", {})
            inner.commit()


def test_a_turn_that_ended_in_order_is_continued_as_often_as_its_user_wants(make_host: HostFactory) -> None:
    with left_at(make_host, FINISHED) as (_host, session, _provider):
        for _ in range(2 * MAX_TAKE_UPS):
            result = session.finish_open_turn(interrupt=cancelled())
            assert result is not None and result.status == "interrupted"
        last = session.finish_open_turn()
    assert last is not None and last.answer == "Done."


def test_the_command_line_and_doctor_report_a_dead_letter(home: Path, workdir: Path) -> None:
    with ScriptedProvider(by_step(text("Done."))) as provider:
        write_config(home, provider.base_url)
        run_hermes("chat", "-Q", "-q", "Tidy up", home=home, cwd=workdir, env={"HERMES_CRASH_AT": "5"})
        for _ in range(MAX_TAKE_UPS):
            run_hermes("chat", "-Q", "-c", home=home, cwd=workdir, env={"HERMES_CRASH_AT": "3"})
        given_up = run_hermes("chat", "-Q", "-c", home=home, cwd=workdir)
        again = run_hermes("chat", "-Q", "-c", home=home, cwd=workdir)
        found = examine(home, workdir, "journal").one("dead letter", "warning")
        checked = run_hermes("trace", "verify", "--all", home=home, cwd=workdir)
        answered = run_hermes("chat", "-Q", "-c", "-q", "Hello", home=home, cwd=workdir)
    assert given_up.returncode == again.returncode == 1
    assert "taken up 5 times" in given_up.stderr and "taken up 5 times" in again.stderr
    assert "turn 1 of" in found["detail"] and found["command"].startswith("hermes trace show")
    assert checked.returncode == 0, checked.stdout
    assert answered.stdout == "Done.\n", answered.stderr


def _accept(host: Host, session: Session, message: str) -> None:
    begin_turn(
        host.store,
        host.runner,
        session._info(),  # pyright: ignore[reportPrivateUsage]
        turn_id="left",
        task_id="task",
        request_key="key",
        message={"role": "user", "content": message},
    )
    session._turns_known = None  # pyright: ignore[reportPrivateUsage]


def _leave(database: Path, session_id: str, kind: str, key: str) -> None:
    """Bring one session to where a process stood that died right after that event."""
    with closing(sqlite3.connect(database)) as connection, connection:
        connection.execute(
            "DELETE FROM events WHERE session_id = :id AND seq > "
            "(SELECT seq FROM events WHERE session_id = :id AND kind = :kind AND key = :key)",
            {"id": session_id, "kind": kind, "key": key},
        )
        connection.execute(
            "DELETE FROM messages WHERE session_id = ? AND (step > 1 OR (step = 1 AND position > 0))", (session_id,)
        )
        connection.execute("DELETE FROM model_calls WHERE session_id = ? AND key != 'model:1'", (session_id,))
        connection.execute(
            "UPDATE sessions SET head_seq = (SELECT max(seq) FROM events WHERE session_id = sessions.id)"
        )
        connection.execute(
            "UPDATE turns SET state = 'running', answer = NULL, ended_at = NULL WHERE session_id = ?", (session_id,)
        )
        connection.execute("UPDATE sessions SET runner = 'dead' WHERE id = ?", (session_id,))
