"""``hermes doctor``: checks everything a run depends on, and says what is wrong and how to fix it."""

from __future__ import annotations

import argparse
import logging
import time
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import NamedTuple

from hermes.base.config import hermes_home
from hermes.base.errors import did_you_mean
from hermes.surfaces.cli.arguments import JSON, Argument, CommandSpec, flag
from hermes.surfaces.cli.doctor import (
    cluster,
    configuration,
    journal,
    model,
    platforms,
    plugins,
    schedules,
    system,
    tools,
)
from hermes.surfaces.cli.doctor.check import TOTAL_SECONDS, Check, run_check
from hermes.surfaces.cli.doctor.installation import Installation
from hermes.surfaces.cli.doctor.report import DoctorReport, GroupResults, print_group, print_summary
from hermes.surfaces.cli.terminal import print_error, print_json


class CheckGroup(NamedTuple):
    """Checks that belong together, under a heading."""

    title: str
    checks: tuple[Check, ...]


GROUPS: dict[str, CheckGroup] = {
    "system": CheckGroup(
        "Python and package",
        (
            Check("python", system.check_python),
            Check("packages", system.check_packages),
            Check("home", system.check_home),
            Check("disk", system.check_disk),
            Check("secret files", system.check_permissions),
            Check("clock", system.check_clock),
        ),
    ),
    "config": CheckGroup(
        "Configuration",
        (
            Check(".env", configuration.check_env_file),
            Check("config.yaml", configuration.check_config),
            Check("spellings", configuration.check_spellings),
        ),
    ),
    "model": CheckGroup(
        "Model and keys",
        (Check("model", model.check_keys), Check("provider", model.check_reach, 25.0)),
    ),
    "plugins": CheckGroup(
        "Plugins",
        (
            Check("enabled", plugins.check_enabled),
            Check("plugins", plugins.check_plugins),
            Check("calls", plugins.check_calls),
            Check("exporters", plugins.check_exporters),
            Check("platforms", platforms.check_platforms),
            Check("loading", plugins.check_loading, 60.0),
        ),
    ),
    "hooks": CheckGroup("Hook commands", (Check("hook commands", configuration.check_hook_commands),)),
    "tools": CheckGroup(
        "Tools",
        (
            Check("shell", tools.check_shell),
            Check("programs", tools.check_programs),
            Check("terminal", tools.check_terminal),
            Check("sandbox", tools.check_sandbox, 30.0),
            Check("toolsets", tools.check_toolsets),
            Check("instructions", tools.check_instructions),
            Check("prompt files", tools.check_prompt_files),
            Check("skills", tools.check_skills),
        ),
    ),
    "journal": CheckGroup(
        "Journal",
        (
            Check("journal", journal.check_file, 20.0),
            Check("checkpoints", journal.check_checkpoints),
            Check("runners", journal.check_runners),
            Check("workers", cluster.check_workers),
            Check("sessions", journal.check_unfinished),
            Check("dead letters", journal.check_dead_letters),
            Check("approvals", journal.check_approvals),
            Check("records", journal.check_records),
            Check("search index", journal.check_search),
        ),
    ),
    "schedules": CheckGroup("Schedules", (Check("schedules", schedules.check_schedules),)),
    "terminal": CheckGroup("Terminal", (Check("terminal", system.check_terminal),)),
}


def _check_all(args: argparse.Namespace) -> int:
    """Run the checks and print the report."""
    unknown = [name for name in args.groups if name not in GROUPS]
    if unknown:
        print_error(f"there is no group {unknown[0]!r}{did_you_mean(unknown[0], GROUPS)}")
        return 2
    # What the checked parts log is not shown: the report says it.
    logging.getLogger("hermes").addHandler(logging.NullHandler())
    home = hermes_home()
    installation = Installation(home, Path.cwd(), offline=args.offline, fix=args.fix, load=args.load)
    report = DoctorReport(str(home))
    for group in run_checks(installation, args.groups):
        report.groups.append(group)
        if not args.json:
            print_group(group)
    if args.json:
        print_json(report.document())
    else:
        print_summary(report)
    return 0 if report.ok else 1


def run_checks(installation: Installation, names: Collection[str] = ()) -> Iterator[GroupResults]:
    """Run all checks, or those of the named groups; yields each group when it is done."""
    until = time.monotonic() + TOTAL_SECONDS
    for name, group in GROUPS.items():
        if names and name not in names:
            continue
        results = [result for check in group.checks for result in run_check(check, installation, until)]
        yield GroupResults(name, group.title, results)


COMMAND = CommandSpec(
    run=_check_all,
    arguments=(
        Argument("groups GROUP", f"check only these: {', '.join(GROUPS)}", nargs="*"),
        JSON,
        flag("--offline", "send nothing over the network"),
        flag("--fix", "repair what needs no decision from you"),
        flag("--load", "also load every enabled plugin, in a process of its own"),
    ),
    epilog="Exit codes: 0 nothing is broken (warnings are possible), 1 something is broken, 2 wrong usage.",
)
