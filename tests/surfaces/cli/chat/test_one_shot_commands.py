"""``hermes chat --query '/command'`` as a person or a script runs it: real processes against a scripted model."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from hermes.testing import ScriptedProvider, text
from support import run_hermes, write_config


def test_a_command_is_answered_without_a_model_or_a_session(home: Path, workdir: Path) -> None:
    home.mkdir()  # nothing is set up
    done = run_hermes("chat", "-q", "/help", home=home, cwd=workdir)
    assert done.returncode == 0 and "/undo [N]" in done.stdout and done.stderr == ""
    done = run_hermes("chat", "-q", "/sesions", home=home, cwd=workdir)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "Error: there is no command /sesions; did you mean 'sessions'?\n"
    assert not (home / "state.db").exists()


def test_commands_about_a_session_work_on_the_one_that_is_resumed(home: Path, workdir: Path) -> None:
    with ScriptedProvider([text("Paris."), text("Lima."), text("Quito.")]) as provider:
        write_config(home, provider.base_url)
        run_hermes("chat", "-Q", "-q", "France?", home=home, cwd=workdir)
        run_hermes("chat", "-Q", "-c", "-q", "Peru?", home=home, cwd=workdir)
        status = run_hermes("chat", "-c", "-q", "/status", home=home, cwd=workdir)
        assert "Title      France?" in status.stdout
        undone = run_hermes("chat", "-c", "-q", "/undo", home=home, cwd=workdir)
        assert undone.stdout.startswith("Took back 1 turn:\n  Peru?\n")
        again = run_hermes("chat", "-Q", "-c", "-q", "/retry", home=home, cwd=workdir)
        assert (again.returncode, again.stdout) == (0, "Asking again: France?\nQuito.\n")
    told = [[message["content"] for message in request.messages[1:]] for request in provider.requests]
    assert told == [["France?"], ["France?", "Paris.", "Peru?"], ["France?"]]
    shown = run_hermes("sessions", "show", status.stdout.split()[1], home=home, cwd=workdir)
    assert shown.stdout.count(", undone ---") == 2 and "Turns    1, completed" in shown.stdout
    exported = run_hermes("sessions", "export", status.stdout.split()[1], "-f", "markdown", home=home, cwd=workdir)
    assert exported.stdout.count("> undone: ") == 2
    whole = run_hermes("trace", "verify", "--all", home=home, cwd=workdir)
    assert whole.returncode == 0, whole.stdout


def test_a_branch_is_a_session_of_its_own(home: Path, workdir: Path) -> None:
    with ScriptedProvider([text("Paris."), text("Lima.")]) as provider:
        write_config(home, provider.base_url)
        run_hermes("chat", "-Q", "-q", "France?", home=home, cwd=workdir)
        made = run_hermes("chat", "-c", "-q", "/branch Elsewhere", home=home, cwd=workdir)
        branch = made.stdout.split()[3].rstrip(":")
        run_hermes("chat", "-Q", "--resume", branch, "-q", "Peru?", home=home, cwd=workdir)
    listing = run_hermes("sessions", "list", home=home, cwd=workdir).stdout.splitlines()
    assert [line.split()[-2:] for line in listing[1:]] == [["2", "Elsewhere"], ["1", "France?"]]
    shown = run_hermes("sessions", "show", branch, home=home, cwd=workdir)
    assert "Branch   of 20" in shown.stdout
    whole = run_hermes("trace", "verify", "--all", home=home, cwd=workdir)
    assert whole.returncode == 0, whole.stdout


def test_what_needs_a_prompt_says_so(home: Path, workdir: Path) -> None:
    home.mkdir()
    done = run_hermes("chat", "-q", "/yolo on", home=home, cwd=workdir)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "Error: /yolo needs an interactive prompt: start one with 'hermes chat'\n"


def test_a_path_is_a_message(home: Path, workdir: Path) -> None:
    with ScriptedProvider([text("Yes."), text("Yes.")]) as provider:
        write_config(home, provider.base_url)
        for line in ("/etc/hosts: is it long?", "/tmp is full"):
            done = run_hermes("chat", "-Q", "-q", line, home=home, cwd=workdir)
            assert done.stdout == "Yes.\n"
    assert [request.last_user_text for request in provider.requests] == ["/etc/hosts: is it long?", "/tmp is full"]


@pytest.mark.parametrize("point", [1, 2])
def test_killed_in_an_undo_the_session_is_whole(home: Path, workdir: Path, point: int) -> None:
    with ScriptedProvider([text("Paris."), text("Lima.")]) as provider:
        write_config(home, provider.base_url)
        run_hermes("chat", "-Q", "-q", "France?", home=home, cwd=workdir)
        crash = {"HERMES_CRASH_AT": str(point)}
        dead = run_hermes("chat", "-c", "-q", "/undo", home=home, cwd=workdir, env=crash)
        assert dead.returncode == -signal.SIGKILL
        run_hermes("chat", "-Q", "-c", "-q", "Peru?", home=home, cwd=workdir)
    told = [message["content"] for message in provider.requests[1].messages[1:]]
    assert told == (["France?", "Paris.", "Peru?"] if point == 1 else ["Peru?"])
    whole = run_hermes("trace", "verify", "--all", home=home, cwd=workdir)
    assert whole.returncode == 0, whole.stdout


INJECTS = """
def register(ctx):
    ctx.register_command("go", lambda raw: f"Started: {ctx.inject_message('Work on ' + raw)}")
"""


def test_a_message_that_a_command_injects_is_the_turn(home: Path, workdir: Path) -> None:
    folder = home / "plugins" / "starter"
    folder.mkdir(parents=True)
    (folder / "__init__.py").write_text(INJECTS)
    (folder / "plugin.yaml").write_text("")
    with ScriptedProvider([text("Worked.")]) as provider:
        write_config(home, provider.base_url, "plugins:\n  enabled: [starter]\n")
        done = run_hermes("chat", "-Q", "-q", "/go it", home=home, cwd=workdir)
    assert (done.returncode, done.stdout) == (0, "Started: True\nWorked.\n"), done.stderr
    assert provider.requests[0].messages[-1]["content"] == "Work on it"


def test_a_message_that_a_command_injects_at_the_prompt_starts_a_turn(home: Path, workdir: Path) -> None:
    folder = home / "plugins" / "starter"
    folder.mkdir(parents=True)
    (folder / "__init__.py").write_text(INJECTS)
    (folder / "plugin.yaml").write_text("")
    with ScriptedProvider([text("Worked.")]) as provider:
        write_config(home, provider.base_url, "plugins:\n  enabled: [starter]\n")
        done = run_hermes("chat", home=home, cwd=workdir, stdin="/go it\n")
    assert done.returncode == 0, done.stderr
    assert "Started: True" in done.stdout
    assert "Worked." in done.stdout
    assert provider.requests[0].messages[-1]["content"] == "Work on it"
