"""Hook commands of the configuration: what they are told, what their answers do, and how they are kept in bounds."""

from __future__ import annotations

import json
import logging
import os
import sys
import threading
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes.base.config.schema.sections import ShellHookConfig as Configured
from hermes.base.errors import Interrupted
from hermes.base.sanitize import Redactor
from hermes.base.scope import Interrupt, Scope, current_scope
from hermes.contract.hooks import HOOKS
from hermes.plugins.shell_hooks.process import MAX_STDOUT, Finished, run_command
from hermes.plugins.shell_hooks.protocol import HookCommandFailed, hook_input, read_verdict
from hermes.tools.sandbox.confinement import Confinement
from support.shell_rig import CALL, SAVING, ShellRig
from support.waiting import StoppedClock, finish, read_pid, wait_until_gone


@pytest.fixture
def shell(tmp_path: Path) -> Generator[ShellRig]:
    with ShellRig(tmp_path) as made:
        yield made


# -- what a command is told -----------------------------------------------------------------------------------------


def test_a_tool_event_is_told_as_json_on_stdin(shell: ShellRig) -> None:
    shell.load("pre_tool_call", shell.script(SAVING))
    args = {"command": "echo " + "x" * 20_000, "token": "as it is"}
    assert shell.fire("pre_tool_call", **{**CALL, "args": args}, turn_id="t1", middleware_trace=[]) == []
    told = shell.told()
    assert list(told) == ["hook_event_name", "tool_name", "tool_input", "session_id", "cwd", "extra"]
    assert (told["hook_event_name"], told["tool_name"], told["session_id"]) == ("pre_tool_call", "terminal", "s1")
    assert told["tool_input"] == args  # whole: a policy that sees a part is no policy
    assert told["cwd"] == str(shell.cwd)
    assert told["extra"] == {
        "telemetry_schema_version": "hermes.observer.v1",
        "tool_call_id": "c1",
        "turn_id": "t1",
        "middleware_trace": [],
    }


def test_other_events_have_no_tool_and_their_fields_are_bounded_and_redacted(shell: ShellRig) -> None:
    shell.load("pre_llm_call", shell.script(SAVING))
    history = [{"role": "user", "content": "my key is planted-secret-value", "password": "hunter2"}]
    shell.fire(
        "pre_llm_call", session_id="s1", user_message="long " * 10_000, conversation_history=history, odd=object()
    )
    told = shell.told()
    assert (told["tool_name"], told["tool_input"]) == (None, None)
    assert told["extra"]["user_message"].endswith("...[truncated 42000 chars]")
    assert told["extra"]["conversation_history"][0]["password"] == "<redacted>"
    assert "planted-secret-value" not in json.dumps(told)
    assert isinstance(told["extra"]["odd"], str)


def test_the_environment_says_what_the_command_is_run_for(shell: ShellRig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FROM_THE_SHELL", "kept")
    shell.load("post_tool_call", shell.script("env > env.txt; cat >/dev/null"))
    shell.fire("post_tool_call", **{**CALL, "tool_name": "na\0me\ud800"}, turn_id="t1", result="planted-secret-value")
    found = dict(line.split("=", 1) for line in (shell.cwd / "env.txt").read_text().splitlines() if "=" in line)
    ours = {name: value for name, value in found.items() if name.startswith("HERMES_")}
    assert ours == {
        "HERMES_HOOK_EVENT": "post_tool_call",
        "HERMES_HOME": str(shell.home),
        "HERMES_SESSION_ID": "s1",
        "HERMES_TURN_ID": "t1",
        "HERMES_TOOL_NAME": "name?",
        "HERMES_TOOL_CALL_ID": "c1",
    }
    assert found["FROM_THE_SHELL"] == "kept"
    assert "planted-secret-value" not in found.values()


def test_no_shell_sees_the_command_line(shell: ShellRig) -> None:
    shell.load(
        "post_tool_call", f"{sys.executable} -c 'import sys; open(\"argv\", \"w\").write(sys.argv[1])' '$HOME; ls'"
    )
    shell.fire("post_tool_call", **CALL)
    assert (shell.cwd / "argv").read_text() == "$HOME; ls"


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=10,
)
anything = json_values | st.binary() | st.sets(st.integers()) | st.builds(object) | st.floats()


