"""What a turn records, what a replay finds, and what happens to a message that is delivered twice."""

from __future__ import annotations

import threading
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from hermes.base.errors import JournalError, LeaseLost, SessionBusy, SessionNotFound
from hermes.journal.leases import SessionInfo
from hermes.journal.records import CallRecord, FinalRecord, ReplyRecord, SetupRecord, StoredCall, StoredReply
from hermes.journal.runner import Runner
from hermes.journal.sessions import Sessions
from hermes.journal.store.connection import JournalConnection
from hermes.journal.store.port import Store
from hermes.journal.turns.lifecycle import next_model_key, reopen_turn
from hermes.journal.turns.steps import ModelCallRow, Step, TurnJournal, TurnState
from journal.kit import RunnerFactory, StoreFactory, assistant, finish_turn, rows, start_turn, user

pytestmark = pytest.mark.both_stores


def reopen(store: Store, runner: Runner, *states: TurnState) -> TurnJournal | None:
    return reopen_turn(store, runner, "s1", states=states or ("running",))


def reply(*calls: str, content: str = "said") -> ReplyRecord:
    tool_calls = [StoredCall(call, call, "{}") for call in calls]
    return ReplyRecord(reply=StoredReply(content=content, tool_calls=tool_calls))


def done(result: str = "") -> CallRecord:
    return CallRecord("", "", {}, result, "ok", None, None, 0)


def call_row(number: int, **fields: Any) -> ModelCallRow:
    values: dict[str, Any] = {
        "api_request_id": f"t:api:{number}",
        "key": f"model:{number}",
        "provider": "custom",
        "model": "scripted",
        "status": "ok",
        "started_at": 100.0 + number,
        "duration": 0.5,
    }
    return ModelCallRow(**{**values, **fields})


# -- recording ---------------------------------------------------------------------------------------------------------


def test_nothing_is_on_disk_before_the_commit(store: Store, runner: Runner) -> None:
    turn = start_turn(store, runner, turn_id="t1")
    turn.step("setup", "done", "pure", {"system": "be brief"})
    turn.message(1, 0, assistant("hi"))
    assert [event["kind"] for event in Sessions(store).events("s1")] == ["turn_started"]
    turn.commit()
    events = Sessions(store).events("s1")
    assert [(event["seq"], event["kind"], event["key"], event["effect"]) for event in events] == [
        (1, "turn_started", "", None),
        (2, "step_done", "setup", "pure"),
    ]
    assert {event["turn_id"] for event in events} == {"t1"}
    assert Sessions(store).messages("s1") == [user("hello"), assistant("hi")]


def test_what_changes_after_it_was_recorded_does_not_change_the_record(store: Store, runner: Runner) -> None:
    turn = start_turn(store, runner)
    arguments, message = {"path": "a"}, assistant("before")
    turn.step("tool:1.0", "claimed", "unsafe", {"args": arguments})
    turn.message(1, 0, message)
    arguments["path"] = message["content"] = "after"
    turn.commit()
    assert Sessions(store).events("s1")[-1]["body"] == {"args": {"path": "a"}}
    assert Sessions(store).messages("s1")[-1] == assistant("before")


def test_a_step_that_is_made_later_keeps_its_place_and_its_time(store: Store, runner: Runner) -> None:
    turn = start_turn(store, runner)
    before = store.clock()
    turn.step_later("model:1", "model", lambda: (reply(), {"parameters": {"stream": True}}))
    after = store.clock()
    assert "model:1" not in turn.steps  # nothing was made yet
    turn.step("tool:1.0", "done", "pure", {"result": "two"})
    turn.step_later("tool:1.1", "pure", lambda: ({"result": "three"}, {}))
    turn.step_later("tool:1.2", "pure", lambda: ({"result": "four"}, {}))
    turn.commit()
    events = Sessions(store).events("s1")[1:]
    assert [(event["kind"], event["key"]) for event in events] == [
        ("step_done", "model:1"),
        ("step_done", "tool:1.0"),
        ("step_done", "tool:1.1"),
        ("step_done", "tool:1.2"),
    ]
    recorded = replace(reply(), parameters={"stream": True})
    assert turn.steps["model:1"].body == recorded and events[0]["body"] == msgspec.to_builtins(recorded)
    assert before <= events[0]["at"] <= after


