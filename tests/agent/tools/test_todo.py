"""The task list: its answers, its rules, and that it lives as long as the conversation."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hermes.agent.tools.todo import MAX_ITEMS, open_points
from hermes.host import Host
from hermes.testing import ScriptedProvider, text, tool_call, tool_calls
from support import HostFactory
from support.configured import configured_host, tool_answers

PLAN = [
    {"id": "1", "content": "Read the code", "status": "completed"},
    {"id": "2", "content": "Write the test", "status": "in_progress"},
    {"id": "3", "content": "Ship it", "status": "pending"},
]


def run(host: Host, session_id: str = "") -> tuple[str, list[dict[str, Any]]]:
    session = host.resume_session(session_id) if session_id else host.new_session()
    before = len(tool_answers(host, session.id))
    assert session.run("go").status == "completed"
    return session.id, tool_answers(host, session.id)[before:]


def script(*calls: dict[str, Any]) -> list[Any]:
    return [*(tool_call("todo", call) for call in calls), text("ok")]


def test_the_answer_is_the_list_with_its_counts(make_host: HostFactory) -> None:
    with ScriptedProvider(script({}, {"todos": PLAN})) as provider:
        _, [empty, full] = run(make_host(provider))
    counts = {"total": 0, "pending": 0, "in_progress": 0, "completed": 0, "cancelled": 0}
    assert empty == {"todos": [], "summary": counts}
    assert full == {"todos": PLAN, "summary": {**counts, "total": 3, "pending": 1, "in_progress": 1, "completed": 1}}


def test_merging_changes_by_id_and_adds(make_host: HostFactory) -> None:
    change = {"merge": True, "todos": [{"id": 2, "status": "completed"}, {"id": "4", "content": "Rest"}]}
    with ScriptedProvider(script({"todos": PLAN}, change)) as provider:
        _, [_, merged] = run(make_host(provider))
    assert merged["todos"] == [
        PLAN[0],
        {**PLAN[1], "status": "completed"},
        PLAN[2],
        {"id": "4", "content": "Rest", "status": "pending"},
    ]


def test_without_merge_the_list_is_replaced(make_host: HostFactory) -> None:
    with ScriptedProvider(script({"todos": PLAN}, {"todos": PLAN[2:]}, {"todos": []}, {})) as provider:
        _, answers = run(make_host(provider))
    assert [answer["summary"]["total"] for answer in answers] == [3, 1, 0, 0]


@pytest.mark.parametrize(
    ("todos", "words"),
    [
        ([{"id": "1", "content": "x", "status": "done"}], "pending"),
        ([{"id": " ", "content": "x"}], "id is empty"),
        ([{"id": "1", "content": "x"}, {"id": "1", "content": "y"}], "twice"),
        ([{"id": "1", "status": "pending"}], "content of '1' is missing"),
        ([{"id": "1", "content": "x" * 501}], "at most 500"),
        ([{"id": str(n), "content": "x"} for n in range(MAX_ITEMS + 1)], "at most 100"),
        ([{"content": "x"}], "id"),
        ("everything", "todos"),
    ],
)
def test_a_list_that_makes_no_sense_changes_nothing(make_host: HostFactory, todos: Any, words: str) -> None:
    with ScriptedProvider(script({"todos": PLAN}, {"todos": todos}, {})) as provider:
        _, [_, refused, after] = run(make_host(provider))
    assert words in refused["error"]
    assert after["todos"] == PLAN


def test_calls_of_one_batch_see_each_other(make_host: HostFactory) -> None:
    calls: list[tuple[str, dict[str, Any]]] = [
        ("todo", {"todos": PLAN[:1]}),
        ("todo", {"todos": PLAN[1:2], "merge": True}),
        ("todo", {}),
    ]
    with ScriptedProvider([tool_calls(calls), text("ok")]) as provider:
        _, answers = run(make_host(provider))
    assert [answer["summary"]["total"] for answer in answers] == [1, 2, 2]


def test_the_list_survives_another_process(home: Path, workdir: Path) -> None:
    refused = {"todos": [{"id": "1"}]}
    with ScriptedProvider([*script({"todos": PLAN}, refused), *script({})]) as provider:
        with configured_host(home, workdir, provider) as host:
            session_id, _ = run(host)
        with configured_host(home, workdir, provider) as host:
            _, [answer] = run(host, session_id)
    assert answer["todos"] == PLAN


def test_a_turn_that_was_taken_back_takes_its_list_with_it(make_host: HostFactory) -> None:
    with ScriptedProvider([*script({"todos": PLAN[:1]}), *script({"todos": PLAN}), *script({})]) as provider:
        host = make_host(provider)
        session = host.new_session()
        session.run("one")
        session.run("two")
        session.undo()
        session.run("three")
        assert tool_answers(host, session.id)[-1]["todos"] == PLAN[:1]


def test_conversations_have_lists_of_their_own(make_host: HostFactory) -> None:
    with ScriptedProvider([*script({"todos": PLAN}), *script({})]) as provider:
        host = make_host(provider)
        run(host)
        _, [other] = run(host)
    assert other["todos"] == []


def test_a_long_list_is_found_in_the_journal_too(home: Path, workdir: Path) -> None:
    long = [{"id": str(n), "content": f"{n} {'x' * 490}", "status": "pending"} for n in range(MAX_ITEMS)]
    with ScriptedProvider([*script({"todos": long}), *script({})]) as provider:
        with configured_host(home, workdir, provider) as host:
            session_id, _ = run(host)
        with configured_host(home, workdir, provider) as host:
            _, [answer] = run(host, session_id)
    assert answer["todos"] == long


def test_open_points_are_told_to_a_summary(make_host: HostFactory) -> None:
    with ScriptedProvider(script({"todos": PLAN})) as provider:
        host = make_host(provider)
        session_id, _ = run(host)
        messages = host.sessions.messages(session_id)
        told = open_points(messages)
    assert told.splitlines()[1:] == ["- [in_progress] 2: Write the test", "- [pending] 3: Ship it"]
    assert open_points(messages[:1]) == ""
