"""Commands that show what is being worked on: children, background processes, the task list."""

from __future__ import annotations

import pytest

from hermes.surfaces.commands.text import columns, wrapped
from hermes.testing import ScriptedProvider, text, tool_call
from support import HostFactory
from support.surfaces import Prompt
from support.waiting import wait_until


def test_children_are_listed_and_one_can_be_looked_into(make_host: HostFactory) -> None:
    script = {
        "go": [tool_call("delegate_task", {"tasks": [{"goal": "count"}, {"goal": "spell"}]}), text("both done")],
        "count": [tool_call("terminal", {"command": "echo one two"}), text("There are two.")],
        "spell": [text("a, b, c")],
    }
    with ScriptedProvider(script) as provider:
        prompt = Prompt(make_host(provider))
        assert prompt.type("/children") == "This session has no child agents."
        prompt.session.run("go")
        listed = prompt.type("/children").splitlines()
        looks = [prompt.type(f"/children {number}") for number in (1, 2)]
        assert "takes a number from 1 to 2, not '3'" in prompt.refused("/children 3")
    assert sorted((line.split()[1], line.split()[-1]) for line in listed[:2]) == [
        ("completed", "count"),
        ("completed", "spell"),
    ]
    counting = next(look for look in looks if "two" in look)
    assert "completed, session child_" in counting.splitlines()[0]
    assert '  > terminal {"command":"echo one two"}' in counting and '"output":"one two"' in counting
    assert counting.splitlines()[-1] == "There are two."


def test_background_processes_are_listed_read_and_stopped(make_host: HostFactory) -> None:
    start = {"command": "echo ready; exec sleep 60", "background": True}
    with ScriptedProvider([tool_call("terminal", start), text("started")]) as provider:
        host = make_host(provider)
        prompt = Prompt(host)
        assert prompt.type("/ps") == "No background processes."
        prompt.session.run("start it")
        [process] = host.runtime.processes.all()
        wait_until(lambda: "ready" in process.output(), "the output")
        assert prompt.type("/ps").splitlines()[0].startswith("  1  running  ")
        shown = prompt.type("/ps 1")
        assert shown.startswith("echo ready; exec sleep 60\n(running, pid ") and shown.endswith("\nready")
        assert "takes a number from 1 to 1" in prompt.refused("/ps 2")
        assert "stop and a number" in prompt.refused("/ps end 1")
        assert prompt.type("/ps stop 1") == "Stopped: echo ready; exec sleep 60"
        assert prompt.type("/ps").splitlines()[0].split()[1] == "stopped"


def test_the_task_list_is_shown(make_host: HostFactory) -> None:
    todos = [
        {"id": "1", "content": "read", "status": "completed"},
        {"id": "2", "content": "write", "status": "in_progress"},
        {"id": "3", "content": "test", "status": "pending"},
    ]
    with ScriptedProvider([tool_call("todo", {"todos": todos}), text("on it")]) as provider:
        prompt = Prompt(make_host(provider))
        assert prompt.type("/todo") == "The agent has no task list."
        prompt.session.run("plan it")
        assert prompt.type("/todo").splitlines() == [
            "1 of 3 tasks done",
            "  [x] read",
            "  [>] write",
            "  [ ] test",
        ]


@pytest.mark.parametrize("width", [30, 40, 80])
def test_tables_fit_and_break_at_words(width: int) -> None:
    rows = [("1", "20261115_065931_582bfb", "2 h ago", "a long title with many words"), ("2", "x", "just now", "b")]
    lines = columns(rows, width=width)
    assert max(map(len, lines)) <= width
    words = {word for row in rows for cell in row for word in cell.split()}
    assert {word for line in lines for word in line.split()} == words


def test_a_table_with_room_is_as_before() -> None:
    assert columns([("a", "b"), ("cc", "d")], width=80) == ["  a   b", "  cc  d"]
    assert wrapped("", 10) == [] and wrapped("one two three", 7) == ["one two", "three"]