@pytest.mark.parametrize("error", [KeyboardInterrupt(), TypeError()])
def test_a_step_that_is_made_later_is_not_lost_when_making_it_is_cut_short(
    store: Store, runner: Runner, error: BaseException
) -> None:
    turn, errors = start_turn(store, runner), [error]

    def make() -> tuple[object, dict[str, object]]:
        if errors:
            raise errors.pop()
        return {"result": "one"}, {}

    turn.step_later("tool:1.0", "pure", make)
    turn.step_later("tool:1.1", "pure", lambda: ({"result": "two"}, {}))
    with pytest.raises(type(error)):
        turn.commit_soon()
    turn.event("note", "", {})
    turn.commit()
    found = [(event["kind"], event["key"]) for event in Sessions(store).events("s1")[1:]]
    # A value that cannot be recorded is refused alone; it would keep the turn from ending.
    first = [] if isinstance(error, TypeError) else [("step_done", "tool:1.0")]
    assert found == [*first, ("step_done", "tool:1.1"), ("note", "")]


def test_a_value_that_cannot_be_recorded_is_refused_at_once_and_alone(store: Store, runner: Runner) -> None:
    turn = start_turn(store, runner)
    with pytest.raises(TypeError):
        turn.step("model:1", "done", "model", {"callback": object()})
    assert "model:1" not in turn.steps
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(JournalError, match="nested too deeply"):
        turn.event("note", "", deep)
    finish_turn(turn)
    assert [event["kind"] for event in Sessions(store).events("s1")] == ["turn_started", "turn_ended"]


def test_a_message_takes_the_place_of_a_provisional_one(store: Store, runner: Runner) -> None:
    turn = start_turn(store, runner)
    turn.message(1, 0, assistant("The beg"))
    turn.commit()
    turn.message(1, 0, assistant("The beginning and the end"))
    turn.commit()
    assert Sessions(store).messages("s1") == [user("hello"), assistant("The beginning and the end")]
    assert turn.messages == {(0, 0): user("hello"), (1, 0): assistant("The beginning and the end")}


def test_messages_stand_in_the_order_of_the_conversation_whatever_was_committed_first(
    store: Store, runner: Runner
) -> None:
    turn = start_turn(store, runner)
    for step, position in ((2, 0), (1, 2), (1, 0), (10, 0), (1, 1)):
        turn.message(step, position, assistant(f"{step}.{position}"))
        turn.commit()
    contents = [message["content"] for message in Sessions(store).messages("s1")]
    assert contents == ["hello", "1.0", "1.1", "1.2", "2.0", "10.0"]


@pytest.mark.sqlite_only
def test_an_empty_commit_writes_nothing(store: Store, runner: Runner) -> None:
    turn = start_turn(store, runner)
    before = vars(store)["_commits"]
    turn.commit()
    assert vars(store)["_commits"] == before


def test_when_a_commit_returns_what_other_threads_committed_is_on_disk(store: Store, runner: Runner) -> None:
    """A claim that rides on another thread's commit must be on disk before its effect, not only on its way there."""
    turn = start_turn(store, runner)
    in_transaction, may_go_on = threading.Event(), threading.Event()
    turn.step("tool:1.0", "claimed", "unsafe", {})

    def linger(_: JournalConnection) -> None:
        in_transaction.set()
        may_go_on.wait(60)

    vars(turn)["_pending"].others.append(linger)
    first = threading.Thread(target=turn.commit)
    first.start()
    assert in_transaction.wait(60)
    second = threading.Thread(target=turn.commit)
    second.start()
    second.join(0.05)
    assert second.is_alive(), "the rows are on their way, but not there"
    may_go_on.set()
    second.join(60)
    assert rows(store, "SELECT key FROM steps WHERE state = 'claimed'") == [("tool:1.0",)]
    first.join(60)


