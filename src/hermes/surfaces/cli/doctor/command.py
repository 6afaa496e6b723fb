"""``hermes doctor``: checks everything a run depends on, and says what is wrong and how to fix it."""

from __future__ import annotations

import argparse
import logging
import shutil
import sys
import time
from collections.abc import Collection, Iterator
from pathlib import Path
from textwrap import wrap

from msgspec import Struct

from hermes.base.config import hermes_home
from hermes.base.errors import did_you_mean
from hermes.base.version import __version__
from hermes.surfaces.cli.arguments import JSON, Argument, CommandSpec, flag
from hermes.surfaces.cli.doctor import configuration, journal, model, plugins, system, tools
from hermes.surfaces.cli.doctor.check import TOTAL_SECONDS, Check, CheckResult, Installation, Status, run_check
from hermes.surfaces.cli.report import Report
from hermes.surfaces.cli.terminal import has_colour, print_error
from hermes.surfaces.commands.text import plural

#: Name of a group -> its heading and its checks.
GROUPS: dict[str, tuple[str, list[Check]]] = {
    "system": (
        "Python and package",
        [
            Check("python", system.check_python),
            Check("packages", system.check_packages),
            Check("home", system.check_home),
            Check("disk", system.check_disk),
            Check("secret files", system.check_permissions),
            Check("clock", system.check_clock),
        ],
    ),
    "config": (
        "Configuration",
        [
            Check(".env", configuration.check_env_file),
            Check("config.yaml", configuration.check_config),
            Check("spellings", configuration.check_spellings),
        ],
    ),
    "model": ("Model and keys", [Check("model", model.check_keys), Check("provider", model.check_reach, 25.0)]),
    "plugins": (
        "Plugins",
        [
            Check("enabled", plugins.check_enabled),
            Check("plugins", plugins.check_plugins),
            Check("calls", plugins.check_calls),
            Check("exporters", plugins.check_exporters),
            Check("platforms", plugins.check_platforms),
            Check("loading", plugins.check_loading, 60.0),
        ],
    ),
    "hooks": ("Hook commands", [Check("hook commands", configuration.check_hook_commands)]),
    "tools": (
        "Tools",
        [
            Check("shell", tools.check_shell),
            Check("programs", tools.check_programs),
            Check("terminal", tools.check_terminal),
            Check("sandbox", tools.check_sandbox, 30.0),
            Check("toolsets", tools.check_toolsets),
            Check("instructions", tools.check_instructions),
            Check("prompt files", tools.check_prompt_files),
            Check("skills", tools.check_skills),
        ],
    ),
    "journal": (
        "Journal",
        [
            Check("journal", journal.check_file, 20.0),
            Check("checkpoints", journal.check_checkpoints),
            Check("runners", journal.check_runners),
            Check("workers", journal.check_workers),
            Check("sessions", journal.check_unfinished),
            Check("dead letters", journal.check_dead_letters),
            Check("approvals", journal.check_approvals),
            Check("records", journal.check_records),
            Check("search index", journal.check_search),
        ],
    ),
    "schedules": ("Schedules", [Check("schedules", journal.check_schedules)]),
    "terminal": ("Terminal", [Check("terminal", system.check_terminal)]),
}

_MARKS: dict[Status, str] = {"ok": "✓", "warning": "!", "broken": "✗", "skipped": "-"}
_ASCII_MARKS: dict[Status, str] = {"ok": "+", "warning": "!", "broken": "x", "skipped": "-"}
_COLOURS: dict[Status, str] = {"ok": "32", "warning": "33", "broken": "31", "skipped": "2"}

_WIDTH = 80
_WIDEST = 110
_NARROWEST = 40
#: Widest column of names.
_NAME_ROOM = 16


class GroupResults(Struct, frozen=True):
    """The results of one group of checks."""

    name: str
    title: str
    checks: list[CheckResult]


