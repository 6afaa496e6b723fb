"""ATIF documents: valid under the published models and under the stricter rules of a whole run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace
from nat.atif.trajectory import Trajectory

from hermes.journal.history.branching import branch_session
from hermes.trace.formats.atif import document
from hermes.trace.journal.session import session_record
from hermes.trace.records import (
    AttemptRecord,
    ModelStep,
    SessionRecord,
    ToolCallRecord,
    ToolStep,
    TurnRecord,
    UsageRecord,
    family,
)
from hermes.trace.verify.atif import check_atif
from support.trace_runs import (
    SECRET,
    USAGE,
    Rig,
    Run,
    approval,
    compaction,
    delegated_children,
    error_and_retry,
    interrupted_turn,
    one_tool,
    parallel_tools_reversed,
    plugin_asks_a_model,
    plugin_makes_a_call,
    steered_and_out_of_steps,
    thinking,
    two_turns_with_context,
)

Document = dict[str, Any]


def checked(record: SessionRecord, **options: str) -> Document:
    """The document of a session as a reader gets it, valid by everybody's rules."""
    made: Document = msgspec.json.decode(msgspec.json.encode(document(record, **options)))
    Trajectory.model_validate(made)
    assert check_atif(made) == []
    return made


def sources(made: Document) -> list[str]:
    return [step["source"] for step in made["steps"]]


def agent_steps(made: Document) -> list[Document]:
    return [step for step in made["steps"] if step["source"] == "agent"]


def test_every_run_is_valid_with_each_of_its_children(run: Run) -> None:
    for record in (run.live, run.stored):
        for one in family(record):
            assert SECRET not in str(checked(one))


def test_a_tool_call_and_its_result(rig: Rig) -> None:
    run = one_tool(rig)
    made = checked(run.live, agent_name="Somebody", agent_version="7", model_name="other")
    assert made["agent"]["name"] == "Somebody" and made["agent"]["version"] == "7"
    assert made["agent"]["model_name"] == "other"
    assert made["session_id"] == made["trajectory_id"] == run.live.id
    assert {tool["type"] for tool in made["agent"]["tool_definitions"]} == {"function"}
    assert sources(made) == ["system", "user", "agent", "agent"]
    assert made["steps"][0]["message"].startswith("You are Hermes")
    asking, answering = agent_steps(made)
    assert asking["tool_calls"] == [
        {"tool_call_id": "call_1_0", "function_name": "read_file", "arguments": {"path": "a"}}
    ]
    [result] = asking["observation"]["results"]
    assert result["source_call_id"] == "call_1_0" and "<redacted>" in result["content"]
    assert answering["message"] == "ok" and "observation" not in answering


def test_metrics_of_the_steps_add_up_to_the_final_ones(rig: Rig) -> None:
    made = checked(one_tool(rig).stored)
    step = agent_steps(made)[0]["metrics"]
    assert (step["prompt_tokens"], step["completion_tokens"], step["cached_tokens"]) == (100, 7, 40)
    assert step["extra"] == {"reasoning_tokens": 3}
    final = made["final_metrics"]
    assert (final["total_prompt_tokens"], final["total_completion_tokens"]) == (200, 14)
    assert final["total_cached_tokens"] == 80 and final["total_steps"] == 4
    assert USAGE["prompt_tokens"] == 100


def test_results_are_in_the_order_in_which_they_came(rig: Rig) -> None:
    [step, _] = agent_steps(checked(parallel_tools_reversed(rig).stored))
    assert [call["function_name"] for call in step["tool_calls"]] == ["wait", "hurry"]
    assert [result["source_call_id"] for result in step["observation"]["results"]] == ["call_1_1", "call_1_0"]