@given(
    event=st.sampled_from(sorted(HOOKS)),
    args=st.dictionaries(st.text(), anything, max_size=4),
    fields=st.dictionaries(st.text(), anything, max_size=4),
    text=st.text(st.characters(), max_size=50),
)
def test_any_payload_becomes_json(event: str, args: dict[str, Any], fields: dict[str, Any], text: str) -> None:
    payload = {**fields, "args": args, "tool_name": text, "session_id": text, "result": text}
    told = json.loads(hook_input(event, payload, Path("/w"), Redactor()))
    assert told["hook_event_name"] == event and told["tool_input"].keys() == args.keys()


# -- what its answer does -------------------------------------------------------------------------------------------

BLOCK = {"action": "block", "message": "no"}


@pytest.mark.parametrize(
    ("event", "script", "answer"),
    [
        ("pre_tool_call", """echo '{"action": "block", "message": "no"}'""", BLOCK),
        ("pre_tool_call", """echo '{"decision": "block", "reason": "no"}'""", BLOCK),
        ("pre_tool_call", "echo no >&2; exit 2", BLOCK),
        ("pre_tool_call", """echo '{"action": "allow"}'; echo no >&2; exit 2""", BLOCK),
        (
            "pre_tool_call",
            """echo '{"action": "approve", "message": "sure?", "rule_key": "k", "x": 1}'""",
            {"action": "approve", "message": "sure?", "rule_key": "k"},
        ),
        ("pre_tool_call", """echo '{"action": "approve"}'""", {"action": "approve"}),
        (
            "pre_tool_call",
            """echo '{"action": "modify", "args": {"timeout": 9}}'""",
            {"action": "modify", "args": {"timeout": 9}},
        ),
        (
            "pre_tool_call",
            """echo '{"decision": "modify", "tool_input": {"timeout": 9}}'""",
            {"action": "modify", "args": {"timeout": 9}},
        ),
        ("pre_tool_call", "true", None),
        ("pre_tool_call", "echo '{}'", None),
        ("pre_tool_call", """echo '{"action": "allow"}'""", None),
        ("pre_tool_call", """echo '{"decision": "approve"}'""", None),
        ("pre_llm_call", """echo '{"context": "It is Monday."}'""", {"context": "It is Monday."}),
        ("pre_llm_call", """echo '"It is Monday."'""", "It is Monday."),
        ("pre_llm_call", "echo '{}'", None),
        ("transform_llm_output", """echo '"Bonjour."'""", "Bonjour."),
        ("transform_llm_output", """echo '{"response_text": "Bonjour."}'""", "Bonjour."),
        ("transform_tool_result", """echo '{"result": ""}'""", ""),
        ("transform_tool_result", "echo '{}'", None),
        ("transform_terminal_output", """echo '{"output": "short"}'""", "short"),
        (
            "pre_verify",
            """echo '{"action": "continue", "message": "test it"}'""",
            {"action": "continue", "message": "test it"},
        ),
        (
            "pre_verify",
            """echo '{"decision": "block", "reason": "test it"}'""",
            {"action": "continue", "message": "test it"},
        ),
        ("pre_verify", "echo test it >&2; exit 2", {"action": "continue", "message": "test it"}),
        ("pre_gateway_dispatch", """echo '{"action": "skip"}'""", {"action": "skip"}),
        ("post_tool_call", "echo whatever", None),
    ],
)
def test_answers(shell: ShellRig, event: str, script: str, answer: Any, caplog: pytest.LogCaptureFixture) -> None:
    shell.load(event, shell.script(script))
    assert shell.fire(event, **CALL) == ([] if answer is None else [answer])
    assert [record.message for record in caplog.records if record.levelno >= logging.WARNING] == []


@pytest.mark.parametrize(
    "script", ["exit 2", """echo '{"action": "block"}'""", """echo '{"decision": "block", "reason": 1}'"""]
)
def test_a_refusal_without_words_still_refuses(shell: ShellRig, script: str) -> None:
    shell.load("pre_tool_call", shell.script(script))
    [answer] = shell.fire("pre_tool_call", **CALL)
    assert answer["action"] == "block" and answer["message"]


FAILURES = [
    ("echo oops >&2; exit 3", "exit code 3: oops"),
    ("kill -9 $$", "exit code 137"),
    ("echo all fine", "not JSON"),
    ("printf '\\377'", "not JSON"),
    ("echo '[1]'", "a JSON list"),
    ("""echo '{"action": "deny"}'""", "'deny'; it may be block, approve"),
    ("""echo '{"decision": "no"}'""", "'no'; it may be block"),
    ("head -c 3000000 /dev/zero", "more than 1,000,000 bytes"),
]