def _check_all(args: argparse.Namespace) -> Report | int:
    """Check while the report is printed: each group is shown when it is done."""
    unknown = [name for name in args.groups if name not in GROUPS]
    if unknown:
        print_error(f"there is no group {unknown[0]!r}{did_you_mean(unknown[0], GROUPS)}")
        return 2
    # What the checked parts log is not shown: the report says it.
    logging.getLogger("hermes").addHandler(logging.NullHandler())
    installation = Installation(hermes_home(), Path.cwd(), offline=args.offline, fix=args.fix, load=args.load)
    results: list[CheckResult] = []
    groups = _run_checks(installation, args.groups, results)

    def document() -> dict[str, object]:
        checked = list(groups)
        return {
            "ok": not _count(results, "broken"),
            "version": __version__,
            "home": str(installation.home),
            "broken": _count(results, "broken"),
            "warnings": _count(results, "warning"),
            "fixed": sum(result.fixed for result in results),
            "groups": checked,
        }

    lines = _report_lines(groups, results)
    return Report(document, lines, is_painted=True, code=lambda: min(_count(results, "broken"), 1))


def _run_checks(
    installation: Installation, names: Collection[str], results: list[CheckResult]
) -> Iterator[GroupResults]:
    """Run all checks, or those of the named groups, and add what they found to the results."""
    until = time.monotonic() + TOTAL_SECONDS
    for name, (title, checks) in GROUPS.items():
        if not names or name in names:
            found = [result for check in checks for result in run_check(check, installation, until)]
            results += found
            yield GroupResults(name, title, found)


def _count(results: list[CheckResult], status: Status) -> int:
    return sum(result.status == status for result in results)


def _report_lines(groups: Iterator[GroupResults], results: list[CheckResult]) -> Iterator[str]:
    """The results of each group under its heading, then the counts of all."""
    columns = shutil.get_terminal_size((_WIDTH, 24)).columns if sys.stdout.isatty() else _WIDTH
    width = max(min(columns, _WIDEST), _NARROWEST)
    for group in groups:
        yield group.title
        name_width = min(max((len(result.what) for result in group.checks), default=0), _NAME_ROOM)
        for result in group.checks:
            yield from _result_lines(result, name_width, width)
        yield ""
        sys.stdout.flush()
    broken, warnings = _count(results, "broken"), _count(results, "warning")
    counts = [f"{broken} broken" if broken else "", plural(warnings, "warning") if warnings else ""]
    yield f"{', '.join(filter(None, counts)) or 'No problems found'}."
    fixable = sum(result.fixable for result in results)
    if fixable:
        yield f"'hermes doctor --fix' repairs {fixable} of these."


def _result_lines(result: CheckResult, name_width: int, width: int) -> Iterator[str]:
    """A result with its fix below, wrapped to the width."""
    indent = " " * (name_width + 6)

    def wrapped(start: str, hanging: str, text: str) -> list[str]:
        lines = wrap(
            text,
            width,
            initial_indent=start,
            subsequent_indent=hanging,
            break_long_words=False,
            break_on_hyphens=False,
        )
        return lines or [start.rstrip()]

    mark = (_MARKS if _can_print("✓✗") else _ASCII_MARKS)[result.status]
    detail = f"{result.detail} (fixed)" if result.fixed else result.detail
    first, *rest = wrapped(f"  {mark} {result.what:<{name_width}}  ", indent, detail)
    painted = f"\x1b[{_COLOURS[result.status]}m{mark}\x1b[0m" if has_colour() else mark
    yield first.replace(mark, painted, 1)
    yield from rest
    if result.fix:
        yield from wrapped(f"{indent}fix: ", f"{indent}     ", result.fix)
    if result.command:
        # On one line, however long, so that it can be copied.
        yield f"{indent}run: {result.command}"


def _can_print(text: str) -> bool:
    try:
        text.encode(getattr(sys.stdout, "encoding", None) or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True


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