def test_threads_that_share_a_turn_lose_nothing(store: Store, runner: Runner) -> None:
    turn = start_turn(store, runner)

    def work(thread: int) -> None:
        for number in range(15):
            turn.step(f"tool:{thread}.{number}", "claimed", "unsafe", {})
            turn.commit()
            turn.step(f"tool:{thread}.{number}", "done", "unsafe", {"n": number})
            turn.message(thread + 1, number, assistant(f"{thread}.{number}"))
            turn.commit()

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    events = Sessions(store).events("s1")
    assert [event["seq"] for event in events] == list(range(1, 8 * 15 * 2 + 2))
    assert len(Sessions(store).messages("s1")) == 8 * 15 + 1
    last_states = {event["key"]: event["kind"] for event in events if event["key"]}
    assert set(last_states.values()) == {"step_done"} and len(last_states) == 120


def test_model_calls_keep_their_timing_and_usage(store: Store, runner: Runner) -> None:
    turn = start_turn(store, runner, turn_id="t")
    turn.model_call(call_row(2, status="error", error="HTTP 500 \udcff", model="m\u00e9"))
    turn.model_call(call_row(1, input_tokens=10, output_tokens=5, cache_read_tokens=3, cost_usd=0.25, first_token=0.1))
    turn.commit()
    assert turn.attempts_made == 2
    first, second = Sessions(store).model_calls("s1")
    assert (first["api_request_id"], first["turn_id"], first["status"]) == ("t:api:1", "t", "ok")
    assert (first["input_tokens"], first["output_tokens"], first["cache_read_tokens"]) == (10, 5, 3)
    assert (first["cost_usd"], first["first_token"], first["duration"]) == (0.25, 0.1, 0.5)
    assert (second["status"], second["error"], second["model"]) == ("error", "HTTP 500 ?", "m\u00e9")
    row = Sessions(store).get("s1")
    assert (row.input_tokens, row.output_tokens, row.cost_usd) == (10, 5, 0.25)


# -- deliveries --------------------------------------------------------------------------------------------------------


def test_turns_are_numbered_and_the_session_is_made_with_the_first(store: Store, runner: Runner) -> None:
    info = SessionInfo("s1", "/srv/\udce9", "cli", "custom", "scripted")
    first = start_turn(store, runner, info, message=user("What is\n the capital?"))
    finish_turn(first)
    second = start_turn(store, runner, info)
    assert (first.ordinal, second.ordinal) == (0, 1)
    row = Sessions(store).get("s1")
    assert (row.title, row.cwd, row.platform) == ("What is the capital?", "/srv/?", "cli")
    assert (row.provider, row.model, row.turns, row.state) == ("custom", "scripted", 2, "running")


def test_a_second_message_waits_until_the_first_is_answered(store: Store, runner: Runner) -> None:
    start_turn(store, runner)
    with pytest.raises(JournalError, match="session s1 has an unfinished turn; resume it first"):
        start_turn(store, runner, message=user("and another"))
    assert Sessions(store).turn_count("s1") == 1


def test_the_same_delivery_again_gives_the_ended_turn(store: Store, runner: Runner) -> None:
    first = start_turn(store, runner, turn_id="t1", request_key="message-7")
    first.step("final", "done", "pure", {"text": "forty-two"})
    finish_turn(first, "forty-two")
    before = rows(store, "SELECT * FROM events") + rows(store, "SELECT * FROM sessions")
    again = start_turn(store, runner, turn_id="t2", request_key="message-7")
    assert (again.id, again.state, again.answer, again.ordinal) == ("t1", "completed", "forty-two", 0)
    assert again.steps["final"] == Step("done", FinalRecord(text="forty-two"))
    assert rows(store, "SELECT * FROM events") + rows(store, "SELECT * FROM sessions") == before
    again.event("note", "", "an ended turn takes nothing more")
    with pytest.raises(LeaseLost):
        again.commit()


