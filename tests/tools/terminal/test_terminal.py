from __future__ import annotations

import os
import resource
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from hermes.base.errors import Interrupted
from hermes.tools.registry import ToolContext, ToolLimits
from hermes.tools.terminal.terminal import run_terminal
from support.waiting import finish

Call = Callable[..., dict[str, Any]]
Gone = Callable[[int], bool]
TimeOutWhen = Callable[[Callable[[], bool]], None]


def written(path: Path) -> bool:
    """Whether a command has written a line to this file."""
    return path.exists() and path.read_text().endswith("\n")


def test_output_and_exit_code(call: Call) -> None:
    assert call("terminal", command="echo one; echo two >&2") == {"output": "one\ntwo", "exit_code": 0, "error": None}
    assert call("terminal", command="echo no; exit 3") == {"output": "no", "exit_code": 3, "error": None}
    assert call("terminal", command="true") == {"output": "", "exit_code": 0, "error": None}


def test_a_command_ended_by_a_signal_has_the_shells_exit_code(call: Call) -> None:
    assert call("terminal", command="kill -9 $$")["exit_code"] == 137


def test_it_runs_in_the_working_directory_or_the_one_asked_for(call: Call, workdir: Path) -> None:
    (workdir / "sub").mkdir()
    assert call("terminal", command="pwd")["output"] == str(workdir)
    assert call("terminal", command="pwd", workdir="sub")["output"] == str(workdir / "sub")
    assert call("terminal", command="pwd", workdir="/")["output"] == "/"


