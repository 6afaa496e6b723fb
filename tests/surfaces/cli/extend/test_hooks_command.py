"""``hermes hooks``, and what ``hermes chat`` asks and says about hook commands."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import threading
from pathlib import Path
from typing import Any

import pytest

from hermes.contract.hooks import HOOKS
from hermes.contract.middleware import MIDDLEWARE
from hermes.surfaces.cli.main import main
from hermes.testing import ScriptedProvider, text, tool_call
from support import hermes_command, hermes_environment, run_hermes, write_config
from support.repl_terminal import TerminalProcess, run_on_terminal
from support.waiting import outer_pid


@pytest.fixture
def guard(home: Path, workdir: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A configured command that refuses every call of the terminal."""
    monkeypatch.chdir(workdir)
    (workdir / "guard.sh").write_text("echo 'not here' >&2\nexit 2\n")
    command = f"sh {workdir}/guard.sh"
    configure(home, f"  pre_tool_call: [{{command: {command}, matcher: terminal, timeout: 5}}]\n")
    return command


def configure(home: Path, hooks: str, base_url: str = "http://127.0.0.1:9", extra: str = "") -> None:
    write_config(home, base_url, f"hooks:\n{hooks}{extra}")


def out(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> str:
    assert main(["hooks", *arguments]) == code
    return capsys.readouterr().out


def error(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(["hooks", *arguments]) == 1
    captured = capsys.readouterr()
    assert captured.out == "" and captured.err.startswith("Error: ")
    return captured.err


# -- list, accept, revoke -------------------------------------------------------------------------------------------


def test_list_accept_and_revoke(guard: str, capsys: pytest.CaptureFixture[str]) -> None:
    line = "shell:1  pre_tool_call  {}  " + guard + "  (matcher terminal, timeout 5 s)\n"
    assert out(capsys, "list") == line.format("not accepted")
    assert out(capsys, "accept", guard) == f"Accepted for pre_tool_call: {guard}\n"
    assert out(capsys, "list") == line.format("accepted")
    Path("guard.sh").write_text("exit 0\n")
    assert out(capsys, "list") == line.format("changed")
    out(capsys, "accept", "shell:1")
    assert out(capsys, "list") == line.format("accepted")
    assert out(capsys, "revoke", guard) == f"Revoked for pre_tool_call: {guard}\n"
    assert out(capsys, "list") == line.format("not accepted")
    out(capsys, "accept", "--all")
    assert out(capsys, "revoke", "--all") == f"Revoked for pre_tool_call: {guard}\n"
    assert out(capsys, "revoke", "--all") == "No hook commands were accepted.\n"


def test_list_as_json_with_the_plugins_that_subscribe(
    home: Path, guard: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("on", "off", "quiet"):
        folder = home / "plugins" / name
        folder.mkdir(parents=True)
        hooks = "" if name == "quiet" else "provides_hooks: [post_tool_call, pre_llm_call]\n"
        (folder / "plugin.yaml").write_text(f"name: {name}\n{hooks}")
        (folder / "__init__.py").write_text("raise SystemExit('listing must not import plugins')")
    with (home / "config.yaml").open("a") as file:
        file.write("plugins: {enabled: [on, quiet]}\n")
    document = json.loads(out(capsys, "list", "--json"))
    [row] = document["shell_hooks"]
    assert row == {
        "name": "shell:1",
        "event": "pre_tool_call",
        "command": guard,
        "matcher": "terminal",
        "timeout": 5,
        "on_error": "allow",
        "consent": "not accepted",
        "approved_at": None,
        "script": str(Path.cwd() / "guard.sh"),
    }
    ours = [plugin for plugin in document["plugins"] if plugin["key"] in ("on", "off", "quiet")]
    hooks = ["post_tool_call", "pre_llm_call"]
    assert ours == [
        {"key": "off", "status": "not enabled", "hooks": hooks},
        {"key": "on", "status": "enabled", "hooks": hooks},
    ]
    assert "on  plugin, enabled  post_tool_call, pre_llm_call" in out(capsys, "list").splitlines()


def test_list_without_commands_and_with_odd_ones(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "No hook commands are configured" in out(capsys, "list")
    configure(home, "  pre_tool_cal: [{command: ls}]\n", extra="hooks_auto_accept: true\n")
    assert main(["hooks", "list"]) == 0
    assert "did you mean 'pre_tool_call'?" in capsys.readouterr().err
    configure(home, "  pre_tool_call: [{command: ls, matcher: '('}]\n")
    assert "hooks.pre_tool_call[0].matcher: found '('" in error(capsys, "list")


def test_a_setting_that_accepts_all_is_shown_and_warned_about(
    home: Path, guard: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HERMES_ACCEPT_HOOKS", "1")
    assert "  accepted by a setting  " in out(capsys, "list")
    assert main(["hooks", "revoke", "--all"]) == 0
    assert "HERMES_ACCEPT_HOOKS still allows every hook command" in capsys.readouterr().err


def test_unknown_commands_are_refused_with_what_there_is(guard: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert f"shell:1 ({guard})" in error(capsys, "accept", "guard.sh")
    assert "accepted: none" in error(capsys, "revoke", "guard.sh")
    assert main(["hooks", "accept"]) == 2
    assert main(["hooks", "revoke", "x", "--all"]) == 2
    assert main(["hooks"]) == 0, "the list"


# -- test -----------------------------------------------------------------------------------------------------------


def test_test_runs_the_commands_and_shows_what_comes_of_it(guard: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert "it was not accepted" in out(capsys, "test", "pre_tool_call", code=1)
    shown = out(capsys, "test", "pre_tool_call", "--accept-hooks")
    first, code, spent, *rest = shown.splitlines()
    assert (first, code) == (f"shell:1  {guard}", "  exit code: 2")
    assert spent.startswith("  time: ") and spent.endswith(" ms")
    assert rest == ["  stderr: not here", '  verdict: {"action":"block","message":"not here"}']
    out(capsys, "accept", "--all")
    assert "verdict" in out(capsys, "test", "pre_tool_call")
    assert "its matcher does not match read_file" in out(capsys, "test", "pre_tool_call", "--tool", "read_file")


@pytest.mark.parametrize("event", [name for name, spec in HOOKS.items() if not spec.needs_code])
def test_the_sample_event_has_every_field_of_the_contract(
    home: Path, workdir: Path, event: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(workdir)
    configure(home, f"  {event}: [{{command: cp /dev/stdin told.json}}]\n")
    out(capsys, "test", event, "--tool", "read_file", "--args", '{"path": "notes.txt"}', "--accept-hooks")
    told: dict[str, Any] = json.loads((workdir / "told.json").read_text())
    fields = {field.name for field in HOOKS[event].fields if field.always}
    assert told["extra"].keys() == fields - {"tool_name", "args", "session_id"}
    about_a_tool = "args" in fields
    assert told["tool_input"] == ({"path": "notes.txt"} if about_a_tool else None)
    assert told["tool_name"] == ("read_file" if about_a_tool else None)


def test_test_says_why_a_command_failed(home: Path, workdir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    configure(
        home,
        "  pre_tool_call: [{command: sleep 9, timeout: 0.1, on_error: deny}, {command: echo hi}, {command: nope}]\n",
    )
    shown = out(capsys, "test", "pre_tool_call", "--accept-hooks", code=1)
    assert "exit code: none (timeout)" in shown
    assert "failed: it was stopped after 0." in shown and "(the call would be blocked)" in shown
    assert "failed: it printed 'hi', which is not JSON" in shown
    assert "failed: it cannot be started: nope: No such file or directory (the turn would continue without it)" in shown


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["pre_tol_call"], "there is no hook 'pre_tol_call'; did you mean 'pre_tool_call'?"),
        (["pre_llm_call"], "no command is configured for pre_llm_call"),
        (["pre_tool_call", "--args", "{"], "--args is not JSON"),
        (["pre_tool_call", "--args", "[]"], "--args is a JSON list"),
    ],
)
def test_test_refuses_wrong_input(
    guard: str, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    assert message in error(capsys, "test", *arguments)


# -- spec -----------------------------------------------------------------------------------------------------------


def test_spec_is_the_contract_as_data(capsys: pytest.CaptureFixture[str]) -> None:
    document = json.loads(out(capsys, "spec", "--json"))
    assert document["schema_versions"] == {"observer": "hermes.observer.v1", "middleware": "hermes.middleware.v1"}
    assert [one["name"] for one in document["hooks"]] == list(HOOKS)
    assert [one["kind"] for one in document["middleware"]] == list(MIDDLEWARE)
    hook = next(one for one in document["hooks"] if one["name"] == "pre_tool_call")
    assert (hook["answers"], hook["live"]) == (True, "args")
    assert next(field for field in hook["fields"] if field["name"] == "args") == {
        "name": "args",
        "type": "dict",
        "meaning": "The arguments the tool runs with.",
        "safety": "raw",
        "always": True,
    }
    [pair] = [one for one in document["pairs"] if one["start"] == "subagent_start"]
    assert pair == {
        "start": "subagent_start",
        "ends": ["subagent_stop"],
        "key": ["child_session_id"],
        "may_repeat": False,
    }
    assert json.loads(out(capsys, "spec", "tool_execution", "--json"))["wraps"] is True


def test_spec_for_people(capsys: pytest.CaptureFixture[str]) -> None:
    overview = out(capsys, "spec")
    assert all(f"  {name} " in overview for name in (*HOOKS, *MIDDLEWARE))
    page = out(capsys, "spec", "post_approval_response")
    assert page.startswith("post_approval_response (hermes.observer.v1)\nwhen: ")
    assert "decided_by" in page and "(optional)" in page
    assert "did you mean 'pre_tool_call'?" in error(capsys, "spec", "pre_tol_call")


# -- chat -----------------------------------------------------------------------------------------------------------


def on_a_terminal(home: Path, cwd: Path, *arguments: str, answer: str) -> tuple[str, int]:
    """Run ``hermes`` on a pseudo-terminal and answer the question about a hook command, or interrupt it."""

    def act(process: TerminalProcess, terminal: int) -> None:
        if answer:
            os.write(terminal, answer.encode())
        else:
            threading.Thread(target=_interrupt, args=(process,), daemon=True).start()

    return run_on_terminal(home, cwd, *arguments, after="[N]o: ", act=act)


def _interrupt(process: TerminalProcess) -> None:
    """Press Ctrl-C as a person does: once more when nothing happens, as when it came in just before the read began."""
    while process.poll() is None:
        process.send_signal(signal.SIGINT)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(2)


BLOCKED_CALL = [tool_call("terminal", {"command": "touch harm"}), text("Done.")]


@pytest.mark.parametrize(
    ("answer", "runs", "kept"),
    [("y\n", True, True), ("Once\n", True, False), ("\n", False, False), ("\x04", False, False)],
)
def test_chat_asks_on_a_terminal(
    home: Path, workdir: Path, guard: str, answer: str, runs: bool, kept: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    with ScriptedProvider(BLOCKED_CALL) as provider:
        configure(home, f"  pre_tool_call: [{{command: {guard}, matcher: terminal}}]\n", provider.base_url)
        output, code = on_a_terminal(home, workdir, "chat", "-q", "go", answer=answer)
    assert code == 0
    assert f"for pre_tool_call:\n  {guard}\n  script: {workdir}/guard.sh\nRun it? " in output
    assert (workdir / "harm").exists() is not runs
    assert ("hook commands that were not accepted do not run" in output) is not runs
    assert ("  accepted  " in out(capsys, "list")) is kept


def test_a_changed_script_is_asked_about_again(
    home: Path, workdir: Path, guard: str, capsys: pytest.CaptureFixture[str]
) -> None:
    out(capsys, "accept", "--all")
    (workdir / "guard.sh").write_text("touch changed\n")
    with ScriptedProvider(BLOCKED_CALL) as provider:
        configure(home, f"  pre_tool_call: [{{command: {guard}}}]\n", provider.base_url)
        output, _ = on_a_terminal(home, workdir, "chat", "-q", "go", answer="n\n")
    assert "The script has changed since you accepted it on 2" in output
    assert not (workdir / "changed").exists()


def test_ctrl_c_at_the_question_ends_the_run(home: Path, workdir: Path, guard: str) -> None:
    output, code = on_a_terminal(home, workdir, "chat", "-q", "go", answer="")
    assert code == 130 and "Traceback" not in output and "Exception" not in output


@pytest.mark.parametrize("style", [["-Q"], ["--json"], []])
def test_away_from_a_terminal_one_line_says_how_to_accept(
    home: Path, workdir: Path, guard: str, style: list[str]
) -> None:
    with ScriptedProvider(BLOCKED_CALL) as provider:
        configure(home, f"  pre_tool_call: [{{command: {guard}}}]\n", provider.base_url)
        done = run_hermes("chat", "-q", "go", *style, home=home, cwd=workdir)
    warnings = [line for line in done.stderr.splitlines() if "hermes hooks accept --all" in line]
    assert done.returncode == 0 and len(warnings) == 1 and warnings[0].startswith("Warning: ")
    assert guard in warnings[0]
    assert (workdir / "harm").exists()
    if style == ["-Q"]:
        assert done.stderr.startswith("session_id: ") and done.stdout == "Done.\n"


@pytest.mark.parametrize("way", ["--accept-hooks", "HERMES_ACCEPT_HOOKS", ".env", "hooks_auto_accept", "accept"])
def test_ways_to_accept_without_a_question(home: Path, workdir: Path, guard: str, way: str) -> None:
    with ScriptedProvider(BLOCKED_CALL) as provider:
        extra = "hooks_auto_accept: true\n" if way == "hooks_auto_accept" else ""
        configure(home, f"  pre_tool_call: [{{command: {guard}}}]\n", provider.base_url, extra)
        if way == "accept":
            assert run_hermes("hooks", "accept", "--all", home=home, cwd=workdir).returncode == 0
        if way == ".env":
            (home / ".env").write_text("HERMES_ACCEPT_HOOKS=yes\n")
            (home / ".env").chmod(0o600)
        env = {"HERMES_ACCEPT_HOOKS": "1"} if way == "HERMES_ACCEPT_HOOKS" else {}
        flags = ["--accept-hooks"] if way == "--accept-hooks" else []
        done = run_hermes("chat", "-q", "go", "-Q", *flags, home=home, cwd=workdir, env=env)
    assert (done.returncode, done.stdout) == (0, "Done.\n")
    assert "accepted" not in done.stderr
    assert not (workdir / "harm").exists()
    assert (home / "shell-hooks-allowlist.json").exists() is (way == "accept")


def test_a_command_that_cannot_be_used_stops_the_run_unless_the_configuration_is_ignored(
    home: Path, workdir: Path
) -> None:
    configure(home, "  pre_tool_call: [{command: ls, matcher: '('}]\n")
    done = run_hermes("chat", "-q", "go", home=home, cwd=workdir)
    assert done.returncode == 1 and "hooks.pre_tool_call[0].matcher: found '('" in done.stderr
    done = run_hermes("chat", "-q", "go", "--ignore-user-config", home=home, cwd=workdir)
    assert "no model is set up" in done.stderr and "matcher" not in done.stderr


def test_a_signal_during_a_hook_command_ends_both(home: Path, workdir: Path) -> None:
    os.mkfifo(workdir / "fifo")
    (workdir / "slow.sh").write_text("echo $$ > fifo\nsleep 60\n")
    with ScriptedProvider(BLOCKED_CALL) as provider:
        configure(home, f"  pre_tool_call: [{{command: sh {workdir}/slow.sh}}]\n", provider.base_url)
        with subprocess.Popen(
            hermes_command("chat", "-q", "go", "-Q", "--accept-hooks"),
            cwd=workdir,
            env=hermes_environment(home),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        ) as process:
            pid = outer_pid(int((workdir / "fifo").read_text()), workdir)
            process.send_signal(signal.SIGINT)
            _, errors = process.communicate(timeout=60)
    assert process.returncode == 130 and b"Interrupted" in errors
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
