"""Mistyped commands, actions and options: one line that names the nearest one."""

from __future__ import annotations

import argparse
from typing import cast

import pytest

from hermes.surfaces.cli.commands import COMMANDS
from hermes.surfaces.cli.main import load_command, main


@pytest.mark.parametrize(
    ("line", "error"),
    [
        ("sessions lst", "unknown action 'lst'; did you mean 'list'? See 'hermes sessions --help'."),
        ("sessions foo", "unknown action 'foo'; allowed: list, show, "),
        ("chat --queri x", "unknown option '--queri'; did you mean '--query'?"),
        ("sessions show x --jsno", "unknown option '--jsno'; did you mean '--json'?"),
        ("completion csh", "unknown shell 'csh'; did you mean 'zsh'?"),
        ("sessions export", "the following arguments are required: ID. See 'hermes sessions export --help'."),
        ("audit", "an action is missing; allowed: seal, export, verify. See 'hermes audit --help'."),
        ("usage now", "unexpected argument: now."),
        ("sessions show x --jsno=1", "unknown option '--jsno=1'; did you mean '--json'?"),
        ("--versoin", "unknown option '--versoin'; did you mean '--version'?"),
        ("chat --modle x", "unknown option '--modle'; did you mean '--model'?"),
        ("chat --mode plann", "--mode: unknown value 'plann'; did you mean 'plan'?"),
        ("trace export --to oltp", "--to: unknown value 'oltp'; did you mean 'otlp'?"),
        ("skills instal", "unknown action 'instal'; did you mean 'add'?"),
        ("mcp rm", "unknown action 'rm'; did you mean 'remove'?"),
        ("sessions ls", "unknown action 'ls'; did you mean 'list'?"),
        ("gateway start", "unknown action 'start'; did you mean 'run'?"),
    ],
)
def test_a_wrong_argument_is_one_line(capsys: pytest.CaptureFixture[str], line: str, error: str) -> None:
    assert main(line.split()) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.startswith(f"Error: {error}") and len(err.splitlines()) == 1


def test_every_action_is_described_by_a_sentence_and_every_argument_explained() -> None:
    parsers: list[argparse.ArgumentParser] = [load_command(name)[1] for name in COMMANDS]
    for parser in parsers:
        for action in parser._actions:  # pyright: ignore[reportPrivateUsage]
            if isinstance(action, argparse._SubParsersAction):  # pyright: ignore[reportPrivateUsage]
                parsers += {
                    id(made): made for made in cast("dict[str, argparse.ArgumentParser]", action.choices).values()
                }.values()
            else:
                assert action.help, f"{parser.prog} {action.dest}"
        description = parser.description or ""
        assert description[:1].isupper() and description.endswith((".", ":")), parser.prog
