"""Tool calls as lines: what they are about, how they end, what fits, what must not be seen."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hermes.base.sanitize import Redactor
from hermes.contract.events import ChildActivity, ToolEnded, ToolStatus
from hermes.surfaces.cli.chat.tool_lines import ASCII, UNICODE, Symbols, ToolLines, subject_of
from hermes.surfaces.cli.terminal import cells
from hermes.tools.declarations.builtin import DECLARED, builtin_declaration
from support.events import child_ended, child_started, tool_ended, tool_started
from support.screen import Screen

SECRET = "sk-ant-api03-abcdefghijklmnopqrstuvwxyz0123456789"


def finished(name: str = "terminal", *, status: ToolStatus = "ok", error: str | None = None, **args: Any) -> ToolEnded:
    return tool_ended("call_1", name, args, status, 1_234, error)


def finished_line(event: ToolEnded, redactor: Redactor, *, width: int | None = None, symbols: Symbols = UNICODE) -> str:
    return ToolLines(redactor, symbols=symbols).finished(event, width=width)


class Clock:
    """Time that passes when told to."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.mark.parametrize(
    ("name", "args", "subject"),
    [
        ("terminal", {"timeout": 5, "command": "ls  -l\n| wc"}, "ls -l | wc"),
        ("read_file", {"offset": 1, "path": "a.txt"}, "a.txt"),
        ("write_file", {"content": "x" * 5_000, "path": "b.txt"}, "b.txt"),
        ("patch", {"mode": "replace", "path": "c.py", "old_string": "x"}, "c.py"),
        ("patch", {"mode": "patch", "patch": "*** Update File: d.py\n-x\n*** Add File: e.py\n+y\n"}, "d.py, e.py"),
        ("search_files", {"target": "content", "pattern": "def f"}, "def f"),
        ("delegate_task", {"context": "c", "goal": "find it"}, "find it"),
        ("delegate_task", {"tasks": [{"goal": "a"}, {"goal": "b"}]}, "2 tasks"),
        ("todo", {"todos": [{"status": "completed"}, {"status": "in_progress"}, {"status": "completed"}, 7]},
         "2 completed, 1 in progress, 1 pending"),
        ("todo", {}, "list"),
        ("todo", {"todos": []}, "empty list"),
        ("roll_dice", {"options": {"a": 1}, "sides": 6}, "6"),
        ("login", {"password": "hunter2hunter2", "user": "ann"}, "ann"),
        ("ping", {}, ""),
        ("terminal", {"command": {"not": "text"}}, ""),
    ],
)  # fmt: skip
def test_the_subject_says_what_a_call_is_about(name: str, args: dict[str, Any], subject: str) -> None:
    assert subject_of(builtin_declaration(name), args, Redactor()) == subject


def test_secrets_do_not_show_even_where_the_text_is_cut() -> None:
    redactor = Redactor(("correct-horse-battery",))
    for padding in range(1_960, 2_001, 4):
        command = "x" * padding + f" {SECRET} and correct-horse-battery"
        assert "sk-ant" not in subject_of(DECLARED["terminal"], {"command": command}, redactor)
    line = finished_line(
        finished(command=f"curl -H {SECRET}", status="error", error="no correct-horse-battery"), redactor
    )
    assert line == "✗ terminal curl -H <redacted>  1.2 s  error: no <redacted>"


def test_a_line_without_a_width() -> None:
    redactor = Redactor()
    assert finished_line(finished(command="echo hello"), redactor) == "✓ terminal echo hello  1.2 s"
    assert finished_line(finished("ping"), redactor) == "✓ ping  1.2 s"
    blocked = finished(command="rm x", status="blocked", error="a person\nsaid no")
    assert finished_line(blocked, redactor, symbols=ASCII) == "x terminal rm x  1.2 s  blocked: a person said no"
    twice = finished(command="rm x", status="blocked", error="blocked: not allowed")
    assert finished_line(twice, redactor, symbols=ASCII) == "x terminal rm x  1.2 s  blocked: not allowed"


def test_a_line_gives_way_to_the_width() -> None:
    event = finished(command="find / -name " + "x" * 200, status="error", error="permission denied " * 10)
    line = finished_line(event, Redactor(), width=60)
    assert line == "✗ terminal find / -name xxxxx…  1.2 s  error: permission de…"
    short = finished(command="ls", status="timeout", error="it took more than 180 seconds")
    assert finished_line(short, Redactor(), width=60) == "✗ terminal ls  1.2 s  timeout: it took more than 180 seconds"
    assert finished_line(event, Redactor(), width=14) == "✗ terminal  1…"


