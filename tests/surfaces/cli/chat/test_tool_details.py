"""Details below the line of a tool call: diffs, output, tasks; folded, coloured, redacted, in every output style."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from hermes.surfaces.cli.chat.tool_details import (
    COMMAND_LINES,
    DIFF_LINES,
    RecordedCall,
    detail_lines,
    exit_code,
    folded_details,
    whole_result,
)
from hermes.testing import ScriptedProvider, text, tool_call
from hermes.tools.declarations.builtin import DECLARED, builtin_declaration
from hermes.tools.declarations.declaration import Declaration
from support import run_hermes, write_config
from support.repl_terminal import CTRL_D, ReplTerminal


def call(name: str, result: object, status: str = "ok", **args: Any) -> RecordedCall:
    return RecordedCall(name, args, result if isinstance(result, str) else json.dumps(result), status)


def declared(done: RecordedCall) -> Declaration:
    return builtin_declaration(done.tool_name)


def shown(lines: list[Any]) -> list[tuple[str, str]]:
    return [(line.kind, line.text) for line in lines]


def test_a_command_shows_its_last_lines_and_its_exit_code() -> None:
    output = "\n".join(map(str, range(COMMAND_LINES + 3)))
    done = call("terminal", {"output": output, "exit_code": 3})
    assert exit_code(done, declared(done)) == 3
    assert shown(folded_details(done, declared(done)))[0] == ("note", "... 3 earlier lines")
    assert [line.text for line in folded_details(done, declared(done))][1:] == ["3", "4", "5", "6", "7"]
    assert len(whole_result(done, declared(done))) == COMMAND_LINES + 3


def test_an_edit_shows_its_diff_and_a_long_one_is_folded() -> None:
    diff = "--- a/x.py\n+++ b/x.py\n@@ -1,2 +1,2 @@\n one\n-two\n+zwei\n--- not a header\n"
    assert shown(detail_lines(call("patch", {"diff": diff}), DECLARED["patch"])) == [
        ("place", "x.py"),
        ("place", "@@ -1,2 +1,2 @@"),
        ("plain", " one"),
        ("removed", "-two"),
        ("added", "+zwei"),
        ("removed", "--- not a header"),
    ]
    written = call("write_file", {"bytes_written": 1}, content="x\n" * 100)
    assert len(folded_details(written, declared(written))) == DIFF_LINES + 1
    assert folded_details(written, declared(written))[-1].text == f"... {100 - DIFF_LINES} more lines"


def test_a_task_list_is_shown_with_its_marks() -> None:
    todos = [{"content": name, "status": name} for name in ("pending", "in_progress", "completed", "cancelled")]
    marks = [line.text for line in detail_lines(call("todo", {"todos": todos}), DECLARED["todo"])]
    assert marks == ["[ ] pending", "[>] in_progress", "[x] completed", "[-] cancelled"]


@pytest.mark.parametrize(
    "result", ["", "not json", "[1]", '{"output": 5}', '{"diff": null}', '{"todos": [1, {}]}', "[" * 9_999]
)
@pytest.mark.parametrize("name", ["terminal", "patch", "write_file", "todo", "other"])
def test_any_result_is_survived(name: str, result: str) -> None:
    done = call(name, result)
    assert exit_code(done, declared(done)) is None
    assert isinstance(folded_details(done, declared(done)), list) and isinstance(
        whole_result(done, declared(done)), list
    )


def test_results_drive_no_terminal() -> None:
    done = call("terminal", {"output": "\x1b[2Jgone\x07", "exit_code": 0})
    assert [line.text for line in detail_lines(done, declared(done))] == ["gone"]


SCRIPT = [
    tool_call("write_file", {"path": "b.txt", "content": "1\nnew\n3\n"}),
    tool_call("patch", {"mode": "replace", "path": "a.txt", "old_string": "two", "new_string": "zwei"}),
    tool_call("terminal", {"command": "seq 90; exit 3"}),
    text("It is **done**."),
]


def prepared(home: Path, workdir: Path, base_url: str) -> None:
    write_config(home, base_url)
    (workdir / "a.txt").write_text("one\ntwo\n")
    (workdir / "b.txt").write_text("1\nold\n3\n")


def test_a_one_shot_on_a_terminal_shows_diffs_output_and_rendered_text(home: Path, workdir: Path) -> None:
    with ScriptedProvider(SCRIPT) as provider:
        prepared(home, workdir, provider.base_url)
        with ReplTerminal(home, workdir, "-q", "go", ready="session 20") as terminal:
            assert terminal.end() == 0
            rows = terminal.rows
    assert rows[0].startswith("✓ write_file b.txt") and rows[2:6] == ["   1", "  -old", "  +new", "   3"]
    assert rows[6].startswith("✓ patch a.txt") and "  -two" in rows and "  +zwei" in rows
    failed = next(row for row in rows if row.startswith("✗ terminal"))
    assert failed.endswith("exit 3") and "  ... 85 earlier lines" in rows and "  90" in rows
    assert "It is done." in rows
    assert any(row.startswith("scripted · ") for row in rows)


def test_all_output_of_the_last_call_is_shown_by_a_key(home: Path, workdir: Path) -> None:
    with ScriptedProvider(SCRIPT) as provider:
        prepared(home, workdir, provider.base_url)
        with ReplTerminal(home, workdir, env={"PAGER": "sed -n 7s/^/paged/p"}) as terminal:
            terminal.type("\x0f")
            terminal.wait_for("No tool was called yet.")
            terminal.send("go")
            terminal.wait_for("It is done.")
            terminal.wait_until_idle()
            assert "  -old\n  +new\n" in terminal.text
            terminal.type("\x0f")
            terminal.wait_for("paged")
            terminal.wait_until_idle()
            terminal.type(CTRL_D)
            assert terminal.end() == 0


def test_results_are_in_the_json_styles_and_in_the_transcript(home: Path, workdir: Path) -> None:
    with ScriptedProvider(SCRIPT) as provider:
        prepared(home, workdir, provider.base_url)
        done = run_hermes("-q", "go", "--stream-json", home=home, cwd=workdir)
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    finished = [line for line in lines if line["type"] == "tool_finished"]
    assert [json.loads(event["result"]).get("exit_code") for event in finished] == [None, None, 3]
    assert [{"type": "tool_finished", **call} for call in lines[-1]["tool_calls"]] == finished
    transcript = run_hermes("sessions", "show", lines[0]["session_id"], home=home, cwd=workdir).stdout
    assert "      +zwei\n" in transcript and "      ... 85 earlier lines\n      86\n" in transcript


def test_an_answer_that_is_not_whole_is_reported_once(home: Path, workdir: Path) -> None:
    with ScriptedProvider([text("Half of it", finish_reason="content_filter")]) as provider:
        write_config(home, provider.base_url)
        with ReplTerminal(home, workdir, "-q", "go", ready="Incomplete:") as terminal:
            assert terminal.end() == 4
            shown = terminal.text
    assert "Half of it" in shown and shown.count("content filter") == 1
