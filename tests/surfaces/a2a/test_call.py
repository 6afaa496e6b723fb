"""``hermes a2a call``: the answer on stdout, the rest on stderr, and an exit code that says how it went."""

from __future__ import annotations

import os
import pty
import select
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import msgspec
import pytest

from hermes.surfaces.cli.main import main
from support.a2a_echo import Remote, serving_echo
from support.waiting import HANG

Capture = pytest.CaptureFixture[str]


def call(*arguments: str) -> int:
    return main(["a2a", "call", *arguments])


def process(*arguments: str, stdin: int = subprocess.DEVNULL, stderr: int = subprocess.PIPE) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "hermes", "a2a", "call", *arguments]
    return subprocess.Popen(command, stdin=stdin, stdout=subprocess.PIPE, stderr=stderr, text=True)


def test_the_answer_is_on_stdout_and_the_rest_on_stderr(capsys: Capture) -> None:
    with serving_echo() as remote:
        assert call(remote.url, "echo hello there") == 0
    out, err = capsys.readouterr()
    assert out == "hello there \n"
    assert err.startswith("· thinking\n(continue this conversation with --context ") and err.endswith(")\n")


@pytest.mark.parametrize("options", [[], ["--no-stream"]])
def test_one_document_for_programs(capsys: Capture, options: list[str]) -> None:
    with serving_echo() as remote:
        assert call(remote.url, "echo hello", "--json", *options) == 0
    out, err = capsys.readouterr()
    document = msgspec.json.decode(out)
    assert document["task_id"] and document["context_id"] and err == ""
    assert (document["agent"], document["state"], document["text"]) == (remote.url, "completed", "hello ")


def test_a_context_continues_its_conversation(capsys: Capture) -> None:
    with serving_echo() as remote:
        call(remote.url, "echo one", "--json")
        context = msgspec.json.decode(capsys.readouterr().out)["context_id"]
        call(remote.url, "echo two", "--json", "--context", context)
        assert msgspec.json.decode(capsys.readouterr().out)["context_id"] == context


def test_an_unanswered_question_shows_the_command_to_answer_it(capsys: Capture) -> None:
    with serving_echo() as remote:
        assert call(remote.url, "ask which one?") == 3
        err = capsys.readouterr().err
        assert "which one?\n" in err
        command = shlex.split(err.split("Send it with: hermes a2a call ")[1])
        assert (command[:2], command[3]) == ([remote.url, "--task"], "your answer")
        assert call(*command[:3], "the red one") == 0
    assert capsys.readouterr().out == "you said the red one \n"


@pytest.mark.parametrize("choice", ["approve", "deny"])
def test_an_approval_is_given_at_once_or_later(capsys: Capture, choice: str) -> None:
    with serving_echo() as remote:
        assert call(remote.url, "approval", f"--{choice}") == 0
        assert call(remote.url, "approval") == 3
        err = capsys.readouterr().err
        assert "May I?" in err
        task = err.split("--task ")[1].split()[0]
        assert call(remote.url, "--task", task, choice) == 0
    assert remote.answers == [(choice, {"approval_id": "a-1", "choice": choice})] * 2


def test_a_person_at_a_terminal_is_asked() -> None:
    ours, theirs = pty.openpty()
    with serving_echo() as remote, process(remote.url, "ask which one?", stdin=theirs, stderr=theirs) as calling:
        os.close(theirs)
        _read_until(ours, "answer> ")
        os.write(ours, b"the blue one\n")
        _read_until(ours, "continue this conversation with ")
        assert calling.stdout is not None and calling.stdout.read() == "you said the blue one \n"
        assert calling.wait(60) == 0
        os.close(ours)  # earlier, and its last line could not be written


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_interrupting_the_call_cancels_the_task(number: signal.Signals, code: int) -> None:
    with serving_echo() as remote, process(remote.url, "wait") as calling:
        assert remote.working.wait(60)
        assert calling.stdout is not None and calling.stdout.read(6) == "so far"
        calling.send_signal(number)
        assert calling.wait(60) == code
        assert remote.cancelled.is_set()
        assert calling.stderr is not None and "Traceback" not in calling.stderr.read()


