"""DoctorReport of the doctor, as text and as JSON."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field

from msgspec import Struct

from hermes.base.version import __version__
from hermes.surfaces.cli.doctor.check import CheckResult, Status
from hermes.surfaces.cli.terminal import has_colour
from hermes.surfaces.commands.text import plural

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


@dataclass(slots=True)
class DoctorReport:
    """The results of all groups."""

    home: str
    groups: list[GroupResults] = field(default_factory=list[GroupResults])

    def count(self, status: Status) -> int:
        """How many results have that status."""
        return sum(result.status == status for result in self._results())

    @property
    def ok(self) -> bool:
        """Whether nothing is broken."""
        return self.count("broken") == 0

    @property
    def fixable(self) -> int:
        """How many results ``--fix`` would repair."""
        return sum(result.fixable for result in self._results())

    def document(self) -> dict[str, object]:
        """The report as one document."""
        return {
            "ok": self.ok,
            "version": __version__,
            "home": self.home,
            "broken": self.count("broken"),
            "warnings": self.count("warning"),
            "fixed": sum(result.fixed for result in self._results()),
            "groups": self.groups,
        }

    def _results(self) -> Iterator[CheckResult]:
        return (result for group in self.groups for result in group.checks)


def print_group(group: GroupResults) -> None:
    """Print a heading and a line for each result, with its fix below."""
    style = _Style()
    print(group.title)
    name_width = min(max((len(result.what) for result in group.checks), default=0), _NAME_ROOM)
    for result in group.checks:
        for line in style.lines(result, name_width):
            print(line)
    print(flush=True)


def print_summary(report: DoctorReport) -> None:
    """Print the counts, in a line or two."""
    counts = [f"{report.count('broken')} broken" if report.count("broken") else ""]
    counts.append(plural(report.count("warning"), "warning") if report.count("warning") else "")
    print(f"{', '.join(filter(None, counts)) or 'No problems found'}.")
    if report.fixable:
        print(f"'hermes doctor --fix' repairs {report.fixable} of these.")


class _Style:
    """Layout and colours for this terminal, or for a file."""

    def __init__(self) -> None:
        columns = shutil.get_terminal_size((_WIDTH, 24)).columns if sys.stdout.isatty() else _WIDTH
        self._width = max(min(columns, _WIDEST), _NARROWEST)
        self._marks = _MARKS if _can_print("✓✗") else _ASCII_MARKS
        self._has_colour = has_colour()

    def lines(self, result: CheckResult, name_width: int) -> Iterator[str]:
        """The result with its fix, wrapped to the width."""
        mark = self._marks[result.status]
        start = f"  {mark} {result.what:<{name_width}}  "
        indent = " " * (name_width + 6)
        detail = f"{result.detail} (fixed)" if result.fixed else result.detail
        first, *rest = self._wrapped(start, indent, detail)
        yield first.replace(mark, self._coloured(result.status, mark), 1)
        yield from rest
        if result.fix:
            yield from self._wrapped(f"{indent}fix: ", f"{indent}     ", result.fix)
        if result.command:
            # On one line, however long, so that it can be copied.
            yield f"{indent}run: {result.command}"

    def _wrapped(self, start: str, indent: str, text: str) -> list[str]:
        from textwrap import wrap

        room = self._width
        lines = wrap(
            text,
            room,
            initial_indent=start,
            subsequent_indent=indent,
            break_long_words=False,
            break_on_hyphens=False,
        )
        return lines or [start.rstrip()]

    def _coloured(self, status: Status, mark: str) -> str:
        return f"\x1b[{_COLOURS[status]}m{mark}\x1b[0m" if self._has_colour else mark


def _can_print(text: str) -> bool:
    try:
        text.encode(getattr(sys.stdout, "encoding", None) or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True
