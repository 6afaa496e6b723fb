"""``kill -9`` before and after every commit and every effect of a turn: it resumes, ends, and repeats nothing."""

from __future__ import annotations

import signal
import sqlite3
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from hermes.journal.store.port import home_store
from hermes.journal.store.sqlite.store import SqliteStore
from hermes.journal.turns.lifecycle import begin_turn, reopen_turn
from hermes.testing import ScriptedProvider, by_step, text, tool_call, tool_calls
from journal.kit import rows
from support import HostFactory, run_hermes, write_config
from support.waiting import wait_until

ANSWER = "All three steps are done."

#: The turn has parallel reads, an unsafe command, two writers of separate files, and five commits or more.
SCRIPT = by_step(
    tool_calls(
        [
            ("read_file", {"path": "a.txt"}),
            ("search_files", {"pattern": "beta"}),
            ("read_file", {"path": "b.txt"}),
        ]
    ),
    tool_call("terminal", {"command": "echo ran >> effects.log"}),
    tool_calls(
        [
            ("write_file", {"path": "one.txt", "content": "1"}),
            ("write_file", {"path": "two.txt", "content": "2"}),
        ]
    ),
    text(ANSWER),
)
#: More points than the turn has; a run that is not killed ends the search.
LAST_POINT = 60
MINIMUM_POINTS = 18


#: Every point once; the parameter sets take every fourth point each, so that they run side by side.
POINTS = [
    *(pytest.param("sqlite", offset, marks=pytest.mark.slow) for offset in range(4)),
    pytest.param("postgres", 0, marks=pytest.mark.slow),
    *(pytest.param("postgres", offset, marks=pytest.mark.soak) for offset in range(1, 4)),
]


@pytest.mark.parametrize(("kind", "offset"), POINTS)
def test_a_turn_killed_at_any_point_resumes_and_ends(
    home: Path, workdir: Path, kind: str, offset: int, request: pytest.FixtureRequest
) -> None:
    url: str = request.getfixturevalue("postgres_url") if kind == "postgres" else ""
    (workdir / "a.txt").write_text("alpha\n")
    (workdir / "b.txt").write_text("beta\n")
    killed = 0
    with ScriptedProvider(SCRIPT) as provider:
        for point in range(1 + offset, LAST_POINT, 4):
            own_home = home / str(point)
            journal = f"journal:\n  url: {url}\n  schema: point_{point}\n" if url else ""
            # Without a checkpoint to make, a command claims itself while its shell starts.
            checkpoints = "" if url else "checkpoints:\n  enabled: false\n"
            write_config(own_home, provider.base_url, journal + checkpoints)
            (workdir / "effects.log").unlink(missing_ok=True)
            provider.requests.clear()
            run = run_hermes("chat", "-q", "go", "-Q", home=own_home, cwd=workdir, env={"HERMES_CRASH_AT": str(point)})
            if run.returncode == 0:
                break
            assert run.returncode == -signal.SIGKILL, run.stderr
            killed += 1
            if not _was_accepted(own_home):
                continue  # killed before the message was on record: nothing to resume
            _wait_until_released(own_home)
            recorded = _steps(own_home)
            resumed = run_hermes("chat", "--continue", "-Q", home=own_home, cwd=workdir)
            assert (resumed.returncode, resumed.stdout) == (0, ANSWER + "\n"), (point, resumed.stderr)
            _check_journal(own_home, recorded, point)
            effects = (workdir / "effects.log").read_text() if (workdir / "effects.log").exists() else ""
            assert effects in ("", "ran\n"), (point, effects)
            if not effects:
                assert "unknown" in _results(own_home)["tool:2.0"], point
            assert len(provider.requests) <= 5, point  # four steps, at most one of them asked twice
        else:
            pytest.fail("the turn has more crash points than expected")
    assert killed * 4 >= MINIMUM_POINTS


def _take_back(database: Path, last_event: str) -> None:
    """Bring the journal to where a process stood that died right after committing that event of step 2."""
    with closing(sqlite3.connect(database)) as connection, connection:
        connection.execute(f"DELETE FROM events WHERE seq > (SELECT seq FROM events WHERE {last_event})")
        connection.execute("DELETE FROM messages WHERE step > 2 OR (step = 2 AND position > 0)")
        connection.execute("UPDATE turns SET state = 'running', answer = NULL, ended_at = NULL")
        connection.execute("UPDATE sessions SET head_seq = (SELECT max(seq) FROM events)")


def _hide(**_payload: Any) -> str:
    return "hidden"


def _was_accepted(home: Path) -> bool:
    with closing(home_store(home)) as store:
        return store.exists() and rows(store, "SELECT count(*) FROM turns") == [(1,)]


def _wait_until_released(home: Path) -> None:
    """A server takes a moment to notice that a process was killed."""
    with closing(home_store(home)) as store, closing(store.new_runner()) as runner:
        (owner,) = rows(store, "SELECT runner FROM sessions")[0]
        wait_until(lambda: not runner.is_alive(owner), "the lock of the killed process is free")