def test_an_interrupt_before_the_first_word_cancels_the_task_too() -> None:
    with serving_echo() as remote, process(remote.url, "wait", "--no-stream") as calling:
        assert remote.working.wait(60)
        calling.send_signal(signal.SIGINT)
        assert calling.wait(60) == 130
        assert remote.cancelled.wait(60)


def test_a_failure_is_reported_as_text(capsys: Capture) -> None:
    with serving_echo() as remote:
        assert call(remote.url, "fail no luck today") == 1
    assert "The agent's task is failed: no luck today" in capsys.readouterr().err


def test_control_characters_of_the_agent_do_not_reach_the_terminal(capsys: Capture) -> None:
    with serving_echo() as remote:
        call(remote.url, "echo \x1b[2Jboo\x1b]0;title\x07")
    assert "\x1b" not in capsys.readouterr().out


def test_a_command_that_is_shown_can_be_copied_whatever_names_the_agent_gives(capsys: Capture) -> None:
    name = "x; touch y"
    with serving_echo() as remote:
        call(remote.url, "echo hi", "--context", name)
    assert f"(continue this conversation with --context {shlex.quote(name)})" in capsys.readouterr().err


def test_a_token_comes_from_the_environment(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ECHO_TOKEN", "open-sesame-123")
    with serving_echo(Remote(token="open-sesame-123")) as remote:
        assert call(remote.url, "echo hi") == 1
        assert "wants a token" in capsys.readouterr().err
        assert call(remote.url, "echo open-sesame-123", "--token-env", "ECHO_TOKEN") == 0
        assert "open-sesame" not in capsys.readouterr().out
        assert call(remote.url, "echo hi", "--token-env", "NO_TOKEN") == 1
        assert "--token-env: NO_TOKEN is not set" in capsys.readouterr().err


def test_an_agent_of_the_configuration_has_a_name_and_a_token(capsys: Capture, home: Path) -> None:
    with serving_echo(Remote(token="open-sesame-123")) as remote:
        home.mkdir()
        (home / ".env").write_text("ECHO_TOKEN=open-sesame-123\n")
        agents = f"a2a:\n  agents:\n    echo:\n      url: {remote.url}\n      token_env: ECHO_TOKEN\n"
        (home / "config.yaml").write_text(agents)
        try:
            assert call("echo", "echo hello") == 0
            assert call("ecko", "echo hello") == 1
        finally:
            os.environ.pop("ECHO_TOKEN", None)
    assert "did you mean 'echo'?" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["http://127.0.0.1:1", " "], "the message is empty"),
        (["http://127.0.0.1:1", "hi"], "cannot be reached"),
        (["ftp://127.0.0.1", "hi"], "starts with http:// or https://"),
        (["http://me:secret@127.0.0.1", "hi"], "holds a user name or a password"),
        (["nobody", "hi"], "no agent 'nobody' under a2a.agents"),
    ],
)
def test_what_cannot_be_called(capsys: Capture, arguments: list[str], said: str) -> None:
    assert call(*arguments) == 1
    err = capsys.readouterr().err
    assert said in err and "secret" not in err


def test_an_agent_that_never_answers_is_given_up(capsys: Capture) -> None:
    with serving_echo() as remote:
        assert call(remote.url, "wait", "--timeout", "0.3") == 1
    assert "was silent for 0.3 s" in capsys.readouterr().err


def _read_until(descriptor: int, text: str) -> str:
    seen, deadline = "", time.monotonic() + HANG
    while text not in seen:
        assert select.select([descriptor], [], [], max(deadline - time.monotonic(), 0))[0], seen
        seen += os.read(descriptor, 4_096).decode()
    return seen
