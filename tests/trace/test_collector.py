"""The collector: sessions stay apart, what is kept grows with what is new, and no order of events upsets it."""

from __future__ import annotations

import threading
from typing import Any

import msgspec
from hypothesis import example, given
from hypothesis import strategies as st

from hermes.agent.context.plan import SUMMARY_MARK as THE_AGENTS_MARK
from hermes.testing import ScriptedProvider, by_step, text, tool_call
from hermes.trace.collector import Collector
from hermes.trace.conversation import SUMMARY_MARK
from hermes.trace.formats.atif import document
from hermes.trace.formats.atof import lines
from hermes.trace.verify.atif import check_atif
from hermes.trace.verify.atof import check_atof
from support.events import of_hook
from support.trace_runs import Rig

Payload = dict[str, Any]


def test_the_mark_of_a_summary_is_the_agents_own() -> None:
    assert SUMMARY_MARK == THE_AGENTS_MARK


def test_sessions_at_the_same_time_stay_apart(rig: Rig) -> None:
    (rig.workdir / "a").write_text("a")
    host = rig.host(by_step(tool_call("read_file", {"path": "a"}, call_id="same"), text("done")))
    sessions = [host.new_session() for _ in range(6)]
    threads = [threading.Thread(target=one.run, args=(f"I am {one.id}",)) for one in sessions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for one in sessions:
        record = rig.run(host, one.id).live
        [turn] = record.turns
        assert turn.user_message == f"I am {one.id}" and turn.status == "completed"
        assert [len(step.tools) for step in turn.steps] == [1, 0]
        assert record.id in turn.id
    assert sorted(rig.collector.roots()) == sorted(one.id for one in sessions)


def test_a_session_is_forgotten_with_its_children(rig: Rig) -> None:
    collector = Collector()
    collector.take(of_hook("pre_llm_call", {"session_id": "p", "turn_id": "t", "user_message": "go"}))
    for parent, child in (("p", "c"), ("c", "g")):
        collector.take(of_hook("subagent_start", {"parent_session_id": parent, "child_session_id": child}))
    assert collector.roots() == ["p"] and collector.root_of("g") == "p"
    record = collector.session("p")
    assert record is not None and record.children[0].children[0].id == "g"
    collector.forget("p")
    assert collector.session("p") is collector.session("g") is None


def test_only_what_is_new_in_a_request_is_kept() -> None:
    def size(steps: int) -> int:
        collector = Collector()
        messages: list[Payload] = [{"role": "system", "content": "s"}, {"role": "user", "content": "go"}]
        for number in range(steps):
            ids = {"session_id": "s", "turn_id": "t", "api_request_id": f"r{number}"}
            collector.take(
                of_hook("pre_api_request", {**ids, "user_message": "go", "conversation_history": list(messages)})
            )
            collector.take(of_hook("post_api_request", {**ids, "assistant_message": {"content": "x"}}))
            messages += {"role": "assistant", "content": "x"}, {"role": "user", "content": "y" * 1000}
        return len(msgspec.json.encode(collector.session("s")))

    assert size(80) < 4.2 * size(20)


def test_a_turn_can_be_looked_at_while_it_runs() -> None:
    collector = Collector()
    ids = {"session_id": "s", "turn_id": "t"}
    collector.take(of_hook("pre_llm_call", {**ids, "user_message": "go", "model": "m", "platform": "cli"}))
    collector.take(of_hook("pre_api_request", {**ids, "api_request_id": "r", "provider": "p", "model": "m"}))
    call = {"id": "c", "type": "function", "function": {"name": "terminal", "arguments": "not json"}}
    answer = {"content": None, "tool_calls": [call]}
    collector.take(
        of_hook("post_api_request", {**ids, "api_request_id": "r", "provider": "p", "assistant_message": answer})
    )
    collector.take(of_hook("pre_tool_call", {**ids, "tool_call_id": "c", "tool_name": "terminal"}))
    record = collector.session("s")
    assert record is not None and record.status == "running"
    [step] = record.turns[0].steps
    assert step.tool_calls[0].arguments == {"_raw": "not json"} and step.tools[0].status == "running"
    assert check_atif(document(record)) == [] and check_atof(lines(record)) == []
    collector.take(of_hook("on_session_end", {**ids, "interrupted": True, "reason": "stop"}))
    collector.take(of_hook("post_tool_call", {**ids, "tool_call_id": "c", "tool_name": "terminal", "result": "late"}))
    record = collector.session("s")
    assert record is not None and record.turns[0].steps[0].tools[0].status == "cancelled"
    assert record.turns[0].error == "stop" and record.status == "interrupted"


def test_a_session_that_goes_on_begins_with_what_it_had_come_to(rig: Rig) -> None:
    (rig.workdir / "a").write_text("alpha")
    host = rig.host([tool_call("read_file", {"path": "a"}), text("one"), text("two")])
    session = host.new_session()
    session.run("first")
    rig.collector.forget(session.id)
    session.run("second")
    record = rig.run(host, session.id).live
    assert [(turn.user_message, turn.copied) for turn in record.turns] == [("first", True), ("second", False)]
    made = document(record)
    assert check_atif(made) == [] and check_atof(lines(record)) == []
    copied = [step for step in made["steps"] if step.get("is_copied_context")]
    assert [step["message"] for step in copied] == ["first", "", "one"]
    assert "alpha" in copied[1]["observation"]["results"][0]["content"]
    assert record.turns[1].context == "" and record.turns[1].marks == []


def test_a_turn_that_another_process_began_has_its_steps() -> None:
    collector = Collector()
    call = {"id": "c", "type": "function", "function": {"name": "terminal", "arguments": "{}"}}
    history: list[Payload] = [
        {"role": "system", "content": "s"},
        {"role": "user", "content": "before"},
        {"role": "assistant", "content": "yes"},
        {"role": "user", "content": "go"},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c", "content": "{}"},
    ]
    ids = {"session_id": "s", "turn_id": "t", "api_request_id": "r"}
    collector.take(of_hook("pre_api_request", {**ids, "user_message": "go", "conversation_history": history}))
    collector.take(of_hook("post_api_request", {**ids, "assistant_message": {"content": "done"}}))
    collector.take(of_hook("on_session_end", {**ids, "completed": True}))
    record = collector.session("s")
    assert record is not None
    earlier, turn = record.turns
    assert (earlier.user_message, earlier.copied, earlier.answer) == ("before", True, "yes")
    assert (turn.id, turn.user_message, turn.copied) == ("t", "go", False)
    assert [(step.text, [tool.name for tool in step.tools]) for step in turn.steps] == [
        ("", ["terminal"]),
        ("done", []),
    ]
    assert turn.marks == [] and check_atif(document(record)) == []


def test_cost_and_whole_tools_are_taken_where_they_are_told() -> None:
    collector = Collector()
    ids = {"session_id": "s", "turn_id": "t", "api_request_id": "r"}
    tools = [{"type": "function", "function": {"name": "f"}}]
    collector.take(of_hook("pre_api_request", {**ids, "tools": tools}))
    told = {"usage": {"input_tokens": 3, "output_tokens": 2}, "cost_usd": 0.25, "assistant_message": {}}
    collector.take(of_hook("post_api_request", {**ids, **told}))
    record = collector.session("s")
    assert record is not None and record.tools == tools
    assert record.usage().cost_usd == 0.25 and record.usage().prompt_tokens == 3


def test_a_message_with_an_image_is_kept_without_its_bytes() -> None:
    collector = Collector()
    address = "data:image/png;base64," + "A" * 5_000
    content = [{"type": "text", "text": "look"}, {"type": "image_url", "image_url": {"url": address}}]
    collector.take(of_hook("pre_llm_call", {"session_id": "s", "turn_id": "t", "user_message": content}))
    record = collector.session("s")
    assert record is not None
    shown = msgspec.json.encode(record.turns[0].user_message).decode()
    assert "image/png;base64,[5000 characters left out]" in shown and len(shown) < 300


IDS = st.sampled_from(["a", "b"])
EVENTS = st.tuples(
    st.sampled_from(
        [
            *("on_session_start", "on_session_end", "on_session_finalize", "pre_llm_call", "post_llm_call"),
            *("pre_api_request", "post_api_request", "api_request_error", "pre_tool_call", "post_tool_call"),
            *("pre_approval_request", "post_approval_response", "subagent_start", "subagent_stop", "pre_verify"),
        ]
    ),
    st.fixed_dictionaries(
        {
            "session_id": IDS,
            "turn_id": IDS,
            "api_request_id": IDS,
            "tool_call_id": IDS,
            "child_session_id": st.sampled_from(["c", "d"]),
        }
    ),
)


SAME = {"session_id": "a", "turn_id": "a", "api_request_id": "a", "tool_call_id": "a", "child_session_id": "c"}


@given(st.lists(EVENTS, max_size=40))
@example([(hook, SAME) for hook in ("pre_llm_call", "post_api_request", "post_tool_call", "pre_tool_call")])
@example([(hook, SAME) for hook in ("pre_llm_call", "post_api_request", *("pre_tool_call", "post_tool_call") * 2)])
def test_events_in_any_order_make_a_whole_document(told: list[tuple[str, Payload]]) -> None:
    clock = iter(range(1, 10_000))
    collector = Collector(clock=lambda: float(next(clock)))
    calls = [{"id": one, "function": {"name": "terminal", "arguments": "{}"}} for one in ("a", "b")]
    fixed = {"tool_name": "terminal", "user_message": "go", "assistant_message": {"tool_calls": calls}}
    for hook, payload in told:
        more = {"parent_session_id": payload["session_id"], "parent_turn_id": payload["turn_id"]}
        collector.take(of_hook(hook, {**fixed, **payload, **more}))
    for root in collector.roots():
        record = collector.session(root)
        assert record is not None
        assert check_atif(document(record)) == []
        assert list(lines(record))


def test_a_scripted_run_leaves_no_failure(rig: Rig) -> None:
    with ScriptedProvider("hi"):
        host = rig.host("hi")
        session = host.new_session()
        session.run("hello")
        assert rig.run(host, session.id).live.turns[0].answer == "hi"