def test_an_ended_turn_can_be_asked_for_while_another_process_runs_the_session(
    store: Store, open_store: StoreFactory, new_runner: RunnerFactory
) -> None:
    owner, other = new_runner(), new_runner()
    finish_turn(start_turn(store, owner, request_key="message-7"), "the answer")
    start_turn(store, owner)
    again = start_turn(open_store(), other, request_key="message-7")
    assert again.answer == "the answer"


def test_the_same_delivery_while_it_is_being_answered_is_busy(
    store: Store, open_store: StoreFactory, new_runner: RunnerFactory
) -> None:
    owner, other = new_runner(), new_runner()
    turn = start_turn(store, owner, request_key="message-7")
    with pytest.raises(SessionBusy, match="is answering this very message already"):
        start_turn(store, owner, request_key="message-7")
    with pytest.raises(SessionBusy, match="is in use by process"):
        start_turn(open_store(), other, request_key="message-7")
    finish_turn(turn)


def test_the_same_delivery_after_a_crash_takes_the_turn_up(store: Store, new_runner: RunnerFactory) -> None:
    dead, heir = new_runner(), new_runner()
    first = start_turn(store, dead, turn_id="t1", request_key="message-7")
    first.step("setup", "done", "pure", {"system": "s"})
    first.commit()
    dead.close()
    again = start_turn(store, heir, turn_id="t2", request_key="message-7")
    assert (again.id, again.state, list(again.steps)) == ("t1", "running", ["setup"])
    assert Sessions(store).model_calls("s1")[0]["status"] == "crashed"
    finish_turn(again)


def test_another_message_with_the_same_key_is_refused(store: Store, runner: Runner) -> None:
    finish_turn(start_turn(store, runner, request_key="message-7"))
    with pytest.raises(JournalError, match="another message with this request key was accepted before"):
        start_turn(store, runner, request_key="message-7", message=user("something else"))


def test_the_same_key_in_another_session_is_another_turn(store: Store, runner: Runner) -> None:
    one = start_turn(store, runner, "s1", request_key="1")
    two = start_turn(store, runner, "s2", request_key="1")
    assert one.id != two.id


# -- taking up ---------------------------------------------------------------------------------------------------------


def test_a_turn_is_found_as_it_was_left(store: Store, new_runner: RunnerFactory) -> None:
    dead, heir = new_runner(), new_runner()
    turn = start_turn(store, dead, turn_id="t1")
    turn.step("setup", "done", "pure", {"system": "s"})
    turn.model_call(call_row(1, api_request_id="t1:api:1"))
    turn.step("model:1", "done", "model", reply("a", "b"))
    turn.message(1, 0, assistant("working"))
    turn.step("tool:1.0", "claimed", "unsafe", {"args": {"x": 1}})
    turn.step("tool:1.1", "claimed", "unsafe", {"args": {"x": 2}})
    turn.step("tool:1.0", "done", "unsafe", done("ok"))
    turn.commit()
    turn.event("note", "", "this one never reached the disk")
    dead.close()
    again = reopen(store, heir)
    assert again is not None
    assert (again.id, again.task_id, again.ordinal, again.state) == ("t1", "task of t1", 0, "running")
    assert {key: step for key, step in again.steps.items() if key != "tool:1.1"} == {
        "setup": Step("done", SetupRecord(system="s")),
        "model:1": Step("done", reply("a", "b")),
        "tool:1.0": Step("done", done("ok")),
    }
    assert again.messages == {(0, 0): user("hello"), (1, 0): assistant("working")}
    assert again.attempts_made == 1, "a tool call was in flight, not a model call"
    resumed, settled = Sessions(store).events("s1")[-2:]
    assert (resumed["kind"], resumed["body"]["in_flight"]) == ("turn_resumed", ["tool:1.1"])
    assert (settled["kind"], settled["key"], settled["body"]["args"]) == ("step_done", "tool:1.1", {"x": 2})
    assert settled["body"]["error_type"] == "unknown_outcome" and '"outcome":"unknown"' in settled["body"]["result"]
    assert again.steps["tool:1.1"] == Step("done", msgspec.convert(settled["body"], CallRecord))