def test_children_are_embedded_and_referenced_by_the_call_that_made_them(rig: Rig) -> None:
    made = checked(delegated_children(rig).live)
    [delegating, _] = agent_steps(made)
    [result] = delegating["observation"]["results"]
    embedded = {child["trajectory_id"]: child for child in made["subagent_trajectories"]}
    assert [one["trajectory_id"] for one in result["subagent_trajectory_ref"]] == list(embedded)
    assert len(embedded) == 2
    for name, child in embedded.items():
        assert child["session_id"] == name and child["extra"]["parent_tool_call_id"] == "call_d"
        [step, last] = agent_steps(child)
        assert step["tool_calls"][0]["arguments"] == {"command": "printf leaf"}
        assert "leaf" in step["observation"]["results"][0]["content"] and last["message"] == "leaf"


def test_reasoning_is_on_the_step(rig: Rig) -> None:
    [step] = agent_steps(checked(thinking(rig).stored))
    assert (step["reasoning_content"], step["message"]) == ("Let me think.", "Four.")


def test_an_approval_is_with_the_result(rig: Rig) -> None:
    [step, _] = agent_steps(checked(approval(rig).stored))
    [asked] = step["observation"]["results"][0]["extra"]["approvals"]
    assert asked["rules"] == ["recursive-delete"] and asked["choice"] == "once"


def test_failed_attempts_are_with_the_step_that_took_them(rig: Rig) -> None:
    [step] = agent_steps(checked(error_and_retry(rig).stored))
    failed, answered = step["extra"]["attempts"]
    assert (failed["status"], answered["status"]) == ("error", "ok") and "503" in failed["error"]
    assert step["llm_call_count"] == 1


def test_a_turn_without_an_answer_says_so(rig: Rig) -> None:
    made = checked(interrupted_turn(rig).stored)
    assert sources(made) == ["system", "user", "system", "system"]
    assert made["steps"][-1]["message"] == "[interrupted: stop]"


def test_what_was_condensed_is_a_step_of_its_own(rig: Rig) -> None:
    made = checked(compaction(rig).stored)
    [step] = [step for step in made["steps"] if step.get("extra", {}).get("mark") == "compacted"]
    assert "They spoke of little." in step["message"] and step["extra"]["tokens_before"] > step["extra"]["tokens_after"]
    [side] = made["extra"]["side_calls"]
    assert side["purpose"] == "compression" and side["status"] == "ok"


def test_what_a_plugin_asked_is_beside_the_conversation(rig: Rig) -> None:
    made = checked(plugin_asks_a_model(rig).stored)
    assert [(one["purpose"], one["metrics"]["prompt_tokens"]) for one in made["extra"]["side_calls"]] == [
        ("plugin:acme", 100)
    ] * 2
    assert made["final_metrics"]["total_prompt_tokens"] == 200


def test_what_else_the_model_was_told_stands_before_its_answer(rig: Rig) -> None:
    made = checked(steered_and_out_of_steps(rig).live)
    assert sources(made) == ["system", "user", "agent", "user", "user", "agent"]
    assert made["steps"][3]["message"] == "Be brief."


def test_a_call_that_a_plugin_made_is_a_step_without_a_model(rig: Rig) -> None:
    first, second = agent_steps(checked(plugin_makes_a_call(rig).live))
    assert (first["llm_call_count"], second["llm_call_count"]) == (0, 1)
    assert first["tool_calls"][0]["function_name"] == "read_file" and "metrics" not in first


def test_what_was_added_to_a_message_is_beside_it(rig: Rig) -> None:
    made = checked(two_turns_with_context(rig).live)
    users = [step for step in made["steps"] if step["source"] == "user"]
    assert [(step["message"], step["extra"]["context"]) for step in users] == [
        ("first", "It is Monday."),
        ("second", "It is Monday."),
    ]


def test_turns_that_were_taken_back_are_left_out_and_copied_ones_are_marked(rig: Rig) -> None:
    host = rig.host(["one", "two", "three"])
    session = host.new_session()
    session.run("first")
    session.run("second")
    session.undo()
    made = checked(session_record(host.store, session.id))
    assert made["extra"]["undone_turns"] == 1 and "second" not in str(made["steps"])
    branch_session(host.store, host.runner, session.id, "branch")
    host.resume_session("branch").run("third")
    made = checked(session_record(host.store, "branch"))
    copied = [step["message"] for step in made["steps"] if step.get("is_copied_context")]
    assert copied == ["first", "one"]
    assert [step["message"] for step in made["steps"] if not step.get("is_copied_context")][1:] == ["third", "three"]


