"""What was found in a command so far."""

from __future__ import annotations

from hermes.policy.rules import BY_KEY
from hermes.policy.shell.marks import shown
from hermes.policy.verdict import Finding, Verdict
from hermes.sanitize.visible import visible

_LONGEST_PART = 160
_ALLOW = Verdict("allow")


class Findings:
    """Each rule once for each part, in order of appearance."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, str, bool], Finding] = {}

    def add(self, key: str, part: str, *, contained: bool = False, only_hardline: bool = False) -> None:
        """Take a finding in. In a container nothing is hardline; in mere mentions nothing else counts."""
        rule = BY_KEY[key]
        hardline = rule.hardline and not contained
        if only_hardline and not hardline:
            return
        text = visible(_shortened(shown(part).strip()))
        self._found.setdefault((key, text, hardline), Finding(key, rule.description, text, hardline))

    @property
    def hardline(self) -> bool:
        """Whether anything so far must never run."""
        return any(finding.hardline for finding in self._found.values())

    def verdict(self) -> Verdict:
        """The decision so far."""
        if not self._found:
            return _ALLOW
        found = sorted(self._found.values(), key=lambda finding: not finding.hardline)
        return Verdict("hardline" if found[0].hardline else "ask", tuple(found))


def _shortened(text: str) -> str:
    return text if len(text) <= _LONGEST_PART else text[: _LONGEST_PART - 1] + "…"
