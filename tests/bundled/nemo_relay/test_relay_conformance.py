"""What any run exports is whole: paired, ordered, attributed to the right session, and the same in both formats."""

from __future__ import annotations

import threading
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from hermes.base.config.schema.sections import DelegationConfig
from hermes.base.errors import TurnSuspended
from hermes.base.scope import Interrupt
from hermes.host import Host
from hermes.journal.questions import Questions
from hermes.testing import (
    RecordedRequest,
    ScriptedCall,
    ScriptedResponder,
    by_step,
    failure,
    hanging,
    text,
    tool_call,
    tool_calls,
)
from support.approval_rig import says
from support.relay_rig import HostMaker, add_tool, agree, events, forbid, marks, problems, scopes, trajectories

SECRET = "sk-proj-" + "Ab3" * 14


def _run(host: Host, message: str = "go") -> str:
    session = host.new_session()
    session.run(message)
    return session.id


def _assert_whole(folder: Path) -> None:
    assert problems(folder) == []
    assert agree(folder) == []


def test_one_tool_and_its_turn(exporting_host: HostMaker, relay_folder: Path, workdir: Path) -> None:
    (workdir / "a").write_text(f"key {SECRET}\n")
    host = exporting_host([tool_call("read_file", {"path": "a"}, call_id="call_a"), text("ok")])
    session_id = _run(host, f"Read a with {SECRET}.")
    host.close()
    _assert_whole(relay_folder)
    found = events(relay_folder)
    assert Counter((one.get("category"), one.get("scope_category")) for one in found if one["kind"] == "scope") == {
        (category, edge): count
        for category, count in (("agent", 1), ("llm", 2), ("tool", 1))
        for edge in ("start", "end")
    }
    assert [one["name"] for one in marks(found)] == ["hermes.turn.start", "hermes.turn.end", "hermes.session.end"]
    for one in found:
        assert one["metadata"]["session_id"] == one["metadata"]["trajectory_id"] == session_id
    for one in (*scopes(found, "llm"), *scopes(found, "llm", "end")):
        assert {"task_id", "turn_id", "api_request_id", "provider", "model", "platform"} <= one["metadata"].keys()
    for path in relay_folder.rglob("*.json*"):
        if "home" not in path.parts:
            assert SECRET not in path.read_text() and path.stat().st_mode & 0o777 == 0o600
    assert list(trajectories(relay_folder)) == [session_id]


def test_a_request_shows_what_is_new_and_the_stream_has_it_all(exporting_host: HostMaker, relay_folder: Path) -> None:
    command = tool_call("terminal", {"command": "printf one"})
    host = exporting_host([command, text("first"), text("second")])
    session = host.new_session()
    session.run("go")
    session.run("again")
    host.close()
    contents = [one["data"]["content"] for one in scopes(events(relay_folder), "llm")]
    assert [content.get("messages_before", 0) for content in contents] == [0, 2, 4]
    together = [message for content in contents for message in content["messages"]]
    roles = [message["role"] for message in together]
    assert roles == ["system", "user", "assistant", "tool", "assistant", "user"]
    assert "tools" in contents[0] and "tools" not in contents[1]


