"""``delegate_task``: children with conversations of their own, their tools and models, and what the parent learns."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import pytest

from hermes.agent.children.assignments import MAX_CHILDREN
from hermes.base.sanitize import Redactor
from hermes.base.scope import current_scope
from hermes.contract.events import ChildActivity, ChildEnded, ChildStarted, ReasoningDelta, TextDelta, TurnEvent
from hermes.host import Host
from hermes.surfaces.cli.chat.output import event_document
from hermes.testing import (
    EventRecorder,
    RecordedRequest,
    ScriptedProvider,
    ScriptedReply,
    failure,
    text,
    tool_call,
    tool_calls,
)
from hermes.tools.registry import Tool
from support import HostFactory

Payload = dict[str, Any]


def delegating(**args: Any) -> list[ScriptedReply]:
    """The script of a parent that delegates once and then says so."""
    return [tool_call("delegate_task", args, call_id="call_d"), text("done")]


def result_of(provider: ScriptedProvider, goal: str = "go", call: int = -1) -> Payload:
    """What the conversation with that first message was given as the result of its delegation."""
    request = [request for request in provider.requests if _goal(request) == goal][-1]
    results = [message["content"] for message in request.messages if message["role"] == "tool"]
    return msgspec.json.decode(results[call])


def _goal(request: RecordedRequest) -> str:
    return next(message["content"] for message in request.messages if message["role"] == "user")


def _requests(provider: ScriptedProvider, goal: str) -> list[RecordedRequest]:
    return [request for request in provider.requests if _goal(request) == goal]


def _offered(request: RecordedRequest) -> list[str]:
    return [tool["function"]["name"] for tool in request.body.get("tools", ())]


def _add_tools(host: Host, names: Sequence[str], run: Callable[..., str]) -> None:
    for name in names:
        host.tools.add(Tool(name, name, "", {"type": "object", "properties": {}}, run, "pure"))


def _nothing(*_: Any) -> str:
    return "{}"


# -- one child -------------------------------------------------------------------------------------------------------


def test_a_child_does_its_task_in_a_conversation_of_its_own(make_host: HostFactory) -> None:
    told = "Say hi\n\nContext:\nIn a shell."
    script = {
        "go": delegating(goal="Say hi", context="In a shell.", toolsets=["terminal"]),
        told: [tool_call("terminal", {"command": "printf hi"}), text("It said hi.")],
    }
    with ScriptedProvider(script) as provider:
        host = make_host(provider)
        session = host.new_session()
        assert session.run("go").answer == "done"
        [result] = result_of(provider)["results"]
        [child] = [row for row in host.sessions.list(children=True) if row.parent_id]
    assert result.pop("duration_seconds") >= 0
    assert result == {
        "task_index": 0,
        "status": "completed",
        "summary": "It said hi.",
        "api_calls": 2,
        "model": "scripted",
        "tokens": {"input": 20, "output": 10},
        "exit_reason": "completed",
        "tool_trace": [{"tool": "terminal", "args_bytes": 23, "result_bytes": 42, "status": "ok"}],
        "session_id": child.id,
    }
    assert (child.parent_id, child.parent_call, child.title) == (session.id, "call_d", "Say hi Context: In a shell.")
    assert [row.id for row in host.sessions.list()] == [session.id]
    assert len(host.open_sessions) == 1  # the child is not kept
    request = _requests(provider, told)[0]
    assert _offered(request) == ["process", "terminal"]
    assert "child agent" in request.messages[0]["content"]
    assert "child agent" not in provider.requests[0].messages[0]["content"]


def test_a_call_waits_for_its_children_whatever_else_it_asks_for(make_host: HostFactory) -> None:
    """``background`` is no argument: a model that has seen it elsewhere gets the result of the call all the same."""
    with ScriptedProvider({"go": delegating(goal="a", background=True), "a": text("It is done.")}) as provider:
        make_host(provider).new_session().run("go")
        [result] = result_of(provider)["results"]
        offered = {tool["function"]["name"]: tool["function"] for tool in provider.requests[0].body["tools"]}
    assert (result["status"], result["summary"]) == ("completed", "It is done.")
    assert "background" not in offered["delegate_task"]["parameters"]["properties"]


def test_hooks_tell_the_whole_family(make_host: HostFactory) -> None:
    with ScriptedProvider({"go": delegating(goal="work"), "work": text("worked")}) as provider:
        host = make_host(provider)
        recorder = EventRecorder().attach(host.hooks)
        session = host.new_session()
        turn_id = session.run("go").turn_id
        host.close()
    [start], [stop] = recorder.of("subagent_start"), recorder.of("subagent_stop")
    child_id = start["child_session_id"]
    assert {name: start[name] for name in start if name not in ("telemetry_schema_version", "task_id")} == {
        "session_id": session.id,
        "turn_id": turn_id,
        "tool_call_id": "call_d",
        "parent_session_id": session.id,
        "parent_turn_id": turn_id,
        "parent_subagent_id": "",
        "child_session_id": child_id,
        "child_subagent_id": f"sa-0-{child_id.removeprefix('child_')[:8]}",
        "child_role": "leaf",
        "child_goal": "work",
    }
    assert {name: stop[name] for name in start} == start
    assert (stop["child_status"], stop["child_summary"]) == ("completed", "worked")
    assert stop["duration_ms"] >= 0
    own = [event.name for event in recorder.events if event.payload.get("session_id") == child_id]
    for name in ("on_session_start", "on_session_end", "on_session_finalize"):
        assert own.count(name) == 1
    names = recorder.names()
    assert names.index("subagent_start") < names.index("on_session_start", names.index("subagent_start"))
    assert names.index("on_session_finalize") < names.index("subagent_stop") < names.index("post_tool_call")
    assert recorder.breaches() == []


def test_a_surface_hears_of_children_and_not_what_they_say(make_host: HostFactory) -> None:
    seen: list[TurnEvent] = []
    with ScriptedProvider({"go": delegating(goal="work"), "work": text("secret words")}) as provider:
        make_host(provider).new_session().run("go", listener=seen.append)
    [started] = [event for event in seen if isinstance(event, ChildStarted)]
    [finished] = [event for event in seen if isinstance(event, ChildEnded)]
    assert (started.child_goal, started.child_role, started.task_index) == ("work", "leaf", 0)
    assert (finished.child_session_id, finished.child_status) == (started.child_session_id, "completed")
    assert finished.child_error is None
    assert not [event for event in seen if isinstance(event, TextDelta | ReasoningDelta) and "secret" in event.text]
    documents = [event_document(event, Redactor()) for event in seen]
    # The result of the delegation has the child's answer, as the parent's model gets it; nothing else does.
    assert [document["type"] for document in documents if "secret words" in str(document)] == ["tool_finished"]


def test_a_surface_hears_which_calls_a_child_makes(make_host: HostFactory) -> None:
    seen: list[TurnEvent] = []
    script = {"go": delegating(goal="work"), "work": [tool_call("terminal", {"command": "echo hi"}), text("done")]}
    with ScriptedProvider(script) as provider:
        make_host(provider).new_session().run("go", listener=seen.append)
    kinds = [type(event) for event in seen if isinstance(event, ChildStarted | ChildActivity | ChildEnded)]
    assert kinds == [ChildStarted, ChildActivity, ChildEnded]
    [activity] = [event for event in seen if isinstance(event, ChildActivity)]
    assert (activity.task_index, activity.tool_name, activity.args) == (0, "terminal", {"command": "echo hi"})
    assert event_document(activity, Redactor())["type"] == "child_activity"


def test_plugins_see_the_childs_scope_inside_the_child(make_host: HostFactory) -> None:
    found: list[str] = []

    def look(*_: Any) -> str:
        scope = current_scope.get()
        found.append(scope.session_id if scope else "")
        return "{}"

    script = {"go": delegating(goal="work"), "work": [tool_call("look", {}), text("ok")]}
    with ScriptedProvider(script) as provider:
        host = make_host(provider)
        _add_tools(host, ["look"], look)
        host.new_session().run("go")
        assert found == [result_of(provider)["results"][0]["session_id"]]


# -- tools, models, budget -------------------------------------------------------------------------------------------


def test_a_leaf_has_the_parents_tools_without_those_that_are_not_for_children(make_host: HostFactory) -> None:
    kept_from_it = ["clarify", "memory", "send_message", "execute_code", "cronjob"]
    with ScriptedProvider({"go": delegating(goal="work"), "work": text("ok")}) as provider:
        host = make_host(provider, toolsets=["terminal", "file", "delegation", *kept_from_it])
        for name in kept_from_it:
            host.tools.remove(name)
        _add_tools(host, kept_from_it, _nothing)
        host.new_session().run("go")
        parents, childs = set(_offered(provider.requests[0])), set(_offered(_requests(provider, "work")[0]))
    assert parents - childs == {"delegate_task", *kept_from_it}
    assert {"terminal", "read_file"} <= childs


def test_a_child_cannot_have_what_the_parent_has_not(make_host: HostFactory) -> None:
    with ScriptedProvider({"go": delegating(goal="work", toolsets=["file"])}) as provider:
        make_host(provider, toolsets=["delegation", "terminal"]).new_session().run("go")
        error = result_of(provider)["error"]
    assert error.startswith("toolset 'file' cannot be given to a child; you have: ")
    assert "terminal" in error


def test_groups_of_toolsets_are_understood(make_host: HostFactory) -> None:
    with ScriptedProvider({"go": delegating(goal="work", toolsets=["coding"]), "work": text("ok")}) as provider:
        make_host(provider, toolsets=["delegation", "terminal"]).new_session().run("go")
        assert _offered(_requests(provider, "work")[0]) == ["process", "terminal"]


def test_children_answer_with_the_model_that_is_set_for_them(make_host: HostFactory) -> None:
    with ScriptedProvider({"go": delegating(goal="work"), "work": text("ok", model="small")}) as provider:
        host = make_host(provider)
        host.config.delegation.model = "small"
        host.new_session().run("go")
        assert [request.body["model"] for request in provider.requests] == ["scripted", "small", "scripted"]
        assert result_of(provider)["results"][0]["model"] == "small"


def test_children_may_live_at_another_endpoint(make_host: HostFactory) -> None:
    with ScriptedProvider({"go": delegating(goal="work")}) as provider, ScriptedProvider(text("from there")) as other:
        host = make_host(provider)
        host.config.delegation.base_url, host.config.delegation.model = other.base_url, "small"
        host.config.delegation.api_key = "childrens-key"
        host.new_session().run("go")
        assert result_of(provider)["results"][0]["summary"] == "from there"
    assert [request.headers["authorization"] for request in other.requests] == ["Bearer childrens-key"]


def test_a_child_that_uses_up_its_steps_says_so(make_host: HostFactory) -> None:
    more = tool_call("terminal", {"command": "true"})

    def work(request: RecordedRequest) -> ScriptedReply:
        return more if request.body.get("tools") else text("So far, so good.")

    # The last request of a child that has no steps left ends with another user message.
    def answer(request: RecordedRequest) -> ScriptedReply:
        return delegating(goal="work")[request.step] if _goal(request) == "go" else work(request)

    with ScriptedProvider(answer) as provider:
        host = make_host(provider)
        host.config.delegation.max_iterations = 2
        host.new_session().run("go")
        [result] = result_of(provider)["results"]
    assert (result["status"], result["exit_reason"]) == ("completed", "max_iterations")
    assert (result["summary"], result["api_calls"]) == ("So far, so good.", 3)


def test_a_long_report_is_cut_and_says_where_the_rest_is(make_host: HostFactory) -> None:
    with ScriptedProvider({"go": delegating(goal="work"), "work": text("x" * 5000)}) as provider:
        host = make_host(provider)
        host.config.delegation.max_summary_chars = 1000
        host.new_session().run("go")
        [result] = result_of(provider)["results"]
    head, _, mark = result["summary"].partition("\n")
    assert head == "x" * 1000
    assert mark == f"[4000 characters left out; the whole text is in session {result['session_id']}]"


def test_what_needs_an_approval_is_denied_in_a_child(make_host: HostFactory) -> None:
    def ask(tool_name: str, **_: Any) -> dict[str, str] | None:
        return {"action": "approve", "message": "careful"} if tool_name == "make" else None

    script = {"go": delegating(goal="work"), "work": [tool_call("make", {}), text("was denied")]}
    with ScriptedProvider(script) as provider:
        host = make_host(provider)
        _add_tools(host, ["make"], _nothing)
        host.hooks.subscribe("pre_tool_call", "policy", ask)
        host.new_session().run("go")
        [result] = result_of(provider)["results"]
    assert (result["status"], result["summary"]) == ("completed", "was denied")
    assert [line["status"] for line in result["tool_trace"]] == ["blocked"]


@pytest.mark.parametrize("who", ["the settings", "the parent"])
def test_a_child_need_not_ask_when_it_is_trusted(make_host: HostFactory, who: str) -> None:
    def ask(tool_name: str, **_: Any) -> dict[str, str] | None:
        return {"action": "approve", "message": "careful"} if tool_name == "make" else None

    script = {"go": delegating(goal="work"), "work": [tool_call("make", {}), text("made")]}
    with ScriptedProvider(script) as provider:
        host = make_host(provider)
        _add_tools(host, ["make"], _nothing)
        host.hooks.subscribe("pre_tool_call", "policy", ask)
        session = host.new_session()
        if who == "the parent":
            session.runtime.approvals.modes.set(session.id, "yolo")
        else:
            host.config.delegation.subagent_auto_approve = True
        session.run("go")
        [result] = result_of(provider)["results"]
    assert [line["status"] for line in result["tool_trace"]] == ["ok"]


# -- several ---------------------------------------------------------------------------------------------------------


def test_children_run_side_by_side_but_never_more_than_allowed(make_host: HostFactory) -> None:
    pairs = threading.Barrier(2)
    lock, running, peak = threading.Lock(), [0], [0]

    def meet(*_: Any) -> str:
        with lock:
            running[0] += 1
            peak[0] = max(peak[0], running[0])
        pairs.wait(60)  # passes only when two are here at the same time
        with lock:
            running[0] -= 1
        return "{}"

    goals = [f"task {number}" for number in range(6)]
    script = {"go": delegating(tasks=[{"goal": goal} for goal in goals])}
    script |= {goal: [tool_call("meet", {}), text(f"{goal} is done")] for goal in goals}
    with ScriptedProvider(script) as provider:
        host = make_host(provider)
        host.config.delegation.max_concurrent_children = 2
        _add_tools(host, ["meet"], meet)
        host.new_session().run("go")
        results = result_of(provider)["results"]
    assert [result["summary"] for result in results] == [f"{goal} is done" for goal in goals]
    assert [result["task_index"] for result in results] == list(range(6))
    assert peak == [2]


def test_twenty_children_in_one_call(make_host: HostFactory) -> None:
    tasks = [{"goal": f"task {number}", "context": "c"} for number in range(20)]

    def answer(request: RecordedRequest) -> ScriptedReply:
        goal = _goal(request)
        return delegating(tasks=tasks)[request.step] if goal == "go" else text(goal.split("\n")[0])

    with ScriptedProvider(answer) as provider:
        host = make_host(provider)
        host.config.delegation.max_concurrent_children = 20
        recorder = EventRecorder().attach(host.hooks)
        host.new_session().run("go")
        results = result_of(provider)["results"]
        rows = host.sessions.list(children=True, limit=50)
    assert [result["summary"] for result in results] == [task["goal"] for task in tasks]
    assert len({row.id for row in rows if row.parent_call == "call_d"}) == 20
    assert recorder.pairs_unbalanced() == []


def test_what_stands_beside_the_tasks_holds_for_all_of_them(make_host: HostFactory) -> None:
    args: Payload = {
        "goal": "the whole",
        "context": "shared",
        "toolsets": ["terminal"],
        "tasks": [{"goal": "a"}, {"goal": "b", "context": "own", "toolsets": ["file"]}],
    }

    def answer(request: RecordedRequest) -> ScriptedReply:
        return delegating(**args)[request.step] if _goal(request) == "go" else text("ok")

    with ScriptedProvider(answer) as provider:
        make_host(provider).new_session().run("go")
        [first] = _requests(provider, "a\n\nContext:\nthe whole\n\nshared")
        [second] = _requests(provider, "b\n\nContext:\nown\n\nthe whole\n\nshared")
    assert "terminal" in _offered(first)
    assert "terminal" not in _offered(second)


def test_two_calls_in_one_message_are_two_families(make_host: HostFactory) -> None:
    both = tool_calls([("delegate_task", {"goal": "a"}), ("delegate_task", {"goal": "a"})])
    with ScriptedProvider({"go": [both, text("done")], "a": text("ok")}) as provider:
        make_host(provider).new_session().run("go")
        ids = {result_of(provider, call=call)["results"][0]["session_id"] for call in (-1, -2)}
    assert len(ids) == 2


# -- failures --------------------------------------------------------------------------------------------------------


def test_a_child_that_fails_leaves_the_others_alone(make_host: HostFactory) -> None:
    tasks = [{"goal": "good"}, {"goal": "bad"}]
    talk = tool_calls([("terminal", {"command": "true"})], content="First I look around.")
    script = {"go": delegating(tasks=tasks), "good": text("ok"), "bad": [talk, failure(400, "broken")]}
    with ScriptedProvider(script) as provider:
        host = make_host(provider)
        recorder = EventRecorder().attach(host.hooks)
        outcome = host.new_session().run("go")
        good, bad = result_of(provider)["results"]
    assert good["status"] == "completed"
    assert (bad["status"], bad["exit_reason"], bad["summary"]) == ("failed", "failed", "First I look around.")
    assert "broken" in bad["error"]
    assert [call.status for call in outcome.tool_calls] == ["ok"]
    assert sorted(stop["child_status"] for stop in recorder.of("subagent_stop")) == ["completed", "failed"]
    assert recorder.pairs_unbalanced() == []


def test_the_call_failed_when_every_child_did(make_host: HostFactory) -> None:
    with ScriptedProvider({"go": delegating(goal="bad"), "bad": failure(400, "broken")}) as provider:
        outcome = make_host(provider).new_session().run("go")
        result = result_of(provider)
    assert outcome.answer == "done"
    assert [call.status for call in outcome.tool_calls] == ["error"]
    assert result["error"].startswith("No child completed its task: ")
    assert result["results"][0]["status"] == "failed"


def test_an_endpoint_that_is_not_configured_is_a_failed_call(make_host: HostFactory) -> None:
    with ScriptedProvider({"go": delegating(goal="work")}) as provider:
        host = make_host(provider)
        host.config.delegation.provider = "nowhere"
        host.new_session().run("go")
        assert "nowhere" in result_of(provider)["error"]


BAD: list[tuple[Payload, str]] = [
    ({}, "task 1 has no goal"),
    ({"goal": "  "}, "task 1 has no goal"),
    ({"tasks": []}, "tasks is empty"),
    ({"tasks": [{"goal": "a"}, {"goal": ""}]}, "task 2 has no goal"),
    ({"tasks": [{"context": "a"}]}, "goal"),
    ({"goal": "a", "role": "king"}, "role must be leaf or orchestrator"),
    ({"goal": "a", "toolsets": ["flying"]}, "toolset 'flying' cannot be given to a child; you have: "),
    ({"tasks": [{"goal": "a"}] * (MAX_CHILDREN + 1)}, f"at most {MAX_CHILDREN} are allowed"),
]


@pytest.mark.parametrize(("args", "words"), BAD)
def test_a_call_that_cannot_be_done_says_why_and_starts_nobody(
    make_host: HostFactory, args: Payload, words: str
) -> None:
    with ScriptedProvider({"go": delegating(**args)}) as provider:
        host = make_host(provider)
        outcome = host.new_session().run("go")
        assert words in result_of(provider)["error"]
        assert len(host.sessions.list(children=True)) == 1
    assert [call.status for call in outcome.tool_calls] == ["error"]


def test_a_call_outside_any_conversation_is_refused(make_host: HostFactory) -> None:
    with ScriptedProvider() as provider:
        answer = make_host(provider).services.dispatch_tool("delegate_task", {"goal": "a"})
    assert "in a conversation only" in msgspec.json.decode(answer)["error"]


# -- depth -----------------------------------------------------------------------------------------------------------


def test_an_orchestrator_delegates_further_and_its_children_do_not(make_host: HostFactory) -> None:
    script = {
        "go": delegating(goal="middle", role="orchestrator", toolsets=["terminal"]),
        "middle": [
            tool_call("delegate_task", {"goal": "bottom", "role": "orchestrator"}, call_id="call_m"),
            text("middle done"),
        ],
        "bottom": text("bottom done"),
    }
    with ScriptedProvider(script) as provider:
        host = make_host(provider)
        host.config.delegation.max_spawn_depth = 2
        recorder = EventRecorder().attach(host.hooks)
        host.new_session().run("go")
        [middle] = result_of(provider)["results"]
        [bottom] = result_of(provider, "middle")["results"]
        rows = {row.id: row for row in host.sessions.list(children=True)}
    assert (middle["summary"], bottom["summary"]) == ("middle done", "bottom done")
    assert bottom["note"] == "ran as leaf: delegation.max_spawn_depth is 2"
    assert _offered(_requests(provider, "middle")[0]) == ["delegate_task", "process", "terminal"]
    assert _offered(_requests(provider, "bottom")[0]) == ["process", "terminal"]
    outer, inner = recorder.of("subagent_start")
    assert (outer["child_role"], inner["child_role"]) == ("orchestrator", "leaf")
    assert (inner["parent_subagent_id"], inner["tool_call_id"]) == (outer["child_subagent_id"], "call_m")
    assert rows[bottom["session_id"]].parent_id == middle["session_id"]
    assert recorder.pairs_unbalanced() == []


@pytest.mark.parametrize(
    ("settings", "note"),
    [
        ({}, "ran as leaf: delegation.max_spawn_depth is 1"),
        ({"max_spawn_depth": 3, "orchestrator_enabled": False}, "ran as leaf: delegation.orchestrator_enabled is off"),
    ],
)
def test_who_cannot_be_an_orchestrator_works_as_a_leaf_and_the_parent_is_told(
    make_host: HostFactory, settings: Payload, note: str
) -> None:
    with ScriptedProvider({"go": delegating(goal="work", role="orchestrator"), "work": text("ok")}) as provider:
        host = make_host(provider)
        for name, value in settings.items():
            setattr(host.config.delegation, name, value)
        host.new_session().run("go")
        [result] = result_of(provider)["results"]
        assert "delegate_task" not in _offered(_requests(provider, "work")[0])
    assert (result["status"], result["note"]) == ("completed", note)


def test_a_plugin_cannot_take_a_child_deeper_than_allowed(make_host: HostFactory) -> None:
    def deeper(*_: Any) -> str:
        return host.services.dispatch_tool("delegate_task", {"goal": "deeper"})

    script = {"go": delegating(goal="work"), "work": [tool_call("deeper", {}), text("ok")]}
    with ScriptedProvider(script) as provider:
        host = make_host(provider)
        _add_tools(host, ["deeper"], deeper)
        host.new_session().run("go")
        assert "delegation.max_spawn_depth allows children down to level 1" in result_of(provider, "work")["error"]


def test_without_any_depth_nobody_is_offered_to_delegate(make_host: HostFactory) -> None:
    with ScriptedProvider(text("hi")) as provider:
        host = make_host(provider)
        host.config.delegation.max_spawn_depth = 0
        host.new_session().run("go")
        assert "delegate_task" not in _offered(provider.requests[0])


# -- afterwards ------------------------------------------------------------------------------------------------------


def test_deleting_a_parent_deletes_its_children(make_host: HostFactory) -> None:
    with ScriptedProvider({"go": delegating(goal="work"), "work": text("ok")}) as provider:
        host = make_host(provider)
        session = host.new_session()
        session.run("go")
        child = result_of(provider)["results"][0]["session_id"]
        session.close()
        assert sorted(host.sessions.delete(session.id, host.runner)) == sorted([session.id, child])
        assert host.sessions.list(children=True) == []
