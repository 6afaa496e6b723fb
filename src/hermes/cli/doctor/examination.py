"""The checks in their order, each on its own: one that fails or hangs is a line of the report, and the rest go on."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from hermes.cli.doctor import (
    configuration,
    hook_commands,
    journal,
    machine,
    models,
    plugins,
    private_files,
    programs,
    screen,
)
from hermes.cli.doctor.finding import Finding, broken, skipped
from hermes.cli.doctor.patient import NotReadable, Patient
from hermes.cli.model.problems import told
from hermes.cli.text.terminal import one_line
from hermes.errors import HermesError
from hermes.hooks.background import run_with_deadline
from hermes.hooks.callback import describe

#: How long one check may take, and all of them together.
CHECK_SECONDS = 10.0
TOTAL_SECONDS = 90.0

_LONGEST_DETAIL = 400


class Check(NamedTuple):
    """One thing to look at."""

    what: str
    look: Callable[[Patient], Iterable[Finding]]
    seconds: float = CHECK_SECONDS


class GroupSpec(NamedTuple):
    """Checks that belong together."""

    title: str
    checks: tuple[Check, ...]


class Group(Struct, frozen=True):
    """What the checks of a group found."""

    name: str
    title: str
    checks: list[Finding]


GROUPS: dict[str, GroupSpec] = {
    "system": GroupSpec(
        "Python and package",
        (
            Check("python", machine.check_python),
            Check("packages", machine.check_packages),
            Check("home", machine.check_home),
            Check("disk", machine.check_disk),
            Check("secret files", private_files.check_permissions),
            Check("clock", machine.check_clock),
        ),
    ),
    "config": GroupSpec(
        "Configuration",
        (
            Check(".env", configuration.check_env_file),
            Check("config.yaml", configuration.check_config),
            Check("spellings", configuration.check_spellings),
        ),
    ),
    "model": GroupSpec(
        "Model and keys",
        (Check("model", models.check_keys), Check("provider", models.check_reach, 25.0)),
    ),
    "plugins": GroupSpec(
        "Plugins",
        (
            Check("enabled", plugins.check_enabled),
            Check("plugins", plugins.check_plugins),
            Check("calls", plugins.check_calls),
            Check("exporters", plugins.check_exporters),
            Check("loading", plugins.check_loading, 60.0),
        ),
    ),
    "hooks": GroupSpec("Hook commands", (Check("hook commands", hook_commands.check_hook_commands),)),
    "tools": GroupSpec(
        "Tools",
        (
            Check("shell", programs.check_shell),
            Check("programs", programs.check_programs),
            Check("terminal", programs.check_terminal),
            Check("toolsets", programs.check_toolsets),
        ),
    ),
    "journal": GroupSpec(
        "Journal",
        (
            Check("journal", journal.check_file, 20.0),
            Check("runners", journal.check_runners),
            Check("sessions", journal.check_unfinished),
            Check("approvals", journal.check_approvals),
            Check("records", journal.check_records),
            Check("search index", journal.check_search),
        ),
    ),
    "terminal": GroupSpec("Terminal", (Check("terminal", screen.check_terminal),)),
}


def examine(patient: Patient, names: Collection[str] = ()) -> Iterator[Group]:
    """Look at everything, or at the groups that are named; a group is given as soon as it is done."""
    until = time.monotonic() + TOTAL_SECONDS
    for name, spec in GROUPS.items():
        if names and name not in names:
            continue
        found = [finding for check in spec.checks for finding in look(check, patient, until)]
        yield Group(name, spec.title, found)


def look(check: Check, patient: Patient, until: float) -> list[Finding]:
    """What one check finds, without secrets. Its own failure is a finding too."""
    left = until - time.monotonic()
    found: list[Finding] = []
    if left <= 0:
        found.append(broken(check.what, f"not looked at: the checks before took {TOTAL_SECONDS:g} s"))
    else:
        _try(check, patient, min(check.seconds, left), found)
    return [_safe(finding, patient) for finding in found]


def _try(check: Check, patient: Patient, seconds: float, found: list[Finding]) -> None:
    seen: list[Finding] = []
    try:
        run_with_deadline(lambda: seen.extend(check.look(patient)), seconds, check.what)
    except NotReadable:
        seen.append(skipped(check.what, "not looked at: the configuration cannot be used"))
    except TimeoutError:
        seen.append(broken(check.what, f"the check was not done within {seconds:g} s"))
    except HermesError as error:
        seen.append(broken(check.what, *told(error)))
    except (Exception, SystemExit) as error:
        advice = "this is a fault of hermes itself; please report it"
        seen.append(broken(check.what, f"the check failed: {describe(error)}", advice))
    # A copy: a check that was left behind may still be adding.
    found.extend(list(seen))


def _safe(finding: Finding, patient: Patient) -> Finding:
    """The finding as it may be shown: no secrets, no line breaks, nothing that drives a terminal."""

    def shown(text: str, limit: int = _LONGEST_DETAIL) -> str:
        return one_line(patient.redactor.redact(text), limit)

    return replace(
        finding,
        what=shown(finding.what, 60),
        detail=shown(finding.detail),
        fix=shown(finding.fix),
        command=shown(finding.command, 1000),
    )
