"""What is said about a command: a decision and what it rests on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Decision = Literal["allow", "ask", "hardline"]


@dataclass(frozen=True, slots=True)
class Finding:
    """One rule that applies to one part of a command."""

    #: Short and stable: what an approval for good stores.
    rule: str
    #: What the part would do, as the end of a sentence: "deletes a directory tree".
    description: str
    #: The text of the part, shortened when it is long.
    part: str
    #: Whether the command must not run at all, whoever asks.
    hardline: bool = False


@dataclass(frozen=True, slots=True)
class Verdict:
    """The decision, and every finding behind it: hardline ones first, each group in order of appearance."""

    decision: Decision
    findings: tuple[Finding, ...] = ()
