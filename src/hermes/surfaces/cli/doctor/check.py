"""Framework of the doctor's checks: a check, its results, and a runner with a deadline that isolates failures."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Literal, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from hermes.base.errors import HermesError
from hermes.hooks.callback import describe
from hermes.hooks.threads.event_loop import run_with_deadline
from hermes.surfaces.cli.doctor.installation import Installation, InvalidConfig
from hermes.surfaces.cli.setup.model.problems import split_advice
from hermes.surfaces.cli.terminal import one_line

Status = Literal["ok", "warning", "broken", "skipped"]

#: Time limit of one check, and of all of them together.
CHECK_SECONDS = 10.0
TOTAL_SECONDS = 90.0

_LONGEST_TEXTS = {"what": 60, "detail": 400, "fix": 400, "command": 1000}


class CheckResult(Struct, frozen=True):
    """One line of the report."""

    status: Status
    #: What was checked, in a word or two.
    what: str
    detail: str
    #: How to fix it, in a sentence; empty when there is nothing to do or ``command`` says it.
    fix: str = ""
    #: The command that fixes it or shows more.
    command: str = ""
    #: Whether ``--fix`` has just repaired it.
    fixed: bool = False
    #: Whether ``--fix`` would repair it.
    fixable: bool = False


class Check(NamedTuple):
    """One check, with its time limit."""

    what: str
    run: Callable[[Installation], Iterable[CheckResult]]
    seconds: float = CHECK_SECONDS


def ok(what: str, detail: str, *, fixed: bool = False) -> CheckResult:
    """No problem."""
    return CheckResult("ok", what, detail, fixed=fixed)


def warning(what: str, detail: str, fix: str = "", *, command: str = "", fixable: bool = False) -> CheckResult:
    """Something that works but needs attention."""
    return CheckResult("warning", what, detail, fix, command, fixable=fixable)


def broken(what: str, detail: str, fix: str = "", *, command: str = "", fixable: bool = False) -> CheckResult:
    """Something that does not work."""
    return CheckResult("broken", what, detail, fix, command, fixable=fixable)


def skipped(what: str, detail: str) -> CheckResult:
    """Something that was not checked, and why."""
    return CheckResult("skipped", what, detail)


def size(count: float) -> str:
    """A number of bytes in a readable unit."""
    for unit in ("bytes", "kB", "MB", "GB"):
        if count < 1000 or unit == "GB":
            break
        count /= 1000
    return f"{count:.0f} {unit}" if count >= 10 or unit == "bytes" else f"{count:.1f} {unit}"


def run_check(check: Check, installation: Installation, until: float) -> list[CheckResult]:
    """The results of one check, redacted. A check that fails or times out is a result too."""
    results: list[CheckResult] = []
    seconds = min(check.seconds, until - time.monotonic())
    try:
        if seconds > 0:
            run_with_deadline(lambda: results.extend(check.run(installation)), seconds, check.what)
        else:
            results.append(broken(check.what, f"skipped: the checks before took {TOTAL_SECONDS:g} s"))
    except InvalidConfig:
        results.append(skipped(check.what, "skipped: invalid configuration"))
    except TimeoutError:
        results.append(broken(check.what, f"the check did not finish within {seconds:g} s"))
    except HermesError as error:
        results.append(broken(check.what, *split_advice(error)))
    except (Exception, SystemExit) as error:
        advice = "this is a bug in hermes; please report it"
        results.append(broken(check.what, f"the check failed: {describe(error)}", advice))
    # A copy: a check that timed out may still be adding results.
    return [_printable(result, installation) for result in list(results)]


def _printable(result: CheckResult, installation: Installation) -> CheckResult:
    """The result without secrets, line breaks and control characters."""
    texts = {
        name: one_line(installation.redactor.redact(getattr(result, name)), limit)
        for name, limit in _LONGEST_TEXTS.items()
    }
    return replace(result, **texts)
