"""What a command line comes down to, and files that are written without one. Nothing here is run."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes.policy.judge import commands_in, judge_write


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("docker ps", "docker ps"),
        ("cd app && sudo docker ps", "docker ps"),
        ("/usr/bin/docker ps", "docker ps"),
        ("bash -c 'docker ps'", "docker ps"),
        ("d=docker; $d ps", "docker ps"),
        ("echo $(docker ps)", "docker ps"),
        ("find . -exec docker ps \\;", "docker ps"),
        ('"dock"er  \\\n ps', "docker ps"),
        ("echo ZG9ja2VyIHBz | base64 -d | sh", "docker ps"),
    ],
)
def test_the_command_inside_is_listed(line: str, expected: str) -> None:
    assert expected in commands_in(line, cwd="/home/you/desk")


@pytest.mark.parametrize(
    "line", ["echo 'docker ps'", "git commit -m 'docker ps'", "# docker ps", "grep -r 'docker ps' ."]
)
def test_what_is_only_mentioned_is_not(line: str) -> None:
    assert not any(command.startswith("docker") for command in commands_in(line, cwd="/home/you/desk"))


@given(st.text())
def test_any_text_can_be_listed(line: str) -> None:
    assert all(isinstance(command, str) for command in commands_in(line, cwd="/home/you/desk"))


@pytest.mark.parametrize(
    ("path", "rule"),
    [
        ("/home/you/desk/notes.txt", None),
        ("/home/you/desk/.env", "write-env-file"),
        ("/home/you/desk/.env.example", None),
        ("/home/me/.ssh/config", "write-ssh"),
        ("/home/me/.bashrc", "write-shell-startup"),
        ("/home/me/.hermes/config.yaml", "write-hermes-config"),
        ("/home/me/.hermes/plugins/mine/__init__.py", "write-hermes-config"),
        ("/home/me/.hermes/desk/notes.txt", None),
        ("/home/me/.hermes/principals/alice/notes.txt", "write-hermes-config"),
        ("/home/me/.hermes/principals/alice/workspace/notes.txt", None),
    ],
)
def test_a_file_that_is_written_falls_under_a_rule(path: str, rule: str | None) -> None:
    found = judge_write(path, hermes_home="/home/me/.hermes")
    assert (found and found.rule) == rule
    assert found is None or (found.part == path and found.description)
