"""The findings as text for a person and as JSON for a program."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field

import msgspec

from hermes.cli.doctor.examination import Group
from hermes.cli.doctor.finding import Finding, Status
from hermes.commands.wording import plural
from hermes.version import __version__

_MARKS: dict[Status, str] = {"ok": "✓", "warning": "!", "broken": "✗", "skipped": "-"}
_ASCII_MARKS: dict[Status, str] = {"ok": "+", "warning": "!", "broken": "x", "skipped": "-"}
_COLOURS: dict[Status, str] = {"ok": "32", "warning": "33", "broken": "31", "skipped": "2"}

_WIDTH = 80
_WIDEST = 110
_NARROWEST = 40
#: How much room the names in front of the details may take.
_NAME_ROOM = 16


@dataclass(slots=True)
class Report:
    """Everything that was found."""

    home: str
    groups: list[Group] = field(default_factory=list[Group])

    def count(self, status: Status) -> int:
        """How many findings have that status."""
        return sum(finding.status == status for finding in self._findings())

    @property
    def ok(self) -> bool:
        """Whether nothing is broken."""
        return self.count("broken") == 0

    @property
    def fixable(self) -> int:
        """How many findings ``--fix`` would repair."""
        return sum(finding.fixable for finding in self._findings())

    def json(self) -> str:
        """The report as one document."""
        document = {
            "ok": self.ok,
            "version": __version__,
            "home": self.home,
            "broken": self.count("broken"),
            "warnings": self.count("warning"),
            "fixed": sum(finding.fixed for finding in self._findings()),
            "groups": self.groups,
        }
        return msgspec.json.format(msgspec.json.encode(document)).decode()

    def _findings(self) -> Iterator[Finding]:
        return (finding for group in self.groups for finding in group.checks)


def print_group(group: Group) -> None:
    """A heading, and below it a line for each finding, with the fix under what needs one."""
    style = _Style()
    print(group.title)
    name_width = min(max((len(finding.what) for finding in group.checks), default=0), _NAME_ROOM)
    for finding in group.checks:
        for line in style.lines(finding, name_width):
            print(line)
    print(flush=True)


def print_summary(report: Report) -> None:
    """How it went, in a line or two."""
    counts = [f"{report.count('broken')} broken" if report.count("broken") else ""]
    counts.append(plural(report.count("warning"), "warning") if report.count("warning") else "")
    print(f"{', '.join(filter(None, counts)) or 'Everything is in order'}.")
    if report.fixable:
        print(f"'hermes doctor --fix' repairs {plural(report.fixable, 'finding')} of these.")


class _Style:
    """How lines are made on the terminal at hand, or for a file."""

    def __init__(self) -> None:
        is_terminal = sys.stdout.isatty()
        columns = shutil.get_terminal_size((_WIDTH, 24)).columns if is_terminal else _WIDTH
        self._width = max(min(columns, _WIDEST), _NARROWEST)
        self._marks = _MARKS if _can_print("✓✗") else _ASCII_MARKS
        is_plain = "NO_COLOR" in os.environ or os.environ.get("TERM", "dumb") == "dumb"
        self._has_colour = is_terminal and not is_plain

    def lines(self, finding: Finding, name_width: int) -> Iterator[str]:
        """The finding with its fix, wrapped to the width at hand."""
        mark = self._marks[finding.status]
        start = f"  {mark} {finding.what:<{name_width}}  "
        indent = " " * (name_width + 6)
        detail = f"{finding.detail} (fixed)" if finding.fixed else finding.detail
        first, *rest = self._wrapped(start, indent, detail)
        yield first.replace(mark, self._coloured(finding.status, mark), 1)
        yield from rest
        if finding.fix:
            yield from self._wrapped(f"{indent}fix: ", f"{indent}     ", finding.fix)
        if finding.command:
            # On one line, however long, so that it can be copied.
            yield f"{indent}run: {finding.command}"

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
