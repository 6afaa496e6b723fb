"""The same run gives the same records, whether it was watched or is read from the journal."""

from __future__ import annotations

import signal
from contextlib import closing
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest

from hermes.base.errors import SessionNotFound
from hermes.journal.sessions import Sessions
from hermes.journal.store.sqlite.store import SqliteStore
from hermes.testing import ScriptedProvider, by_step, text, tool_call
from hermes.trace.formats.atif import document
from hermes.trace.formats.atof import lines
from hermes.trace.journal.session import session_record
from hermes.trace.records import SessionRecord, family
from hermes.trace.verify.atif import check_atif
from hermes.trace.verify.atof import check_atof
from support import run_hermes, write_config
from support.trace_runs import SECRET, Run

#: What only one of the two can know: when exactly, how long to the first token, what was asked beside the
#: conversation, what a child is called.
_TIMES = {"started_at", "ended_at", "asked_at", "answered_at", "at", "first_token"}
_ONE_SIDED = {"side_calls", "title", "role", "subagent_id", "cost_usd"}


def comparable(record: SessionRecord) -> Any:
    return _strip(msgspec.json.decode(msgspec.json.encode(record)))


def _strip(value: Any) -> Any:
    if isinstance(value, list):
        return [_strip(item) for item in cast("list[Any]", value)]
    if not isinstance(value, dict):
        return value
    fields = cast("dict[str, Any]", value)
    if fields.get("name") == "compacted":
        return {"name": "compacted", "summary": fields["data"]["summary"]}
    if fields.get("type") == "function":
        return fields["function"]["name"]  # a payload shows schemas only so deep
    return {name: _strip(item) for name, item in fields.items() if name not in _TIMES | _ONE_SIDED}


def test_watched_and_read_agree(run: Run) -> None:
    assert comparable(run.live) == comparable(run.stored)


def test_times_agree_and_are_in_order(run: Run) -> None:
    for live, stored in zip(family(run.live), family(run.stored), strict=True):
        assert live.id == stored.id
        for one, other in zip(live.turns, stored.turns, strict=True):
            assert abs(one.started_at - other.started_at) < 1
            for first, second in zip(one.steps, other.steps, strict=True):
                assert abs(first.started_at - second.started_at) < 0.001
                assert [tool.tool_call_id for tool in first.tools] == [tool.tool_call_id for tool in second.tools]
            for tool in other.tools():
                assert tool.ended_at is not None and tool.started_at <= tool.ended_at


def test_no_secret_gets_into_a_record(run: Run) -> None:
    for record in (run.live, run.stored):
        assert SECRET not in msgspec.json.encode(record).decode()


def test_a_turn_that_was_killed_and_finished_by_another_process(home: Path, workdir: Path) -> None:
    with ScriptedProvider(by_step(tool_call("terminal", {"command": "true"}), text("done"))) as provider:
        write_config(home, provider.base_url)
        # While the tool runs, then while the model is asked about its result.
        for point, words in (("10", ("-q", "go")), ("5", ("--continue",))):
            run = run_hermes("chat", "-Q", *words, home=home, cwd=workdir, env={"HERMES_CRASH_AT": point})
            assert run.returncode == -signal.SIGKILL, run.stderr
        killed = _last(home)
        assert run_hermes("chat", "-Q", "--continue", home=home, cwd=workdir).returncode == 0
        finished = _last(home)
    assert killed.status == "running" and finished.status == "completed"
    [turn] = finished.turns
    assert "resumed" in [mark.name for mark in turn.marks] and turn.answer == "done"
    assert turn.steps[0].tools[0].error_type == "unknown_outcome"
    for record in (killed, finished):
        assert check_atif(document(record)) == [] and check_atof(lines(record)) == []


def _last(home: Path) -> SessionRecord:
    with closing(SqliteStore(home / "state.db")) as store:
        [row] = Sessions(store).list()
        return session_record(store, row.id)


def test_a_session_that_is_not_there(home: Path) -> None:
    with closing(SqliteStore(home / "state.db")) as store, pytest.raises(SessionNotFound, match="no session 'x'"):
        session_record(store, "x")