def _steps(home: Path) -> dict[str, int]:
    """The finished steps and the sequence number of each one's result."""
    with closing(home_store(home)) as store:
        return dict(rows(store, "SELECT key, result_seq FROM steps WHERE state = 'done'"))


def _results(home: Path) -> dict[str, str]:
    with closing(home_store(home)) as store:
        return dict(rows(store, "SELECT key, body FROM events WHERE kind = 'step_done'"))


def _check_journal(home: Path, recorded: dict[str, int], point: int) -> None:
    after = _steps(home)
    assert {key: after[key] for key in recorded} == recorded, f"point {point}: a finished step ran again"
    with closing(home_store(home)) as store:
        sequence = [seq for (seq,) in rows(store, "SELECT seq FROM events ORDER BY seq")]
        assert sequence == list(range(1, len(sequence) + 1)), f"point {point}: gap or double in the events"
        done = Counter(key for (key,) in rows(store, "SELECT key FROM events WHERE kind = 'step_done'"))
        assert set(done.values()) == {1}, f"point {point}: {done}"
        assert set(done) == {
            *("setup", "model:1", "model:2", "model:3", "model:4", "final"),
            *("tool:1.0", "tool:1.1", "tool:1.2", "tool:2.0", "tool:3.0", "tool:3.1"),
        }
        assert rows(store, "SELECT state FROM turns") == [("completed",)]
        if isinstance(store, SqliteStore):
            assert rows(store, "PRAGMA integrity_check") == [("ok",)]


def test_a_claimed_call_without_a_result_is_reported_unknown_and_not_repeated(
    make_host: HostFactory, workdir: Path
) -> None:
    with ScriptedProvider(SCRIPT) as provider:
        host = make_host(provider)
        session = host.new_session()
        session.run("go")
        _take_back(Path(host.store.location), "kind = 'step_claimed' AND key = 'tool:2.0'")
        closings: list[dict[str, Any]] = []

        def watch(**payload: Any) -> None:
            closings.append(payload)

        host.hooks.subscribe("post_tool_call", "watcher", watch)
        result = host.resume_session(session.id).finish_open_turn()

    assert result is not None and result.answer == ANSWER
    assert (workdir / "effects.log").read_text() == "ran\n"
    assert [(call["status"], call["error_type"]) for call in closings[:1]] == [("error", "unknown_outcome")]
    assert len(closings) == 3  # the replayed reads were silent


def test_a_result_without_its_message_is_finished_not_run(make_host: HostFactory, workdir: Path) -> None:
    with ScriptedProvider(SCRIPT) as provider:
        host = make_host(provider)
        session = host.new_session()
        session.run("go")
        _take_back(Path(host.store.location), "kind = 'step_done' AND key = 'tool:2.0'")
        host.hooks.subscribe("transform_tool_result", "redactor", _hide)
        result = host.resume_session(session.id).finish_open_turn()
    assert result is not None and result.answer == ANSWER
    assert (workdir / "effects.log").read_text() == "ran\n"
    assert provider.requests[4].messages[-1]["content"] == "hidden"


def test_the_same_delivery_twice_is_one_turn(make_host: HostFactory) -> None:
    with ScriptedProvider([text("once")]) as provider:
        session = make_host(provider).new_session()
        first = session.run("hi", request_key="message-7")
        second = session.run("hi", request_key="message-7")
    assert (first.answer, second.answer, first.turn_id) == ("once", "once", second.turn_id)
    assert len(provider.requests) == 1


def test_a_message_to_a_session_with_a_crashed_turn_finishes_that_first(make_host: HostFactory) -> None:
    with ScriptedProvider([text("to the first"), text("to the second")]) as provider:
        host = make_host(provider)
        session = host.new_session()
        info = session._info()  # pyright: ignore[reportPrivateUsage]
        begin_turn(
            host.store,
            host.runner,
            info,
            turn_id="crashed",
            task_id="task",
            request_key="key",
            message={"role": "user", "content": "first"},
        )
        session.close()
        result = host.resume_session(session.id).run("second")
    assert result.answer == "to the second"
    assert [m["content"] for m in provider.requests[1].messages[1:]] == ["first", "to the first", "second"]


def test_a_crashed_attempt_is_closed_and_the_next_has_a_new_id(make_host: HostFactory) -> None:
    with ScriptedProvider([text("there")]) as provider:
        host = make_host(provider)
        session = host.new_session()
        turn = begin_turn(
            host.store,
            host.runner,
            session._info(),  # pyright: ignore[reportPrivateUsage]
            turn_id="crashed",
            task_id="task",
            request_key="key",
            message={"role": "user", "content": "hi"},
        )
        turn.step("setup", "done", "pure", {"system": "s", "tools": [], "max_steps": 9})
        turn.commit()
        result = host.resume_session(session.id).finish_open_turn()
        calls = host.sessions.model_calls(session.id)
    assert result is not None and result.answer == "there"
    assert [(call["status"], call["api_request_id"]) for call in calls] == [
        ("crashed", "crashed:api:1"),
        ("ok", "crashed:api:2"),
    ]
    assert reopen_turn(host.store, host.runner, session.id, states=("running",)) is None
