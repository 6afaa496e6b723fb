"""Checks of the hook commands in the configuration: usable, accepted, and there to be run."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator
from pathlib import Path

from hermes.cli.doctor.finding import Finding, broken, ok, warning
from hermes.cli.doctor.patient import Patient
from hermes.config import config_path
from hermes.errors import ConfigError
from hermes.plugins.discovery import is_set
from hermes.plugins.shell_hooks.command import HookCommand, read_hook_commands
from hermes.plugins.shell_hooks.consent import AllowList, how_to_accept
from hermes.tools.terminal.child_process import find_program


def check_hook_commands(patient: Patient) -> Iterator[Finding]:
    """Every command: does its program exist, and has somebody agreed to it as it is now?"""
    config = patient.settings()
    try:
        commands, remarks = read_hook_commands(config.hooks.events, config_path(patient.home))
    except ConfigError as error:
        for problem in str(error).split("\n")[1:] or [str(error)]:
            yield broken("hooks", problem.strip(), command="hermes config edit")
        return
    for remark in remarks:
        yield warning("hooks", remark, command="hermes config edit")
    if not commands:
        yield ok("hooks", "none are configured")
        return
    accept_all = config.hooks_auto_accept or is_set("HERMES_ACCEPT_HOOKS")
    allow_list = AllowList(patient.home)
    for command in commands:
        yield _check_one(command, allow_list, patient, accept_all=accept_all)


def _check_one(command: HookCommand, allow_list: AllowList, patient: Patient, *, accept_all: bool) -> Finding:
    shown = f"{command.event}: {command.command}"
    missing = _what_is_missing(command.words, patient.cwd)
    if missing:
        return broken(command.name, f"{shown}: {missing}", "correct the command under hooks in config.yaml")
    consent = "accepted" if accept_all else allow_list.question(command, patient.cwd).consent
    if consent == "accepted":
        return ok(command.name, shown)
    why = "its script has changed since it was accepted" if consent == "changed" else "nobody has accepted it"
    accept = how_to_accept(command.command)
    if command.on_error == "deny":
        return broken(command.name, f"{shown}: {why}, so the calls it would judge are blocked", command=accept)
    return warning(command.name, f"{shown}: {why}, so it does not run", command=accept)


def _what_is_missing(words: tuple[str, ...], cwd: Path) -> str:
    """The program, or the script it is to run, when that is not there; empty when nothing is missing."""
    program = words[0]
    if "/" in program:
        if not (cwd / program).is_file():
            return f"{program} does not exist"
        if not os.access(cwd / program, os.X_OK):
            return f"{program} may not be executed (chmod +x {shlex.quote(program)})"
    elif find_program(program) is None:
        return f"{program} is not on PATH"
    script = words[1] if len(words) > 1 else ""
    # A word with a slash right behind the program is a file for it to read; options make it anybody's guess.
    if script.startswith("/") and "\n" not in script and not (cwd / script).exists():
        return f"{script} does not exist"
    return ""
