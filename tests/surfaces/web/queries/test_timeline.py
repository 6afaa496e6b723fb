"""Rows of the timeline: from recorded runs of every kind, whole and event by event."""

from __future__ import annotations

from contextlib import closing
from typing import Any

import msgspec
import pytest

from hermes.base.errors import SessionNotFound
from hermes.base.sanitize import Redactor
from hermes.journal.store.connection import JournalConnection
from hermes.journal.store.port import Store, home_store
from hermes.surfaces.web.queries.detail import LONGEST_TEXT, event_detail
from hermes.surfaces.web.queries.timeline import TimelineRow, TimelineRows, family_of, session_rows
from hermes.testing import failure, text, tool_call
from hermes.tools.registry import Tool
from hermes.trace.clean import Cleaner
from support.trace_runs import NO_PARAMETERS, SECRET, USAGE, Rig, delegated_children, parallel_tools_reversed

CLEAN = Cleaner()


def rows_of(store: Store, session_id: str, after: int = 0) -> TimelineRows:
    return store.read(lambda connection: session_rows(connection, session_id, CLEAN, after))


def by_id(rows: TimelineRows) -> dict[str, TimelineRow]:
    return {row.id: row for row in rows.rows}


def test_a_run_has_rows_for_its_turn_model_calls_and_tools(rig: Rig) -> None:
    host = rig.host([tool_call("read_file", {"path": "none"}, usage=USAGE), text("There is none.", usage=USAGE)])
    session = host.new_session()
    session.run("Read the file.")

    rows = by_id(rows_of(host.store, session.id))

    assert list(rows) == ["0", "0/model:1", "0/tool:1.0", "0/model:2"]
    turn, asked, tool, answered = rows.values()
    assert (turn.kind, turn.label, turn.state) == ("turn", "Read the file.", "ok")
    assert (asked.label, asked.read, asked.written, asked.cached) == ("scripted (custom)", 100, 7, 40)
    assert asked.first is not None
    assert (tool.label, tool.state, tool.text) == ("read_file", "error", '{"path":"none"}')
    assert "none" in tool.error
    assert answered.text == "There is none."
    assert turn.start is not None and tool.start is not None and tool.end is not None and turn.end is not None
    assert turn.start <= tool.start <= tool.end <= turn.end


def test_rows_of_single_events_add_up_to_the_whole(rig: Rig) -> None:
    session_id = parallel_tools_reversed(rig).stored.id
    with closing(home_store(rig.home)) as store:
        whole = rows_of(store, session_id)
        assembled: dict[str, dict[str, Any]] = {}
        for seq in range(1, whole.head):
            for row in rows_of(store, session_id, seq).rows:
                assembled.setdefault(row.id, {}).update(msgspec.to_builtins(row))
    # The first event is only read with the whole: it says nothing that the others do not complete.
    assert {name: row for name, row in assembled.items() if name != "0"} == {
        row.id: msgspec.to_builtins(row) for row in whole.rows if row.id != "0"
    }


def test_parallel_tools_end_in_their_own_order(rig: Rig) -> None:
    session_id = parallel_tools_reversed(rig).stored.id
    with closing(home_store(rig.home)) as store:
        rows = by_id(rows_of(store, session_id))
    first, second = rows["0/tool:1.0"], rows["0/tool:1.1"]
    assert first.end is not None and second.end is not None
    assert second.end <= first.end


def test_children_are_part_of_the_family(rig: Rig) -> None:
    session_id = delegated_children(rig).stored.id
    with closing(home_store(rig.home)) as store:
        family = store.read(lambda connection: family_of(connection, session_id))
        members = [rows_of(store, member) for member in family]
    assert len(members) > 1
    delegations = {row.call for row in members[0].rows if row.label == "delegate_task"}
    assert all(member.parent == session_id and member.call in delegations for member in members[1:])


def test_failed_attempts_are_tries_of_their_model_call(rig: Rig) -> None:
    host = rig.host([failure(500, "overloaded"), text("Here.", usage=USAGE)], retries=1)
    session = host.new_session()
    session.run("go")

    row = by_id(rows_of(host.store, session.id))["0/model:1"]

    assert [one.state for one in row.tries] == ["error", "ok"]
    assert row.state == "ok"
    assert row.error == ""


def test_a_call_whose_process_died_has_an_unknown_outcome(rig: Rig) -> None:
    host = rig.host(
        [tool_call("terminal", {"command": "true"}), text("ok")], toolsets=["terminal"], allow_everything=True
    )
    session = host.new_session()
    session.run("go")
    body = host.store.read(
        lambda connection: connection.execute(
            "SELECT body FROM events WHERE kind = 'step_done' AND key = 'tool:1.0'"
        ).fetchone()[0]
    )
    settled = msgspec.json.encode(
        {**msgspec.json.decode(body), "status": "error", "error_type": "unknown_outcome", "duration_ms": 0}
    ).decode()
    host.store.write(
        lambda connection: connection.execute(
            "UPDATE events SET body = ? WHERE kind = 'step_done' AND key = 'tool:1.0'", (settled,)
        )
    )

    row = by_id(rows_of(host.store, session.id))["0/tool:1.0"]

    assert row.state == "unknown"
    assert row.start is not None  # of its claim


def test_an_event_that_cannot_be_read_is_a_mark_with_an_error(rig: Rig) -> None:
    host = rig.host([text("ok")])
    session = host.new_session()
    session.run("go")
    host.store.write(lambda connection: connection.execute("UPDATE events SET body = '{' WHERE kind = 'turn_started'"))

    broken = rows_of(host.store, session.id).rows[0]

    assert broken.kind == "mark"
    assert "hermes trace verify" in broken.error


def test_secrets_are_masked_in_rows_and_details(rig: Rig) -> None:
    secret = "correct-horse-battery-staple"
    host = rig.host([tool_call("read_file", {"path": secret}), text(f"It says {secret} and {SECRET}.")])
    session = host.new_session()
    session.run(f"What about {secret}?")
    clean = Cleaner(Redactor({"PASSWORD": secret}))

    def read(connection: JournalConnection) -> bytes:
        found = session_rows(connection, session.id, clean)
        events = [event_detail(connection, session.id, seq, clean) for seq in range(1, found.head + 1)]
        return msgspec.json.encode([found, events])

    shown = host.store.read(read)
    assert secret.encode() not in shown
    assert SECRET.encode() not in shown


def test_a_long_result_is_cut_unless_all_of_it_is_asked_for(rig: Rig) -> None:
    host = rig.host([tool_call("large", {}), text("ok")], toolsets=["large"])
    host.tools.add(Tool("large", "large", "", NO_PARAMETERS, lambda _args, _context: "x" * 5_000_000, "pure"))
    session = host.new_session()
    session.run("go")
    seq = by_id(rows_of(host.store, session.id))["0/tool:1.0"].seq

    cut = host.store.read(lambda connection: event_detail(connection, session.id, seq, CLEAN))
    whole = host.store.read(lambda connection: event_detail(connection, session.id, seq, CLEAN, whole=True))

    assert len(cut.body["result"]) < LONGEST_TEXT + 100
    assert cut.left_out == len(whole.body["result"]) - LONGEST_TEXT
    assert whole.left_out == 0


def test_a_session_that_does_not_exist_is_reported(rig: Rig) -> None:
    host = rig.host([text("ok")])
    with pytest.raises(SessionNotFound):
        rows_of(host.store, "none")
