"""Verdict on a command: a decision and the findings behind it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from hermes.policy.rules import BY_KEY
from hermes.policy.shell.marks import shown

Decision = Literal["allow", "ask", "hardline"]


@dataclass(frozen=True, slots=True)
class Finding:
    """One rule that applies to one part of a command."""

    #: Short and stable: permanent approvals store it.
    rule: str
    #: The effect of the part, as the end of a sentence: "deletes a directory tree".
    description: str
    #: The text of the part, shortened when it is long.
    part: str
    #: Whether the command must never run, even when approved.
    hardline: bool = False


@dataclass(frozen=True, slots=True)
class Verdict:
    """The decision and its findings: hardline ones first, then in order of appearance."""

    decision: Decision
    findings: tuple[Finding, ...] = ()
    #: Whether every program in the command is known to change nothing, and nothing was found.
    only_reads: bool = False


_LONGEST_PART = 160


class Findings:
    """Collected findings: each rule once per part, in order of appearance."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, str, bool], Finding] = {}

    def add(self, key: str, part: str, *, contained: bool = False, only_hardline: bool = False) -> None:
        """Add a finding. In a container nothing is hardline; in text that may never run only hardline counts."""
        rule = BY_KEY[key]
        hardline = rule.hardline and not contained
        if only_hardline and not hardline:
            return
        text = part_of(part)
        self._found.setdefault((key, text, hardline), Finding(key, rule.description, text, hardline))

    @property
    def any(self) -> bool:
        """Whether there is any finding."""
        return bool(self._found)

    def without(self, others: Findings) -> Findings:
        """The findings of rules that the others do not have."""
        known = {(finding.rule, finding.hardline) for finding in others._found.values()}
        rest = Findings()
        rest._found = {
            key: finding
            for key, finding in self._found.items()
            if key not in others._found and (finding.rule, finding.hardline) not in known
        }
        return rest

    def verdict(self, *, harmless: bool = False) -> Verdict:
        """The verdict for the findings so far. ``harmless``: every program is known to change nothing."""
        if not self._found:
            return Verdict("allow", only_reads=harmless)
        found = sorted(self._found.values(), key=lambda finding: not finding.hardline)
        return Verdict("hardline" if found[0].hardline else "ask", tuple(found))


def part_of(text: str) -> str:
    """A part of a command as findings show it."""
    return _escaped(_shortened(shown(text).strip()))


def _shortened(text: str) -> str:
    return text if len(text) <= _LONGEST_PART else text[: _LONGEST_PART - 1] + "…"


def _escaped(text: str) -> str:
    """The text with control and invisible characters as escapes; newlines and tabs stay."""
    if text.isprintable():
        return text
    return "".join(
        character if character.isprintable() or character in "\n\t" else character.encode("unicode_escape").decode()
        for character in text
    )
