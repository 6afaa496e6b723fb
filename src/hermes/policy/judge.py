"""Verdicts on command lines, on input for programs and on files, and the list of commands in a command line."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from hermes.policy.budget import StepBudget, TooComplex
from hermes.policy.call import Call
from hermes.policy.paths import PathContext
from hermes.policy.places import Place
from hermes.policy.programs.readers import changes_nothing, kind_of_change
from hermes.policy.rules import BY_KEY
from hermes.policy.scripts import ScriptReader
from hermes.policy.shell.flow import TERMINAL, Flow, text_flow
from hermes.policy.shell.marks import shown
from hermes.policy.shell.reader import Shell
from hermes.policy.shell.state import START_PATH, ShellState, starting_variables
from hermes.policy.shell.syntax import LONGEST, is_deceptive, readings
from hermes.policy.verdict import Finding, Findings, Verdict, part_of


def judge_command(
    command: str,
    *,
    cwd: Path | str | None = None,
    home: Path | str | None = None,
    hermes_home: Path | str | None = None,
    scripts: ScriptReader | None = None,
    budget: StepBudget | None = None,
    place: Place | None = None,
) -> Verdict:
    """The verdict on a shell command, by static analysis: runs nothing.

    ``cwd`` and ``home`` default to those of this process, ``hermes_home`` to ``.hermes`` in the home. ``scripts`` reads
    the scripts that the command runs; without it no file is read. ``budget`` counts the steps of the analysis.
    ``place`` is where it may write unasked; without it that is ``cwd``.
    """
    findings = Findings()
    paths = _path_context(cwd, home, hermes_home)
    paths.place = place or Place(paths.cwd)
    harmless = _judge(command, paths, findings, TERMINAL, scripts, budget or StepBudget())
    return findings.verdict(harmless=harmless)


def judge_input(
    data: str,
    command: str,
    *,
    cwd: Path | str | None = None,
    home: Path | str | None = None,
    hermes_home: Path | str | None = None,
) -> Verdict:
    """The verdict on text that is typed into a running ``command``; what is wrong with the command itself is left out.

    Text for a shell is a script, text for an interpreter is code, and text for any other program is harmless.
    """
    paths = _path_context(cwd, home, hermes_home)
    before, after = Findings(), Findings()
    if is_deceptive(data):
        after.add("hidden-text", data)
    if "\0" in data or len(data) > LONGEST:
        after.add("unreadable", data)
    _judge(command, paths, before, TERMINAL, None, StepBudget())
    for text in readings(data):
        _judge(command, paths, after, text_flow(text[:LONGEST]), None, StepBudget())
    return after.without(before).verdict()


def reads_commands(command: str) -> bool:
    """Whether a running command takes its input as commands or code."""
    return any(
        judge_input(probe, command, cwd="/").decision != "allow" for probe in ("rm -rf /\n", "eval(system('id'))\n")
    )


def _judge(
    command: str, paths: PathContext, findings: Findings, stdin: Flow, scripts: ScriptReader | None, budget: StepBudget
) -> bool:
    """Add the findings for a command. Whether every program in it is known to change nothing."""
    if "\0" in command or len(command) > LONGEST:
        findings.add("unreadable", command)
    if is_deceptive(command):
        findings.add("hidden-text", command)
    harmless = True
    for text in readings(command[: 2 * LONGEST]):
        try:
            harmless = analyse(text, paths.copy(), findings, stdin, scripts, budget) and harmless
        except Exception:  # a bug in the analysis must neither allow a command nor end a turn
            findings.add("unreadable", text)
    return harmless


def analyse(
    text: str,
    paths: PathContext,
    findings: Findings,
    stdin: Flow = TERMINAL,
    scripts: ScriptReader | None = None,
    budget: StepBudget | None = None,
) -> bool:
    """Add the findings for one reading of a command. Whether every program in it is known to change nothing."""
    shell = _JudgedShell(ShellState(paths, starting_variables(paths)), findings, budget, scripts)
    try:
        shell.read(text, stdin)
    except (TooComplex, RecursionError):
        findings.add("unreadable", text)
        return False
    return shell.harmless


class _JudgedShell(Shell):
    """A shell that also notes whether all its programs only read."""

    harmless = True

    def report(self, key: str, part: str) -> None:
        self.harmless = False
        super().report(key, part)

    def check(self, call: Call) -> None:
        self.harmless = self.harmless and changes_nothing(call) and self.state.variables.get("PATH") == START_PATH
        super().check(call)

    def unseen(self, call: Call) -> None:
        self.harmless = False


def _path_context(cwd: Path | str | None, home: Path | str | None, hermes_home: Path | str | None) -> PathContext:
    own = (str(home) if home is not None else os.path.expanduser("~")).rstrip("/")  # noqa: PTH111
    start = str(cwd) if cwd is not None else os.getcwd()  # noqa: PTH109
    return PathContext(
        cwd=start,
        workspace=start,
        home=own or "/",
        hermes_home=(str(hermes_home) if hermes_home is not None else f"{own}/.hermes").rstrip("/"),
    )


def commands_in(command: str, *, cwd: Path | str) -> list[str]:
    """Every program that would run, with its expanded arguments: wrappers and the wrapped programs alike."""
    paths = _path_context(cwd, None, "")
    found: list[str] = []
    budget = StepBudget()
    for text in readings(command):
        shell = _CommandLister(ShellState(paths.copy(), starting_variables(paths)), found, budget)
        try:
            shell.read(text[:LONGEST])
        except (TooComplex, RecursionError):
            continue  # keep what was understood
    return list(dict.fromkeys(found))


class _CommandLister(Shell):
    """A shell that lists the commands instead of checking rules."""

    def __init__(self, state: ShellState, found: list[str], budget: StepBudget) -> None:
        super().__init__(state, Findings(), budget)
        self._listed = found

    def check(self, call: Call) -> None:
        if call.words and not self.state.only_hardline:
            # The folder of a program does not matter.
            self._listed.append(shown(" ".join((call.program, *call.args))))

    def findings_of(self, words: list[str], like: Call) -> Findings:
        return Findings()  # mentioned, not run


def changes_in(command: str, *, cwd: Path | str) -> tuple[Finding, ...]:
    """One finding for each kind of change that a command may make: files, and programs that do not only read.

    A script that it runs counts as a whole: its programs are not listed one by one.
    """
    paths = _path_context(cwd, None, "")
    found: dict[str, Finding] = {}
    budget = StepBudget()
    for text in readings(command):
        shell = _ChangeLister(ShellState(paths.copy(), starting_variables(paths)), found, budget)
        try:
            shell.read(text[:LONGEST])
        except (TooComplex, RecursionError):
            continue  # found as unreadable
    return tuple(found.values())


class _ChangeLister(Shell):
    """A shell that lists what may change something instead of checking rules."""

    def __init__(self, state: ShellState, found: dict[str, Finding], budget: StepBudget) -> None:
        super().__init__(state, Findings(), budget)
        self._listed = found

    def check(self, call: Call) -> None:
        if not self.state.only_hardline and not changes_nothing(call):
            self._note(call)

    def unseen(self, call: Call) -> None:
        self._note(call)

    def _note(self, call: Call) -> None:
        kind = kind_of_change(call)
        text = "changes a file" if kind == "edit" else f"runs {kind.partition(':')[2]}, which may change something"
        self._listed.setdefault(kind, Finding(kind, text, part_of(call.source)))

    def findings_of(self, words: list[str], like: Call) -> Findings:
        return Findings()  # mentioned, not run


def judge_write(path: str, *, hermes_home: Path | str, is_hook: Callable[[str], bool] | None = None) -> Finding | None:
    """The finding for a write to a file with that absolute path, if any. ``is_hook`` says whether git runs the file."""
    kind = _path_context("/", None, hermes_home).sensitive_kind(path)
    if kind is None and is_hook is not None and is_hook(path):
        kind = "write-autorun"
    return _finding(kind, path)


def judge_read(path: str, *, hermes_home: Path | str) -> Finding | None:
    """The finding for reading a file or folder with that absolute path, if any."""
    return _finding(_path_context("/", None, hermes_home).secret_kind(path), path)


def _finding(key: str | None, path: str) -> Finding | None:
    return None if key is None else Finding(key, BY_KEY[key].description, path, BY_KEY[key].hardline)
