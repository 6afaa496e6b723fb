from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hermes.base.errors import Interrupted
from hermes.tools.registry import ToolContext, ToolLimits
from hermes.tools.sandbox.confinement import Confinement
from hermes.tools.terminal.background import ProcessTable
from hermes.tools.terminal.process import run_process
from support.waiting import finish, wait_until

Call = Callable[..., dict[str, Any]]
Gone = Callable[[int], bool]


def start(call: Call, command: str, **more: Any) -> str:
    answer = call("terminal", command=command, background=True, **more)
    assert answer["error"] is None, answer
    return answer["session_id"]


def test_a_background_command_answers_at_once(call: Call) -> None:
    answer = call("terminal", command="sleep 60", background=True)
    assert set(answer) == {"output", "session_id", "pid", "exit_code", "error"}
    assert answer["output"] == "Background process started"
    assert answer["session_id"].startswith("proc_") and len(answer["session_id"]) == 17
    assert (answer["exit_code"], answer["error"]) == (0, None)


def test_poll_and_list_tell_how_it_stands(call: Call, workdir: Path) -> None:
    running = start(call, "echo hello; sleep 60")
    done = start(call, "echo bye; exit 4")
    assert call("process", action="wait", session_id=done)["exit_code"] == 4
    polled = call("process", action="poll", session_id=running)
    assert set(polled) == {"session_id", "command", "status", "pid", "uptime_seconds", "output_preview"}
    assert polled["status"] == "running"
    listed = call("process", action="list")["processes"]
    assert [entry["session_id"] for entry in listed] == [running, done]
    assert listed[1] | {"uptime_seconds": 0, "pid": 0, "started_at": ""} == {
        "session_id": done,
        "command": "echo bye; exit 4",
        "cwd": str(workdir),
        "pid": 0,
        "started_at": "",
        "uptime_seconds": 0,
        "status": "exited",
        "output_preview": "bye",
        "exit_code": 4,
        "completion_reason": "exited",
    }


def test_wait_returns_the_output(call: Call) -> None:
    process = start(call, "for i in 1 2 3; do echo $i; done")
    answer = call("process", action="wait", session_id=process, timeout=60)
    assert (answer["status"], answer["exit_code"], answer["output"]) == ("exited", 0, "1\n2\n3")
    again = call("process", action="wait", session_id=process)
    assert again["output"] == "1\n2\n3"


def test_wait_gives_up_in_time(call: Call) -> None:
    process = start(call, "echo begun; sleep 600")
    wait_until(lambda: "begun" in call("process", action="poll", session_id=process)["output_preview"])
    answer = finish(lambda: call("process", action="wait", session_id=process, timeout=1))
    assert (answer["status"], answer["output"]) == ("timeout", "begun")
    assert "exit_code" not in answer


def test_wait_is_interruptible(call: Call, context: ToolContext) -> None:
    process = start(call, "sleep 600")
    timer = threading.Timer(0.1, context.scope.interrupt.cancel)
    timer.start()
    with pytest.raises(Interrupted):
        finish(lambda: run_process({"action": "wait", "session_id": process}, context))
    timer.join()


def test_log_pages_through_the_lines(call: Call) -> None:
    process = start(call, "seq 1 500")
    call("process", action="wait", session_id=process)
    last = call("process", action="log", session_id=process)
    assert last["output"].splitlines() == [str(number) for number in range(301, 501)]
    assert (last["total_lines"], last["showing"], last["status"]) == (500, "lines 301 to 500", "exited")
    first = call("process", action="log", session_id=process, offset=0, limit=2)
    assert (first["output"], first["showing"]) == ("1\n2", "lines 1 to 2")
    assert call("process", action="log", session_id=process, offset=9_999)["output"] == ""


def test_kill_ends_the_whole_group(call: Call, workdir: Path, gone: Gone) -> None:
    os.mkfifo(workdir / "ready")
    process = start(call, "(trap '' TERM; echo $BASHPID > pid; echo go > ready; sleep 60)")
    (workdir / "ready").read_text()
    answer = call("process", action="kill", session_id=process)
    assert (answer["status"], answer["completion_reason"]) == ("killed", "killed")
    assert gone(int((workdir / "pid").read_text()))
    call("process", action="wait", session_id=process)
    # A process of the group that has ended and was not collected yet still counts.
    wait_until(lambda: call("process", action="kill", session_id=process)["status"] == "already_exited")