@pytest.mark.parametrize(("script", "reason"), FAILURES)
def test_a_failure_lets_the_call_pass_and_is_told_once(
    shell: ShellRig, script: str, reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    shell.load("pre_tool_call", shell.script(script))
    assert shell.fire("pre_tool_call", **CALL) == shell.fire("pre_tool_call", **CALL) == []
    [warning] = [record.message for record in caplog.records if record.levelno == logging.WARNING]
    assert "plugin 'shell:1': pre_tool_call" in warning and reason in warning
    [stats] = shell.hooks.stats()
    assert (stats.calls, stats.failures) == (2, 2)


@pytest.mark.parametrize(("script", "reason"), FAILURES)
def test_a_failure_blocks_the_call_when_the_hook_says_so(shell: ShellRig, script: str, reason: str) -> None:
    shell.load("pre_tool_call", Configured(command=shell.script(script), on_error="deny"))
    [answer] = shell.fire("pre_tool_call", **CALL)
    assert answer["action"] == "block" and reason in answer["message"]


@pytest.mark.parametrize("command", ["no-such-program --at all", "./missing.sh", "/"])
def test_a_program_that_cannot_be_started_is_a_failure(
    shell: ShellRig, command: str, caplog: pytest.LogCaptureFixture
) -> None:
    shell.load("pre_tool_call", command)
    assert shell.fire("pre_tool_call", **CALL) == []
    assert f"it cannot be started: {command.split()[0]}: " in caplog.text


def test_a_secret_on_stderr_does_not_reach_the_log(shell: ShellRig, caplog: pytest.LogCaptureFixture) -> None:
    shell.load("pre_tool_call", shell.script("echo 'api_key=sk-abcdefghijklmnopqrstuvwx' >&2; exit 1"))
    shell.fire("pre_tool_call", **CALL)
    assert "exit code 1" in caplog.text and "sk-abcdefghij" not in caplog.text


def test_a_transform_sees_and_replaces_the_whole_text(shell: ShellRig) -> None:
    text = "é" * 60_000 + "\ud800"
    script = "import json, sys\nprint(json.dumps(json.load(sys.stdin)['extra']['result'][::-1]))"
    shell.load("transform_tool_result", shell.script(script, "reverse.py"))
    assert shell.fire("transform_tool_result", **CALL, result=text) == ["?" + "é" * 60_000]


@given(st.sampled_from(sorted(HOOKS)), st.integers(0, 3), st.text(max_size=40) | json_values.map(json.dumps))
def test_any_output_is_an_answer_or_a_failure(event: str, code: int, stdout: str) -> None:
    try:
        answer = read_verdict(event, Finished(code, stdout, "", 0.1))
    except HookCommandFailed:
        return
    assert answer is None or HOOKS[event].answers


def test_the_matcher_must_match_the_whole_tool_name(shell: ShellRig) -> None:
    shell.load("pre_tool_call", Configured(command=shell.script("exit 2"), matcher="term.*|read"))
    blocked = [
        name for name in ("terminal", "read", "read_file", "xterm") if shell.fire("pre_tool_call", tool_name=name)
    ]
    assert blocked == ["terminal", "read"]


def test_commands_run_in_the_order_they_are_written_and_after_python(shell: ShellRig) -> None:
    def first(**_fields: Any) -> str:
        return "first"

    shell.hooks.subscribe("pre_llm_call", "python", first)
    shell.load("pre_llm_call", shell.script("""echo '"second"'"""), shell.script("""echo '"third"'""", "other.sh"))
    assert shell.fire("pre_llm_call") == ["first", "second", "third"]
    assert [one.plugin for one in shell.hooks.stats()] == ["python", "shell:1", "shell:2"]


# -- bounds ---------------------------------------------------------------------------------------------------------

#: A leader and a child that both refuse to end politely; the child's id is written once it is there.
STUBBORN = """
trap '' TERM
(trap '' TERM; echo $$ > leader; sleep 600) &
echo $! > child.part
mv child.part child
wait
wait
"""


def started(shell: ShellRig) -> tuple[int, int]:
    return read_pid(shell.cwd / "leader"), read_pid(shell.cwd / "child")


def test_a_late_command_is_ended_with_all_its_children(
    shell: ShellRig, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = (shell.cwd / "leader", shell.cwd / "child")
    late = StoppedClock(lambda: all(file.exists() and file.read_text() for file in files), runs_on=True)
    monkeypatch.setattr("hermes.plugins.shell_hooks.process.time", late)
    shell.load("pre_tool_call", Configured(command=shell.script(STUBBORN), timeout=0.4))
    assert finish(lambda: shell.fire("pre_tool_call", **CALL)) == []
    assert "it was stopped after" in caplog.text
    for pid in started(shell):
        wait_until_gone(pid)


@pytest.mark.parametrize("script", [STUBBORN, STUBBORN.replace("trap '' TERM", "true")])
def test_an_interrupt_ends_the_command_and_the_turn(shell: ShellRig, script: str) -> None:
    shell.load("pre_tool_call", shell.script(script))
    interrupt = Interrupt()
    pids: list[int] = []

    def cancel() -> None:
        pids.extend(started(shell))
        interrupt.cancel("enough")

    thread = threading.Thread(target=cancel)
    thread.start()
    token = current_scope.set(Scope(interrupt=interrupt))
    try:
        with pytest.raises(Interrupted, match="enough"):
            shell.fire("pre_tool_call", **CALL)
    finally:
        current_scope.reset(token)
        thread.join()
    assert len(pids) == 2
    for pid in pids:
        wait_until_gone(pid)


def test_the_events_that_close_a_cancelled_turn_are_still_told(shell: ShellRig) -> None:
    shell.load("post_tool_call", shell.script(SAVING))
    interrupt = Interrupt()
    interrupt.cancel()
    token = current_scope.set(Scope(interrupt=interrupt))
    try:
        shell.fire("post_tool_call", **CALL, status="cancelled")
    finally:
        current_scope.reset(token)
    assert shell.told()["extra"]["status"] == "cancelled"


def test_a_command_need_not_read_and_may_say_a_lot(shell: ShellRig) -> None:
    noise = 'import sys\nsys.stderr.write(\'e\' * 3_000_000)\nprint(\'{"action": "block", "message": "no"}\')'
    shell.load("pre_tool_call", shell.script(noise, "noise.py"))
    assert shell.fire("pre_tool_call", **{**CALL, "args": {"content": "x" * 2_000_000}}) == [BLOCK]


def test_what_a_command_leaves_behind_does_not_hold_up_the_turn(shell: ShellRig) -> None:
    shell.load("pre_tool_call", shell.script("sleep 600 & echo $! > child; exit 2"))
    [answer] = finish(lambda: shell.fire("pre_tool_call", **CALL))
    assert answer["action"] == "block"
    os.kill(int((shell.cwd / "child").read_text()), 9)


def test_output_is_kept_up_to_a_limit_and_the_rest_is_read(tmp_path: Path) -> None:
    script = f"import sys; sys.stdout.write('x' * {MAX_STDOUT + 5_000_000}); open('done', 'w').close()"
    done = run_command(
        [sys.executable, "-c", script], stdin=b"", cwd=str(tmp_path), confinement=Confinement(os.environ), timeout=20
    )
    assert (done.exit_code, len(done.stdout), done.overflowed) == (0, MAX_STDOUT, True)
    assert (tmp_path / "done").exists()


def own_children() -> set[int]:
    """The processes that this one started and that are running, or ended and not waited for."""
    return {int(pid) for task in Path("/proc/self/task").iterdir() for pid in (task / "children").read_text().split()}


def test_no_descriptor_and_no_process_is_left(shell: ShellRig) -> None:
    shell.load(
        "pre_tool_call", shell.script("cat > /dev/null"), Configured(command="sleep 9", timeout=0.05), "missing-program"
    )
    shell.fire("pre_tool_call", **CALL)
    before, children = sorted(Path("/dev/fd").iterdir()), own_children()
    shell.fire("pre_tool_call", **CALL)
    assert sorted(Path("/dev/fd").iterdir()) == before
    assert own_children() <= children  # tests before this one may have left some


def test_calls_at_the_same_time_do_not_mix(shell: ShellRig) -> None:
    script = "import json, sys\nprint(json.dumps({'action': 'block', 'message': json.load(sys.stdin)['session_id']}))"
    shell.load("pre_tool_call", shell.script(script, "echo.py"))

    def call(number: int) -> str:
        [answer] = shell.fire("pre_tool_call", **{**CALL, "session_id": f"s{number}"})
        return answer["message"]

    with ThreadPoolExecutor(6) as pool:
        assert list(pool.map(call, range(12))) == [f"s{number}" for number in range(12)]


def test_a_signal_to_the_terminal_does_not_reach_the_command(shell: ShellRig) -> None:
    shell.load(
        "post_tool_call",
        f'{sys.executable} -c \'import os; open("group", "w").write(str(os.getsid(0) == os.getpid()))\'',
    )
    shell.fire("post_tool_call", **CALL)
    assert (shell.cwd / "group").read_text() == "True"
