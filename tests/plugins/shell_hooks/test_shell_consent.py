"""Which hook commands run: what the configuration may say, and what somebody agreed to."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from hermes.base.config.schema.sections import ShellHookConfig as Configured
from hermes.base.errors import ConfigError
from hermes.contract.hooks import HOOKS
from hermes.plugins.shell_hooks.command import HookCommand, read_hook_commands
from hermes.plugins.shell_hooks.consent import AllowList
from support.shell_rig import CALL, ShellRig


@pytest.fixture
def shell(tmp_path: Path) -> Generator[ShellRig]:
    with ShellRig(tmp_path) as made:
        yield made


# -- configuration --------------------------------------------------------------------------------------------------


def test_everything_that_cannot_be_used_is_told_at_once(tmp_path: Path) -> None:
    events = {
        "pre_tool_call": [
            Configured(command="ls", matcher="("),
            Configured(command="ls", matcher="*"),
            Configured(command="echo 'open"),
            Configured(command="''"),
        ],
        "post_tool_call": [Configured(command="ls", on_error="deny")],
    }
    with pytest.raises(ConfigError) as caught:
        read_hook_commands(events, tmp_path / "config.yaml")
    first, *problems = str(caught.value).splitlines()
    assert first == f"{tmp_path}/config.yaml: hook commands that cannot be used:"
    starts = [
        "  hooks.pre_tool_call[0].matcher: found '('; allowed: a regular expression (",
        "  hooks.pre_tool_call[1].matcher: found '*'; allowed: a regular expression (",
        '  hooks.pre_tool_call[2].command: found "echo \'open"; allowed: a command line with paired quotes',
        "  hooks.pre_tool_call[3].command: found \"''\"; allowed: a program and its arguments",
        "  hooks.post_tool_call[0].on_error: found deny; allowed: allow",
    ]
    assert [problem.startswith(start) for problem, start in zip(problems, starts, strict=True)] == [True] * 5
    assert "'.*'" in problems[1]


def test_odd_settings_are_warnings(shell: ShellRig, caplog: pytest.LogCaptureFixture) -> None:
    [unknown] = shell.load("pre_tool_cal", "ls")
    assert unknown == (
        "hooks.pre_tool_cal: there is no hook of that name; did you mean 'pre_tool_call'? Its commands never run"
    )
    [ignored] = shell.load("on_session_end", Configured(command="true", matcher="terminal"))
    assert ignored == "hooks.on_session_end[0].matcher is ignored: on_session_end is not about a tool"
    assert unknown in caplog.text and ignored in caplog.text
    for event in (name for name, spec in HOOKS.items() if spec.needs_code):
        assert shell.load(event, "ls") == [
            f"hooks.{event}: a command cannot answer it, only a plugin. Its commands never run"
        ]
    [stats] = shell.hooks.stats()
    assert (stats.plugin, stats.site) == ("shell:1", "on_session_end")


def test_names_follow_the_order_of_the_configuration(tmp_path: Path) -> None:
    two = [Configured(command="a"), Configured(command="b")]
    commands, _ = read_hook_commands({"pre_tool_call": two, "unknown_hook": two, "on_session_end": two}, tmp_path)
    assert [command.name for command in commands] == ["shell:1", "shell:2", "shell:5", "shell:6"]


@pytest.mark.parametrize(
    ("command", "script"),
    [
        ("./guard.sh --strict", "guard.sh"),
        ("sh guard.sh", "guard.sh"),
        ("/usr/bin/env -i X=1 python3.12 -W error guard.py data.txt", "guard.py"),
        ("bash -c 'exit 2'", None),
        ("python3 -m guard", None),
        ("guard.sh", None),  # a program on PATH, whatever lies in the directory
        ("cat data.txt", None),
        ("./missing.sh", None),
        ("sh " + "x" * 5_000, None),
    ],
)
def test_the_script_behind_a_command(tmp_path: Path, command: str, script: str | None) -> None:
    for name in ("guard.sh", "guard.py", "data.txt"):
        (tmp_path / name).touch()
    [read], _ = read_hook_commands({"pre_tool_call": [Configured(command=command)]}, tmp_path)
    assert read.script(tmp_path) == (tmp_path / script if script else None)


def test_the_home_directory_may_be_abbreviated(shell: ShellRig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(shell.cwd))
    shell.script("exit 2", "guard.sh")
    shell.load("pre_tool_call", "sh ~/guard.sh", accept=False, answer="once")
    assert shell.asked[0].script == shell.cwd / "guard.sh"
    assert shell.fire("pre_tool_call", **CALL)[0]["action"] == "block"


def test_safe_mode_and_a_runtime_inside_a_hook_command_run_none(
    shell: ShellRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HERMES_HOOK_EVENT", "pre_llm_call")
    [warning] = shell.load("pre_tool_call", "ls")
    assert "no hook commands run" in warning
    monkeypatch.setenv("HERMES_SAFE_MODE", "1")
    assert shell.load("pre_tool_call", "ls") == []
    assert shell.hooks.pre_tool_call is None


# -- consent --------------------------------------------------------------------------------------------------------


def test_a_command_nobody_accepted_does_not_run_and_one_line_says_how_to_accept(shell: ShellRig) -> None:
    [warning] = shell.load("pre_tool_call", shell.script("exit 2"), "other planted-secret-value", accept=False)
    assert shell.hooks.pre_tool_call is None
    assert "hermes hooks accept --all" in warning and "--accept-hooks" in warning
    assert "hook.sh" in warning and "other" in warning and "planted-secret-value" not in warning
    assert [question.consent for question in shell.asked] == ["not accepted"] * 2
    assert not (shell.home / "shell-hooks-allowlist.json").exists()


def test_a_policy_nobody_accepted_blocks_when_its_failures_do(shell: ShellRig) -> None:
    command = shell.script("exit 0")
    [warning] = shell.load("pre_tool_call", Configured(command=command, on_error="deny"), accept=False)
    assert "the calls they would judge are blocked" in warning
    [answer] = shell.fire("pre_tool_call", **CALL)
    assert f"it was not accepted; review it, then run: hermes hooks accept '{command}'" in answer["message"]


def test_accepting_everything_is_for_one_run_and_leaves_no_trace(shell: ShellRig) -> None:
    assert shell.load("pre_tool_call", shell.script("exit 2"), accept=True) == []
    assert shell.fire("pre_tool_call", **CALL) and shell.asked == []
    assert not (shell.home / "shell-hooks-allowlist.json").exists()


def test_an_answer_for_good_is_kept_and_one_for_once_is_not(shell: ShellRig) -> None:
    always, once = shell.script("exit 2", "always.sh"), shell.script("exit 2", "once.sh")
    assert shell.load("pre_tool_call", once, accept=False, answer="once") == []
    assert shell.load("pre_tool_call", always, accept=False, answer="always") == []
    assert len(shell.fire("pre_tool_call", **CALL)) == 2
    shell.asked.clear()
    assert shell.load("pre_tool_call", always, accept=False, answer="no") == []
    assert len(shell.load("pre_tool_call", once, accept=False, answer="no")) == 1
    # Exactly this command for exactly this hook: neither covers another.
    assert len(shell.load("post_tool_call", always, accept=False, answer="no")) == 1
    assert len(shell.load("pre_tool_call", f"{always} --more", accept=False, answer="no")) == 1
    assert len(shell.asked) == 3


def test_the_file_is_private_and_says_what_was_accepted(shell: ShellRig) -> None:
    command = shell.script("exit 2")
    shell.load("pre_tool_call", command, accept=False, answer="always")
    path = shell.home / "shell-hooks-allowlist.json"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    [approval] = json.loads(path.read_text())["approvals"]
    assert (approval["event"], approval["command"]) == ("pre_tool_call", command)
    assert approval["script"] == str(shell.cwd / "hook.sh") and len(approval["sha256"]) == 64
    path.chmod(0o644)
    shell.load("pre_tool_call", "true", accept=False, answer="always")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert len(json.loads(path.read_text())["approvals"]) == 2


def test_a_changed_script_is_asked_about_again(shell: ShellRig) -> None:
    command = shell.script("exit 2")
    shell.load("pre_tool_call", command, accept=False, answer="always")
    shell.script("rm -rf everything")
    shell.asked.clear()
    [_] = shell.load("post_tool_call", "true", accept=False, answer="no")
    [warning] = shell.load("pre_tool_call", command, accept=False, answer="no")
    assert "hook.sh" in warning
    assert [question.consent for question in shell.asked] == ["not accepted", "changed"]
    first = AllowList(shell.home).question(shell.asked[-1].command, shell.cwd).before
    assert shell.load("pre_tool_call", command, accept=False, answer="always") == []
    again = AllowList(shell.home).question(shell.asked[-1].command, shell.cwd)
    assert first and again.before and again.consent == "accepted"
    assert again.before.first_approved_at == first.first_approved_at == first.approved_at


def test_a_script_that_changes_during_the_run_is_not_run(shell: ShellRig, caplog: pytest.LogCaptureFixture) -> None:
    command = shell.script("exit 2")
    shell.load("pre_tool_call", command, accept=False, answer="always")
    assert len(shell.fire("pre_tool_call", **CALL)) == 1
    shell.script("touch harm")
    assert shell.fire("pre_tool_call", **CALL) == []
    assert "hook.sh is not what was accepted" in caplog.text
    assert not (shell.cwd / "harm").exists()
    shell.script("exit 2")  # what was accepted may run
    assert len(shell.fire("pre_tool_call", **CALL)) == 1


def test_what_is_kept_is_what_was_shown(shell: ShellRig) -> None:
    shell.script("exit 0")
    [command], _ = read_hook_commands({"pre_tool_call": [Configured(command="sh hook.sh")]}, shell.cwd)
    allow_list = AllowList(shell.home)
    question = allow_list.question(command, shell.cwd)
    shell.script("something else, while the person thinks")
    allow_list.accept(question)
    assert allow_list.question(command, shell.cwd).consent == "changed"


def test_two_that_accept_at_the_same_time_lose_nothing(shell: ShellRig) -> None:
    lists = [AllowList(shell.home) for _ in range(8)]

    def accept(number: int) -> None:
        command = HookCommand(f"shell:{number}", "pre_tool_call", f"program{number}", (f"program{number}",))
        lists[number].accept(lists[number].question(command, shell.cwd))

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(accept, range(8)))
    assert sorted(AllowList(shell.home).commands()) == [f"program{number}" for number in range(8)]
    assert [one.command for one in AllowList(shell.home).revoke("program3")] == ["program3"]
    assert len(AllowList(shell.home).revoke()) == 7 and AllowList(shell.home).commands() == []


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"approvals": [{}]}', b"\xff\xfe"])
def test_a_damaged_list_is_an_error_that_says_what_to_do(shell: ShellRig, content: bytes) -> None:
    shell.home.mkdir()
    path = shell.home / "shell-hooks-allowlist.json"
    path.write_bytes(content)
    with pytest.raises(ConfigError, match="remove the file") as caught:
        shell.load("pre_tool_call", "true", accept=False)
    assert str(path) in str(caught.value) and path.read_bytes() == content
    assert shell.load("pre_tool_call", "true", accept=True) == []


def test_a_fifo_as_script_is_no_script(shell: ShellRig) -> None:
    os.mkfifo(shell.cwd / "pipe")
    [command], _ = read_hook_commands({"pre_tool_call": [Configured(command="./pipe")]}, shell.cwd)
    assert AllowList(shell.home).question(command, shell.cwd).sha256 == ""
