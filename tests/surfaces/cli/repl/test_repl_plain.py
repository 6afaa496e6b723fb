"""The prompt without a screen: pipes, simple terminals, closed outputs."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest

from hermes.testing import ScriptedProvider, failure, hanging, text, tool_call
from support import hermes_command, hermes_environment, is_running, run_hermes, start_hermes, write_config
from support.repl_terminal import CTRL_C, CTRL_D, ReplTerminal


def test_each_line_of_a_pipe_is_a_message_and_the_last_needs_no_end(home: Path, workdir: Path) -> None:
    script = [tool_call("terminal", {"command": "true"}), text("**One.**"), text("Two."), text("Three.")]
    with ScriptedProvider(script) as provider:
        write_config(home, provider.base_url)
        done = run_hermes(home=home, cwd=workdir, stdin="first\n\nsecond \\\nline\r\n/title A pipe\n/nope\nthïrd")
    assert done.returncode == 0, done.stderr
    assert done.stdout == "**One.**\nTwo.\nTitle: A pipe\nThree.\n"
    assert [request.last_user_text for request in provider.requests[1:]] == ["first", "second \nline", "thïrd"]
    first, *_usage, last = done.stderr.splitlines()
    assert first.startswith("✓ terminal true  ") and "session 20" in last
    assert "Error: there is no command /nope" in done.stderr
    assert "\x1b" not in done.stdout + done.stderr and "> " not in done.stderr


def test_a_pipe_goes_on_after_a_failure_and_says_so_in_the_end(home: Path, workdir: Path) -> None:
    with ScriptedProvider([failure(401, "no"), text("Two.")]) as provider:
        write_config(home, provider.base_url)
        done = run_hermes("chat", home=home, cwd=workdir, stdin="first\nsecond\n")
    assert (done.returncode, done.stdout) == (1, "Two.\n")
    assert "Error: " in done.stderr


def test_a_pipe_ends_at_quit_and_nobody_is_asked(home: Path, workdir: Path) -> None:
    script = [tool_call("terminal", {"command": "rm -rf ./nothing-here"}), text("Not allowed."), text("never")]
    with ScriptedProvider(script) as provider:
        write_config(home, provider.base_url)
        done = run_hermes(home=home, cwd=workdir, stdin="tidy up\n/quit\nmore\n")
    assert (done.returncode, done.stdout) == (0, "Not allowed.\n")
    assert "blocked" in done.stderr and len(provider.requests) == 2


@pytest.mark.parametrize("arguments", [[], ["chat", "--quiet"], ["chat", "--json"]])
def test_an_empty_pipe_is_a_mistake(home: Path, workdir: Path, arguments: list[str]) -> None:
    write_config(home, "http://127.0.0.1:9")
    done = run_hermes(*arguments, home=home, cwd=workdir, stdin="\n")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("Error: give a message: hermes chat --query TEXT")


def test_a_reader_who_leaves_ends_it(home: Path, workdir: Path) -> None:
    with ScriptedProvider([text("line\n" * 50_000, chunks=100), text("never")]) as provider:
        write_config(home, provider.base_url)
        command = " ".join(hermes_command())
        done = subprocess.run(
            ["bash", "-c", f"printf 'a\\nb\\n' | {command} 2>errors | head -n 1; echo ${{PIPESTATUS[1]}}"],
            cwd=workdir,
            env=hermes_environment(home),
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    assert done.stdout == "line\n141\n"
    assert "Traceback" not in (workdir / "errors").read_text()
    assert len(provider.requests) == 1


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_a_pipe(home: Path, workdir: Path, number: signal.Signals, code: int) -> None:
    reader, writer = os.pipe()
    with ScriptedProvider([hanging()]) as provider:
        write_config(home, provider.base_url)
        process = subprocess.Popen(
            hermes_command(),
            stdin=reader,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=workdir,
            env=hermes_environment(home),
        )
        os.close(reader)
        os.write(writer, b"first\nsecond\n")
        provider.wait_for_request()
        process.send_signal(number)
        stdout, stderr = process.communicate(timeout=60)
        os.close(writer)
    assert (process.returncode, stdout) == (code, b"")
    assert b"[interrupted]" in stderr and b"Traceback" not in stderr
    assert len(provider.requests) == 1


@pytest.mark.parametrize("env", [{"TERM": "dumb"}, {"HERMES_PLAIN": "1"}], ids=["dumb", "plain"])
def test_a_simple_terminal_gets_lines_and_no_escape_codes(home: Path, workdir: Path, env: dict[str, str]) -> None:
    script = [text("# One"), tool_call("terminal", {"command": "rm -rf ./nothing-here; echo ok"}), text("Two.")]
    with ScriptedProvider(script) as provider:
        write_config(home, provider.base_url)
        with ReplTerminal(home, workdir, env=env, columns=60) as terminal:
            terminal.type("first\n")
            terminal.wait_for("# One")
            terminal.wait_until(lambda: terminal.rows.count(">") == 1, "a new prompt")
            terminal.type("second\n")
            terminal.wait_for("allow?")
            terminal.type("yes hm\n")
            terminal.wait_for("answer o (once)")
            terminal.type("o\n")
            terminal.wait_for("Two.")
            terminal.wait_until(lambda: terminal.text.endswith(">"), "a new prompt")
            terminal.type(CTRL_D)
            assert terminal.end() == 0
    assert b"\x1b" not in terminal.raw
    assert "Continue with: hermes chat --resume" in terminal.text


def test_ctrl_c_on_a_simple_terminal_stops_and_then_leaves(home: Path, workdir: Path) -> None:
    call = tool_call("terminal", {"command": "echo $$ > pid; sleep 100"})
    with ScriptedProvider([call, text("Next.")]) as provider:
        write_config(home, provider.base_url, 'terminal: {sandbox: "off"}\n')  # the command has another number in it
        with ReplTerminal(home, workdir, env={"TERM": "dumb"}) as terminal:
            terminal.type("go\n")
            pid = workdir / "pid"
            terminal.wait_until(lambda: pid.exists() and pid.read_text().endswith("\n"))
            terminal.type("next\n")
            terminal.wait_for("Queued (1 message waiting)")
            terminal.type(CTRL_C)
            terminal.wait_for("[interrupted]")
            terminal.wait_for("Next.")
            terminal.wait_until(lambda: terminal.text.endswith("\n>"), "a new prompt")
            terminal.process.send_signal(signal.SIGINT)
            assert terminal.end() == 130
    assert not is_running(int(pid.read_text()))


def test_resume_without_a_message_still_finishes_one_turn_where_nobody_types(home: Path, workdir: Path) -> None:
    with ScriptedProvider([hanging(), text("Finished.")]) as provider:
        write_config(home, provider.base_url)
        process = start_hermes("-q", "slow", home=home, cwd=workdir)
        provider.wait_for_request()
        process.send_signal(signal.SIGINT)
        process.wait(60)
        done = run_hermes("-c", home=home, cwd=workdir, stdin="not a message\n")
    assert (done.returncode, done.stdout) == (0, "Finished.\n")