def test_escape_sequences_in_arguments_stay_out() -> None:
    line = finished_line(finished(command="echo \x1b[2J\x1b]0;owned\x07 \u202ehi"), Redactor(), width=80)
    assert line == "✓ terminal echo hi  1.2 s"


@settings(max_examples=200)
@given(st.text(max_size=60), st.text(max_size=300), st.text(max_size=200), st.sampled_from([80, 40, 20]), st.booleans())
def test_no_line_is_wider_than_the_terminal(name: str, subject: str, error: str, width: int, dumb: bool) -> None:
    symbols = ASCII if dumb else UNICODE
    tools = ToolLines(Redactor(), Clock(), symbols=symbols)
    tools.started(tool_started("c", name, {"x": subject}))
    tools.started(child_started("c", "s", 0, subject, "leaf"))
    running = tools.lines(width)
    called = tools.finished(tool_ended("c", name, {"x": subject}, "error", 70, error), width=width)
    child = tools.finished(child_ended("c", "s", 0, subject, "failed", 70, error), width=width)
    for line in (*running, called, child):
        assert cells(line) <= width and "\n" not in line and "\x1b" not in line


def test_parallel_calls_have_a_line_each_while_they_run() -> None:
    clock = Clock()
    tools = ToolLines(Redactor(), clock)
    assert tools.lines(40) == []
    tools.started(tool_started("a", "read_file", {"path": "a.txt"}))
    clock.now += 1.5
    tools.started(tool_started("b", "terminal", {"command": "make " * 20}))
    clock.now += 0.125
    screen = Screen("\n".join(tools.lines(40)), 40)
    assert screen.rows == ["⠴ read_file a.txt  1.6 s", "⠙ terminal make make make make m…  0.1 s"]
    done = tools.finished(tool_ended("a", "read_file", {"path": "a.txt"}, "ok", 12, None), width=40)
    assert done == "✓ read_file a.txt  12 ms"
    assert [line[2:10] for line in tools.lines(40)] == ["terminal"]
    tools.clear()
    assert tools.lines(40) == []


def test_children_have_a_line_each_under_their_call() -> None:
    clock = Clock()
    tools = ToolLines(Redactor(("correct-horse-battery",)), clock)
    tools.started(tool_started("a", "delegate_task", {"tasks": [{}, {}]}))
    tools.started(child_started("a", "s1", 0, "Count the words.", "leaf"))
    tools.started(child_started("a", "s2", 1, "Use correct-horse-battery.", "leaf"))
    assert tools.lines(60) == [
        "⠋ delegate_task 2 tasks  0.0 s",
        "  ⠋ child 1: Count the words.  0.0 s",
        "  ⠋ child 2: Use <redacted>.  0.0 s",
    ]
    assert tools.finished(child_ended("a", "s1", 0, "Count the words.", "completed", 16, None)) == (
        "  ✓ child 1: Count the words.  16 ms"
    )
    assert tools.finished(child_ended("a", "s2", 1, "Use it.", "failed", 1_500, "no model"), width=60) == (
        "  ✗ child 2: Use it.  1.5 s  failed: no model"
    )
    assert tools.lines(60) == ["⠋ delegate_task 2 tasks  0.0 s"]


def test_many_calls_take_no_more_lines_than_agreed() -> None:
    tools = ToolLines(Redactor(), Clock(), symbols=ASCII, most=4)
    for number in range(10):
        tools.started(tool_started(str(number), "read_file", {"path": f"{number}.txt"}))
    assert tools.lines(40) == [*(f"| read_file {number}.txt  0.0 s" for number in range(3)), "  and 7 more"]


def test_a_plain_chat_imports_no_terminal_library() -> None:
    code = (
        "import sys, hermes.surfaces.cli.chat.output, hermes.surfaces.cli.chat.tool_lines, "
        "hermes.surfaces.cli.repl.status_line, "
        "hermes.surfaces.cli.repl.markdown.stream\n"
        "print([name for name in ('rich', 'prompt_toolkit', 'markdown_it', 'pygments') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_a_child_shows_what_it_does_now() -> None:
    tools = ToolLines(Redactor(), lambda: 0.0)
    tools.started(child_started("c", "child_1", 0, "look at the tests and fix what is broken", "leaf"))
    tools.child_does(ChildActivity("child_1", 0, "terminal", {"command": "pytest -q"}))
    tools.child_does(ChildActivity("child_of_another_turn", 0, "terminal", {"command": "ls"}))
    for width in (40, 80, 200):
        [line] = tools.lines(width)
        assert cells(line) <= width
        assert "child 1: " in line and "terminal pytest -q" in line
        assert ("look at the tests" in line) == (width > 40)