# -- records that no scripted run gives -------------------------------------------------------------------------------


def session(*steps: ModelStep, message: Any = "go", children: Sequence[SessionRecord] = ()) -> SessionRecord:
    turn = TurnRecord("t", "task", message, 10.0, 20.0, "completed", "so", steps=list(steps))
    return SessionRecord("s", started_at=1.0, turns=[turn], children=list(children))


def step(text: str = "so", **fields: Any) -> ModelStep:
    return ModelStep(1, [AttemptRecord("r", "custom", "scripted", 11.0, 12.0, "ok")], text=text, **fields)


def test_costs_of_children_are_in_the_sum() -> None:
    call = ToolCallRecord("c", "delegate_task", {})
    tool = ToolStep("c", "delegate_task", {}, 12.0, 15.0, "ok", "{}")
    child = replace(
        session(step(usage=UsageRecord(1, 1, cost_usd=0.5))), id="k", parent_turn_id="t", parent_tool_call_id="c"
    )
    parent = session(step(tool_calls=(call,), tools=[tool], usage=UsageRecord(1, 1, cost_usd=0.25)), children=[child])
    assert checked(parent)["final_metrics"]["total_cost_usd"] == 0.75


def test_a_child_whose_call_was_never_recorded_is_still_referenced() -> None:
    child = replace(session(step()), id="k", parent_turn_id="t", parent_tool_call_id="gone")
    assert checked(session(step(), children=[child]))["subagent_trajectories"][0]["trajectory_id"] == "k"


def test_a_call_that_never_ran_has_an_empty_result() -> None:
    made = checked(session(step(tool_calls=(ToolCallRecord("c", "terminal", {"_raw": "{"}),))))
    [result] = agent_steps(made)[0]["observation"]["results"]
    assert result == {"source_call_id": "c", "content": "", "extra": {"status": "not_run"}}


def test_an_answer_that_a_plugin_changed_is_beside_the_reply() -> None:
    assert agent_steps(checked(session(step(text="raw"))))[0]["extra"]["answer"] == "so"


@pytest.mark.parametrize(
    ("part", "expected"),
    [
        ({"type": "text", "text": "look"}, {"type": "text", "text": "look"}),
        (
            {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}},
            {"type": "image", "source": {"media_type": "image/png", "path": "data:image/png;base64,AAAA"}},
        ),
        (
            {"type": "image_url", "image_url": {"url": "https://example.com/a.JPG?x=1"}},
            {"type": "image", "source": {"media_type": "image/jpeg", "path": "https://example.com/a.JPG?x=1"}},
        ),
        ({"type": "image_url", "image_url": {"url": "https://example.com/a"}}, {"type": "text", "text": "[image_url]"}),
        ({"type": "input_audio"}, {"type": "text", "text": "[input_audio]"}),
        ("words", {"type": "text", "text": "words"}),
    ],
)
def test_parts_of_a_message(part: Any, expected: Document) -> None:
    made = checked(session(step(), message=[part]))
    assert made["steps"][0]["message"] == [expected]


def test_an_empty_session_is_a_document_too() -> None:
    assert sources(checked(SessionRecord("s"))) == ["system"]


def test_the_document_grows_with_the_steps_only() -> None:
    def size(count: int) -> int:
        calls = (ToolCallRecord("c", "read_file", {"path": "a"}),)
        tools = (ToolStep("c", "read_file", {"path": "a"}, 12.0, 13.0, "ok", "x" * 1000),)
        return len(msgspec.json.encode(document(session(*[step(tool_calls=calls, tools=tools)] * count))))

    assert size(400) < 4.1 * size(100)