def test_the_attempt_that_was_open_is_closed_as_crashed(store: Store, new_runner: RunnerFactory) -> None:
    dead, heir = new_runner(), new_runner()
    turn = start_turn(store, dead, turn_id="t1")
    turn.step("setup", "done", "pure", {})
    turn.model_call(call_row(1, api_request_id="t1:api:1"))
    turn.step("model:1", "done", "model", reply("a"))
    turn.step("tool:1.0", "done", "pure", done())
    turn.commit()
    dead.close()
    again = reopen(store, heir)
    assert again is not None and again.attempts_made == 2
    calls = {call["api_request_id"]: call for call in Sessions(store).model_calls("s1")}
    crashed = calls["t1:api:2"]
    assert (crashed["status"], crashed["key"]) == ("crashed", "model:2")
    assert crashed["error"] == "the process ended before an answer was recorded"


def test_a_turn_that_keeps_crashing_counts_its_attempts(store: Store, new_runner: RunnerFactory) -> None:
    runner = new_runner()
    start_turn(store, runner)
    for _ in range(4):
        runner.close()
        runner = new_runner()
        assert reopen(store, runner) is not None
    assert rows(store, "SELECT attempts FROM turns") == [(5,)]
    assert [event["kind"] for event in Sessions(store).events("s1")] == ["turn_started", *["turn_resumed"] * 4]


@pytest.mark.parametrize("state", ["failed", "interrupted"])
def test_a_turn_that_ended_badly_can_be_taken_up_when_asked(store: Store, runner: Runner, state: TurnState) -> None:
    turn = start_turn(store, runner)
    turn.step("setup", "done", "pure", {})
    turn.end(state, error="it broke \udcff")
    turn.commit()
    last = Sessions(store).last_turn("s1")
    assert last is not None and (last.id, last.state, last.answer, last.error) == (turn.id, state, None, "it broke ?")
    assert reopen(store, runner, "running") is None
    again = reopen(store, runner, "running", state)
    assert again is not None and (again.state, again.error) == ("running", None)
    assert Sessions(store).model_calls("s1") == [], "its attempts were closed when it ended"
    finish_turn(again, "after all")
    last = Sessions(store).last_turn("s1")
    assert last is not None
    assert (last.id, last.state, last.answer, last.error) == (turn.id, "completed", "after all", None)


def test_there_is_nothing_to_take_up(store: Store, runner: Runner) -> None:
    assert reopen(store, runner) is None
    finish_turn(start_turn(store, runner))
    assert reopen(store, runner) is None


def test_a_session_that_does_not_exist_has_no_messages(store: Store) -> None:
    sessions = Sessions(store)
    assert sessions.messages("nowhere") == [] and sessions.events("nowhere") == []
    assert sessions.last_turn("nowhere") is None and sessions.turn_count("nowhere") == 0
    with pytest.raises(SessionNotFound):
        sessions.get("nowhere")


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        ({}, None),
        ({"setup": {}}, "model:1"),
        ({"setup": {}, "model:1": reply()}, None),
        ({"setup": {}, "model:1": reply(content=" ")}, "model:1"),
        ({"setup": {}, "model:1": reply("a")}, None),
        ({"setup": {}, "model:1": reply("a"), "tool:1.0": {}}, "model:2"),
        ({"setup": {}, "model:1": reply("a", "b"), "tool:1.0": {}}, None),
        ({"setup": {}, "model:1": reply("a"), "tool:1.0": {}, "model:2": reply("b"), "tool:2.0": {}}, "model:3"),
        ({"setup": {}, "model:1": reply(), "final": {}}, None),
    ],
)
def test_the_next_model_step_follows_from_what_is_done(steps: dict[str, Any], expected: str | None) -> None:
    assert next_model_key({key: Step("done", body) for key, body in steps.items()}) == expected
