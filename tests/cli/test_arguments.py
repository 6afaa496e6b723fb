"""Mistyped commands, actions and options: one line that names the nearest one."""

from __future__ import annotations

import pytest

from hermes.cli.main import main


@pytest.mark.parametrize(
    ("line", "error"),
    [
        ("sessions lst", "unknown action 'lst'; did you mean 'list'? 'hermes sessions --help' shows what is allowed."),
        ("sessions foo", "unknown action 'foo'; allowed: list, show, "),
        ("chat --queri x", "unknown option '--queri'; did you mean '--query'?"),
        ("sessions show x --jsno", "unknown option '--jsno'; did you mean '--json'?"),
        ("completion csh", "unknown shell 'csh'; did you mean 'zsh'?"),
        ("sessions show", "the following arguments are required: ID. 'hermes sessions show --help'"),
        ("usage now", "unexpected argument: now."),
        ("sessions show x --jsno=1", "unknown option '--jsno=1'; did you mean '--json'?"),
    ],
)
def test_a_wrong_argument_is_one_line(capsys: pytest.CaptureFixture[str], line: str, error: str) -> None:
    assert main(line.split()) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.startswith(f"Error: {error}") and len(err.splitlines()) == 1
