"""Verdicts on command lines and file writes, and the list of commands in a command line."""

from __future__ import annotations

import os
from pathlib import Path

from hermes.policy.call import Call
from hermes.policy.paths import PathContext
from hermes.policy.rules import BY_KEY
from hermes.policy.shell.marks import shown
from hermes.policy.shell.reader import Shell, TooComplex
from hermes.policy.shell.state import ShellState, starting_variables
from hermes.policy.shell.syntax import LONGEST, is_deceptive, readings
from hermes.policy.verdict import Finding, Findings, Verdict


def judge_command(
    command: str,
    *,
    cwd: Path | str | None = None,
    home: Path | str | None = None,
    hermes_home: Path | str | None = None,
) -> Verdict:
    """The verdict on a shell command, by static analysis: runs nothing and reads no files.

    ``cwd`` and ``home`` default to those of this process, ``hermes_home`` to ``.hermes`` in the home.
    """
    findings = Findings()
    if "\0" in command or len(command) > LONGEST:
        findings.add("unreadable", command)
    if is_deceptive(command):
        findings.add("hidden-text", command)
    for text in readings(command):
        try:
            analyse(text[: 4 * LONGEST], _path_context(cwd, home, hermes_home), findings)
        except Exception:  # a bug in the analysis must neither allow a command nor end a turn
            findings.add("unreadable", text)
    return findings.verdict()


def analyse(text: str, paths: PathContext, findings: Findings) -> None:
    """Add the findings for one reading of a command."""
    try:
        Shell(ShellState(paths, starting_variables(paths)), findings).read(text)
    except (TooComplex, RecursionError):
        findings.add("unreadable", text)


def _path_context(cwd: Path | str | None, home: Path | str | None, hermes_home: Path | str | None) -> PathContext:
    own = (str(home) if home is not None else os.path.expanduser("~")).rstrip("/")  # noqa: PTH111
    return PathContext(
        cwd=str(cwd) if cwd is not None else os.getcwd(),  # noqa: PTH109
        home=own or "/",
        hermes_home=(str(hermes_home) if hermes_home is not None else f"{own}/.hermes").rstrip("/"),
    )


def commands_in(command: str, *, cwd: Path | str) -> list[str]:
    """Every program that would run, with its expanded arguments: wrappers and the wrapped programs alike."""
    home = os.path.expanduser("~").rstrip("/") or "/"  # noqa: PTH111 - a home need not exist
    paths = PathContext(cwd=str(cwd), home=home, hermes_home="")
    found: list[str] = []
    for text in readings(command):
        shell = _CommandLister(ShellState(paths, starting_variables(paths)), found)
        try:
            shell.read(text[:LONGEST])
        except (TooComplex, RecursionError):
            continue  # keep what was understood
    return list(dict.fromkeys(found))


class _CommandLister(Shell):
    """A shell that lists the commands instead of checking rules."""

    def __init__(self, state: ShellState, found: list[str]) -> None:
        super().__init__(state, Findings())
        self._listed = found

    def check(self, call: Call) -> None:
        if call.words and not self.state.only_hardline:
            # The folder of a program does not matter.
            self._listed.append(shown(" ".join((call.program, *call.args))))

    def is_hardline(self, words: list[str], like: Call) -> bool:
        return False  # mentioned, not run


def judge_write(path: str, *, hermes_home: Path | str) -> Finding | None:
    """The finding for a write to a file with that absolute path, if any."""
    home = os.path.expanduser("~").rstrip("/") or "/"  # noqa: PTH111 - a home need not exist
    key = PathContext(cwd="/", home=home, hermes_home=str(hermes_home)).sensitive_kind(path)
    return None if key is None else Finding(key, BY_KEY[key].description, path)
