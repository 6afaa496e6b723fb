"""Checks of ``config.yaml``, ``.env`` and the hook commands in the configuration."""

from __future__ import annotations

import os
import re
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

from hermes.base.config import config_path, env_path
from hermes.base.errors import ConfigError
from hermes.plugins.loading.discovery import is_set
from hermes.plugins.shell_hooks.command import HookCommand, read_hook_commands
from hermes.plugins.shell_hooks.consent import AllowList, how_to_accept
from hermes.surfaces.cli.doctor.check import CheckResult, Installation, broken, ok, warning
from hermes.surfaces.cli.setup.model.problems import split_advice
from hermes.surfaces.commands.text import plural

#: Deprecated spellings, and the documented one.
OLDER_SPELLINGS: dict[tuple[str, ...], str] = {
    ("model", "model"): "model.default",
    ("model", "name"): "model.default",
    ("model", "api_base"): "model.base_url",
    ("approvals", "mode"): "approvals.permission_mode (off: yolo) or approvals.reviewer (smart: model)",
    ("plugins", "hook_callback_timeout"): "plugins.hook_timeout",
    ("provider",): "model.provider",
    ("base_url",): "model.base_url",
    ("api_base",): "model.base_url",
    ("custom_providers",): "providers",
    ("fallback_model",): "fallback_providers",
}

_EDIT = "hermes config edit"
_UNSET = re.compile(r"refers to \$\{(\w+)\}")


def check_env_file(installation: Installation) -> Iterator[CheckResult]:
    """The lines of ``.env``; its permissions are checked with those of the other secret files."""
    path = env_path(installation.home)
    if installation.env_error is not None:
        yield broken(".env", *split_advice(installation.env_error))
        return
    complaints = [line for line in installation.env_warnings if "chmod" not in line]
    for complaint in complaints:
        yield warning(".env", complaint, f"fix or remove that line of {path}")
    if not path.exists():
        yield ok(".env", "none")
    elif not complaints:
        yield ok(".env", f"{path}, {plural(len(installation.env_file), 'variable')}")


def check_config(installation: Installation) -> Iterator[CheckResult]:
    """The file as a whole, then every invalid setting."""
    if installation.config_error is not None:
        yield from _setting_problems(str(installation.config_error))
        return
    loaded = installation.loaded
    if loaded is None:
        return
    if not loaded.path.exists():
        yield ok("config.yaml", "none; all settings have their defaults")
    elif not loaded.warnings:
        yield ok("config.yaml", str(loaded.path))
    for text in loaded.warnings:
        yield _warning(text.removeprefix(f"{loaded.path}: "), installation)


def check_spellings(installation: Installation) -> Iterator[CheckResult]:
    """Deprecated names that still work."""
    installation.settings()
    document: dict[str, Any] = installation.loaded.raw if installation.loaded else {}
    for path, now in OLDER_SPELLINGS.items():
        section: Any = document if len(path) == 1 else document.get(path[0])
        if isinstance(section, dict) and path[-1] in cast("dict[str, Any]", section):
            yield warning("spelling", f"{'.'.join(path)} means {now}", f"write {now}", command=_EDIT)


def _setting_problems(text: str) -> Iterator[CheckResult]:
    """One result for each setting: the error lists them line by line below a heading."""
    heading, *problems = text.split("\n")
    for problem in problems or [heading]:
        detail, _, allowed = problem.strip().partition("; allowed: ")
        if ": found " in detail:
            yield broken("config.yaml", detail, f"allowed: {allowed}" if allowed else "", command=_EDIT)
        else:
            yield broken("config.yaml", problem.strip(), "fix the file", command=_EDIT)


def _warning(text: str, installation: Installation) -> CheckResult:
    unset = _UNSET.search(text)
    if unset:
        return warning("config.yaml", text, f"set {unset[1]} in {env_path(installation.home)}, or export it")
    detail, _, hint = text.partition("; ")
    return warning("config.yaml", detail, hint or f"remove it from {config_path(installation.home)}", command=_EDIT)


def check_hook_commands(installation: Installation) -> Iterator[CheckResult]:
    """Every command: its program exists, and its current version was accepted."""
    config = installation.settings()
    try:
        commands, remarks = read_hook_commands(config.hooks.events, config_path(installation.home))
    except ConfigError as error:
        for problem in str(error).split("\n")[1:] or [str(error)]:
            yield broken("hooks", problem.strip(), command="hermes config edit")
        return
    for remark in remarks:
        yield warning("hooks", remark, command="hermes config edit")
    if not commands:
        yield ok("hooks", "none configured")
        return
    accept_all = config.hooks_auto_accept or is_set("HERMES_ACCEPT_HOOKS")
    allow_list = AllowList(installation.home)
    for command in commands:
        consent = "accepted" if accept_all else allow_list.question(command, installation.cwd).consent
        yield _hook_result(command, consent, installation.cwd)


def _hook_result(command: HookCommand, consent: str, cwd: Path) -> CheckResult:
    shown = f"{command.event}: {command.command}"
    missing = _missing_program(command.argv, cwd)
    if missing:
        return broken(command.name, f"{shown}: {missing}", "fix the command under hooks in config.yaml")
    if consent == "accepted":
        return ok(command.name, shown)
    why = "its script has changed since it was accepted" if consent == "changed" else "not accepted yet"
    accept = how_to_accept(command.command)
    if command.on_error == "deny":
        return broken(command.name, f"{shown}: {why}, so the calls it would check are blocked", command=accept)
    return warning(command.name, f"{shown}: {why}, so it does not run", command=accept)


def _missing_program(argv: tuple[str, ...], cwd: Path) -> str:
    """Why the program or its script cannot run; empty when nothing is missing."""
    program = argv[0]
    if "/" in program:
        if not (cwd / program).is_file():
            return f"{program} does not exist"
        if not os.access(cwd / program, os.X_OK):
            return f"{program} may not be executed (chmod +x {shlex.quote(program)})"
    elif shutil.which(program) is None:
        return f"{program} is not on PATH"
    script = argv[1] if len(argv) > 1 else ""
    # A path right after the program is the script it reads; with options in between this is not known.
    if script.startswith("/") and "\n" not in script and not (cwd / script).exists():
        return f"{script} does not exist"
    return ""