def test_whole_requests_on_demand(
    exporting_host: HostMaker, relay_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HERMES_NEMO_RELAY_FULL_REQUESTS", "1")
    host = exporting_host([tool_call("terminal", {"command": "printf one"}), text("done")])
    _run(host)
    host.close()
    contents = [one["data"]["content"] for one in scopes(events(relay_folder), "llm")]
    assert [len(content["messages"]) for content in contents] == [2, 4]
    assert all("tools" in content for content in contents)


def test_parallel_tools_that_end_in_reverse(exporting_host: HostMaker, relay_folder: Path) -> None:
    second_is_over = threading.Event()
    host = exporting_host(
        [tool_calls([ScriptedCall("slow", {}, "call_1"), ScriptedCall("quick", {}, "call_2")]), text("done")],
        options={"toolsets": ["race"]},
    )
    add_tool(host, "slow", lambda _args, _context: f'{{"waited":{second_is_over.wait(60)}}}')
    add_tool(host, "quick", lambda _args, _context: '{"who":"quick"}')

    def note(tool_name: str, **_: Any) -> None:
        if tool_name == "quick":
            second_is_over.set()

    host.hooks.subscribe("post_tool_call", "race", note)
    session_id = _run(host)
    host.close()
    _assert_whole(relay_folder)
    found = events(relay_folder)
    assert [one["metadata"]["tool_call_id"] for one in scopes(found, "tool")] == ["call_1", "call_2"]
    assert [one["metadata"]["tool_call_id"] for one in scopes(found, "tool", "end")] == ["call_2", "call_1"]
    step = next(step for step in trajectories(relay_folder)[session_id]["steps"] if step.get("tool_calls"))
    assert [result["source_call_id"] for result in step["observation"]["results"]] == ["call_2", "call_1"]


def test_identical_parallel_calls_stay_apart(exporting_host: HostMaker, relay_folder: Path) -> None:
    numbers = iter(range(10))
    calls = [ScriptedCall("ticket", {}, f"call_{number}") for number in range(4)]
    host = exporting_host([tool_calls(calls), text("done")], options={"toolsets": ["race"]})
    add_tool(host, "ticket", lambda _args, _context: f'{{"ticket":{next(numbers)}}}')
    session_id = _run(host)
    host.close()
    _assert_whole(relay_folder)
    ends = scopes(events(relay_folder), "tool", "end")
    by_call = {one["metadata"]["tool_call_id"]: one["data"] for one in ends}
    assert set(by_call) == {call.id for call in calls} and len(set(by_call.values())) == 4
    step = next(step for step in trajectories(relay_folder)[session_id]["steps"] if step.get("tool_calls"))
    results = {one["source_call_id"]: one["content"] for one in step["observation"]["results"]}
    assert results == by_call


def test_the_same_call_ids_in_two_turns(exporting_host: HostMaker, relay_folder: Path) -> None:
    again = tool_call("terminal", {"command": "printf x"}, call_id="call_0")
    host = exporting_host([again, text("one"), again, text("two")])
    session = host.new_session()
    session.run("go")
    session.run("again")
    host.close()
    assert problems(relay_folder) == []
    turns = [one["metadata"]["turn_id"] for one in scopes(events(relay_folder), "tool", "end")]
    assert len(set(turns)) == 2


def test_approval(exporting_host: HostMaker, relay_folder: Path) -> None:
    host = exporting_host([tool_call("terminal", {"command": "rm -rf notes"}, call_id="call_rm"), text("I may not.")])
    session = host.new_session()
    host.responders.attach(session.id, ScriptedResponder(says("deny", "not today")))
    session.run("Clear it.")
    host.close()
    _assert_whole(relay_folder)
    found = events(relay_folder)
    [asked], [answered] = marks(found, "hermes.approval.request"), marks(found, "hermes.approval.response")
    assert asked["data"]["command"] == "rm -rf notes"
    assert (answered["data"]["choice"], answered["metadata"]["status"]) == ("deny", "deny")
    assert asked["metadata"]["tool_call_id"] == answered["metadata"]["tool_call_id"] == "call_rm"
    [end] = scopes(found, "tool", "end")
    assert (end["metadata"]["status"], end["metadata"]["error_type"]) == ("blocked", "approval_denied")


def _wait(host: Host) -> str:
    """A turn that waits for an answer; the id of its session."""
    session = host.new_session()
    host.responders.attach(session.id, ScriptedResponder(TurnSuspended()))
    with pytest.raises(TurnSuspended):
        session.run("Clear it.")
    return session.id


def _answer(host: Host, session_id: str) -> None:
    questions = Questions(host.store)
    [row] = questions.pending()
    questions.answer(row.id, "deny")
    host.resume_session(session_id).finish_open_turn()


def test_a_call_that_waits_is_one_span(exporting_host: HostMaker, relay_folder: Path) -> None:
    host = exporting_host(by_step(tool_call("terminal", {"command": "rm -rf notes"}), text("I may not.")))
    _answer(host, _wait(host))
    host.close()
    _assert_whole(relay_folder)
    found = events(relay_folder)
    [_], [end] = scopes(found, "tool"), scopes(found, "tool", "end")
    assert (end["metadata"]["status"], end["metadata"]["error_type"]) == ("blocked", "approval_denied")
    [turn] = marks(found, "hermes.turn.end")
    assert turn["metadata"]["status"] == "completed"
    assert [one["data"]["choice"] for one in marks(found, "hermes.approval.response")] == ["deny"]


def test_a_call_that_another_process_goes_on_with_was_waiting(exporting_host: HostMaker, relay_folder: Path) -> None:
    """The runtime cannot end a span of another process: the one there is says that it waits, and a mark its outcome."""
    script = by_step(tool_call("terminal", {"command": "rm -rf notes"}), text("I may not."))
    host = exporting_host(script)
    session_id = _wait(host)
    host.close()
    host = exporting_host(script)
    _answer(host, session_id)
    host.close()
    assert problems(relay_folder) == []
    found = events(relay_folder)
    [_], [end] = scopes(found, "tool"), scopes(found, "tool", "end")
    assert end["metadata"]["status"] == "waiting"
    [outcome] = marks(found, "hermes.tool.response.unmatched")
    assert outcome["metadata"]["status"] == "blocked"
    assert [one["data"]["choice"] for one in marks(found, "hermes.approval.response")] == ["deny"]


def _family(request: RecordedRequest) -> Any:
    if "goal" in request.last_user_text:
        command = f"printf {request.last_user_text.split()[-1]}"
        return by_step(tool_call("terminal", {"command": command}, call_id="call_own"), text("leaf"))(request)
    return by_step(
        tool_calls(
            [
                ScriptedCall("delegate_task", {"goal": "goal left"}, "call_left"),
                ScriptedCall("delegate_task", {"goal": "goal right"}, "call_right"),
                ScriptedCall("terminal", {"command": "printf sibling"}, "call_sibling"),
            ]
        ),
        text("all done"),
    )(request)


@pytest.mark.parametrize("mode", ["embedded", "all"])
def test_two_delegations_and_a_sibling(
    exporting_host: HostMaker, relay_folder: Path, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    monkeypatch.setenv("HERMES_NEMO_RELAY_ATIF_SUBAGENT_EXPORT_MODE", mode)
    host = exporting_host(_family)
    parent = _run(host)
    host.close()
    assert problems(relay_folder) == []
    found, documents = events(relay_folder), trajectories(relay_folder)
    children = {
        one["metadata"]["tool_call_id"]: one["metadata"]["child_session_id"]
        for one in marks(found, "hermes.subagent.start")
    }
    assert set(children) == {"call_left", "call_right"} and len(set(children.values())) == 2
    assert set(documents) == ({parent} if mode == "embedded" else {parent, *children.values()})
    document = documents[parent]
    assert {one["trajectory_id"] for one in document["subagent_trajectories"]} == set(children.values())
    step = next(step for step in document["steps"] if step.get("tool_calls"))
    references = {one["source_call_id"]: one.get("subagent_trajectory_ref") for one in step["observation"]["results"]}
    for call_id, child in children.items():
        assert [one["trajectory_id"] for one in references[call_id] or ()] == [child]
    assert references["call_sibling"] is None
    [top, *nested] = scopes(found, "agent")
    for one in nested:
        assert one["parent_uuid"] == top["uuid"]
        assert children[one["metadata"]["parent_tool_call_id"]] == one["metadata"]["session_id"]
    stopped = marks(found, "hermes.subagent.stop")
    assert {one["metadata"]["status"] for one in stopped} == {"completed"} and len(stopped) == 2


def test_sessions_at_the_same_time_never_mix(exporting_host: HostMaker, relay_folder: Path) -> None:
    both_are_in = threading.Barrier(4)

    def meet(_args: object, _context: object) -> str:
        both_are_in.wait(60)
        return '{"met":true}'

    def script(request: RecordedRequest) -> Any:
        return by_step(tool_call("meet", {}), text(f"answer to {request.last_user_text}"))(request)

    host = exporting_host(script, options={"toolsets": ["race"]})
    add_tool(host, "meet", meet)
    sessions = {f"secret of {number}": host.new_session() for number in range(4)}
    threads = [threading.Thread(target=session.run, args=(word,)) for word, session in sessions.items()]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    host.close()
    assert problems(relay_folder) == []
    documents = trajectories(relay_folder)
    for word, session in sessions.items():
        shown = str(documents[session.id])
        assert word in shown and not any(other in shown for other in sessions if other != word)
    for one in events(relay_folder):
        owner = next(word for word, session in sessions.items() if session.id == one["metadata"]["session_id"])
        assert not any(other in str(one["data"]) for other in sessions if other != owner)


def test_opened_in_one_thread_and_closed_in_another(exporting_host: HostMaker, relay_folder: Path) -> None:
    host = exporting_host([text("first"), text("second")])
    session = host.new_session()
    opened = threading.Thread(target=session.run, args=("go",))
    opened.start()
    opened.join(60)
    session.run("again")
    closed = threading.Thread(target=session.close)
    closed.start()
    closed.join(60)
    assert problems(relay_folder) == []
    assert len(trajectories(relay_folder)[session.id]["steps"]) == 5


@pytest.mark.parametrize("mode", ["append", "overwrite"])
def test_one_session_after_another(
    exporting_host: HostMaker, relay_folder: Path, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    monkeypatch.setenv("HERMES_NEMO_RELAY_ATOF_MODE", mode)
    (relay_folder / "atof").mkdir()
    (relay_folder / "atof" / "events.jsonl").write_text("")
    host = exporting_host("hello")
    first = host.new_session()
    first.run("go")
    first.close("new_session", new_session_id="next")  # as a surface does that starts over
    second = _run(host)
    host.close()
    other = exporting_host("hello")
    third = _run(other)
    other.close()
    assert problems(relay_folder) == []
    told = [one["metadata"]["session_id"] for one in scopes(events(relay_folder), "agent")]
    assert told == ([first.id, second, third] if mode == "append" else [third])
    assert set(trajectories(relay_folder)) == {first.id, second, third}


def test_every_outcome_of_a_tool_is_paired(exporting_host: HostMaker, relay_folder: Path) -> None:
    def boom(_args: object, _context: object) -> str:
        raise OSError("it broke")

    calls = [
        ScriptedCall("boom", {}, "call_error"),
        ScriptedCall("forbidden", {}, "call_blocked"),
        ScriptedCall("nothing", {}, "call_unknown"),
        ScriptedCall("terminal", "no json", "call_malformed"),
    ]
    host = exporting_host([tool_calls(calls), text("done")], options={"toolsets": ["race", "terminal"]})
    add_tool(host, "boom", boom)
    add_tool(host, "forbidden", boom)
    host.hooks.subscribe("pre_tool_call", "guard", forbid)
    _run(host)
    host.close()
    _assert_whole(relay_folder)
    ends = {one["metadata"]["tool_call_id"]: one["metadata"] for one in scopes(events(relay_folder), "tool", "end")}
    assert {name: one["status"] for name, one in ends.items()} == {
        "call_error": "error",
        "call_blocked": "blocked",
        "call_unknown": "error",
        "call_malformed": "error",
    }
    assert ends["call_error"]["otel.status_code"] == "ERROR"


def test_a_provider_that_fails_once(exporting_host: HostMaker, relay_folder: Path) -> None:
    host = exporting_host([failure(503), text("done")], retries=1)
    session_id = _run(host)
    host.close()
    _assert_whole(relay_folder)
    ends = scopes(events(relay_folder), "llm", "end")
    assert [one["metadata"]["status"] for one in ends] == ["error", "ok"]
    assert len({one["metadata"]["api_request_id"] for one in ends}) == 2
    assert ends[0]["data"]["error"]["type"] and ends[0]["metadata"]["status_code"] == 503
    last = trajectories(relay_folder)[session_id]["steps"][-1]
    assert [one["status"] for one in last["extra"]["attempts"]] == ["error", "ok"]


def test_an_interrupted_turn(exporting_host: HostMaker, relay_folder: Path) -> None:
    host = exporting_host(hanging())
    interrupt = Interrupt()

    def stop(**_: Any) -> None:
        interrupt.cancel("enough")

    host.hooks.subscribe("pre_api_request", "stop", stop)
    session = host.new_session()
    assert session.run("go", interrupt=interrupt).status == "interrupted"
    host.close()
    _assert_whole(relay_folder)
    found = events(relay_folder)
    [end] = scopes(found, "llm", "end")
    assert end["metadata"]["status"] == "cancelled"
    assert marks(found, "hermes.turn.end")[0]["metadata"]["status"] == "interrupted"


def test_a_child_that_takes_too_long(exporting_host: HostMaker, relay_folder: Path) -> None:
    def script(request: RecordedRequest) -> Any:
        if request.last_user_text == "go":
            return by_step(tool_call("delegate_task", {"goal": "sleep"}, call_id="call_d"), text("late"))(request)
        return hanging()

    host = exporting_host(script, delegation=DelegationConfig(child_timeout_seconds=0.2))
    _run(host)
    host.close()
    assert problems(relay_folder) == []
    [stop] = marks(events(relay_folder), "hermes.subagent.stop")
    assert stop["metadata"]["status"] == "timeout"


def test_odd_values_are_exported_in_some_form(exporting_host: HostMaker, relay_folder: Path) -> None:
    odd = '{"text": "\\ud800 and \\u0000", "number": 123456789012345678901234567890, "deep": [[[["x"]]]]}'
    host = exporting_host(
        [tool_calls([ScriptedCall("mirror", odd, "call_odd")]), text("done \U0001f600")], options={"toolsets": ["race"]}
    )
    add_tool(host, "mirror", lambda args, _context: repr(args))
    _run(host)
    stats = [one for one in host.hooks.stats() if one.failures]
    host.close()
    assert stats == []
    _assert_whole(relay_folder)


def test_sessions_left_open_are_ended_by_the_exit(exporting_host: HostMaker, relay_folder: Path) -> None:
    """A surface that never closes its sessions still leaves whole files behind when the process ends."""
    host = exporting_host("hello")
    session_id = _run(host)
    emit = host.hooks.on_session_end
    assert emit is not None
    callback: Any = emit.subscribers[0].function
    callback.sink.__self__.close()
    assert problems(relay_folder) == []
    assert session_id in trajectories(relay_folder)