def test_input_reaches_the_process(call: Call) -> None:
    process = start(call, 'while read line; do echo "got $line"; done; echo end')
    assert call("process", action="write", session_id=process, data="one ") == {"status": "ok", "bytes_written": 4}
    assert call("process", action="submit", session_id=process, data="ä")["bytes_written"] == 3
    assert call("process", action="close", session_id=process)["status"] == "ok"
    assert call("process", action="wait", session_id=process)["output"] == "got one ä\nend"
    assert call("process", action="write", session_id=process, data="late")["status"] == "already_exited"


def test_input_nobody_reads_does_not_hang_the_call(
    call: Call, context: ToolContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hermes.tools.terminal.process._WRITE_SECONDS", 0.2)
    process = start(call, "sleep 60")
    answer = call("process", action="write", session_id=process, data="x" * 1_000_000)
    assert answer["status"] == "error"
    assert 0 < answer["bytes_written"] < 1_000_000


def test_input_after_close_is_an_error(call: Call) -> None:
    process = start(call, "sleep 60")
    call("process", action="close", session_id=process)
    assert call("process", action="submit", session_id=process, data="x")["status"] == "error"


def test_a_pseudo_terminal_takes_input_and_end_of_file(call: Call) -> None:
    process = start(call, 'tty; stty -echo; read line; echo "got $line"; cat', pty=True)
    assert call("process", action="submit", session_id=process, data="hello")["status"] == "ok"
    wait_until(lambda: "got hello" in call("process", action="poll", session_id=process)["output_preview"])
    call("process", action="close", session_id=process)
    answer = call("process", action="wait", session_id=process, timeout=60)
    assert answer["status"] == "exited", answer
    assert any(line.startswith("/dev/") for line in answer["output"].splitlines())


def test_what_is_not_there_is_not_found(call: Call) -> None:
    for action in ("poll", "log", "wait", "kill", "write", "submit", "close"):
        answer = call("process", action=action, session_id="proc_000000000000")
        assert answer["status"] == "not_found" and "proc_000000000000" in answer["error"]
    assert call("process", action="poll")["status"] == "not_found"
    assert "unknown" in call("process", action="dance")["error"]


def test_a_grandchild_that_keeps_the_output_open_does_not_hide_the_end(call: Call, gone: Gone) -> None:
    process = start(call, "sleep 600 & echo $!; exit 5")
    answer = call("process", action="wait", session_id=process, timeout=60)
    assert (answer["status"], answer["exit_code"]) == ("exited", 5)
    assert call("process", action="kill", session_id=process)["status"] == "killed"
    assert gone(int(answer["output"]))


def test_output_is_bounded(call: Call, context: ToolContext) -> None:
    table = ProcessTable(max_output_chars=1_000)
    context.processes = table
    try:
        process = start(call, "seq 1 200000")
        output = call("process", action="wait", session_id=process)["output"]
        assert output.startswith("1\n2\n") and output.endswith("200000")
        assert len(output) < 1_100
    finally:
        table.close()


def test_closing_ends_everything(workdir: Path, gone: Gone) -> None:
    table = ProcessTable()
    before = threading.active_count()
    for name in ("stubborn", "escaped"):
        os.mkfifo(workdir / name)
    table.start("sleep 600", str(workdir), Confinement(os.environ))
    table.start("trap '' TERM; echo $$ > stubborn; while :; do sleep 1; done", str(workdir), Confinement(os.environ))
    table.start("setsid sh -c 'echo $$ > escaped; exec sleep 601' & wait", str(workdir), Confinement(os.environ))
    (workdir / "stubborn").read_text()
    escaped = int((workdir / "escaped").read_text())
    pids = [process.pid for process in table.all()]
    finish(table.close)
    assert all(gone(pid) for pid in pids)
    wait_until(lambda: threading.active_count() <= before, "the end of all reader threads")
    with pytest.raises(ValueError, match="closing"):
        table.start("true", str(workdir), Confinement(os.environ))
    os.kill(escaped, 9)


def test_only_some_finished_processes_are_kept(workdir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hermes.tools.terminal.background._KEPT_FINISHED", 3)
    table = ProcessTable()
    try:
        for _ in range(6):
            assert table.start("true", str(workdir), Confinement(os.environ)).child.wait(60) == 0
        table.start("sleep 60", str(workdir), Confinement(os.environ))
        assert len(table.all()) == 4
    finally:
        table.close()


def test_the_default_wait_is_the_default_timeout(call: Call, context: ToolContext) -> None:
    context.limits = ToolLimits(terminal_timeout=1)
    process = start(call, "sleep 60")
    assert call("process", action="wait", session_id=process)["status"] == "timeout"