def test_the_environment_is_inherited_and_made_plain(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_VALUE", "kept")
    answer = call("terminal", command='echo "$SOME_VALUE $TERM $PAGER $GIT_PAGER"; tty; cat')
    assert answer["output"].splitlines() == ["kept dumb cat cat", "not a tty"]


def test_output_is_made_readable(call: Call) -> None:
    command = r"printf '\n\n\033[31mred\033[0m \377 \303\244\n\n'"
    assert call("terminal", command=command)["output"] == "red \ufffd ä"


@pytest.mark.parametrize(
    ("args", "said"),
    [
        ({"command": ""}, "command is empty"),
        ({"command": "  "}, "command is empty"),
        ({}, "command is empty"),
        ({"command": "echo \0"}, "NUL"),
        ({"command": "pwd", "workdir": "missing"}, "does not exist"),
        ({"command": "pwd", "workdir": "a\0b"}, "NUL"),
        ({"command": "pwd", "timeout": 0}, "timeout must be"),
        ({"command": "pwd", "timeout": -1}, "timeout must be"),
        ({"command": "echo \ud800"}, "could not be started"),
        ({"command": "pwd", "workdir": "missing", "background": True}, "does not exist"),
    ],
)
def test_what_cannot_run_is_explained(call: Call, args: dict[str, Any], said: str) -> None:
    answer = call("terminal", **args)
    assert (answer["output"], answer["exit_code"]) == ("", -1)
    assert said in answer["error"]


def test_a_foreground_timeout_that_is_too_long_is_only_an_error(call: Call) -> None:
    answer = call("terminal", command="pwd", timeout=601)
    assert set(answer) == {"error"}
    assert "600" in answer["error"] and "background" in answer["error"]


def test_a_longer_default_timeout_is_allowed(call: Call, context: ToolContext) -> None:
    context.limits = ToolLimits(terminal_timeout=900)
    assert call("terminal", command="echo x")["output"] == "x"


def test_a_command_may_be_longer_than_the_kernel_allows_an_argument(call: Call) -> None:
    text = "x" * 300_000
    assert call("terminal", command=f"printf %s '{text}' | wc -c")["output"].strip() == "300000"
    assert call("terminal", command=f"cat <<'END' | wc -c\n{text}\nEND")["output"].strip() == "300001"


@pytest.mark.parametrize(
    ("command", "meaning"),
    [
        ("grep nothing /dev/null", "no lines matched"),
        ("cat /dev/null | LC_ALL=C grep x 2>/dev/null", "no lines matched"),
        ("cd /; /bin/grep nothing /dev/null", "no lines matched"),
        ("echo a > a; echo b > b; diff a b", "files differ"),
        ("test 1 = 2", "condition is false"),
        ("[ 1 = 2 ]", "condition is false"),
    ],
)
def test_codes_that_are_answers_are_explained(call: Call, command: str, meaning: str) -> None:
    answer = call("terminal", command=command)
    assert answer["exit_code"] == 1
    assert meaning in answer["exit_code_meaning"]


@pytest.mark.parametrize("command", ["false", "grep nothing /dev/null; false", "grep x 'unbalanced", "ls /missing"])
def test_other_codes_are_not(call: Call, command: str) -> None:
    answer = call("terminal", command=command)
    assert answer["exit_code"] != 0
    assert "exit_code_meaning" not in answer


def test_the_hook_sees_the_output_before_it_is_cleaned(call: Call, context: ToolContext) -> None:
    seen: list[tuple[str, str, int]] = []

    def transform(command: str, output: str, code: int) -> str:
        seen.append((command, output, code))
        return "  \x1b[1mnew\x1b[0m " + "y" * 100

    context.limits = ToolLimits(max_output_chars=50)
    context.command.transform = transform
    command = r"printf '\033[1mold\033[0m\n'; exit 2"
    answer = call("terminal", command=command)
    assert seen == [(command, "\x1b[1mold\x1b[0m\n", 2)]
    assert answer["output"].startswith("new y") and "characters of output left out" in answer["output"]
    assert answer["exit_code"] == 2


# ---- much output


def test_long_output_keeps_its_ends(call: Call, context: ToolContext) -> None:
    context.limits = ToolLimits(max_output_chars=1_000)
    output = call("terminal", command="seq 1 100000")["output"]
    assert output.startswith("1\n2\n") and output.endswith("\n100000")
    assert len(output) < 1_100
    assert f"{588_895 - 1_000:,} characters" in output


@pytest.mark.slow
def test_a_gigabyte_of_output_needs_little_memory(call: Call) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    answer = call("terminal", command="head -c 1000000000 /dev/zero")
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert answer["exit_code"] == 0
    assert "999,950,000 characters" in answer["output"]
    assert grown < 60_000


# ---- time


def test_a_timeout_keeps_what_was_said_so_far(call: Call, workdir: Path, time_out_when: TimeOutWhen) -> None:
    assert finish(lambda: call("terminal", command="sleep 600", timeout=0.1))["output"].startswith("[Command timed out")
    time_out_when((workdir / "ready").exists)
    answer = finish(lambda: call("terminal", command="echo begun; touch ready; sleep 600", timeout=0.3))
    assert answer["exit_code"] == 124 and answer["error"] is None
    assert answer["output"] == "begun\n[Command timed out after 0.3 s and was stopped]"


def test_a_timeout_ends_the_whole_group(call: Call, workdir: Path, gone: Gone, time_out_when: TimeOutWhen) -> None:
    time_out_when(lambda: written(workdir / "stubborn") and written(workdir / "child"))
    command = "(trap '' TERM; echo $BASHPID > stubborn; sleep 600) & sleep 600 & echo $! > child; wait"
    answer = finish(lambda: call("terminal", command=command, timeout=1))
    assert answer["exit_code"] == 124
    for name in ("stubborn", "child"):
        assert gone(int((workdir / name).read_text())), name


def test_a_descendant_outside_the_group_cannot_hang_the_call(
    call: Call, workdir: Path, time_out_when: TimeOutWhen
) -> None:
    time_out_when(lambda: written(workdir / "pid"))
    command = "setsid sh -c 'echo $$ > pid; exec sleep 600' & sleep 600"
    assert finish(lambda: call("terminal", command=command, timeout=1))["exit_code"] == 124
    os.kill(int((workdir / "pid").read_text()), 9)


def test_a_command_that_closes_its_output_is_still_waited_for(call: Call) -> None:
    assert call("terminal", command="exec >&- 2>&-; sleep 0.3; exit 7") == {"output": "", "exit_code": 7, "error": None}


def test_a_child_left_in_the_background_does_not_hold_up_the_answer(call: Call, workdir: Path) -> None:
    answer = finish(lambda: call("terminal", command="sleep 600 & echo $! > pid; echo done"))
    assert answer == {"output": "done", "exit_code": 0, "error": None}
    os.kill(int((workdir / "pid").read_text()), 9)  # it lives on, as in any shell


def test_a_flooding_child_left_in_the_background_does_not_either(call: Call, workdir: Path, gone: Gone) -> None:
    answer = finish(lambda: call("terminal", command="yes & echo $! > pid"))
    assert answer["exit_code"] == 0
    assert gone(int((workdir / "pid").read_text())), "nobody reads what it writes any more"


def test_an_interrupt_ends_the_command(context: ToolContext, workdir: Path, gone: Gone) -> None:
    interrupt = context.scope.interrupt
    os.mkfifo(workdir / "ready")

    def cancel_when_ready() -> None:
        (workdir / "ready").read_text()
        interrupt.cancel("stop it")

    thread = threading.Thread(target=cancel_when_ready)
    thread.start()
    with pytest.raises(Interrupted, match="stop it"):
        finish(lambda: run_terminal({"command": "echo $$ > pid; echo go > ready; sleep 600"}, context))
    thread.join()
    assert gone(int((workdir / "pid").read_text()))


def test_an_interrupt_ends_a_command_that_ignores_it(context: ToolContext, workdir: Path, gone: Gone) -> None:
    interrupt = context.scope.interrupt
    os.mkfifo(workdir / "ready")

    def cancel_when_ready() -> None:
        (workdir / "ready").read_text()
        interrupt.cancel()

    thread = threading.Thread(target=cancel_when_ready)
    thread.start()
    with pytest.raises(Interrupted):
        run_terminal({"command": "trap '' TERM; echo $$ > pid; echo go > ready; while :; do sleep 1; done"}, context)
    thread.join()
    assert gone(int((workdir / "pid").read_text()))


def test_nothing_starts_running_once_interrupted(context: ToolContext, workdir: Path) -> None:
    context.scope.interrupt.cancel()
    with pytest.raises(Interrupted):
        run_terminal({"command": "sleep 5; touch made"}, context)
    assert not (workdir / "made").exists()


# ---- pseudo-terminal


def test_a_pseudo_terminal_is_a_real_one(call: Call) -> None:
    answer = call("terminal", command="test -t 0 && test -t 1 && tty < /dev/tty && stty size", pty=True)
    assert answer["exit_code"] == 0, answer
    device, size = answer["output"].splitlines()
    assert device == "/dev/tty" or device.startswith("/dev/")
    assert size == "40 120"


def test_descriptors_are_given_back(call: Call) -> None:
    call("terminal", command="true")
    before = len(os.listdir("/dev/fd"))  # noqa: PTH208
    for pty in (False, True):
        call("terminal", command="echo x", pty=pty)
        call("terminal", command="sleep 9", pty=pty, timeout=0.05)
        call("terminal", command="x" * 200_000, pty=pty)
    assert len(os.listdir("/dev/fd")) == before  # noqa: PTH208


def test_many_at_once(context: ToolContext) -> None:
    answers: list[str] = []

    def run(number: int) -> None:
        own = replace(context)
        answers.append(run_terminal({"command": f"echo {number}"}, own))

    threads = [threading.Thread(target=run, args=(number,)) for number in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(answers) == 20
    assert all('"exit_code":0' in answer for answer in answers)
