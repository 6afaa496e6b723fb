"""The types of recorded bodies, and the one reader of events."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from hermes.base.errors import JournalError
from hermes.journal.bodies import to_json
from hermes.journal.events import last_record, read_events, readable
from hermes.journal.records import (
    EVENTS,
    STEPS,
    CallRecord,
    CheckRecord,
    ClaimRecord,
    DispatchRecord,
    EndRecord,
    FailureRecord,
    FinalRecord,
    OtherRecord,
    PluginDecision,
    RedactedRecord,
    ReplyRecord,
    ResultChange,
    ResumptionRecord,
    SetupRecord,
    StartRecord,
    StoredCall,
    StoredReply,
    UndoingRecord,
    UnreadableRecord,
    decode_record,
    step_place,
)
from hermes.journal.runner import Runner
from hermes.journal.store.port import Store
from hermes.trace.journal.session import session_record
from journal.kit import finish_turn, start_turn, user

CALLED = CallRecord("c1", "read_file", {"path": "a"}, "text", "ok", None, None, 3)
DECISION = PluginDecision("acme", "pre_tool_call", "blocked")


@pytest.mark.parametrize(
    ("record", "text"),
    [
        (StartRecord({"role": "user"}), '{"message":{"role":"user"}}'),
        (ResumptionRecord([], 3), '{"in_flight":[],"progress":3}'),
        (EndRecord("completed", None), '{"state":"completed","error":null}'),
        (EndRecord("failed", "no", "OSError"), '{"state":"failed","error":"no","error_type":"OSError"}'),
        (UndoingRecord(), "{}"),
        (SetupRecord(max_steps=9), '{"max_steps":9}'),
        (
            ReplyRecord(
                reply=StoredReply(content="", tool_calls=[StoredCall("c", "n", "{}")]), attempt=1, provider="p"
            ),
            '{"reply":{"content":"","tool_calls":[{"id":"c","name":"n","arguments":"{}"}]},"attempt":1,"provider":"p"}',
        ),
        (FailureRecord(reason="timeout", error=None, partial=None), '{"reason":"timeout","error":null,"partial":null}'),
        (ClaimRecord("c1", "terminal", {}), '{"id":"c1","name":"terminal","args":{}}'),
        (
            CALLED,
            '{"id":"c1","name":"read_file","args":{"path":"a"},"result":"text","status":"ok","error_type":null,'
            '"error_message":null,"duration_ms":3}',
        ),
        (CheckRecord(None), '{"message":null}'),
        (FinalRecord(text="yes"), '{"text":"yes","finish_reason":"stop"}'),
        (
            ResultChange([DECISION]),
            '{"decisions":[{"plugin":"acme","site":"pre_tool_call","did":"blocked"}]}',
        ),
    ],
)
def test_a_record_is_written_as_it_always_was(record: msgspec.Struct, text: str) -> None:
    assert to_json(record) == text
    tags = [*((kind, "") for kind in EVENTS), *(("step_done", name) for name in STEPS)]
    kind, key = next(tag for tag in tags if (STEPS if tag[1] else EVENTS)[tag[1] or tag[0]] is type(record))
    assert decode_record(kind, key, text) == record


def test_old_records_without_later_fields_are_read() -> None:
    assert decode_record("step_done", "final", '{"text":"yes"}').finish_reason == "stop"
    assert decode_record("turn_resumed", "", '{"in_flight":[]}').progress == -1


def test_the_reader_gives_every_event_its_type(store: Store, runner: Runner) -> None:
    turn = start_turn(store, runner, turn_id="t1")
    turn.step("setup", "done", "pure", SetupRecord(max_steps=2), {"system": "Be brief."})
    turn.step("tool:1.0", "done", "pure", CallRecord("c", "n", {}, "x" * 40_000, "ok", None, None, 0))
    turn.event("dispatch_done", "dispatch:d1", CALLED)
    turn.event("later", "", ["of another version"])
    finish_turn(turn)
    events = store.read(lambda connection: list(read_events(connection, "s1")))
    assert [type(event.record) for event in events] == [
        StartRecord,
        SetupRecord,
        CallRecord,
        DispatchRecord,
        OtherRecord,
        EndRecord,
    ]
    assert events[0].record == StartRecord(user("hello"))
    assert events[1].record == SetupRecord(max_steps=2, system="Be brief.")
    assert str(events[2]) == "event 3 (step_done tool:1.0)" and events[2].effect == "pure"
    later = store.read(lambda connection: list(read_events(connection, "s1", after=4, turn_id="t1")))
    assert later == events[4:]
    assert [event.seq for event in store.read(lambda one: list(read_events(one, "s1", but="setup")))] == [1, 3, 4, 5, 6]
    end = store.read(lambda connection: last_record(connection, EndRecord, "s1", "t1"))
    assert end == EndRecord("completed", None)
    assert store.read(lambda connection: last_record(connection, FinalRecord, "s1", "t1")) is None


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("[", UnreadableRecord("it is not JSON; the journal was changed by hand")),
        ("{}", UnreadableRecord("Object missing required field `message`", is_incomplete=True)),
        ('{"$redacted":"0"}', RedactedRecord()),
    ],
)
def test_a_body_that_was_changed_is_named(store: Store, runner: Runner, body: str, expected: Any) -> None:
    start_turn(store, runner)
    store.write(lambda connection: connection.execute("UPDATE events SET body = ?", (body,)))
    (event,) = store.read(lambda connection: list(read_events(connection, "s1")))
    assert event.record == expected
    with pytest.raises(JournalError, match=r"event 1 \(turn_started\) .* cannot be read"):
        readable(event)


def test_a_blob_that_is_missing_is_named(store: Store, runner: Runner) -> None:
    start_turn(store, runner, message=user("x" * 40_000))
    store.write(lambda connection: connection.execute("DELETE FROM blob_uses"))
    store.write(lambda connection: connection.execute("DELETE FROM blobs"))
    (event,) = store.read(lambda connection: list(read_events(connection, "s1")))
    assert isinstance(event.record, UnreadableRecord) and event.record.reason.endswith("is missing")


@pytest.mark.parametrize(
    ("key", "place"), [("setup", ("setup", 0, 0)), ("model:3", ("model", 3, 0)), ("tool:2.1", ("tool", 2, 1))]
)
def test_the_parts_of_a_key(key: str, place: tuple[str, int, int]) -> None:
    assert step_place(key) == place


def test_a_key_of_no_step_is_refused() -> None:
    with pytest.raises(ValueError, match="no step has the key 'model:x'"):
        step_place("model:x")


def test_a_result_that_a_plugin_changed_is_part_of_the_trace(store: Store, runner: Runner) -> None:
    turn = start_turn(store, runner)
    turn.step("tool:1.0", "done", "pure", CALLED)
    turn.event("result_changed", "tool:1.0", ResultChange([DECISION]))
    finish_turn(turn)
    (recorded,) = session_record(store, "s1").turns
    assert [tool.result for tool in recorded.other_tools] == ["text"]
