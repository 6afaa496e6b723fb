"""The verdict on a command line."""

from __future__ import annotations

import os
from pathlib import Path

from hermes.policy.findings import Findings
from hermes.policy.paths import Place
from hermes.policy.shell.reader import Shell, TooMuch
from hermes.policy.shell.state import State, starting_variables
from hermes.policy.shell.syntax import LONGEST, is_deceptive, readings
from hermes.policy.verdict import Verdict


def judge_command(
    command: str,
    *,
    cwd: Path | str | None = None,
    home: Path | str | None = None,
    hermes_home: Path | str | None = None,
) -> Verdict:
    """What a shell command would do, and whether it may: nothing is run and no file is looked at.

    ``cwd`` and ``home`` are those of this process unless told, ``hermes_home`` is ``.hermes`` in the home.
    """
    findings = Findings()
    if "\0" in command or len(command) > LONGEST:
        findings.add("unreadable", command)
    if is_deceptive(command):
        findings.add("hidden-text", command)
    for text in readings(command):
        try:
            examine(text[: 4 * LONGEST], _place(cwd, home, hermes_home), findings)
        except Exception:  # a mistake in here must neither let a command through nor end a turn
            findings.add("unreadable", text)
    return findings.verdict()


def examine(text: str, place: Place, findings: Findings) -> None:
    """Take in what is found in one reading of a command."""
    try:
        Shell(State(place, starting_variables(place)), findings).read(text)
    except (TooMuch, RecursionError):
        findings.add("unreadable", text)


def _place(cwd: Path | str | None, home: Path | str | None, hermes_home: Path | str | None) -> Place:
    own = (str(home) if home is not None else os.path.expanduser("~")).rstrip("/")  # noqa: PTH111
    return Place(
        cwd=str(cwd) if cwd is not None else os.getcwd(),  # noqa: PTH109
        home=own or "/",
        hermes_home=(str(hermes_home) if hermes_home is not None else f"{own}/.hermes").rstrip("/"),
    )
